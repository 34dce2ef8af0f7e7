package etcd

import (
	"fmt"
	"strconv"
	"strings"
)

// keys names keys under a prefix.
type keys struct{ prefix string }

func (k keys) state() string                { return k.prefix + "state/" }
func (k keys) source() string               { return k.state() + "source" }
func (k keys) current() string              { return k.state() + "current" }
func (k keys) sequence() string             { return k.state() + "sequence" }
func (k keys) log() string                  { return k.state() + "revocations/" }
func (k keys) entries(first uint64) string  { return k.log() + number(first) }
func (k keys) generations() string          { return k.prefix + "generations/" }
func (k keys) generation(n uint64) string   { return k.generations() + number(n) }
func (k keys) gone() string                 { return k.prefix + "gone/" }
func (k keys) goneWith(n uint64) string     { return k.gone() + number(n) }
func (k keys) pushing() string              { return k.prefix + "pushing" }
func (k keys) files() string                { return k.prefix + "files/" }
func (k keys) file(d digest) string         { return k.files() + d.hex() + "/" }
func (k keys) piece(d digest, i int) string { return fmt.Sprintf("%s%04d", k.file(d), i) }

func (k keys) published() string               { return k.prefix + "keys/" }
func (k keys) ledger() string                  { return k.prefix + "ledger/" }
func (k keys) instance() string                { return k.ledger() + "instance" }
func (k keys) sourceOf(instance string) string { return k.ledger() + "sources/" + instance }
func (k keys) redemption(id string) string     { return k.ledger() + "redemptions/" + id }
func (k keys) settled(id string) string        { return k.ledger() + "settled/" + id }
func (k keys) granted(jti string) string       { return k.ledger() + "grants/" + jti }
func (k keys) proposal(name string) string     { return k.ledger() + "proposals/" + name }
func (k keys) effect(digest string) string     { return k.ledger() + "effects/" + digest }
func (k keys) done(key string) string          { return k.ledger() + "done/" + key }
func (k keys) timer(b bucket) string           { return k.ledger() + "timers/" + number(uint64(b)) }
func (k keys) dues() string                    { return k.ledger() + "due/" }
func (k keys) dueIn(b bucket) string           { return k.dues() + number(uint64(b)) + "/" }
func (k keys) due(b bucket, id string) string  { return k.dueIn(b) + id }

func (k keys) reviews() string              { return k.prefix + "reviews/" }
func (k keys) reviewTotal() string          { return k.reviews() + "total" }
func (k keys) keptReviews() string          { return k.reviews() + "kept/" }
func (k keys) keptReview(id string) string  { return k.keptReviews() + id }
func (k keys) reviewsOf(p string) string    { return k.reviews() + "proposals/" + p + "/" }
func (k keys) reviewOf(p, id string) string { return k.reviewsOf(p) + id }
func (k keys) reviewDues() string           { return k.reviews() + "due/" }
func (k keys) reviewsDue(s uint64) string   { return k.reviewDues() + number(s) + "/" }

// number writes a number so that the order of texts is that of numbers.
func number(n uint64) string { return fmt.Sprintf("%020d", n) }

// parseNumber reads what number wrote, and nothing else.
func parseNumber(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && number(n) == text
}

// parsePiece returns the digest in the key of a piece.
func (k keys) parsePiece(key string) (digest, bool) {
	hex, piece, ok := strings.Cut(strings.TrimPrefix(key, k.files()), "/")
	if !ok || len(piece) != 4 {
		return "", false
	}
	d := digest(digestPrefix + hex)
	return d, d.valid()
}
