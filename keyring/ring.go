package keyring

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Defaults of a [Config].
const (
	DefaultRotateEvery = 24 * time.Hour
	DefaultKeep        = 24*time.Hour + 10*time.Minute
)

// maxRetired bounds how many keys one ring has retired and still keeps.
const maxRetired = 100

// MaxTrusted bounds the replicas that a ring trusts.
const MaxTrusted = 1000

// Config says how a ring's keys come and go.
type Config struct {
	// Key is what the ring signs with until [Ring.Use] gives another; it is not
	// replaced by age. Nil: the ring makes its keys, and they are nowhere else.
	Key *Key
	// RotateEvery is the age at which a key that the ring made is replaced, when
	// one is next needed. 0: a day. At least a minute.
	RotateEvery time.Duration
	// Keep is for how long a retired key still verifies: the longest life of
	// what it signed, and some time for what was being signed meanwhile. 0: a
	// day and ten minutes. At most a hundred times RotateEvery.
	Keep time.Duration
}

// Ring signs with one key at a time, and verifies with that, with those before
// it and with those of the other replicas. It may be used by several goroutines
// at once.
type Ring struct {
	made        bool // by the ring: keys are replaced by age
	rotateEvery time.Duration
	keep        time.Duration

	mu      sync.RWMutex // guards what follows; the values in it never change
	current *Key
	since   time.Time       // when current became that
	retired []held          // the newest first
	trusted map[string]held // by id
}

// held is a public key that verifies until its end.
type held struct {
	id     string
	public ed25519.PublicKey
	until  time.Time
}

// New makes a ring whose first key is in use since now.
func New(cfg Config, now time.Time) (*Ring, error) {
	r := &Ring{made: cfg.Key == nil, rotateEvery: cmp.Or(cfg.RotateEvery, DefaultRotateEvery), keep: cmp.Or(cfg.Keep, DefaultKeep), since: now}
	if r.rotateEvery < time.Minute {
		return nil, fmt.Errorf("keyring: keys change every %v: a minute is the least", r.rotateEvery)
	}
	if r.keep < 0 || r.keep/maxRetired > r.rotateEvery {
		return nil, fmt.Errorf("keyring: retired keys are kept for %v: give between 0 and %d times the %v after which they change", r.keep, maxRetired, r.rotateEvery)
	}
	if r.current = cfg.Key; r.current == nil {
		r.current = Generate()
	}
	return r, nil
}

// Current returns the key to sign with. One that the ring made and that is old
// enough is retired first, and another is made.
func (r *Ring) Current(now time.Time) *Key {
	r.mu.RLock()
	k, old := r.current, r.old(now)
	r.mu.RUnlock()
	if !old {
		return k
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.old(now) { // nobody else was quicker
		r.replace(Generate(), now)
	}
	return r.current
}

// Renew replaces the current key, if it is the one of this id, because it must
// not be signed with any more. It returns what is to be signed with then; nil:
// the key was given to the ring, which makes no other.
func (r *Ring) Renew(id string, now time.Time) *Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.id != id { // somebody was quicker
		return r.current
	}
	if !r.made {
		return nil
	}
	r.replace(Generate(), now)
	return r.current
}

// old reports whether the key has to be replaced. r.mu is held.
func (r *Ring) old(now time.Time) bool { return r.made && now.Sub(r.since) >= r.rotateEvery }

// Use signs with k from now on, and retires the key before. Whoever has
// replicas makes k known to them first. The ring replaces no key by age then.
func (r *Ring) Use(k *Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = false
	if k.id == r.current.id {
		return
	}
	r.retired = slices.DeleteFunc(r.retired, func(h held) bool { return h.id == k.id })
	r.replace(k, now)
}

