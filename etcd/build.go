package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

// Waiting between attempts to fetch a generation: doubled from least to most.
const (
	leastRetry = 250 * time.Millisecond
	mostRetry  = 10 * time.Second
)

// offer is a generation on its way to be in force.
type offer struct {
	number   uint64
	imported *history // what it shows, while showing is held; nil: it isn't settled yet
}

// build fetches and offers the newest generation, and tells of damage: the
// follower wants both from one goroutine.
func (s *Source) build(ctx context.Context, f Follower) error {
	b := builder{source: s, follower: f, have: contents{}, wait: leastRetry}
	for {
		s.mu.Lock()
		want, fault, changed := s.wanted, s.fault, s.changed
		fetching, cancel := context.WithCancel(ctx)
		s.stale = cancel
		s.mu.Unlock()
		err := b.step(fetching, want, fault)
		cancel()
		if err != nil {
			return err
		}
		var retry <-chan time.Time
		if !b.retry.IsZero() {
			retry = time.After(time.Until(b.retry))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-retry:
		}
	}
}

// builder is what build remembers.
type builder struct {
	source   *Source
	follower Follower
	have     contents // of the last generation that was fetched
	settled  uint64   // the generation that was offered last
	told     error    // the damage that was told last; nil: it is mended
	failed   uint64   // the generation that could not be fetched
	retry    time.Time
	wait     time.Duration
}

// step does what is to be done now.
func (b *builder) step(ctx context.Context, want *Generation, fault error) error {
	if fault != nil {
		if b.told == nil || b.told.Error() != fault.Error() {
			b.follower.Unreadable(fault)
		}
		// Once it is mended the generation is offered again: that says so.
		b.told, b.settled, b.retry = fault, 0, time.Time{}
		return nil
	}
	b.told = nil
	if want == nil || want.Number == b.settled || want.Number == b.failed && time.Now().Before(b.retry) {
		return nil
	}
	b.retry = time.Time{}
	files, err := b.source.client.fetch(ctx, want, b.have)
	switch {
	case err == nil:
		b.settled, b.failed, b.wait = want.Number, 0, leastRetry
		return b.source.offer(want.Number, func() error { return b.follower.Offer(want.Number, files) })
	case ctx.Err() != nil:
		return nil // no longer wanted
	}
	b.follower.Unreadable(err)
	b.failed, b.retry = want.Number, time.Now().Add(b.wait)
	b.wait = min(2*b.wait, mostRetry)
	return nil
}

// offer runs a call of Offer. What the follower says of the bundle is the
// follower's to tell.
func (s *Source) offer(number uint64, call func() error) error {
	o := &offer{number: number}
	s.mu.Lock()
	s.offering, s.given = o, max(s.given, number)
	s.mu.Unlock()

	err := call()

	s.mu.Lock()
	s.offering = nil
	forgot := err == nil && o.imported == nil && number > s.log.generation
	if err == nil && o.imported != nil {
		s.log = o.imported
	}
	s.tell()
	s.mu.Unlock()
	if o.imported != nil {
		s.showing.Unlock()
	}
	if forgot {
		return errors.New("etcd: a generation came into force without its revocations: FollowerConfig.Import must be the source's Import")
	}
	return nil
}

// Import is for [bundle.FollowerConfig]: it says with which revocations the
// bundle that is being offered comes into force. What its file says was made
// part of the log when it was pushed.
func (s *Source) Import([]revocation.Entry) (*revocation.View, error) {
	s.showing.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.offering
	if o == nil || o.imported != nil {
		s.showing.Unlock()
		return nil, errors.New("etcd: revocations.yaml is imported by pdp push, and no other way")
	}
	at, err := s.log.at(o.number)
	if err != nil {
		s.showing.Unlock()
		return nil, err
	}
	// Nothing is told until the bundle is in force with this view: see offer.
	o.imported = at
	return at.shown, nil
}
