package token

import "time"

// Patient makes v wait for keys as long as a loaded machine may need.
func Patient(v *Verifier) *Verifier {
	v.wait = time.Minute
	return v
}
