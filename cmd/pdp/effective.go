package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// effectiveView is a bundle with every default filled in, for people.
type effectiveView struct {
	TimeZone string            `json:"time_zone"`
	Issuers  []effectiveIssuer `json:"issuers"`
	Callers  []effectiveCaller `json:"callers"`
	Servers  []effectiveServer `json:"servers"`
}

type effectiveIssuer struct {
	Issuer      string         `json:"issuer"`
	Principal   string         `json:"principal"`
	Actor       string         `json:"actor"`
	Tenant      string         `json:"tenant,omitempty"`
	TenantClaim string         `json:"tenant_claim,omitempty"`
	GroupsClaim string         `json:"groups_claim,omitempty"`
	Group       string         `json:"group,omitempty"` // the template of their entities
	Leeway      string         `json:"leeway"`
	Keys        *effectiveKeys `json:"keys,omitempty"` // without them nobody's token is verified here
}

type effectiveKeys struct {
	JWKS         string   `json:"jwks"` // URL, or file of the bundle
	Algorithms   []string `json:"algorithms"`
	Types        []string `json:"types"`
	AllowPrivate bool     `json:"allow_private_addresses,omitempty"`
	MaxStale     string   `json:"max_stale,omitempty"` // of those that are fetched
}

type effectiveCaller struct {
	Name       string            `json:"name"`
	Roles      []writ.Role       `json:"roles"`
	VouchesFor []writ.SourceKind `json:"vouches_for"`
	Secret     string            `json:"secret,omitempty"`   // which per-start secret stands for it
	KnownBy    []string          `json:"known_by,omitempty"` // names in its certificate, its subject, its user
	May        []string          `json:"may"`                // methods
	// MayFor holds, by each method that is about a server, about which it may be called.
	MayFor map[string][]string `json:"may_for,omitempty"`
}

type effectiveServer struct {
	ID              string          `json:"id"`
	Endpoint        string          `json:"endpoint,omitempty"`
	PackageHash     string          `json:"package_hash,omitempty"`
	Token           string          `json:"token"`
	Possession      bool            `json:"proof_of_possession,omitempty"`
	Audience        string          `json:"audience,omitempty"`
	RedeemedBy      string          `json:"redeemed_by"`
	Classifications []string        `json:"classifications"`
	Purposes        []string        `json:"purposes"`
	Valid           string          `json:"valid,omitempty"` // when; always otherwise
	Tools           []effectiveTool `json:"tools"`
}

type effectiveTool struct {
	Tool       string                       `json:"tool"`
	Effect     writ.Effect                  `json:"effect"`
	Reversible bool                         `json:"reversible"`
	Scope      string                       `json:"scope,omitempty"`
	Intent     bool                         `json:"intent_required"`
	Actions    []string                     `json:"actions"`
	Resource   string                       `json:"resource"` // Cedar type of the target
	Opaque     []string                     `json:"opaque,omitempty"`
	Evidence   map[string]effectiveEvidence `json:"evidence,omitempty"`
	Loggable   []string                     `json:"loggable,omitempty"` // JSON Pointers
	Secret     []string                     `json:"secret,omitempty"`
	Valid      string                       `json:"valid,omitempty"` // when; always otherwise
	OnChange   string                       `json:"on_change"`
	DecideAt   string                       `json:"decide_at"`
	Grant      string                       `json:"grant,omitempty"` // always: reads need one, too
	Digest     string                       `json:"contract_digest"`
}

type effectiveEvidence struct {
	From        []writ.SourceKind `json:"from"`
	Fresh       string            `json:"fresh,omitempty"`
	Independent int               `json:"independent"`
}

