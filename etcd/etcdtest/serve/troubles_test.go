package serve_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/etcd/etcdtest/history"
)

// troubles are what goes wrong for replicas.
type troubles struct {
	s       *system
	c       *cluster
	proxies [][]*etcdtest.Proxy // of each replica to each member
	done    map[string]int
	pushed  int
}

// make makes trouble until it is told to stop, one after another, with some calm
// between.
func (x *troubles) make(stop <-chan struct{}) {
	for wait(stop, rand.N(500*time.Millisecond)) {
		member := rand.IntN(len(x.c.Members))
		m := x.c.Members[member]
		at := rand.IntN(len(x.s.replicas))
		r, proxies := x.s.replicas[at], x.proxies[at]
		last := func() { wait(stop, 200*time.Millisecond+rand.N(1500*time.Millisecond)) }
		toMember := func(set func(*etcdtest.Proxy)) {
			for _, p := range x.proxies {
				set(p[member])
			}
		}
		name := ""
		switch rand.IntN(14) {
		case 0:
			name = "member killed"
			x.c.Stop(m)
			last()
			x.c.Restart(m)
		case 1:
			name = "member paused"
			x.c.Pause(m, true)
			last()
			x.c.Pause(m, false)
		case 2:
			name = "member cut off"
			x.c.Isolate(m, true)
			last()
			x.c.Isolate(m, false)
		case 3:
			name = "answers of a member lost"
			toMember(func(p *etcdtest.Proxy) { p.Mute(true) })
			last()
			toMember(func(p *etcdtest.Proxy) { p.Mute(false) })
		case 4:
			name = "packets of a member lost"
			toMember(func(p *etcdtest.Proxy) { p.Silence(true) })
			last()
			toMember(func(p *etcdtest.Proxy) { p.Silence(false) })
		case 5, 6, 7:
			name = "replica killed"
			r.kill()
			if err := r.start(); err != nil {
				x.s.t.Errorf("%v\n%s", err, r.told())
			}
		case 8:
			name = "replica paused"
			r.pause(true)
			last()
			r.pause(false)
		case 9:
			name = "replica cut off"
			for _, p := range proxies {
				p.Silence(true)
			}
			last()
			for _, p := range proxies {
				p.Silence(false)
			}
		case 10:
			name = "replica's connections refused"
			for _, p := range proxies {
				p.Refuse(true)
			}
			last()
			for _, p := range proxies {
				p.Refuse(false)
			}
		case 11, 12, 13:
			name = "replica far away" // so it hears late of revocations
			far := 20*time.Millisecond + rand.N(80*time.Millisecond)
			for _, p := range proxies {
				p.SetDelay(far)
			}
			last()
			for _, p := range proxies {
				p.SetDelay(0)
			}
		}
		x.done[name]++
	}
}

// push pushes bundles until it is told to stop, some of which revoke, too. Grants of
// before are worth nothing then, except where they were minted.
func (x *troubles) push(stop <-chan struct{}) {
	const caller = -100
	var lines []string
	for wait(stop, time.Second+rand.N(3*time.Second)) {
		x.pushed++
		if len(lines) == 200 || rand.IntN(3) == 0 {
			if err := x.c.push(version(1+x.pushed, lines...)); err != nil {
				x.s.t.Error(err)
			}
			continue
		}
		g := x.s.fresh(caller, fmt.Sprint("pushed-", x.pushed))
		subject := g.proposal.GetPrincipal().GetSubject()
		lines = append(lines, fmt.Sprintf("- {kind: principal, issuer: %q, id: %q, reason: test}\n", issuer, subject))
		done := x.s.recorder.Begin(history.Operation{Client: caller, Kind: history.Revoke, Subject: "principal:" + subject})
		if err := x.c.push(version(1+x.pushed, lines...)); err != nil {
			x.s.t.Error(err)
			done(history.Lost, 0)
			continue
		}
		done(history.Done, 0)
		x.s.try(caller, g)
	}
}
