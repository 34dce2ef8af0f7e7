package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
)

// The callers that the secrets of each start stand for, unless callers.yaml
// names others.
const (
	defaultHost     = "host"
	defaultServer   = "server"
	defaultOperator = "operator"
)

// readCallers reads callers.yaml and adds the local callers that it leaves
// to the default.
func (b *builder) readCallers() {
	b.callers = map[string]*writ.Caller{}
	b.identities = map[snapshot.Identity]*writ.Caller{}
	if b.layout.callers != nil {
		d := parseYAML(b.layout.callers.Name, b.layout.callers.Data)
		var file bundlev1.CallersFile
		if decode(d, &file) {
			for i, in := range file.GetCallers() {
				b.readCaller(d, item("callers", i), in)
			}
		}
		b.faults = append(b.faults, d.faults...)
	}
	// A name that the file gives to somebody else is not taken from them.
	if b.localHost == nil && b.callers[defaultHost] == nil {
		b.localHost = &writ.Caller{Name: defaultHost, Roles: []writ.Role{writ.RoleHost}}
		b.callers[defaultHost] = b.localHost
	}
	if b.localServer == nil && b.callers[defaultServer] == nil {
		b.localServer = &writ.Caller{Name: defaultServer, Roles: []writ.Role{writ.RoleServer}}
		b.callers[defaultServer] = b.localServer
	}
	if b.localOperator == nil && b.callers[defaultOperator] == nil {
		b.localOperator = &writ.Caller{Name: defaultOperator, Roles: []writ.Role{writ.RoleOperator, writ.RoleApprover}}
		b.callers[defaultOperator] = b.localOperator
	}
}

func (b *builder) readCaller(d *document, at string, in *bundlev1.Caller) {
	fail := func(field, format string, args ...any) {
		d.add(d.at(at+field), at+field, fmt.Sprintf(format, args...))
	}
	c := &writ.Caller{Name: in.GetName()}
	switch {
	case c.Name == "":
		fail(".name", "the name is missing")
		return
	case len(c.Name) > 256 || strings.ContainsFunc(c.Name, unicode.IsControl):
		fail(".name", "a name has at most 256 bytes and no control characters")
		return
	case b.callers[c.Name] != nil:
		fail(".name", "%q is there already: one of the two must go", c.Name)
		return
	}
	roles := in.GetRoles()
	switch {
	case in.GetRole() != "" && len(roles) > 0:
		fail(".roles", "write role for one role or roles for several, not both")
	case in.GetRole() != "":
		roles = []string{in.GetRole()}
	case len(roles) == 0:
		fail("", "the caller has no role: write role: host, server, approver or operator")
	}
	for i, r := range roles {
		field := ".role"
		if len(in.GetRoles()) > 0 {
			field = item(".roles", i)
		}
		switch role := writ.Role(r); {
		case !slices.Contains([]writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator}, role):
			fail(field, "%q is not a role: write host, server, approver or operator", r)
		case c.Has(role):
			fail(field, "%q is there twice", r)
		default:
			c.Roles = append(c.Roles, role)
		}
	}
	for i, v := range in.GetVouchesFor() {
		field := item(".vouches_for", i)
		switch kind := writ.SourceKind(v); {
		case kind != writ.SourceToken && !slices.Contains(writ.SourceKinds[:], kind):
			fail(field, "%q is not a source kind: the kinds are %s, and token for who verifies access tokens itself", v, sourceKinds())
		case c.VouchesFor(kind):
			fail(field, "%q is there twice", v)
		default:
			c.Vouches = append(c.Vouches, kind)
		}
	}
	b.callers[c.Name] = c
	b.recognise(c, in, fail)
}

func sourceKinds() string {
	var out []string
	for _, k := range writ.SourceKinds {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// redeemers returns the servers as rights see them: who redeems for a server is
// the caller that it names, by default the one named like it, and while there
// is none, the local server.
func (b *builder) redeemers() map[string]*contract.Server {
	if b.localServer == nil {
		return b.serversByID
	}
	out := maps.Clone(b.serversByID)
	for id, s := range out {
		if b.callers[s.RedeemedBy] == nil {
			local := *s
			local.RedeemedBy = b.localServer.Name
			out[id] = &local
		}
	}
	return out
}

// checkRedeemers holds each server's redeemed_by against the callers.
func (b *builder) checkRedeemers() {
	for _, s := range b.servers {
		if s.redeemedBy == "" || b.callers[s.redeemedBy] != nil {
			continue
		}
		message := fmt.Sprintf("there is no caller %q", s.redeemedBy)
		if near := nearest(s.redeemedBy, keys(b.callers)); near != "" {
			message += fmt.Sprintf(": did you mean %s?", near)
		} else {
			message += ": add it to callers.yaml, or leave redeemed_by out"
		}
		b.faultAt(s.document, "redeemed_by", message)
	}
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
