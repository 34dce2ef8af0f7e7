package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/snapshot"
)

// makeScenarios makes a proposal of every case, against the world that they
// speak of.
func (b *builder) makeScenarios(files []*scenarioFile, world *snapshot.Snapshot) []Scenario {
	var out []Scenario
	b.codes, b.ids = b.policyNames()
	// Proposals know nothing of the world's entities and revocations.
	old := b.before
	same := old != nil && b.sameIssuers && b.sameCallers && b.sameServers && slices.Equal(old.codes, b.codes) && slices.Equal(old.ids, b.ids)
	for _, f := range files {
		m := b.files[f.file]
		if was := old.file(f.file); same && was != nil && was.sum == m.sum {
			out = append(out, m.made...)
			continue
		}
		made := f.scenarios(world, b.codes, b.ids)
		if m != nil {
			m.made = made
		}
		out = append(out, made...)
	}
	return out
}

// scenarios makes the proposals of one file.
func (f *scenarioFile) scenarios(world *snapshot.Snapshot, codes, ids []string) []Scenario {
	out := make([]Scenario, 0, len(f.cases))
	seen := map[string]int{}
	for i, c := range f.cases {
		p := proposer{scenarioFile: f, world: world, codes: codes, ids: ids, at: item("cases", i), in: c}
		switch first := seen[c.GetName()]; {
		case c.GetName() == "":
			p.fail("name", "the case has no name")
		case first > 0:
			p.fail("name", fmt.Sprintf("%q is in line %d already: name them apart", c.GetName(), first))
		default:
			seen[c.GetName()] = c.line
		}
		out = append(out, p.scenario())
	}
	return out
}

