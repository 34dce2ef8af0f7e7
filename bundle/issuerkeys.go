package bundle

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-pdp/writ"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// Bounds of what issuers.yaml may say.
const (
	maxLeeway   = time.Minute
	minMaxStale = 5 * time.Minute
	maxMaxStale = 24 * time.Hour
	maxClaim    = 256 // bytes of a claim's name, and of a typ
)

// ownClaims mean what their specifications say, and nothing else.
var ownClaims = [...]string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "act", "may_act", "cnf"}

// foreignTypes are the typ of JWTs that are no access tokens, and are made for
// whoever they are shown to.
var foreignTypes = [...]string{"dpop+jwt", "logout+jwt", "secevent+jwt", "token-introspection+jwt", "oauth-authz-req+jwt", "writ-grant+jwt", "writ-approval+jwt"}

// keySet is one file of jwks/.
type keySet struct {
	file *File
	keys *token.Keys // nil: it has faults
	used bool
}

// readKeySets reads the files of jwks/, by name.
func (b *builder) readKeySets() map[string]*keySet {
	out := make(map[string]*keySet, len(b.layout.keySets))
	for _, f := range b.layout.keySets {
		keys, err := token.ParseKeys(f.Data)
		if fault, ok := errors.AsType[*token.KeysError](err); ok {
			line, column := lineOf(f.Data, fault.Offset)
			b.fault(f.Name, line, column, err.Error())
		}
		out[f.Name] = &keySet{file: f, keys: keys}
		for _, at := range keys.Unusable() {
			line, column := lineOf(f.Data, at)
			b.faults = append(b.faults, writ.Fault{
				File: f.Name, Line: line, Column: column, Severity: writ.Warning,
				Message: "this key verifies no token: its kind or curve is unknown here, it is too short, or it is not for signatures",
			})
		}
	}
	return out
}

// keyReader reads, of each issuer, whose signatures count and what its tokens
// must be like.
type keyReader struct {
	*builder
	*document // issuers.yaml
	files     map[string]*keySet
}

// finish reports files of jwks/ that no issuer names.
func (r *keyReader) finish() {
	for _, name := range keys(r.files) {
		if f := r.files[name]; !f.used && f.keys != nil {
			r.builder.faults = append(r.builder.faults, writ.Fault{
				File: name, Severity: writ.Warning, Message: "no issuer of issuers.yaml has these keys: write jwks: " + name + " where they belong, or remove the file",
			})
		}
	}
}

// trust reads one issuer.
func (r *keyReader) trust(at string, in *bundlev1.Issuer, out *snapshot.Issuer) {
	fail := func(field, format string, args ...any) {
		r.add(r.at(at+field), at+field, fmt.Sprintf(format, args...))
	}
	keys := r.keys(in, out, fail)
	out.Algorithms = in.GetAlgorithms()
	for i, alg := range out.Algorithms {
		field := item(".algorithms", i)
		switch {
		case alg == "none" || strings.HasPrefix(alg, "HS"):
			fail(field, "%q is never accepted: anybody could make such tokens, or whoever verifies them: write one of %s", alg, strings.Join(token.Algorithms[:], ", "))
		case !slices.Contains(token.Algorithms[:], alg):
			fail(field, "%s", didYouMean(fmt.Sprintf("%q is no algorithm that is known here: they are %s", alg, strings.Join(token.Algorithms[:], ", ")), alg, token.Algorithms[:]))
		case slices.Contains(out.Algorithms[:i], alg):
			fail(field, "%q is there twice", alg)
		}
	}
	if keys != nil && !keys.Serve(out.Algorithms) {
		fail(".algorithms", "none of the keys of %s is for any of these", out.KeysFile)
	}
	out.Types = in.GetTypes()
	for i, typ := range out.Types {
		field := item(".types", i)
		bare := strings.TrimPrefix(strings.ToLower(typ), "application/")
		switch {
		case !name(typ):
			fail(field, "write the typ of the issuer's access tokens, such as at+jwt")
		case slices.Contains(foreignTypes[:], bare):
			fail(field, "%q is the typ of something that is no access token", typ)
		case slices.ContainsFunc(out.Types[:i], func(t string) bool { return strings.TrimPrefix(strings.ToLower(t), "application/") == bare }):
			fail(field, "%q is there twice", typ)
		}
	}
	if out.TenantClaim = in.GetTenantClaim(); out.TenantClaim != "" {
		switch {
		case slices.Contains(ownClaims[:], out.TenantClaim):
			fail(".tenant_claim", "the claim %s means something else (RFC 7519, section 4.1)", out.TenantClaim)
		case !name(out.TenantClaim):
			fail(".tenant_claim", "write the name of a claim, such as tid: at most %d bytes without white space", maxClaim)
		}
	}
	r.tenants(at, out)
	out.Leeway = r.between(in.GetLeeway(), 0, maxLeeway, "a minute at most: a token that outlives its exp by more is another token", at+".leeway")
	out.MaxStale = r.between(in.GetMaxStale(), minMaxStale, maxMaxStale, "from 5m, since keys are fetched every five minutes, to 24h, since a key that was withdrawn serves as long", at+".max_stale")
	out.AllowPrivate = in.GetAllowPrivateAddresses()
}

