package token

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// remembered is how many verified tokens are remembered at most, twice.
const remembered = 16384

// DefaultTypes and DefaultAlgorithms are what an issuer's entry means that
// names none.
var (
	DefaultTypes      = [...]string{"at+jwt"}
	DefaultAlgorithms = [...]string{"EdDSA", "Ed25519", "ES256", "ES384", "PS256", "RS256"}
)

// Config says what a verifier is made of. The zero Config will do.
type Config struct {
	// Log hears when an issuer's keys can't be fetched, and when they can
	// again. Nil: nobody does. No token is ever in it.
	Log *slog.Logger
}

// Verifier verifies tokens. It is safe for concurrent use. Make one with
// [New], and close it.
type Verifier struct {
	log     *slog.Logger
	fetcher fetcher
	wait    time.Duration // fetchWait
	proofs  proofs
	checked atomic.Uint64

	life context.Context // of fetches
	end  context.CancelFunc
	work sync.WaitGroup // fetches, added to under mu

	mu      sync.Mutex // guards the rest
	closed  bool
	sources map[place]*source
	statics map[string]static   // by issuer
	young   map[[32]byte]*known // verified lately
	old     map[[32]byte]*known // before that
}

// known is a token that has been verified.
type known struct {
	token                 *writ.Token // shared: not to be changed
	issuer                *snapshot.Issuer
	thumbprint, algorithm string
}

// New makes a verifier.
func New(cfg Config) *Verifier {
	v := &Verifier{
		log: cfg.Log, fetcher: newFetcher(), wait: fetchWait,
		sources: map[place]*source{}, statics: map[string]static{},
		young: map[[32]byte]*known{},
	}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	v.life, v.end = context.WithCancel(context.Background())
	return v
}

// Close ends what is being fetched and waits for it. Afterwards no keys are
// fetched any more.
func (v *Verifier) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.end()
	v.work.Wait()
}

// begin runs work in the background, unless v is closed.
func (v *Verifier) begin(work func(context.Context)) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.work.Go(func() { work(v.life) })
	return true
}

// Verify makes a token of the proposal's AccessToken, for a proposal that has
// one. It waits no longer than a second, and than ctx allows, for keys that it
// lacks. What can't be verified is a token that is Invalid.
//
// vouched says whether the caller may vouch for tokens: only then does the
// client certificate count that it saw.
func (v *Verifier) Verify(ctx context.Context, world *snapshot.Snapshot, vouched bool, p *writ.Proposal, now time.Time) *writ.Token {
	t, err := v.verified(ctx, world, p.AccessToken, now)
	if err != nil {
		return &writ.Token{Invalid: "The access token can't be verified: " + err.Error() + "."}
	}
	out := *t // what was verified before is shared
	if err := v.possession(&out, world, vouched, p, now); err != nil {
		return &writ.Token{Invalid: "The proof of possession does not hold: " + err.Error() + "."}
	}
	return &out
}

// verified returns what a compact token says, once its signature holds.
func (v *Verifier) verified(ctx context.Context, world *snapshot.Snapshot, compact []byte, now time.Time) (*writ.Token, error) {
	if world == nil {
		return nil, errors.New("no bundle is loaded")
	}
	if len(compact) > MaxSize { // before it is hashed
		return nil, fmt.Errorf("it has more than %d bytes", MaxSize)
	}
	sum := sha256.Sum256(compact)
	if k := v.recall(sum); k != nil && world.Issuers[k.token.Issuer] == k.issuer &&
		v.keys(ctx, k.issuer, now).holds(k.thumbprint, k.token.KeyID, k.algorithm) {
		return k.token, nil
	}
	head, payload, err := split(compact, MaxSize)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(head, false)
	if err != nil {
		return nil, err
	}
	// The issuer is believed only once a key of its own verifies.
	claimed, err := parseClaims(payload, "", "")
	if err != nil {
		return nil, err
	}
	issuer := world.Issuers[claimed.Issuer]
	if issuer == nil {
		return nil, errors.New("its issuer is not one of the bundle's")
	}
	if err := allowed(h, issuer); err != nil {
		return nil, err
	}
	k, err := v.signer(ctx, issuer, h, compact, now)
	if err != nil {
		return nil, err
	}
	t, err := parseClaims(payload, issuer.TenantClaim, issuer.GroupsClaim)
	if err != nil {
		return nil, err
	}
	t.Verified, t.KeyID = true, k.id
	v.remember(sum, &known{token: t, issuer: issuer, thumbprint: k.thumbprint, algorithm: h.alg})
	return t, nil
}

// allowed checks a header against what the issuer's entry allows.
func allowed(h header, issuer *snapshot.Issuer) error {
	algorithms, kinds := issuer.Algorithms, issuer.Types
	if len(algorithms) == 0 {
		algorithms = DefaultAlgorithms[:]
	}
	if len(kinds) == 0 {
		kinds = DefaultTypes[:]
	}
	if !slices.Contains(algorithms, h.alg) || !slices.Contains(Algorithms[:], h.alg) {
		return errors.New("its alg is not one that the issuer's entry allows")
	}
	if !slices.ContainsFunc(kinds, func(want string) bool { return typeIs(h.typ, want) }) {
		return errors.New("its typ is not one that the issuer's entry allows: an id token is no access token")
	}
	return nil
}

