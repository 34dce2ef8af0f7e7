package snapshot

import (
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// Rights are the answers to everything that may be asked of callers: which
// methods each may call, for which servers, and what it may vouch for. They are
// worked out once, so that asking costs a look-up, and don't change. A nil
// Rights gives nobody any.
type Rights struct {
	of map[string]callerRights // by caller

	// What they follow from.
	law     canon.Digest
	callers map[string]*writ.Caller
	servers map[string]*contract.Server
}

// callerRights are one caller's.
type callerRights struct {
	methods methodSet
	servers map[string]methodSet // by server id: methods about that server
	vouches []writ.SourceKind
}

// methodSet is a set of policy.Methods, by index.
type methodSet uint64

var _ [64 - len(policy.Methods)]struct{} // they fit

// methodBits holds each method's own set.
var methodBits = func() map[string]methodSet {
	out := make(map[string]methodSet, len(policy.Methods))
	for i, m := range policy.Methods {
		out[m.Name] = 1 << i
	}
	return out
}()

// sources are what a caller may vouch for.
var sources = append(slices.Clone(writ.SourceKinds[:]), writ.SourceToken)

// NewRights asks the policies everything that may be asked of these callers and
// servers, each by its name. Of a previous Rights, which may be nil, it returns
// that one where all that they follow from is the same.
func NewRights(policies *policy.Set, callers map[string]*writ.Caller, servers map[string]*contract.Server, previous *Rights) *Rights {
	r := &Rights{of: make(map[string]callerRights, len(callers)), law: policies.LawOfCallers(), callers: callers, servers: servers}
	if policies == nil {
		return r
	}
	if r.follows(previous) {
		return previous
	}
	a := &asking{policies: policies, entities: make(map[types.EntityUID]types.Entity, len(callers)+len(servers)), servers: servers}
	for _, c := range callers {
		e := policy.CallerEntity(c)
		a.entities[e.UID] = e
	}
	for _, s := range servers {
		e := policy.ServerEntity(s)
		a.entities[e.UID] = e
	}
	for name, c := range callers {
		r.of[name] = a.methods(c)
	}
	for i, m := range policy.Methods {
		if m.OfServer {
			a.ofServers(r.of, m, 1<<i)
		}
	}
	return r
}

// follows reports whether r follows from what previous follows from.
func (r *Rights) follows(previous *Rights) bool {
	return previous != nil && previous.law == r.law &&
		maps.EqualFunc(previous.callers, r.callers, func(a, b *writ.Caller) bool {
			return a == b || a.Name == b.Name && slices.Equal(a.Roles, b.Roles) && slices.Equal(a.Vouches, b.Vouches)
		}) &&
		maps.EqualFunc(previous.servers, r.servers, func(a, b *contract.Server) bool {
			return a == b || a.ID == b.ID && policy.ServerEntity(a).Attributes.Equal(policy.ServerEntity(b).Attributes)
		})
}

// asking asks the policies of one bundle.
type asking struct {
	policies *policy.Set
	entities types.EntityMap
	servers  map[string]*contract.Server
}

// Get implements types.EntityGetter.
func (a *asking) Get(uid types.EntityUID) (types.Entity, bool) {
	if e, ok := a.entities[uid]; ok {
		return e, true
	}
	return a.policies.Static(uid)
}

func (a *asking) query(caller string, action, resource types.EntityUID) policy.Query {
	return policy.Query{Principal: policy.CallerUID(caller), Action: action, Resource: resource, Entities: a}
}

// methods asks which methods about no server the caller may call, and for what
// it may vouch. A line of vouches_for is a permit, which a forbid beats.
func (a *asking) methods(c *writ.Caller) callerRights {
	var out callerRights
	for i, m := range policy.Methods {
		if !m.OfServer && a.policies.Entitles(a.query(c.Name, m.Action(), m.UID())) {
			out.methods |= 1 << i
		}
	}
	for _, kind := range sources {
		q := a.query(c.Name, policy.Vouch(), policy.SourceUID(kind))
		if c.VouchesFor(kind) && !a.policies.Forbids(q) || a.policies.Entitles(q) {
			out.vouches = append(out.vouches, kind)
		}
	}
	return out
}

// ofServers asks which callers may call a method about which servers. While no
// permit of the bundle is about it, only Writ's own can be satisfied, which asks
// that the server be the caller's: nobody else need be asked about.
func (a *asking) ofServers(of map[string]callerRights, m policy.Method, bit methodSet) {
	ask := func(caller, server string) {
		if !a.policies.Entitles(a.query(caller, m.Action(), policy.ServerUID(server))) {
			return
		}
		rights := of[caller]
		if rights.servers == nil {
			rights.servers = map[string]methodSet{}
		}
		rights.methods |= bit
		rights.servers[server] |= bit
		of[caller] = rights
	}
	own := a.policies.OwnPermitsAlone(m.Action())
	for id, s := range a.servers {
		if !own {
			for caller := range of {
				ask(caller, id)
			}
		} else if _, known := of[s.RedeemedBy]; known {
			ask(s.RedeemedBy, id)
		}
	}
}

// Vouches returns what a caller may vouch for, in the order of
// [writ.SourceKinds]. It must not be written to.
func (r *Rights) Vouches(caller string) []writ.SourceKind {
	if r == nil {
		return nil
	}
	return r.of[caller].vouches
}

// Methods lists the methods that a caller may call, about at least one server
// where they are about servers, in the order of [policy.Methods].
func (r *Rights) Methods(caller string) []string {
	if r == nil {
		return nil
	}
	var out []string
	for i, m := range policy.Methods {
		if r.of[caller].methods&(1<<i) != 0 {
			out = append(out, m.Name)
		}
	}
	return out
}

// Servers lists the servers, sorted, about which a caller may call a method.
func (r *Rights) Servers(caller, method string) []string {
	if r == nil {
		return nil
	}
	var out []string
	for server, methods := range r.of[caller].servers {
		if methods&methodBits[method] != 0 {
			out = append(out, server)
		}
	}
	slices.Sort(out)
	return out
}

// May reports whether a caller may call a method of the PDP, such as Decide. Of
// a method about servers it says whether there is any about which it may be
// called: see [Snapshot.MayFor]. Callers are known by their names alone.
func (s *Snapshot) May(caller *writ.Caller, method string) bool {
	return s != nil && s.Rights != nil && caller != nil && s.Rights.of[caller.Name].methods&methodBits[method] != 0
}

// MayFor reports whether a caller may call a method about a server: Redeem or
// VerifyEffect. Of a method that is about no server it says no.
func (s *Snapshot) MayFor(caller, method, server string) bool {
	return s != nil && s.Rights != nil && s.Rights.of[caller].servers[server]&methodBits[method] != 0
}