// tenants looks at an issuer whose tokens of every tenant count. A subject is one
// person's of an issuer (RFC 7519, section 4.1.2); what else a token says, each
// tenant may say as it likes, the names of groups among it.
func (r *keyReader) tenants(at string, out *snapshot.Issuer) {
	if out.TenantClaim == "" || out.Tenant != "" {
		return
	}
	names := out.Principal.Names()
	if len(names) > 0 && !slices.Contains(names, "sub") && !slices.Contains(names, out.TenantClaim) {
		r.add(r.at(at+".principal"), at+".principal", fmt.Sprintf(
			"the tokens of every tenant count, and %s could make one entity of two tenants' subjects: put {%s} or {sub} into it, or write the one tenant", out.Principal, out.TenantClaim))
	}
	if out.GroupsClaim != "" && out.GroupsClaim != out.TenantClaim {
		n := r.at(at + ".groups.parent")
		r.document.faults = append(r.document.faults, writ.Fault{
			File: r.file, Line: n.Line, Column: n.Column, Field: at + ".groups.parent", Severity: writ.Warning,
			Message: "the tokens of every tenant count, and a group of one is then that of another, if they have one name: write the one tenant, unless the issuer makes the groups' ids itself, and none twice",
		})
	}
}

// name reports whether a text may be a claim's name or a typ.
func name(s string) bool {
	return s != "" && len(s) <= maxClaim && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
}

// between reads a duration within bounds; 0 where there is none.
func (r *keyReader) between(d *durationpb.Duration, least, most time.Duration, why, field string) time.Duration {
	out := d.AsDuration()
	if d != nil && (out < least || out > most) {
		r.add(r.at(field), field, "write a duration, "+why)
		return 0
	}
	return out
}

// keys reads where an issuer's keys are; nil where they aren't the bundle's.
func (r *keyReader) keys(in *bundlev1.Issuer, out *snapshot.Issuer, fail func(field, format string, args ...any)) *token.Keys {
	where := in.GetJwks()
	fetched := where != "" && !strings.HasPrefix(where, "jwks/")
	if !fetched {
		for field, said := range map[string]bool{".max_stale": in.GetMaxStale() != nil, ".allow_private_addresses": in.GetAllowPrivateAddresses()} {
			if said {
				fail(field, "this is about keys that are fetched, and these are not: leave it out, or write their URL as jwks")
			}
		}
	}
	switch {
	case where == "":
		for field, said := range map[string]bool{".algorithms": len(in.GetAlgorithms()) > 0, ".types": len(in.GetTypes()) > 0} {
			if said {
				fail(field, "this is about tokens that are verified here, and the issuer has no keys: write jwks")
			}
		}
	case fetched:
		if err := checkURL(where, in.GetAllowPrivateAddresses()); err != nil {
			fail(".jwks", "%s", err)
			return nil
		}
		out.JWKS = where
	default:
		set := r.files[where]
		if set == nil {
			fail(".jwks", "%s", didYouMean(fmt.Sprintf("the bundle has no file %q", where), where, keys(r.files)))
			return nil
		}
		set.used = true
		if set.keys == nil { // said already
			return nil
		}
		out.KeysFile, out.Keys = where, set.file.Data
		return set.keys
	}
	return nil
}

// checkURL says why keys can't be fetched from a URL safely.
func checkURL(text string, private bool) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		if path.Ext(text) == ".json" && !strings.Contains(text, ":") {
			return fmt.Errorf("%q is not a URL to fetch keys from: write https://host/path, or put the file into jwks/ and write jwks/%s", text, path.Base(text))
		}
		return fmt.Errorf("%q is not a URL to fetch keys from: write https://host/path, or jwks/NAME.json for a file of the bundle", text)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback):
		return fmt.Errorf("keys come over https: whoever changes %q on its way could sign any token", text)
	case !private && (loopback || err == nil && (ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())):
		return fmt.Errorf("%q is a private address: write allow_private_addresses: true if that is meant", text)
	}
	return nil
}
