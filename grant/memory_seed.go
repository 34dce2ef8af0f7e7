package grant

import (
	"errors"
	"fmt"
)

// Seed tells an empty ledger what was redeemed before it began, as the log has
// it, in the log's order. Of a claim only Proposal, Now and Expires must be
// known (Expires may be Now, since the grants of before belong to another
// instance); one without an Attempt is nobody's to repeat. DoneElsewhere is kept
// as it is told. Where two claims have one Proposal or one ID, the first counts.
// Effects settle redemptions of claims; of others they say nothing that could
// still be asked.
//
// Claims that have passed their retention are left out. With too many, the
// error is an [ErrFull]: do not start, or proposals could be redeemed again.
func (m *Memory) Seed(claims []Claim, effects []Effect) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) > 0 {
		return errors.New("grant: a ledger is seeded once, before anything is claimed")
	}
	for i := range claims {
		if err := claims[i].checkSeed(); err != nil {
			return fmt.Errorf("grant: seeding the ledger with claim %d of %d: %w", i+1, len(claims), err)
		}
		m.now = max(m.now, claims[i].Now.UnixNano())
	}
	for i := range claims {
		if err := m.seed(&claims[i]); err != nil {
			return fmt.Errorf("grant: seeding the ledger with claim %d of %d: %w", i+1, len(claims), err)
		}
	}
	for i := range effects {
		e := &effects[i]
		if err := e.Check(); err != nil {
			return fmt.Errorf("grant: seeding the ledger with effect %d of %d: %w", i+1, len(effects), err)
		}
		of, err := m.find(byID, e.Redemption)
		if err == nil && of != nil && of.settled == nil && m.effects[effectKey{e.Observer, e.ID}] == nil {
			m.settle(of, *e)
		}
	}
	return nil
}

func (c *Claim) checkSeed() error {
	if !IsName(c.Proposal) || c.ID != "" && !IsName(c.ID) || c.Grant != "" && !IsName(c.Grant) {
		return errors.New("one of its names is none")
	}
	return c.checkRest()
}

// seed adds one claim. The caller holds mu.
func (m *Memory) seed(c *Claim) error {
	latest := m.now
	if c.Now.Add(m.cfg.Retention).UnixNano() <= latest && late(c.Expires, latest) {
		return nil
	}
	for k, name := range [kinds]string{byID: c.ID, byGrant: c.Grant, byProposal: c.Proposal} {
		if name == "" {
			continue
		}
		if e, err := m.find(kind(k), name); err != nil || e != nil {
			return err
		}
	}
	m.now = c.Now.UnixNano() // its retention counts from there
	defer func() { m.now = latest }()
	return m.add(c)
}
