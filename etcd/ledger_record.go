package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
)

// holding is what the keys of a grant and of a proposal say: by which redemption
// they were claimed, and by which call of Claim, since an attempt may be made
// several times at once. Three words, with spaces between.
type holding struct {
	redemption string
	attempt    canon.Digest
	call       string
}

func (h holding) String() string {
	return h.redemption + " " + h.attempt.String() + " " + h.call
}

// parseHolding reads what String wrote, and nothing else.
func parseHolding(text string) (holding, bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 || !grant.IsName(words[0]) || !grant.IsName(words[2]) {
		return holding{}, false
	}
	attempt, err := canon.ParseDigest(words[1])
	return holding{words[0], attempt, words[2]}, err == nil
}

// redemption is the record of a grant.Claim.
type redemption struct {
	ID          string    `json:"id"`
	Grant       string    `json:"grant"`
	Proposal    string    `json:"proposal"`
	Attempt     string    `json:"attempt"`
	Revocations uint64    `json:"revocations"`
	Now         time.Time `json:"at"`
	Expires     time.Time `json:"expires"`
	Call        string    `json:"call,omitempty"`
	Plan        plan      `json:"plan"`
	// Bucket is where it is due.
	Bucket bucket `json:"bucket"`
}

type plan struct {
	Server         string        `json:"server,omitempty"`
	Tool           string        `json:"tool,omitempty"`
	ProposalDigest string        `json:"proposal_digest,omitempty"`
	IdempotencyKey string        `json:"idempotency_key,omitempty"`
	Observer       string        `json:"observer,omitempty"`
	ObserverTool   string        `json:"observer_tool,omitempty"`
	Until          time.Time     `json:"until,omitzero"`
	Checks         []expectation `json:"checks,omitempty"`
}

type expectation struct {
	At        string   `json:"at"`
	Equals    string   `json:"equals,omitempty"`
	Absent    bool     `json:"absent,omitzero"`
	In        []string `json:"in,omitzero"`
	Tolerance string   `json:"tolerance,omitempty"`
	Present   *bool    `json:"present,omitzero"`
}

func encodeRedemption(c *grant.Claim, b bucket) (string, error) {
	p := &c.Plan
	r := redemption{
		ID: c.ID, Grant: c.Grant, Proposal: c.Proposal, Attempt: c.Attempt.String(), Revocations: c.Revocations,
		Now: c.Now.UTC(), Expires: c.Expires.UTC(), Call: c.Call, Bucket: b,
		Plan: plan{
			Server: p.Server, Tool: p.Tool, ProposalDigest: p.ProposalDigest.String(), IdempotencyKey: p.IdempotencyKey,
			Observer: p.Observer, ObserverTool: p.ObserverTool, Until: p.Until.UTC(),
		},
	}
	for _, e := range p.Checks {
		r.Plan.Checks = append(r.Plan.Checks, expectation(e))
	}
	text, err := json.Marshal(&r)
	if err != nil {
		// The library's error would quote the call's values.
		return "", errors.New("etcd: a claim with text that is not UTF-8")
	}
	return string(text), nil
}

