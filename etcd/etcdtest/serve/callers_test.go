package serve_test

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/etcd/etcdtest/history"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// system is some replicas, and who calls them.
type system struct {
	t        testing.TB
	recorder *history.Recorder
	replicas []*replica
	// alone: there is one replica, whose ledger is in its memory.
	alone bool

	calls atomic.Int64 // grants and redemptions so far

	mu     sync.Mutex // guards the rest
	groups []*group
	minted map[string]string // by grant: the name of its proposal
	acts   []act             // every answer that lets a server act
	codes  map[string]int    // how often each code was answered, by what was asked
}

// group is a proposal that is proposed again and again, and its grants.
type group struct {
	proposal *writv1.Proposal
	attempts [attemptsEach]string // redemption_id of those who go for it

	mu     sync.Mutex // guards the rest
	digest string     // the proposal's; empty: it was not answered yet
	grants []minted
	called map[string]bool // attempts at grants that were made
}

type minted struct {
	id, token string
	by        int    // which replica
	subjects  string // whose revocation voids it
}

// act is an answer by which a server may act.
type act struct {
	at         *replica
	proposal   string // the group's name
	grant      string
	redemption string // the decision's id
	attempt    string
	key        string // for idempotency
}

const (
	// lanes is how many groups there are at once: each caller goes for those of
	// one lane, mostly. With more at one group, checking takes long.
	lanes         = 6
	callsPerGroup = 14
	attemptsEach  = 3
	grantsEach    = 3
	callTimeout   = time.Second
	patience      = 15 * time.Second
)

// group returns the present group of a caller, which it makes when it is time,
// or at times an earlier one.
func (s *system) group(caller int) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	round := int(s.calls.Load() / (callsPerGroup * lanes))
	for len(s.groups) < (round+1)*lanes {
		s.groups = append(s.groups, newGroup(fmt.Sprintf("p%d", len(s.groups))))
	}
	if rand.IntN(6) == 0 {
		return s.groups[len(s.groups)-1-rand.IntN(min(6*lanes, len(s.groups)))]
	}
	return s.groups[round*lanes+caller%lanes]
}

func newGroup(name string) *group {
	g := &group{proposal: propose("u-"+name, putTool(rand.IntN(tools)), name), called: map[string]bool{}}
	for i := range g.attempts {
		g.attempts[i] = redemptionID()
	}
	return g
}

func redemptionID() string {
	var id [16]byte
	_, _ = crand.Read(id[:])
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func (g *group) name() string { return g.proposal.GetRequestId() }

// caller calls until enough has been called.
func (s *system) caller(id, enough int, until time.Time) {
	for int(s.calls.Load()) < enough && time.Now().Before(until) && !s.t.Failed() {
		at := rand.IntN(len(s.replicas))
		l := s.replicas[at].life.Load()
		if l == nil {
			time.Sleep(time.Millisecond) // it is starting
			continue
		}
		g := s.group(id)
		g.mu.Lock()
		have := len(g.grants)
		g.mu.Unlock()
		if have == 0 || have < grantsEach && rand.IntN(6) == 0 {
			if s.mint(id, at, l, g); have == 0 {
				time.Sleep(rand.N(100 * time.Millisecond)) // it may have been refused, because the tool is revoked
			}
		} else {
			s.redeem(id, at, l, g)
		}
	}
}

// answered reports whether there was an answer, and holds other errors than
// those of a lost one against the test.
func (s *system) answered(what string, err error) bool {
	code := status.Code(err)
	switch code {
	case codes.OK:
		return true
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
	default:
		s.t.Errorf("%s: %v", what, err)
	}
	s.count(what, code.String())
	return false
}

func (s *system) count(what, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[what+" "+code]++
}

// mint proposes, which makes another grant for the same proposal.
func (s *system) mint(id, at int, l *life, g *group) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	o := history.Operation{Client: id, Kind: history.Mint, Proposal: g.name(), Grant: crand.Text(), Call: s.recorder.Now()}
	a, err := l.decide(ctx, g.proposal)
	o.Back = s.recorder.Now()
	if !s.answered("mint", err) {
		s.recorder.Add(o)
		return
	}
	s.count("mint", a.GetDecision().GetCode())
	o.Result = history.Refused
	if token := a.GetGrant().GetToken(); token != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		if digest := a.GetDecision().GetProposalDigest(); g.digest == "" {
			g.digest = digest
		} else if g.digest != digest {
			s.t.Errorf("%s is the proposal %s, and was %s", g.name(), digest, g.digest)
		}
		s.calls.Add(1)
		o.Grant, o.Result = a.GetGrant().GetId(), history.Done
		s.mu.Lock()
		s.minted[o.Grant] = g.name()
		s.mu.Unlock()
		g.grants = append(g.grants, minted{id: o.Grant, token: token, by: at, subjects: strings.Join([]string{
			"principal:" + g.proposal.GetPrincipal().GetSubject(), "tool:" + g.proposal.GetTool(), "grant:" + o.Grant, "key:" + kid(s.t, token),
		}, " ")})
	}
	s.recorder.Add(o)
}