// policyNames are the codes and the ids of the bundle's policies.
func (b *builder) policyNames() (codes, ids []string) {
	for _, p := range b.policies.Policies() {
		ids = append(ids, p.ID)
		if p.Code != "" {
			codes = append(codes, string(p.Code))
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes), ids
}

// proposer makes the proposal of one case.
type proposer struct {
	*scenarioFile
	world  *snapshot.Snapshot
	codes  []string // of the bundle's policies
	ids    []string // likewise
	at     string
	in     scenarioCase
	claims map[string]string // of the principal
}

// fail reports a fault at a field of the case, or of the defaults where it
// stands there.
func (p *proposer) fail(field, message string) {
	n, at := nodeAt(p.in.merged, field), p.at
	if defaults := find(p.root, "defaults"); defaults != nil && n != defaults && n == nodeAt(defaults, field) {
		at = "defaults" // merging keeps nodes
	}
	p.add(n, at+"."+field, message)
}

func (p *proposer) scenario() Scenario {
	s := Scenario{
		File: p.file, Line: p.in.line, Name: p.in.GetName(), About: p.in.GetAbout(),
		Caller: p.caller(), Now: timeOf(p.in.GetNow()), Expect: p.expect(),
		tokenExpired: p.in.GetToken().GetExpired(), intentExpired: p.in.GetIntent().GetExpired(),
	}
	s.Proposal.RequestID = "scenario-" + strconv.Itoa(p.in.line)
	s.Proposal.Principal = p.principal()
	s.Proposal.Actors = p.actors()
	contract, server := p.tool(&s)
	p.server(&s.Proposal, server)
	p.definition(&s.Proposal, contract)
	p.arguments(&s.Proposal)
	p.intent(&s.Proposal)
	p.token(&s.Proposal, contract, server)
	p.evidence(&s.Proposal)
	for i, text := range p.in.GetApprovals() {
		if uid, _, _, ok := p.person(item("approvals", i), text); ok {
			s.Approvers = append(s.Approvers, uid)
		}
	}
	return s
}

func (p *proposer) caller() string {
	name := p.in.GetCaller()
	if name == "" {
		if p.world.LocalHost == nil {
			p.fail("caller", "the bundle has no host on this machine: say which caller proposes")
			return ""
		}
		return p.world.LocalHost.Name
	}
	if p.world.Callers[name] == nil {
		p.fail("caller", didYouMean(fmt.Sprintf("there is no caller %q", name), name, keys(p.world.Callers)))
	}
	return name
}

// entity reads User::"dana".
func (p *proposer) entity(field, text string) (types.EntityUID, bool) {
	var uid types.EntityUID
	if err := uid.UnmarshalCedar([]byte(text)); err != nil || uid.ID == "" {
		p.fail(field, fmt.Sprintf(`%q is not an entity: write one such as User::"dana"`, text))
		return uid, false
	}
	return uid, true
}

// principal finds the subject whose token makes the entity of the case.
func (p *proposer) principal() writ.Principal {
	if p.in.GetPrincipal() == "" {
		p.fail("principal", `nobody makes this call: write a principal such as User::"dana"`)
		return writ.Principal{}
	}
	_, out, claims, _ := p.person("principal", p.in.GetPrincipal())
	p.claims = claims
	if i := p.world.Issuers[out.Issuer]; i != nil && i.TenantClaim != "" && out.Tenant == "" {
		out.Tenant = cmp.Or(claims[i.TenantClaim], p.in.GetToken().GetTenant(), "scenario")
	}
	return out
}

// person finds who an issuer's template makes an entity of.
func (p *proposer) person(field, text string) (types.EntityUID, writ.Principal, map[string]string, bool) {
	uid, ok := p.entity(field, text)
	if !ok {
		return uid, writ.Principal{}, nil, false
	}
	who, claims, ok := p.world.PrincipalOf(uid)
	if !ok {
		p.fail(field, fmt.Sprintf("no issuer makes %s: the templates of principals are %s", uid,
			p.templates(func(i *snapshot.Issuer) snapshot.Template { return i.Principal })))
	}
	return uid, who, claims, ok
}

func (p *proposer) actors() []writ.Actor {
	var out []writ.Actor
	for i, text := range p.in.GetActors() {
		if actor, ok := p.actor(item("actors", i), text); ok {
			out = append(out, actor)
		}
	}
	return out
}

// actor finds the actor that an issuer's template makes an entity of.
func (p *proposer) actor(field, text string) (writ.Actor, bool) {
	uid, ok := p.entity(field, text)
	if !ok {
		return writ.Actor{}, false
	}
	actor, ok := p.world.ActorOf(uid)
	if !ok {
		p.fail(field, fmt.Sprintf("no issuer makes %s: the templates of actors are %s", uid, p.templates(func(i *snapshot.Issuer) snapshot.Template { return i.Actor })))
	}
	return actor, ok
}

func (p *proposer) templates(of func(*snapshot.Issuer) snapshot.Template) string {
	var out []string
	for _, name := range keys(p.world.Issuers) {
		out = append(out, of(p.world.Issuers[name]).String())
	}
	return strings.Join(out, ", ")
}

// tool finds the contract. A tool that the bundle doesn't hold is a fault
// unless that is what the case is about.
func (p *proposer) tool(s *Scenario) (*contract.Contract, *contract.Server) {
	text := p.in.GetTool()
	id, name, ok := strings.Cut(text, "/")
	if !ok || id == "" || name == "" {
		p.fail("tool", fmt.Sprintf("%q is not a tool: write server/tool", text))
		return nil, nil
	}
	s.Proposal.Server.ID, s.Proposal.Tool = id, name
	c := p.world.Contract(id, name)
	if code := s.Expect.Code; c == nil && code != writ.CodeToolUnregistered && code != writ.CodeServerIdentity && code != writ.CodeMalformedProposal {
		p.fail("tool", didYouMean(fmt.Sprintf("nobody has reviewed %s", text), text, keys(p.world.Contracts)))
	}
	return c, p.world.Servers[id]
}

func (p *proposer) server(out *writ.Proposal, server *contract.Server) {
	if server != nil {
		out.Server.Endpoint, out.Server.PackageHash = server.Endpoint, server.PackageHash
	}
	if seen := p.in.GetServer(); seen != nil {
		if seen.GetEndpoint() != "" {
			out.Server.Endpoint = seen.GetEndpoint()
		}
		if seen.GetPackageHash() != "" {
			out.Server.PackageHash = seen.GetPackageHash()
		}
	}
}

func (p *proposer) definition(out *writ.Proposal, c *contract.Contract) {
	switch text := p.in.GetDefinitionDigest(); {
	case text != "" && p.in.GetDefinition() != nil:
		p.fail("definition_digest", "write definition or definition_digest, not both")
	case p.in.GetDefinition() != nil:
		out.DefinitionJSON = p.appendJSON(nil, find(p.in.merged, "definition"), p.at+".definition")
	case text != "":
		digest, err := canon.ParseDigest(text)
		if err != nil {
			p.fail("definition_digest", err.Error())
		}
		out.DefinitionDigest = digest
	case c != nil:
		out.DefinitionDigest = c.Tool.Digest
	default: // any will do: nobody knows the tool
		out.DefinitionDigest = canon.Sum([]byte(out.Tool))
	}
}

func (p *proposer) arguments(out *writ.Proposal) {
	args := find(p.in.merged, "arguments")
	switch {
	case p.in.GetArgumentsJson() != "" && args != nil:
		p.fail("arguments_json", "write arguments or arguments_json, not both")
	case p.in.GetArgumentsJson() != "":
		out.ArgumentsJSON = []byte(p.in.GetArgumentsJson())
	case args != nil:
		out.ArgumentsJSON = p.appendJSON(nil, args, p.at+".arguments")
	}
}

// intent makes the user's intent: valid unless the case says otherwise, and
// there only where the case states a purpose or something else of it.
func (p *proposer) intent(out *writ.Proposal) {
	in := p.in.GetIntent()
	if in.GetAbsent() || p.in.GetPurpose() == "" && in == nil {
		return
	}
	out.Intent = &writ.Intent{
		ID: or(in.GetId(), "scenario"), Purpose: p.in.GetPurpose(),
		DeclaredAt: timeOf(in.GetDeclaredAt()), ExpiresAt: timeOf(in.GetExpiresAt()),
	}
	if in.GetExpired() && in.GetExpiresAt() != nil {
		p.fail("intent.expired", "write expired or expires_at, not both")
	}
}

// token makes the principal's token for the server: valid unless the case
// says otherwise. A server that takes none gets one only where the principal
// is known by its claims, or the case describes it.
func (p *proposer) token(out *writ.Proposal, c *contract.Contract, server *contract.Server) {
	in := p.in.GetToken()
	needed := server == nil || server.TokenRequired || len(p.claims) > 0 || in != nil
	if in.GetAbsent() || !needed {
		return
	}
	t := &writ.Token{
		Verified: true,
		Issuer:   or(in.GetIssuer(), out.Principal.Issuer), Subject: or(in.GetSubject(), out.Principal.Subject),
		Tenant: or(in.GetTenant(), out.Principal.Tenant), ID: in.GetId(), KeyID: in.GetKeyId(), Claims: p.claims,
		IssuedAt: timeOf(in.GetIssuedAt()), NotBefore: timeOf(in.GetNotBefore()), ExpiresAt: timeOf(in.GetExpiresAt()),
	}
	if in.GetExpired() && in.GetExpiresAt() != nil {
		p.fail("token.expired", "write expired or expires_at, not both")
	}
	switch {
	case in.GetAudience() != nil:
		t.Audience = in.GetAudience().GetNames()
	case server != nil && server.Audience != "":
		t.Audience = []string{server.Audience}
	}
	switch {
	case in.GetScopes() != nil:
		t.Scopes = in.GetScopes().GetNames()
	case c != nil:
		t.Scopes = scopes(c)
	}
	if in.GetClaimed() {
		t.Verified = p.world.TokenVouched(p.world.Callers[p.caller()], t.Issuer)
	}
	t.Groups = in.GetGroups()
	if i := p.world.Issuers[t.Issuer]; len(t.Groups) > 0 && i != nil && i.GroupsClaim == "" {
		p.fail("token.groups", "the issuer's tokens make no groups: write groups in its entry of issuers.yaml")
	}
	for i, text := range in.GetAct() {
		if actor, ok := p.actor(item("token.act", i), text); ok {
			t.Actors = append(t.Actors, actor)
		}
	}
	if server != nil && server.ProofOfPossession {
		t.KeyThumbprint, t.Possessed = "scenario", !in.GetUnproven()
	}
	if may := in.GetMayAct(); may != "" {
		if actor, ok := p.actor("token.may_act", may); ok {
			t.MayAct = &actor
		}
	}
	out.Token = t
}

// scopes are those that any call of the tool may need.
func scopes(c *contract.Contract) []string {
	out := []string{c.Scope}
	for _, m := range c.Methods {
		out = append(out, m.Scope)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func didYouMean(message, name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return message + ": did you mean " + near + "?"
	}
	return message
}