func effective(world *snapshot.Snapshot) *effectiveView {
	v := &effectiveView{TimeZone: world.Zone.String()}
	for _, name := range slices.Sorted(maps.Keys(world.Issuers)) {
		i := world.Issuers[name]
		v.Issuers = append(v.Issuers, effectiveIssuer{
			Issuer: i.Name, Principal: i.Principal.String(), Actor: i.Actor.String(), Tenant: i.Tenant, TenantClaim: i.TenantClaim,
			GroupsClaim: i.GroupsClaim, Group: i.Group.String(),
			Leeway: i.Leeway.String(), Keys: effectiveKeysOf(i),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(world.Callers)) {
		c := world.Callers[name]
		secret := ""
		switch c {
		case world.LocalHost:
			secret = "host"
		case world.LocalServer:
			secret = "server"
		case world.LocalOperator:
			secret = "operator"
		}
		v.Callers = append(v.Callers, effectiveCallerOf(world, c, secret))
	}
	tools := slices.Sorted(maps.Keys(world.Contracts))
	for _, id := range slices.Sorted(maps.Keys(world.Servers)) {
		s := world.Servers[id]
		takes := "none"
		if s.TokenRequired {
			takes = "required"
		}
		server := effectiveServer{
			ID: s.ID, Endpoint: s.Endpoint, PackageHash: s.PackageHash, Token: takes, Possession: s.ProofOfPossession, Audience: s.Audience, RedeemedBy: redeemer(world, s),
			Classifications: some(s.Classifications), Purposes: some(s.Purposes), Valid: windowText(s.Valid),
		}
		for _, name := range tools {
			if c := world.Contracts[name]; c.Server.ID == id {
				server.Tools = append(server.Tools, effectiveToolOf(c))
			}
		}
		v.Servers = append(v.Servers, server)
	}
	return v
}

func effectiveCallerOf(world *snapshot.Snapshot, c *writ.Caller, secret string) effectiveCaller {
	out := effectiveCaller{Name: c.Name, Roles: c.Roles, VouchesFor: some(c.Vouches), Secret: secret, May: []string{}}
	for id, known := range world.Identities {
		if known == c {
			out.KnownBy = append(out.KnownBy, id.String())
		}
	}
	slices.Sort(out.KnownBy)
	for _, m := range policy.Methods {
		switch {
		case !world.May(c, m.Name):
		case !m.OfServer:
			out.May = append(out.May, m.Name)
		default:
			if out.MayFor == nil {
				out.MayFor = map[string][]string{}
			}
			out.MayFor[m.Name] = world.Rights.Servers(c.Name, m.Name)
		}
	}
	return out
}

func effectiveKeysOf(i *snapshot.Issuer) *effectiveKeys {
	out := &effectiveKeys{JWKS: i.KeysFile, Algorithms: i.Algorithms, Types: i.Types, AllowPrivate: i.AllowPrivate}
	switch {
	case i.JWKS != "":
		out.JWKS, out.MaxStale = i.JWKS, cmp.Or(i.MaxStale, token.DefaultMaxStale).String()
	case i.KeysFile == "":
		return nil
	}
	if len(out.Algorithms) == 0 {
		out.Algorithms = token.DefaultAlgorithms[:]
	}
	if len(out.Types) == 0 {
		out.Types = token.DefaultTypes[:]
	}
	return out
}

// windowText says when a window holds.
func windowText(w *contract.Window) string {
	if w == nil {
		return ""
	}
	var bounds []string
	if !w.From.IsZero() {
		bounds = append(bounds, "from "+w.From.Format(time.RFC3339Nano))
	}
	if !w.Until.IsZero() {
		bounds = append(bounds, "until "+w.Until.Format(time.RFC3339Nano))
	}
	return strings.Join(bounds, " ")
}

func effectiveToolOf(c *contract.Contract) effectiveTool {
	resource, optional := c.TargetType()
	of := string(resource)
	switch {
	case of == "":
		of = "Tool"
	case optional:
		of += " or Tool"
	}
	t := effectiveTool{
		Tool: c.Tool.Name, Effect: c.Effect, Reversible: c.Reversible, Scope: c.Scope, Intent: c.IntentRequired, Actions: c.Actions(),
		Resource: of, Opaque: c.Opaque, Loggable: c.Loggable, Secret: c.Secret, Valid: windowText(c.Valid), OnChange: c.OnChange, DecideAt: c.DecideAt, Grant: c.Grant, Digest: c.Digest.String(),
	}
	for pointer, line := range c.Evidence {
		if t.Evidence == nil {
			t.Evidence = map[string]effectiveEvidence{}
		}
		fresh := ""
		if line.Fresh > 0 {
			fresh = line.Fresh.Round(time.Second).String()
		}
		t.Evidence[pointer] = effectiveEvidence{line.From, fresh, max(1, line.Independent)}
	}
	return t
}

// some makes a nil list an empty one, for JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// redeemer is who redeems for a server: see the documentation of redeemed_by.
func redeemer(world *snapshot.Snapshot, s *contract.Server) string {
	if world.Callers[s.RedeemedBy] == nil && world.LocalServer != nil {
		return world.LocalServer.Name
	}
	return s.RedeemedBy
}