// replace retires the current key and forgets those that have been over for
// long, or are too many. r.mu is held.
func (r *Ring) replace(k *Key, now time.Time) {
	kept := []held{{r.current.id, r.current.Public(), now.Add(r.keep)}}
	for _, h := range r.retired {
		// Those just over stay, so that they can be called retired.
		if now.Before(h.until.Add(r.keep)) && len(kept) <= maxRetired {
			kept = append(kept, h)
		}
	}
	r.current, r.since, r.retired = k, now, kept
}

// Trust makes replicas all those whose keys are trusted beside the ring's own,
// each until its end; whoever is not among them any more is trusted no longer.
// Only what [OpenReplica] returned may be trusted. Two replicas with one key
// are an error, and so is what is no key; then nothing changes.
func (r *Ring) Trust(replicas []Replica) error {
	if len(replicas) > MaxTrusted {
		return fmt.Errorf("keyring: there are %d replicas: at most %d can be trusted", len(replicas), MaxTrusted)
	}
	trusted := make(map[string]held, len(replicas))
	for _, p := range replicas {
		if err := checkPublic(p.Public); err != nil {
			return fmt.Errorf("keyring: the key of replica %q: %w", p.Name, err)
		}
		id := thumbprint(p.Public)
		if _, twice := trusted[id]; twice {
			return fmt.Errorf("keyring: replica %q has a key that another one has, too: each needs its own", p.Name)
		}
		trusted[id] = held{id, slices.Clone(p.Public), p.ExpiresAt}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trusted = trusted
	return nil
}

// Open returns the payload of a JWS of type t that a key of the ring signed,
// and that key's id. most bounds its size in bytes; a longer one is refused
// before anything in it is looked at. The error is an *[Error].
//
// A ring opens grants and approvals; it opens no [TypeReplica].
func (r *Ring) Open(t Type, compact string, most int, now time.Time) (payload []byte, kid string, err error) {
	if t != TypeGrant && t != TypeApproval {
		return nil, "", &Error{WrongType, "a ring opens grants and approvals only"}
	}
	p, fault := split(t, compact, most)
	if fault != nil {
		return nil, "", fault
	}
	public, fault := r.find(p.kid, now)
	if fault == nil {
		fault = p.verify(public)
	}
	if fault != nil {
		return nil, "", fault
	}
	return p.payload, p.kid, nil
}

// find returns the key of an id, if it verifies at now.
func (r *Ring) find(id string, now time.Time) (ed25519.PublicKey, *Error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if id == r.current.id {
		return r.current.Public(), nil
	}
	h, ok := r.trusted[id]
	// What this ring has retired itself ends when it says, whatever others say.
	if i := slices.IndexFunc(r.retired, func(h held) bool { return h.id == id }); i >= 0 {
		h, ok = r.retired[i], true
	}
	switch {
	case !ok:
		return nil, &Error{UnknownKey, "no key of its kid is known here"}
	case !now.Before(h.until):
		return nil, &Error{RetiredKey, "its key's time is over"}
	}
	return h.public, nil
}

// JWKS returns the public keys that verify at now, as a JWK set (RFC 7517,
// section 5; RFC 8037, section 2): the current one, those before it, the newest
// first, and then those of other replicas in the order of their ids.
func (r *Ring) JWKS(now time.Time) []byte {
	r.mu.RLock()
	keys := append([]held{{id: r.current.id, public: r.current.Public()}}, r.retired...)
	for _, id := range slices.Sorted(maps.Keys(r.trusted)) {
		if !slices.ContainsFunc(keys, func(h held) bool { return h.id == id }) {
			keys = append(keys, r.trusted[id])
		}
	}
	r.mu.RUnlock()
	b := []byte(`{"keys":[`)
	for i, h := range keys {
		if i > 0 && !now.Before(h.until) {
			continue
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"alg":"EdDSA","crv":"Ed25519","kid":"`+h.id+`","kty":"OKP","use":"sig","x":"`...)
		b = encoding.AppendEncode(b, h.public)
		b = append(b, `"}`...)
	}
	return append(b, `]}`...)
}

// IsKind reports whether err is an *[Error] of kind k.
func IsKind(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}
