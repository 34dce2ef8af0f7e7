package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
)

// What holds where issuers.yaml says nothing.
const (
	localIssuer      = "local"
	defaultPrincipal = `User::"{sub}"`
	defaultActor     = `Agent::"{client_id}"`
)

// reserved are the entity types that Writ makes itself.
var reserved = [...]types.EntityType{"Tool", "Server", "Path", "Host", "Url", "Email", "Caller", "Role", "Service", "Policy", "Source", "Action"}

// readIssuers reads issuers.yaml, or makes the one local issuer.
func (b *builder) readIssuers() {
	b.issuers = map[string]*snapshot.Issuer{}
	if b.layout.issuers == nil {
		b.issuers[localIssuer] = localDefault()
		(&keyReader{builder: b, files: b.readKeySets()}).finish()
		return
	}
	d := parseYAML(b.layout.issuers.Name, b.layout.issuers.Data)
	defer func() { b.faults = append(b.faults, d.faults...) }()
	var file bundlev1.IssuersFile
	if !decode(d, &file) {
		return
	}
	if len(file.GetIssuers()) == 0 {
		d.add(d.at("issuers"), "issuers", "there is no issuer, so nobody could call anything: write one or remove the file")
	}
	var all []template
	keys := keyReader{builder: b, document: d, files: b.readKeySets()}
	for i, in := range file.GetIssuers() {
		at := item("issuers", i)
		if in.GetIssuer() == "" {
			d.add(d.at(at+".issuer"), at+".issuer", "the issuer is missing: write the iss of its tokens, or local")
			continue
		}
		if b.issuers[in.GetIssuer()] != nil {
			d.add(d.at(at+".issuer"), at+".issuer", fmt.Sprintf("%q is there already: one of the two must go", in.GetIssuer()))
			continue
		}
		out := &snapshot.Issuer{Name: in.GetIssuer(), Tenant: in.GetTenant()}
		out.Principal, all = d.template(all, i, "principal", in.GetPrincipal(), defaultPrincipal)
		out.Actor, all = d.template(all, i, "actor", in.GetActor(), defaultActor)
		all = keys.groups(all, i, in, out)
		keys.trust(at, in, out)
		b.issuers[out.Name] = out
	}
	d.checkGroups(all)
	keys.finish()
	d.checkOverlaps(all)
	b.templates = make(map[string]*yaml.Node, len(all))
	for _, t := range all {
		role := t.field[strings.LastIndexByte(t.field, '.')+1:]
		if t.group {
			role = "supplied"
		}
		b.templates[fmt.Sprintf("%s type %s ", role, t.Type())] = d.at(t.field)
	}
}

// locateTypes puts what the schema says of a template's type where the
// template is written: "principal type Person is not declared".
func (b *builder) locateTypes(faults writ.Faults) {
	for i := range faults {
		f := &faults[i]
		if b.layout.issuers == nil || f.File != b.layout.issuers.Name || f.Line > 0 {
			continue
		}
		for start, n := range b.templates {
			if strings.HasPrefix(f.Message, start) {
				f.Line, f.Column = n.Line, n.Column
			}
		}
	}
}

func localDefault() *snapshot.Issuer {
	principal, err := snapshot.ParseTemplate(defaultPrincipal)
	actor, err2 := snapshot.ParseTemplate(defaultActor)
	if err != nil || err2 != nil {
		panic("bundle: a default template is wrong")
	}
	return &snapshot.Issuer{Name: localIssuer, Principal: principal, Actor: actor}
}

// template is one template of the file and where it stands.
type template struct {
	snapshot.Template
	issuer int
	field  string
	group  bool // it makes groups
}

func (d *document) template(all []template, issuer int, name, text, fallback string) (snapshot.Template, []template) {
	if text == "" {
		text = fallback
	}
	field := item("issuers", issuer) + "." + name
	t, err := snapshot.ParseTemplate(text)
	switch {
	case err != nil:
		d.add(d.at(field), field, err.Error())
		return t, all
	case slices.Contains(reserved[:], t.Type()):
		d.add(d.at(field), field, fmt.Sprintf("%s is a type that Writ makes itself: choose another, such as User", t.Type()))
		return t, all
	}
	return t, append(all, template{Template: t, issuer: issuer, field: field})
}

// checkOverlaps refuses templates that could name one entity for different
// people: two issuers may share a subject, and a client's id may be a
// person's. Within an issuer one template may stand twice, for there one
// subject is one account.
func (d *document) checkOverlaps(all []template) {
	for i, t := range all {
		for _, u := range all[:i] {
			// A group and a person of one type are told of by checkGroups.
			if !t.Overlaps(u.Template) || t.issuer == u.issuer && t.String() == u.String() || t.group != u.group {
				continue
			}
			if t.group && u.group {
				d.add(d.at(t.field), t.field, fmt.Sprintf(
					"%s and %s of %s could make one group of two: give them prefixes such as %s::\"okta|{group}\"", t, u, u.field, t.Type()))
				break
			}
			d.add(d.at(t.field), t.field, fmt.Sprintf(
				"%s and %s of %s could make one entity of two subjects: give them different types, or prefixes such as %s::\"okta|{sub}\"", t, u, u.field, t.Type()))
			break
		}
	}
}
