package grant

import (
	"encoding/binary"
	"time"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
)

// kind is which of its names an entry is found by.
type kind int

const (
	byID kind = iota
	byGrant
	byProposal
	kinds
)

// record is a Claim in few bytes, since there may be a million of them: the
// lengths of its three names in a byte each, the names, the attempt, and then
// the rest with uvarints before what varies. It is written and read in this
// process only, so it is right.
type record string

func appendRecord(b []byte, c *Claim) []byte {
	b = append(b, byte(len(c.ID)), byte(len(c.Grant)), byte(len(c.Proposal)))
	b = append(append(append(b, c.ID...), c.Grant...), c.Proposal...)
	b = append(b, c.Attempt[:]...)
	b = appendText(b, c.Call)
	b = binary.AppendUvarint(b, c.Revocations)
	b = appendTime(appendTime(b, c.Now), c.Expires)

	p := &c.Plan
	b = appendText(appendText(b, p.Server), p.Tool)
	b = append(b, p.ProposalDigest[:]...)
	b = appendText(appendText(appendText(b, p.IdempotencyKey), p.Observer), p.ObserverTool)
	b = appendTime(b, p.Until)
	b = binary.AppendUvarint(b, uint64(len(p.Checks)))
	for i := range p.Checks {
		b = appendCheck(b, &p.Checks[i])
	}
	return b
}

func appendCheck(b []byte, e *effect.Expectation) []byte {
	b = appendText(appendText(appendText(b, e.At), e.Equals), e.Tolerance)
	present := byte(0) // not asked for
	if e.Present != nil {
		present = 1 + flag(*e.Present)
	}
	b = append(b, flag(e.Absent), present, flag(e.In != nil))
	b = binary.AppendUvarint(b, uint64(len(e.In)))
	for _, one := range e.In {
		b = appendText(b, one)
	}
	return b
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendTime writes a time of span, or the zero Time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(t.UnixNano())+1)
}

// head is how many bytes come before the names.
const head = int(kinds)

// name returns one of the names; empty: it is not known.
func (r record) name(k kind) string {
	at := head
	for before := range k {
		at += int(r[before])
	}
	return string(r[at : at+int(r[k])])
}

// names is where the names end.
func (r record) names() int { return head + int(r[byID]) + int(r[byGrant]) + int(r[byProposal]) }

func (r record) attempt() canon.Digest {
	from := r[r.names():]
	return (&reader{string(from)}).digest()
}

// claim reads the whole.
func (r record) claim() Claim {
	c := Claim{ID: r.name(byID), Grant: r.name(byGrant), Proposal: r.name(byProposal)}
	in := &reader{string(r[r.names():])}
	c.Attempt = in.digest()
	c.Call = in.text()
	c.Revocations = in.number()
	c.Now, c.Expires = in.time(), in.time()
	p := &c.Plan
	p.Server, p.Tool, p.ProposalDigest = in.text(), in.text(), in.digest()
	p.IdempotencyKey, p.Observer, p.ObserverTool = in.text(), in.text(), in.text()
	p.Until = in.time()
	if n := in.number(); n > 0 {
		p.Checks = make([]effect.Expectation, n)
	}
	for i := range p.Checks {
		p.Checks[i] = in.check()
	}
	return c
}

// reader reads what was appended. What it returns is part of the record.
type reader struct{ rest string }

func (r *reader) take(n int) string {
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) digest() (d canon.Digest) {
	copy(d[:], r.take(len(d)))
	return d
}

func (r *reader) flag() byte   { return r.take(1)[0] }
func (r *reader) text() string { return r.take(int(r.number())) }

func (r *reader) number() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.flag()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (r *reader) time() time.Time {
	n := r.number()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n-1)).UTC()
}

func (r *reader) check() effect.Expectation {
	e := effect.Expectation{At: r.text(), Equals: r.text(), Tolerance: r.text(), Absent: r.flag() == 1}
	if present := r.flag(); present > 0 {
		is := present == 2
		e.Present = &is
	}
	some := r.flag() == 1
	if n := r.number(); some {
		e.In = make([]string, n)
	}
	for i := range e.In {
		e.In[i] = r.text()
	}
	return e
}
