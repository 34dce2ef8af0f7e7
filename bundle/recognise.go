package bundle

import (
	"github.com/writ-pdp/writ"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
)

// recognise enters how the caller is known: by its certificate, by its user on
// this machine, by a secret of each start, or by several of these.
func (b *builder) recognise(c *writ.Caller, in *bundlev1.Caller, fail func(field, format string, args ...any)) {
	enter := func(field string, id snapshot.Identity, err error) {
		switch {
		case err != nil:
			fail(field, "%v", err)
		case b.identities[id] != nil:
			fail(field, "%s is %s already: one credential is one caller", id.Name, b.identities[id].Name)
		default:
			b.identities[id] = c
		}
	}
	if text := in.GetMtls(); text != "" {
		id, err := snapshot.ParseName(text)
		enter(".mtls", id, err)
	}
	if text := in.GetSubject(); text != "" {
		id, err := snapshot.ParseSubject(text)
		enter(".subject", id, err)
	}
	if user := in.GetUnix(); user != nil {
		if user.Uid == nil {
			fail(".unix", "the user is missing: write unix: {uid: 1000}")
		} else {
			id, err := snapshot.UIDIdentity(user.GetUid())
			enter(".unix.uid", id, err)
		}
	}
	if in.GetLocal() {
		b.recogniseLocal(c, fail)
	} else if in.GetMtls() == "" && in.GetSubject() == "" && in.GetUnix() == nil {
		fail("", "nothing says how %s is known: write mtls: spiffe://..., subject: CN=..., unix: {uid: ...} or local: true", c.Name)
	}
}

// recogniseLocal gives the caller one of the three secrets of each start.
func (b *builder) recogniseLocal(c *writ.Caller, fail func(field, format string, args ...any)) {
	host, server, operator := c.Has(writ.RoleHost), c.Has(writ.RoleServer), c.Has(writ.RoleOperator) || c.Has(writ.RoleApprover)
	switch {
	case host && operator:
		fail(".local", "one secret may not both propose and approve: make two callers of %s", c.Name)
	case host && b.localHost != nil:
		fail(".local", "%s is the local host already: there is one", b.localHost.Name)
	case operator && b.localOperator != nil:
		fail(".local", "%s is the local operator already: there is one", b.localOperator.Name)
	case host:
		b.localHost = c
	case operator:
		b.localOperator = c
	case server && b.localServer != nil:
		fail(".local", "%s is the local server already: there is one", b.localServer.Name)
	case server:
		b.localServer = c
	}
}
