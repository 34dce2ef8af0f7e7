//go:build unix

package main

import (
	"os"
	"syscall"
	"time"
)

// cpu returns what this process has used, user and system.
func cpu() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}
