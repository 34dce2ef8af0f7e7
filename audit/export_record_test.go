package audit

// AppendJSON appends a record's members under a key; nil: without one.
func AppendJSON(b []byte, r *Record, key *[32]byte) []byte {
	if key == nil {
		return r.appendJSON(b, nil)
	}
	return r.appendJSON(b, newHMACKey(*key))
}

// Appender returns what appends a record's members under one key, as a log
// does.
func Appender(key [32]byte) func(b []byte, r *Record) []byte {
	k := newHMACKey(key)
	return func(b []byte, r *Record) []byte { return r.appendJSON(b, k) }
}

// Check says what keeps r from being a record.
func Check(r *Record) error { return r.check() }
