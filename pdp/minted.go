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
const maxMinted = 256 << 20

// maxSpent is the same of grants that are redeemed, which an attempt whose
// answer was lost may bring again.
const maxSpent = 32 << 20

// open is a grant that may be redeemed yet, as who minted it remembers it.
type open struct {
	token          string // compact JWS
	claims         grant.Claims
	postconditions *contract.Postconditions

	principal string   // Cedar entity, as text
	actors    []string // Cedar entities, as text

	caller   string         // who proposed
	proposal *writ.Proposal // judged; without secrets
	trust    trust          // in its token
	revision string         // of the world that it was decided in
	decided  time.Time      // when
	read     time.Time      // the reading of the clock that decided is made of
	size     int            // in bytes, about; 0: it is not remembered
	spent    bool           // guarded by minted.mu: it is redeemed
}

func (o *open) grant() Grant {
	return Grant{
		Token: o.token, ID: o.claims.ID, ExpiresAt: o.claims.ExpiresAt, IdempotencyKey: o.claims.IdempotencyKey,
		Postconditions: o.postconditions,
	}
}

// outlived reports whether as much time has passed, whatever was done to the
// clock meanwhile, as the grant was to live: after the clock was ahead, no
// instant comes at which it expires until that has caught up.
func (o *open) outlived(read time.Time) bool {
	return read.Sub(o.read) >= o.claims.ExpiresAt.Sub(o.decided)
}

// minted remembers open grants: their signature need not be verified again,
// and when the world has changed, their proposal can be decided again. It is
// no record of what has been redeemed: the ledger is.
type minted struct {
	mu    sync.Mutex
	byTag map[tag]*open
	queue []expiring // by expiry, nearly: all live about as long
	bytes int

	spent      []tag // those that are redeemed, the first first, and some that are gone
	spentBytes int
}

// tag finds a grant: the end of its signature.
type tag [24]byte

func tagOf(token string) (t tag) {
	copy(t[:], token[max(0, len(token)-len(t)):])
	return t
}

type expiring struct {
	tag tag
	at  time.Time
}

// reserve takes room for a proposal, and reports whether there is any.
func (m *minted) reserve(o *open) bool {
	size := weight(o.proposal)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(o.decided)
	for m.bytes+size > maxMinted && m.dropSpent() {
	}
	if m.bytes+size > maxMinted {
		return false
	}
	o.size = size
	m.bytes += size
	return true
}

// release gives back the room of a grant, unless it was added.
func (m *minted) release(o *open) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byTag[tagOf(o.token)] != o {
		m.drop(o)
	}
}

func (m *minted) drop(o *open) {
	if t := tagOf(o.token); m.byTag[t] == o {
		delete(m.byTag, t)
	}
	m.bytes -= o.size
	if o.spent {
		m.spentBytes -= o.size
	}
	o.size = 0
}

// spend notes that a grant is redeemed: it is remembered for as long as there is
// room, so that the same attempt can be decided again.
func (m *minted) spend(o *open) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.size == 0 || o.spent {
		return
	}
	o.spent = true
	m.spentBytes += o.size
	m.spent = append(m.spent, tagOf(o.token))
	for m.spentBytes > maxSpent && m.dropSpent() {
	}
}

// dropSpent drops the grant that was redeemed first; false: there is none.
func (m *minted) dropSpent() bool {
	if len(m.spent) == 0 {
		return false
	}
	if o := m.byTag[m.spent[0]]; o != nil {
		m.drop(o)
	}
	if m.spent = m.spent[1:]; len(m.spent) == 0 {
		m.spent = nil
	}
	return true
}

// add remembers a grant that has room.
func (m *minted) add(o *open) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.size == 0 {
		return
	}
	if m.byTag == nil {
		m.byTag = make(map[tag]*open)
	}
	t := tagOf(o.token)
	m.byTag[t] = o
	m.queue = append(m.queue, expiring{t, o.claims.ExpiresAt})
}

// find returns what is remembered of a grant; nil: nothing.
func (m *minted) find(token string) *open {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.byTag[tagOf(token)]; o != nil && o.token == token {
		return o
	}
	return nil
}

// forget drops the oldest grants for as long as they have expired.
func (m *minted) forget(now time.Time) {
	for len(m.queue) > 0 && !now.Before(m.queue[0].at) {
		if o := m.byTag[m.queue[0].tag]; o != nil {
			m.drop(o)
		}
		m.queue = m.queue[1:]
	}
	if len(m.queue) == 0 {
		m.queue = nil
	}
	for len(m.spent) > 0 && m.byTag[m.spent[0]] == nil {
		m.dropSpent()
	}
}
