package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// Of each kind of certificate: who it is over both doors, or why nobody.
func TestClientCertificates(t *testing.T) {
	wantNoLeak(t)
	apHost, other := hostNamed("ap-host"), hostNamed("other")
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{
		uri("spiffe://acme.example/ap-host"):                          apHost,
		uri("urn:acme:ap-host"):                                       apHost,
		{Kind: snapshot.IdentityDNS, Name: "ap-host.acme.example"}:    apHost,
		{Kind: snapshot.IdentitySubject, Name: "CN=ap-host,O=Acme"}:   apHost,
		uri("spiffe://acme.example/other"):                            other,
		{Kind: snapshot.IdentityDNS, Name: "other.acme.example"}:      other,
		{Kind: snapshot.IdentitySubject, Name: "CN=other,CN=ap-host"}: other,
	})
	now := time.Now()
	between := m.ca.sub(t, "between", nil)
	ended := m.ca.sub(t, "ended", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	stranger := newAuthority(t, "root", nil) // of the same name
	narrow := m.ca.sub(t, "narrow", func(c *x509.Certificate) {
		c.PermittedURIDomains, c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"narrow.example"}, []string{"narrow.example"}, true
	})
	named := func(a *authority, dns ...string) tls.Certificate {
		return a.issue(t, func(c *x509.Certificate) { c.DNSNames = dns })
	}
	about := func(subject pkix.Name) tls.Certificate {
		return m.ca.issue(t, func(c *x509.Certificate) { c.Subject = subject })
	}
	spiffe := func(change func(*x509.Certificate)) tls.Certificate {
		return m.ca.issue(t, func(c *x509.Certificate) {
			c.URIs = parseURIs(t, "spiffe://acme.example/ap-host")
			change(c)
		})
	}
	const handshake = "" // in place of a reason: the connection is refused
	for name, c := range map[string]struct {
		pair   tls.Certificate
		caller string
		reason server.Reason
	}{
		"SPIFFE id":              {m.ca.client(t, "spiffe://acme.example/ap-host"), "ap-host", ""},
		"by a CA below the root": {between.client(t, "spiffe://acme.example/ap-host"), "ap-host", ""},
		"another URI":            {m.ca.client(t, "urn:acme:ap-host"), "ap-host", ""},
		"DNS name":               {named(m.ca, "AP-host.acme.example"), "ap-host", ""},
		"two names of one": {m.ca.issue(t, func(c *x509.Certificate) {
			c.DNSNames = []string{"ap-host.acme.example"}
			c.URIs = parseURIs(t, "urn:acme:ap-host")
		}), "ap-host", ""},
		"subject":                       {about(pkix.Name{CommonName: "ap-host", Organization: []string{"Acme"}}), "ap-host", ""},
		"no extended key usage":         {spiffe(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), "ap-host", ""},
		"a SPIFFE id counts alone":      {spiffe(func(c *x509.Certificate) { c.DNSNames = []string{"other.acme.example"} }), "ap-host", ""},
		"a SPIFFE id against a subject": {spiffe(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "other"} }), "ap-host", ""},
		"two callers' names":            {named(m.ca, "ap-host.acme.example", "other.acme.example"), "", server.ReasonCertificateShared},
		"a name and another's subject": {m.ca.issue(t, func(c *x509.Certificate) {
			c.DNSNames = []string{"other.acme.example"}
			c.Subject = pkix.Name{CommonName: "ap-host", Organization: []string{"Acme"}}
		}), "", server.ReasonCertificateShared},
		"a part of the subject":        {about(pkix.Name{CommonName: "ap-host"}), "", server.ReasonCallerUnknown},
		"more than the subject":        {about(pkix.Name{CommonName: "ap-host", Organization: []string{"Acme"}, Country: []string{"GB"}}), "", server.ReasonCallerUnknown},
		"the subject's text as a name": {named(m.ca, "CN=ap-host,O=Acme"), "", server.ReasonCallerUnknown},
		"a SPIFFE id as a DNS name":    {named(m.ca, "spiffe://acme.example/ap-host"), "", server.ReasonCallerUnknown},
		"a wildcard":                   {named(m.ca, "*.acme.example"), "", server.ReasonCallerUnknown},
		"nobody's SPIFFE id":           {m.ca.client(t, "spiffe://acme.example/nobody"), "", server.ReasonCallerUnknown},
		"nobody's SPIFFE id, with a DNS": {m.ca.issue(t, func(c *x509.Certificate) {
			c.URIs = parseURIs(t, "spiffe://acme.example/nobody")
			c.DNSNames = []string{"ap-host.acme.example"}
		}), "", server.ReasonCallerUnknown},

		"none":             {tls.Certificate{}, "", server.ReasonUnauthenticated},
		"expired":          {spiffe(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }), "", handshake},
		"not yet valid":    {spiffe(func(c *x509.Certificate) { c.NotBefore = now.Add(10 * time.Minute) }), "", handshake},
		"by an expired CA": {ended.client(t, "spiffe://acme.example/ap-host"), "", handshake},
		"by another CA":    {stranger.client(t, "spiffe://acme.example/ap-host"), "", handshake},
		"for servers":      {spiffe(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "", handshake},
		"a CA's": {spiffe(func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		}), "", handshake},
		"beyond its CA's constraints": {named(narrow, "ap-host.acme.example"), "", handshake},
		"no name at all":              {m.ca.client(t), "", handshake},
		"two SPIFFE ids":              {m.ca.client(t, "spiffe://acme.example/ap-host", "spiffe://acme.example/other"), "", handshake},
		"a SPIFFE id and a URI":       {m.ca.client(t, "urn:acme:ap-host", "spiffe://acme.example/ap-host"), "", handshake},
		"a trust domain's id":         {m.ca.client(t, "spiffe://acme.example"), "", handshake},
		"a SPIFFE id with a port":     {m.ca.client(t, "spiffe://acme.example:1/ap-host"), "", handshake},
		"another trust domain":        {m.ca.client(t, "spiffe://evil.example/ap-host"), "", handshake},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(m.decider.questions())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := decideOn(ctx, m.grpcAs(t, c.pair))
			overHTTP, failed := m.postAs(ctx, m.httpAs(t, c.pair, false))
			overTwo, failedTwo := m.postAs(ctx, m.httpAs(t, c.pair, true))
			asked := m.decider.questions()[before:]
			switch {
			case c.caller != "":
				if err != nil || failed != nil || failedTwo != nil || overHTTP.status != 200 || overTwo.status != 200 {
					t.Fatalf("gRPC: %v; HTTP/1.1: %d %v; HTTP/2: %d %v", err, overHTTP.status, failed, overTwo.status, failedTwo)
				}
				if len(asked) != 3 || asked[0].caller.Name != c.caller || asked[1].caller.Name != c.caller || asked[2].caller.Name != c.caller {
					t.Errorf("the callers are %v, want %s three times", asked, c.caller)
				}
				return
			case c.reason == handshake:
				if status.Code(err) != codes.Unavailable || failed == nil || failedTwo == nil {
					t.Errorf("gRPC: %v; HTTP/1.1: %d %v; HTTP/2: %d %v; want refused handshakes", err, overHTTP.status, failed, overTwo.status, failedTwo)
				}
			default:
				code := map[server.Reason]codes.Code{
					server.ReasonUnauthenticated: codes.Unauthenticated, server.ReasonCallerUnknown: codes.PermissionDenied,
					server.ReasonCertificateShared: codes.PermissionDenied,
				}[c.reason]
				http, connect := 403, "permission_denied"
				if code == codes.Unauthenticated {
					http, connect = 401, "unauthenticated"
				}
				wantRefusal(t, err, code, c.reason)
				if failed != nil || failedTwo != nil {
					t.Fatal(failed, failedTwo)
				}
				overHTTP.wantRefused(t, http, connect, c.reason)
				overTwo.wantRefused(t, http, connect, c.reason)
			}
			if len(asked) > 0 {
				t.Errorf("somebody was asked: %v", asked)
			}
		})
	}
	for _, version := range []uint16{tls.VersionTLS12} {
		config := m.clientTLS(m.ca.client(t, "spiffe://acme.example/ap-host"))
		config.MaxVersion = version
		for _, address := range []string{m.address, m.web} {
			if conn, err := tls.Dial("tcp", address, config); err == nil {
				conn.Close()
				t.Errorf("TLS 1.2 passed at %s", address)
			}
		}
	}
}