// parseRedemption reads the record of an id.
func parseRedemption(id string, data []byte) (grant.Claim, bucket, error) {
	var r redemption
	if err := decode(data, &r); err != nil {
		return grant.Claim{}, 0, err
	}
	attempt, err := canon.ParseDigest(r.Attempt)
	if err != nil {
		return grant.Claim{}, 0, errors.New("its attempt is no digest")
	}
	c := grant.Claim{
		ID: r.ID, Grant: r.Grant, Proposal: r.Proposal, Attempt: attempt, Revocations: r.Revocations,
		Now: r.Now.UTC(), Expires: r.Expires.UTC(), Call: r.Call,
		Plan: effect.Plan{
			Server: r.Plan.Server, Tool: r.Plan.Tool, IdempotencyKey: r.Plan.IdempotencyKey,
			Observer: r.Plan.Observer, ObserverTool: r.Plan.ObserverTool, Until: r.Plan.Until.UTC(),
		},
	}
	if r.Plan.ProposalDigest != "" {
		if c.Plan.ProposalDigest, err = canon.ParseDigest(r.Plan.ProposalDigest); err != nil {
			return grant.Claim{}, 0, errors.New("its plan's proposal is no digest")
		}
	}
	for _, e := range r.Plan.Checks {
		c.Plan.Checks = append(c.Plan.Checks, effect.Expectation(e))
	}
	switch err := c.Check(); {
	case err != nil:
		return grant.Claim{}, 0, errors.New("it is no claim")
	case c.ID != id:
		return grant.Claim{}, 0, errors.New("it is another redemption's")
	}
	return c, r.Bucket, nil
}

// settlement is the record of a grant.Effect.
type settlement struct {
	Observer string    `json:"observer"`
	ID       string    `json:"effect,omitempty"`
	Receipt  string    `json:"receipt"`
	Outcome  writ.Code `json:"outcome"`
	At       time.Time `json:"at"`
	// Call tells one call of Settle from another.
	Call string `json:"call"`
}

func encodeSettlement(e *grant.Effect, call string) (string, error) {
	text, err := json.Marshal(&settlement{e.Observer, e.ID, e.Receipt.String(), e.Outcome, e.Now.UTC(), call})
	if err != nil {
		return "", errors.New("etcd: an effect with text that is not UTF-8")
	}
	return string(text), nil
}

// parseSettlement reads what a redemption was settled with.
func parseSettlement(redemption string, data []byte) (grant.Effect, string, error) {
	var s settlement
	if err := decode(data, &s); err != nil {
		return grant.Effect{}, "", err
	}
	receipt, err := canon.ParseDigest(s.Receipt)
	e := grant.Effect{Redemption: redemption, Observer: s.Observer, ID: s.ID, Receipt: receipt, Outcome: s.Outcome, Now: s.At.UTC()}
	if err != nil || e.Check() != nil || s.Call == "" {
		return grant.Effect{}, "", errors.New("it settles nothing")
	}
	return e, s.Call, nil
}

// parseDone reads who was the first to have its effect under an idempotency key:
// the redemption's id, written once; empty: nobody.
func parseDone(kvs []*mvccpb.KeyValue) (string, error) {
	if len(kvs) == 0 {
		return "", nil
	}
	id := string(kvs[0].Value)
	if !grant.IsName(id) || kvs[0].Version != 1 {
		return "", damaged(string(kvs[0].Key), "it does not say who has had its effect")
	}
	return id, nil
}

// effectDigest names an effect of an observer, whatever is in their names.
func effectDigest(observer, id string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(observer), observer, id))
	return hex.EncodeToString(sum[:])
}

// owned are where keys are that may be forgotten, under ledger/.
var owned = []string{"grants/", "proposals/", "redemptions/", "settled/", "effects/", "done/"}

// encodeNames writes which keys are due, without what all begin with.
func (k keys) encodeNames(all ...string) (string, error) {
	names := make([]string, len(all))
	for i, key := range all {
		names[i] = strings.TrimPrefix(key, k.ledger())
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// parseNames returns keys that are due, and refuses others than those that are
// ever due.
func (k keys) parseNames(data []byte) ([]string, error) {
	var names []string
	if err := decode(data, &names); err != nil {
		return nil, err
	}
	if len(names) == 0 || len(names) > maxNames {
		return nil, errors.New("it names no keys, or too many")
	}
	for i, name := range names {
		ok := false
		for _, place := range owned {
			rest, under := strings.CutPrefix(name, place)
			ok = ok || under && grant.IsName(rest)
		}
		if !ok {
			return nil, errors.New("it names a key that is never forgotten")
		}
		names[i] = k.ledger() + name
	}
	return names, nil
}
