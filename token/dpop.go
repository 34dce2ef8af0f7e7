package token

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// proofAge is how far from the server's clock a proof's iat may be.
	proofAge = time.Minute
	// proofsKept bounds the proofs that are remembered as used, twice. When
	// there are more nothing is accepted until some are too old to come again.
	proofsKept = 100_000
)

// proofs remembers which DPoP proofs have been used. Its zero value has seen
// none. Each server remembers its own.
type proofs struct {
	mu         sync.Mutex // guards the rest
	young, old map[[32]byte]struct{}
	turned     time.Time // when young began
}

// check verifies a DPoP proof (RFC 9449, section 4.3) for a POST to endpoint
// with the access token, by the key of a thumbprint.
func (s *proofs) check(proof, token []byte, thumbprint, endpoint string, now time.Time) error {
	head, payload, err := split(proof, MaxProof)
	if err != nil {
		return err
	}
	h, err := parseHeader(head, true)
	if err != nil {
		return err
	}
	switch {
	case h.typ != "dpop+jwt":
		return errors.New("its typ is not dpop+jwt")
	case !slices.Contains(Algorithms[:], h.alg):
		return errors.New("its alg is not an asymmetric one that is known")
	case h.jwk == nil:
		return errors.New("it brings no key")
	}
	k, usable, err := parseKey(h.jwk)
	if err != nil || !usable || !slices.Contains(k.algorithms, h.alg) {
		return errors.New("its key is no public key for its alg")
	}
	if subtle.ConstantTimeCompare([]byte(k.thumbprint), []byte(thumbprint)) != 1 {
		return errors.New("the token is bound to another key")
	}
	if !k.verify(proof, h.alg) {
		return errors.New("its signature does not hold")
	}
	id, err := checkProofClaims(payload, token, endpoint, now)
	if err != nil {
		return err
	}
	return s.use(sha256.Sum256([]byte(thumbprint+" "+id)), now)
}

// checkProofClaims checks what a proof is for, and returns its jti.
func checkProofClaims(payload, token []byte, endpoint string, now time.Time) (string, error) {
	members, err := object(payload)
	if err != nil {
		return "", err
	}
	claim := func(name string) string {
		s, err := text(members[name], maxURL)
		if err != nil {
			return ""
		}
		return s
	}
	iat, err := date(members["iat"])
	sum := sha256.Sum256(token)
	switch {
	case err != nil || iat.Before(now.Add(-proofAge)) || iat.After(now.Add(proofAge)):
		return "", errors.New("its iat is not within a minute of now")
	case claim("htm") != "POST":
		return "", errors.New("it is not for a POST")
	case endpoint == "" || !samePlace(claim("htu"), endpoint):
		return "", errors.New("it is not for the server's endpoint")
	case subtle.ConstantTimeCompare([]byte(claim("ath")), []byte(base64.RawURLEncoding.EncodeToString(sum[:]))) != 1:
		return "", errors.New("it is for another token")
	case claim("jti") == "":
		return "", errors.New("it has no jti")
	}
	return claim("jti"), nil
}

// samePlace compares URLs without query and fragment, after normalising scheme,
// host and default port (RFC 9449, section 4.3; RFC 3986, section 6.2.2).
func samePlace(a, b string) bool {
	normal := func(s string) string {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil {
			return ""
		}
		host := strings.ToLower(u.Host)
		switch u.Scheme {
		case "https":
			host = strings.TrimSuffix(host, ":443")
		case "http":
			host = strings.TrimSuffix(host, ":80")
		}
		path := u.EscapedPath()
		if path == "" {
			path = "/"
		}
		return u.Scheme + "://" + host + path
	}
	n := normal(a)
	return n != "" && n == normal(b)
}

// use notes that a proof has been used, and refuses one that was before.
func (s *proofs) use(sum [32]byte, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A proof is too old to come again after twice its age: what is in old is
	// older than that when young has become so old.
	if s.young == nil || now.Sub(s.turned) > 2*proofAge {
		s.old, s.young, s.turned = s.young, map[[32]byte]struct{}{}, now
	}
	if _, used := s.young[sum]; used {
		return errors.New("it was used before")
	}
	if _, used := s.old[sum]; used {
		return errors.New("it was used before")
	}
	if len(s.young) >= proofsKept {
		return errors.New("too many proofs are being used: try again in a minute")
	}
	s.young[sum] = struct{}{}
	return nil
}

// Thumbprint returns the JWK thumbprint of a public key (RFC 7638, SHA-256) in
// base64url, as jkt has it.
func Thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
