package bundle

import (
	"fmt"
	"slices"

	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
)

// groups reads how the groups of an issuer's tokens become entities.
func (r *keyReader) groups(all []template, i int, in *bundlev1.Issuer, out *snapshot.Issuer) []template {
	g := in.GetGroups()
	if g == nil {
		return all
	}
	at := item("issuers", i) + ".groups"
	fail := func(field, message string) { r.add(r.at(at+field), at+field, message) }
	switch claim := g.GetClaim(); {
	case claim == "":
		fail("", "say which claim names the groups: claim: groups")
	case slices.Contains(ownClaims[:], claim):
		fail(".claim", fmt.Sprintf("the claim %s means something else (RFC 7519, section 4.1)", claim))
	case claim == in.GetTenantClaim():
		fail(".claim", "this claim holds the tenant")
	case !name(claim):
		fail(".claim", fmt.Sprintf("write the name of a claim, such as groups: at most %d bytes without white space", maxClaim))
	}
	if g.GetParent() == "" {
		fail("", `say which entities they are: parent: 'Group::"okta|{group}"'`)
		return all
	}
	before := len(all)
	out.Group, all = r.template(all, i, "groups.parent", g.GetParent(), "")
	if len(all) > before {
		if names := out.Group.Names(); len(names) != 1 || names[0] != "group" {
			fail(".parent", `a group's template has the one placeholder {group}, such as Group::"okta|{group}"`)
		}
		all[before].group = true
		out.GroupsClaim = g.GetClaim()
	}
	return all
}

// checkGroups refuses groups of a type that people or agents have: whoever
// names groups would name people.
func (d *document) checkGroups(all []template) {
	for _, t := range all {
		if !t.group {
			continue
		}
		if i := slices.IndexFunc(all, func(u template) bool { return !u.group && u.Type() == t.Type() }); i >= 0 {
			d.add(d.at(t.field), t.field, fmt.Sprintf("%s is the type that %s makes, and a group is neither a person nor an agent: write another, such as Group", t.Type(), all[i].field))
		}
	}
}

// checkGroupTypes refuses groups that the schema doesn't let their principals
// be in.
func (b *builder) checkGroupTypes() {
	for _, name := range keys(b.issuers) {
		i := b.issuers[name]
		if i.GroupsClaim == "" {
			continue
		}
		if why := b.schema.MayBeIn(i.Principal.Type(), i.Group.Type()); why != "" {
			n := b.templates[fmt.Sprintf("supplied type %s ", i.Group.Type())]
			b.fault(b.layout.issuers.Name, n.Line, n.Column, why)
		}
	}
}
