package contract

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxID bounds ids, in bytes.
const maxID = 128

// reservedIDs are the names of action groups other than servers.
var reservedIDs = [...]string{"pure", "read", "write", "approve", "vouch", "pdp"}

// badID says why id cannot name a server, or nothing.
func badID(id string) string {
	switch {
	case id == "":
		return "a server needs an id"
	case len(id) > maxID:
		return fmt.Sprintf("an id has at most %d bytes", maxID)
	case strings.ContainsAny(id, "/:#"):
		return fmt.Sprintf("%q: an id holds no \"/\", \":\" or \"#\", which separate the parts of action names", id)
	case !plainText(id) || strings.ContainsFunc(id, unicode.IsSpace):
		return fmt.Sprintf("%q: an id holds no spaces, control or invisible characters", id)
	case slices.Contains(reservedIDs[:], id):
		return fmt.Sprintf("%q names a group of actions: choose another id", id)
	}
	return ""
}

// plainText reports whether s is UTF-8 of graphic characters and spaces.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool {
		return !unicode.IsGraphic(c)
	})
}

// server checks what is declared about the server itself and returns it with
// its defaults filled in.
func (f *faults) server(d *Declaration) *Server {
	s := &Server{
		ID: d.ID, Endpoint: d.Endpoint, PackageHash: d.PackageHash, Package: d.Package, Audience: d.Audience,
		Version: d.Version, Owner: d.Owner, Provenance: d.Provenance,
		RedeemedBy:    first(d.RedeemedBy, d.ID),
		TokenRequired: d.Token != "none",

		ProofOfPossession: d.ProofOfPossession,
		Valid:             d.Valid,
		Classifications:   slices.Sorted(slices.Values(d.Classifications)),
		Purposes:          slices.Sorted(slices.Values(d.Purposes)),
	}
	if why := badID(d.ID); why != "" {
		f.errorf("id", "%s", why)
	}
	f.identity(d)
	f.audience(d, s)
	f.oneOf("token", d.Token, "", "required", "none")
	for _, t := range [...]struct{ field, text string }{
		{"version", d.Version}, {"owner", d.Owner}, {"provenance", d.Provenance}, {"redeemed_by", d.RedeemedBy},
		{"package", d.Package}, {"audience", d.Audience},
	} {
		if !plainText(t.text) {
			f.errorf(t.field, "%q holds control or invisible characters", t.text)
		}
	}
	f.labels("classifications", d.Classifications)
	f.labels("purposes", d.Purposes)
	f.window("valid", d.Valid)
	return s
}

// window refuses a window that says nothing, and one that never holds.
func (f *faults) window(field string, w *Window) {
	switch {
	case w == nil:
	case w.From.IsZero() && w.Until.IsZero():
		f.errorf(field, "a window without bounds says nothing: give from, until or both, or leave valid out")
	case !w.Until.IsZero() && !w.From.Before(w.Until):
		f.errorf(field, "from is not before until: such a window never holds")
	}
}

// identity checks that the server can be recognised in exactly one way.
func (f *faults) identity(d *Declaration) {
	switch {
	case d.Endpoint != "" && d.PackageHash != "":
		f.errorf("package_hash", "a server is either remote, with an endpoint, or local, with a package_hash: keep one")
	case d.Endpoint != "":
		if why := badEndpoint(d.Endpoint); why != "" {
			f.errorf("endpoint", "%q: %s", d.Endpoint, why)
		}
		if d.Package != "" {
			f.errorf("package", "only a local server, with a package_hash, has a package")
		}
		if len(d.Command) > 0 {
			f.errorf("command", "only a local server, with a package_hash, has a command")
		}
	case d.PackageHash != "":
		f.packageHash(d.PackageHash)
	default:
		f.errorf("endpoint", "a server is recognised by its endpoint, or a local one by its package_hash: write one of them")
	}
}

// badEndpoint says why text is no canonical endpoint, or nothing. Proposals are
// compared with it byte by byte, so there must be one way to write it.
func badEndpoint(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return "write an absolute URL: https://mcp.example/mcp"
	}
	switch {
	case !plainText(text) || strings.ContainsAny(text, " \\"):
		return "an endpoint holds no spaces, backslashes, control or invisible characters"
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "plain http is for loopback only: write https"
	case u.Scheme != "https" && u.Scheme != "http":
		return "an endpoint is https, or http on loopback"
	case !strings.HasPrefix(text, u.Scheme+"://") || u.Host != strings.ToLower(u.Host):
		return "write scheme and host in lower case, the form in which endpoints are compared"
	case u.User != nil:
		return "an endpoint holds no user information"
	case strings.Contains(text, "#"):
		return "an endpoint has no fragment"
	case strings.HasSuffix(u.Host, ":") || u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80":
		return "leave out the scheme's own port"
	}
	return ""
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// packageHash refuses what cannot be a hash. One that merely is none yet, such
// as a placeholder, is a warning: it denies every call, since no package has it.
func (f *faults) packageHash(hash string) {
	if !plainText(hash) || strings.ContainsFunc(hash, unicode.IsSpace) {
		f.errorf("package_hash", "%q holds spaces, control or invisible characters", hash)
		return
	}
	if text, ok := strings.CutPrefix(hash, "sha256:"); ok {
		if b, err := hex.DecodeString(text); err == nil && len(b) == 32 && strings.ToLower(text) == text {
			return
		}
	} else {
		for name, size := range map[string]int{"sha256-": 32, "sha384-": 48, "sha512-": 64} {
			if text, ok := strings.CutPrefix(hash, name); ok {
				if b, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && len(b) == size {
					return
				}
			}
		}
	}
	f.warnf("package_hash", "%q is neither sha256:<64 hexadecimal digits> nor an npm integrity (sha512-<base64>): "+
		"no package has it, so every call will be refused", hash)
}

// audience fills in the audience and checks it against the token rule.
func (f *faults) audience(d *Declaration, s *Server) {
	if !s.TokenRequired {
		if d.Audience != "" {
			f.errorf("audience", "with token: none nothing is compared with an audience: leave one of them out")
		}
		if d.ProofOfPossession {
			f.errorf("proof_of_possession", "with token: none there is nothing to prove the possession of: leave one of them out")
		}
		if d.Endpoint != "" {
			f.warnf("token", "a remote server without tokens: the principal is whoever the caller says")
		}
		s.Audience = ""
		return
	}
	if s.Audience == "" {
		s.Audience = d.Endpoint
	}
	if s.Audience == "" && d.PackageHash != "" {
		f.errorf("audience", "a local server's token needs an audience; or write token: none")
	}
}

func (f *faults) labels(field string, labels []string) {
	f.distinct(field, labels)
	for i, l := range labels {
		if l == "" || !plainText(l) || strings.TrimSpace(l) != l {
			f.errorf(item(field, i), "%q: write a word without control or invisible characters around or in it", l)
		}
	}
}

// badToolName says why a tool cannot be part of an action's name, or nothing.
func badToolName(name string) string {
	switch {
	case name == "" || len(name) > maxID:
		return fmt.Sprintf("a tool's name has 1 to %d bytes", maxID)
	case strings.Contains(name, "#"):
		return "a tool's name holds no \"#\", which separates a method from its tool in action names"
	case !plainText(name):
		return "a tool's name holds no control or invisible characters"
	}
	return ""
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
