package server

import "time"

// LookNow looks at the files, whoever has just done so.
func (t *TLS) LookNow() { t.look(0) }

// LookAt is a look at a time of the test's own.
func (t *TLS) LookAt(now time.Time) {
	t.pair.again(now)
	if t.ca != nil {
		t.ca.again(now)
	}
}

// InForce tells which readings are in force: they compare as equal while they
// are the same.
func (t *TLS) InForce() (pair, ca any) {
	if t.ca == nil {
		return t.pair.good.Load(), nil
	}
	return t.pair.good.Load(), t.ca.good.Load()
}