// kid is the id of the key that a token is signed with.
func kid(t testing.TB, token string) string {
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var h struct{ Kid string }
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil || h.Kid == "" {
		t.Errorf("the header of a grant: %s %v", text, err)
	}
	return h.Kid
}

// redeem makes one attempt at a grant.
func (s *system) redeem(id, at int, l *life, g *group) {
	g.mu.Lock()
	if len(g.grants) == 0 {
		g.mu.Unlock()
		return
	}
	m := g.grants[rand.IntN(len(g.grants))]
	attempt := rand.IntN(attemptsEach)
	o := history.Operation{Client: id, Kind: history.Redeem, Proposal: g.name(), Grant: m.id, Attempt: fmt.Sprint("a", attempt), Subject: m.subjects}
	if made := o.Grant + " " + o.Attempt; g.called[made] {
		o.Kind = history.Repeat
	} else {
		g.called[made] = true
	}
	g.mu.Unlock()
	timeout := callTimeout
	switch rand.IntN(12) {
	case 0: // too impatient to see the answer
		timeout = rand.N(8 * time.Millisecond)
	case 1: // until the replica gives up
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.calls.Add(1)
	where := s.replicas[at]
	done := s.recorder.Begin(o)
	a, err := l.redeem(ctx, redemption(g.proposal, m.token, g.attempts[attempt]))
	if !s.answered("redeem", err) {
		done(history.Lost, 0)
		return
	}
	done(s.result(a), 0)
	s.count("redeem", a.GetDecision().GetCode())
	switch writ.Code(a.GetDecision().GetCode()) { // so that it is proposed again
	case writ.CodeGrantInvalid:
		g.void(m.id)
	case writ.CodeGrantRevoked:
		if rand.IntN(4) == 0 {
			g.void(m.id)
		}
	}
	if a.GetDecision().GetCode() != string(writ.CodeRedeemed) {
		if a.GetActBefore() != nil || a.GetDecision().GetOutcome() == writv1.Outcome_OUTCOME_ALLOW {
			s.t.Errorf("not redeemed, and may act: %v", a)
		}
		return
	}
	if a.GetActBefore() == nil || a.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_ALLOW {
		s.t.Errorf("redeemed, and may not act: %v", a)
	}
	if m.by != at {
		s.count("redeemed", "elsewhere than minted")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = append(s.acts, act{where, g.name(), m.id, a.GetDecisionId(), o.Attempt, a.GetIdempotencyKey()})
}

// void forgets a grant that is of no more use.
func (g *group) void(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants = slices.DeleteFunc(g.grants, func(m minted) bool { return m.id == id })
}

// result is what an answer says of the ledger. One that denies says nothing, but
// for GRANT_ALREADY_USED: before it was denied, the attempt may have been held
// against an older world, been claimed, and the word of that lost.
func (s *system) result(a *writv1.RedeemResponse) history.Result {
	switch code := writ.Code(a.GetDecision().GetCode()); {
	case code == writ.CodeRedeemed && a.GetRepeated():
		return history.Redeemed // by this very attempt, perhaps: etcd's word of it can get lost
	case code == writ.CodeRedeemed:
		return history.Claimed
	case code == writ.CodeGrantAlreadyUsed && s.alone:
		return history.Refused // by what was claimed, not recorded, and gone with the process
	case code == writ.CodeGrantAlreadyUsed:
		return history.Taken
	default:
		return history.Lost
	}
}
