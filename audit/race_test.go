//go:build race

package audit_test

// raceDetector: pools forget at random, so that allocations can't be counted.
const raceDetector = true
