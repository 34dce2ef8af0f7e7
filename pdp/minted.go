package pdp

import (
	"sync"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/grant"
)

// maxMinted is how many bytes the proposals of open grants may take, as far as
// they are counted. What does not fit is redeemed as if another replica had
// minted it.
const maxMinted = 64 << 20

// open is a grant that may be redeemed yet, as who minted it remembers it.
type open struct {
	token          string // compact JWS
	claims         grant.Claims
	postconditions *contract.Postconditions

	principal string   // Cedar entity, as text
	actors    []string // Cedar entities, as text

	caller   string         // who proposed
	proposal *writ.Proposal // judged; without secrets
	revision string         // of the world that it was decided in
	decided  time.Time      // when
	size     int            // in bytes, about
}

func (o *open) grant() Grant {
	return Grant{
		Token: o.token, ID: o.claims.ID, ExpiresAt: o.claims.ExpiresAt, IdempotencyKey: o.claims.IdempotencyKey,
		Postconditions: o.postconditions,
	}
}

// minted remembers open grants: their signature need not be verified again,
// and when the world has changed, their proposal can be decided again. It is
// no record of what has been redeemed: the ledger is.
type minted struct {
	mu      sync.Mutex
	byToken map[string]*open
	queue   []*open // by expiry, nearly: all live about as long
	bytes   int
}

// add remembers a grant, if there is room.
func (m *minted) add(o *open) {
	o.size = len(o.token) + weight(o.proposal)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(o.decided)
	if m.bytes+o.size > maxMinted {
		return
	}
	if m.byToken == nil {
		m.byToken = make(map[string]*open)
	}
	m.byToken[o.token] = o
	m.queue = append(m.queue, o)
	m.bytes += o.size
}

// find returns what is remembered of a grant; nil: nothing.
func (m *minted) find(token string) *open {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byToken[token]
}

// forget drops the oldest grants for as long as they have expired.
func (m *minted) forget(now time.Time) {
	for len(m.queue) > 0 && !now.Before(m.queue[0].claims.ExpiresAt) {
		o := m.queue[0]
		m.queue[0] = nil
		m.queue = m.queue[1:]
		delete(m.byToken, o.token)
		m.bytes -= o.size
	}
	if len(m.queue) == 0 {
		m.queue = nil
	}
}

// weight is about how many bytes a proposal takes: its long parts, and some for
// the rest.
func weight(p *writ.Proposal) int {
	n := 2048 + len(p.ArgumentsJSON) + len(p.ExtraParamsJSON) + len(p.DefinitionJSON)
	for i := range p.Evidence {
		n += 256 + len(p.Evidence[i].ValueJSON)
	}
	return n
}
