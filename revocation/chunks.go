package revocation

// chunkSize is how many entries are copied when one is added.
const chunkSize = 256

// chunks is a list of entries that never changes and is cheap to make a
// longer one of: that shares all but the last chunk.
type chunks struct {
	all [][]Entry // each of chunkSize entries but the last, which has at least one
	n   int
}

// newChunks takes over entries.
func newChunks(entries []Entry) chunks {
	c := chunks{n: len(entries)}
	for len(entries) > 0 {
		size := min(chunkSize, len(entries))
		c.all = append(c.all, entries[:size:size])
		entries = entries[size:]
	}
	return c
}

// at returns the entry of index i. Nobody may write to it.
func (c *chunks) at(i int32) *Entry { return &c.all[i/chunkSize][i%chunkSize] }

// with returns c and entries after it. c stays as it is.
func (c chunks) with(entries []Entry) chunks {
	out := chunks{n: c.n + len(entries), all: make([][]Entry, len(c.all), len(c.all)+len(entries)/chunkSize+2)}
	copy(out.all, c.all)
	if last := len(out.all) - 1; last >= 0 && len(out.all[last]) < chunkSize {
		full := make([]Entry, len(out.all[last]), chunkSize)
		copy(full, out.all[last])
		size := min(chunkSize-len(full), len(entries))
		out.all[last] = append(full, entries[:size]...)
		entries = entries[size:]
	}
	for len(entries) > 0 {
		size := min(chunkSize, len(entries))
		out.all = append(out.all, append(make([]Entry, 0, size), entries[:size]...))
		entries = entries[size:]
	}
	return out
}