// A CA that names its trust domain vouches for the ids of that domain, and for
// nothing else.
func TestTrustDomains(t *testing.T) {
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{
		uri("spiffe://acme.example/ap-host"): hostNamed("ap-host"), uri("spiffe://partner.example/host"): hostNamed("partner"),
		uri("urn:acme:ap-host"): hostNamed("ap-host"), {Kind: snapshot.IdentityDNS, Name: "desk.acme.example"}: hostNamed("desk"),
		{Kind: snapshot.IdentitySubject, Name: "CN=files,O=Acme"}: hostNamed("files"),
	})
	acme := newAuthority(t, "acme", func(c *x509.Certificate) { c.URIs = parseURIs(t, "spiffe://acme.example") })
	partner := newAuthority(t, "partner", func(c *x509.Certificate) { c.URIs = parseURIs(t, "spiffe://partner.example") })
	nested := m.ca.sub(t, "nested", func(c *x509.Certificate) { c.URIs = parseURIs(t, "spiffe://partner.example") })
	odd := newAuthority(t, "odd", func(c *x509.Certificate) { c.URIs = parseURIs(t, "spiffe:partner.example") })
	m.files.putCAs(t, acme, partner, odd, m.ca)
	m.tls.LookNow()
	named := func(a *authority) tls.Certificate {
		return a.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"desk.acme.example"} })
	}
	about := func(a *authority) tls.Certificate {
		return a.issue(t, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "files", Organization: []string{"Acme"}} })
	}
	for name, c := range map[string]struct {
		pair tls.Certificate
		ok   bool
	}{
		"its own id":               {acme.client(t, "spiffe://acme.example/ap-host"), true},
		"a partner's own":          {partner.client(t, "spiffe://partner.example/host"), true},
		"by a CA between":          {nested.client(t, "spiffe://partner.example/host"), true},
		"a partner for us":         {partner.client(t, "spiffe://acme.example/ap-host"), false},
		"we for a partner":         {acme.client(t, "spiffe://partner.example/host"), false},
		"a partner's CA between":   {nested.client(t, "spiffe://acme.example/ap-host"), false},
		"DNS name by a CA of none": {named(m.ca), true},
		"DNS name by a partner":    {named(partner), false},
		"DNS name by CA between":   {named(nested), false},
		"subject by a CA of none":  {about(m.ca), true},
		"subject by a partner":     {about(partner), false},
		"URI by a partner":         {partner.client(t, "urn:acme:ap-host"), false},
		"DNS name by an odd CA":    {named(odd), false}, // its id is of no trust domain
		"an id by an odd CA":       {odd.client(t, "spiffe://partner.example/host"), false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := decideOn(ctx, m.grpcAs(t, c.pair)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// A SPIFFE id and a URI are what the certificate has, byte by byte, not what a
// library makes of it.
func TestURIsAsTheyAre(t *testing.T) {
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{
		uri("spiffe://acme.example/ap-host"): hostNamed("ap-host"), uri("https://acme.example/ap-host"): hostNamed("web"),
	})
	for text, ok := range map[string]bool{
		"spiffe://acme.example/ap-host":   true,
		"SPIFFE://acme.example/ap-host":   false,
		"Spiffe://acme.example/ap-host":   false,
		"spiffe://ACME.example/ap-host":   false,
		"spiffe://acme.example/ap-host#":  false,
		"spiffe://acme.example/ap-host?":  false,
		"spiffe://acme.example/ap-host/":  false,
		"spiffe://acme.example/./ap-host": false,
		"spiffe://acme.example/ap%2Dhost": false,
		"spiffe://@acme.example/ap-host":  false,
		"spiffe:acme.example/ap-host":     false,
		"https://acme.example/ap-host":    true,
		"HTTPS://acme.example/ap-host":    false,
		"https://acme.example/ap-host#":   false,
	} {
		pair := m.ca.issue(t, func(c *x509.Certificate) {
			value, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(text)}})
			if err != nil {
				t.Fatal(err)
			}
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: value}}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := decideOn(ctx, m.grpcAs(t, pair)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		cancel()
	}
}