// signer finds the issuer's key that verifies a token, asking the issuer
// again where none is known.
func (v *Verifier) signer(ctx context.Context, issuer *snapshot.Issuer, h header, compact []byte, now time.Time) (key, error) {
	if issuer.JWKS == "" && len(issuer.Keys) == 0 {
		return key{}, errors.New("the bundle has no keys for its issuer: give its entry jwks")
	}
	keys := v.keys(ctx, issuer, now)
	candidates := keys.find(h)
	if len(candidates) == 0 && len(issuer.Keys) == 0 {
		keys = v.source(issuer).renewed(ctx, v, now, maxStale(issuer))
		candidates = keys.find(h)
	}
	if keys == nil {
		return key{}, errors.New("the issuer's keys are not to be had")
	}
	if len(candidates) == 0 {
		return key{}, errors.New("the issuer has no key for its kid and alg")
	}
	for _, k := range candidates {
		v.checked.Add(1)
		if k.verify(compact, h.alg) {
			return k, nil
		}
	}
	return key{}, errors.New("its signature does not hold")
}

// Checked is how many signatures of access tokens have been checked so far.
func (v *Verifier) Checked() uint64 { return v.checked.Load() }

// keys returns the issuer's keys that are known at now; nil: none.
func (v *Verifier) keys(ctx context.Context, issuer *snapshot.Issuer, now time.Time) *Keys {
	if len(issuer.Keys) > 0 {
		return v.static(issuer)
	}
	if issuer.JWKS == "" {
		return nil
	}
	s := v.source(issuer)
	if s.idle(now) {
		return s.renewed(ctx, v, now, maxStale(issuer))
	}
	return s.current(v, now, maxStale(issuer))
}

// static parses the keys that the bundle itself holds, once.
func (v *Verifier) static(issuer *snapshot.Issuer) *Keys {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, there := v.statics[issuer.Name]
	switch {
	case there && s.issuer == issuer:
	case there && bytes.Equal(s.issuer.Keys, issuer.Keys):
		v.statics[issuer.Name] = static{issuer, s.keys}
	default:
		keys, err := ParseKeys(issuer.Keys)
		if err != nil { // checked when the bundle was read
			keys = nil
		}
		s = static{issuer, keys}
		v.statics[issuer.Name] = s
	}
	return s.keys
}

// source returns what holds the keys of an issuer's URL.
func (v *Verifier) source(issuer *snapshot.Issuer) *source {
	v.mu.Lock()
	defer v.mu.Unlock()
	name := place{issuer.Name, issuer.JWKS, issuer.AllowPrivate}
	s := v.sources[name]
	if s == nil {
		s = &source{url: issuer.JWKS, private: issuer.AllowPrivate}
		v.sources[name] = s
	}
	return s
}

// recall finds a token that was verified before.
func (v *Verifier) recall(sum [32]byte) *known {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k := v.young[sum]; k != nil {
		return k
	}
	if k := v.old[sum]; k != nil {
		v.keep(sum, k)
		return k
	}
	return nil
}

func (v *Verifier) remember(sum [32]byte, k *known) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(sum, k)
}

// keep makes k a young one. When there are enough of those they become the
// old ones, and what was old and not asked for is forgotten. The caller holds
// mu.
func (v *Verifier) keep(sum [32]byte, k *known) {
	if len(v.young) >= remembered {
		v.old, v.young = v.young, make(map[[32]byte]*known)
	}
	v.young[sum] = k
}

// possession checks the proof that a token bound to a key came from whoever
// holds the key. Without a proof the token is merely not possessed.
func (v *Verifier) possession(t *writ.Token, world *snapshot.Snapshot, vouched bool, p *writ.Proposal, now time.Time) error {
	// What the token is not bound to needs no proof.
	key, certificate := t.KeyThumbprint == "", t.CertificateThumbprint == ""
	if key && certificate && len(p.DPoPProof) == 0 {
		return nil
	}
	if seen := p.ClientCertificate; seen != "" && vouched && !certificate {
		if subtle.ConstantTimeCompare([]byte(seen), []byte(t.CertificateThumbprint)) != 1 {
			return errors.New("the token is bound to another certificate")
		}
		certificate = true
	}
	if len(p.DPoPProof) > 0 {
		if key {
			return errors.New("the token is bound to no key")
		}
		server := world.Servers[p.Server.ID]
		if server == nil {
			return nil // the control REGISTRATION refuses it
		}
		if err := v.proofs.check(p.DPoPProof, p.AccessToken, t.KeyThumbprint, server.Endpoint, now); err != nil {
			return err
		}
		key = true
	}
	t.Possessed = key && certificate
	return nil
}