// A certificate and a secret could be two callers': neither counts.
func TestCertificateAndSecret(t *testing.T) {
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{uri("spiffe://acme.example/ap-host"): hostNamed("ap-host")})
	pair := m.ca.client(t, "spiffe://acme.example/ap-host")
	for _, secret := range []string{m.host, m.operator, "invented", ""} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
		wantRefusal(t, decideOn(ctx, m.grpcAs(t, pair)), codes.Unauthenticated, server.ReasonUnauthenticated)
		r, err := m.postAs(t.Context(), m.httpAs(t, pair, false), "Authorization", "Bearer "+secret)
		if err != nil {
			t.Fatal(err)
		}
		r.wantRefused(t, 401, "unauthenticated", server.ReasonUnauthenticated)
	}
	// Without a certificate the secret counts, on this machine.
	if err := decideOn(as(t, m.host), m.grpcAs(t, tls.Certificate{})); err != nil {
		t.Error(err)
	}
	if strings.Contains(m.log.String(), m.host) {
		t.Error("the log holds a secret")
	}
}

// elsewhereConn is a connection whose other end is on another machine.
type elsewhereConn struct{ net.Conn }

func (elsewhereConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}
}

type elsewhereListener struct{ net.Listener }

func (l elsewhereListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return elsewhereConn{c}, nil
}

// From another machine secrets count for nothing, and certificates do.
func TestSecretsOnThisMachineOnly(t *testing.T) {
	ca := newAuthority(t, "root", nil)
	files := newTLSFiles(t, ca.server(t), ca)
	trusted, err := server.OpenTLS(files.config())
	if err != nil {
		t.Fatal(err)
	}
	k := knownAs(map[snapshot.Identity]*writ.Caller{uri("spiffe://acme.example/ap-host"): hostNamed("ap-host")})
	cfg := config(t, &decider{})
	cfg.TLS, cfg.Identities = trusted, k.now
	host := secret(t, cfg.Credentials.Dir(), server.HostFile)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.SetServing(true)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return elsewhereListener{l}
	}
	overGRPC, overHTTP := listen(), listen()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), overGRPC, overHTTP) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	m := &mutual{house: &house{address: overGRPC.Addr().String(), web: overHTTP.Addr().String()}, ca: ca}
	wantRefusal(t, decideOn(as(t, host), m.grpcAs(t, tls.Certificate{})), codes.Unauthenticated, server.ReasonUnauthenticated)
	r, err := m.postAs(t.Context(), m.httpAs(t, tls.Certificate{}, false), "Authorization", "Bearer "+host)
	if err != nil {
		t.Fatal(err)
	}
	r.wantRefused(t, 401, "unauthenticated", server.ReasonUnauthenticated)
	if err := decideOn(t.Context(), m.grpcAs(t, ca.client(t, "spiffe://acme.example/ap-host"))); err != nil {
		t.Error(err)
	}
}

// The bundle that is reloaded gives the certificate to another caller, or to
// nobody, at the next call of a live connection; and while there is none,
// nobody is let in.
func TestIdentitySwap(t *testing.T) {
	id := uri("spiffe://acme.example/ap-host")
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{id: hostNamed("first")})
	pair := m.ca.client(t, id.Name)
	conn, client := m.grpcAs(t, pair), m.httpAs(t, pair, true)
	both := func(want string) {
		t.Helper()
		before := len(m.decider.questions())
		r, err := m.postAs(t.Context(), client)
		if err = errors.Join(err, decideOn(t.Context(), conn)); err != nil || r.status != 200 {
			t.Fatalf("%d %v", r.status, err)
		}
		for _, q := range m.decider.questions()[before:] {
			if q.caller.Name != want {
				t.Errorf("the caller is %s, want %s", q.caller.Name, want)
			}
		}
	}
	both("first")
	m.known.Store(&map[snapshot.Identity]*writ.Caller{id: hostNamed("second")})
	both("second")
	for _, c := range []struct {
		now    map[snapshot.Identity]*writ.Caller
		code   codes.Code
		reason server.Reason
		http   int
		text   string
	}{
		{map[snapshot.Identity]*writ.Caller{}, codes.PermissionDenied, server.ReasonCallerUnknown, 403, "permission_denied"},
		{nil, codes.Unavailable, server.ReasonNotReady, 503, "unavailable"},
	} {
		m.known.Store(&c.now)
		wantRefusal(t, decideOn(t.Context(), conn), c.code, c.reason)
		r, err := m.postAs(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		r.wantRefused(t, c.http, c.text, c.reason)
	}
	m.known.Store(&map[snapshot.Identity]*writ.Caller{id: hostNamed("third")})
	both("third")
}

// A certificate that ends ends its connections' rights, not the connections.
func TestCertificateExpiresOnLiveConnection(t *testing.T) {
	id := uri("spiffe://acme.example/ap-host")
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{id: hostNamed("ap-host")})
	soon := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(3 * time.Second) }
	for name, issue := range map[string]func() tls.Certificate{
		"its own": func() tls.Certificate {
			return m.ca.issue(t, func(c *x509.Certificate) {
				c.URIs = parseURIs(t, id.Name)
				soon(c)
			})
		},
		"a CA's": func() tls.Certificate { return m.ca.sub(t, "short", soon).client(t, id.Name) },
	} {
		pair := issue()
		conn, client := m.grpcAs(t, pair), m.httpAs(t, pair, false)
		if err := decideOn(t.Context(), conn); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, err := m.postAs(t.Context(), client); err != nil || r.status != 200 {
			t.Fatalf("%s: %d %v", name, r.status, err)
		}
		deadline := time.Now().Add(30 * time.Second)
		err := decideOn(t.Context(), conn)
		for ; err == nil && time.Now().Before(deadline); err = decideOn(t.Context(), conn) {
			time.Sleep(20 * time.Millisecond)
		}
		wantRefusal(t, err, codes.Unauthenticated, server.ReasonCertificateExpired)
		r, err := m.postAs(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		r.wantRefused(t, 401, "unauthenticated", server.ReasonCertificateExpired)
	}
}
