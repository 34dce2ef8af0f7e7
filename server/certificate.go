package server

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ/snapshot"
)

// subjectAltName is the extension that holds a certificate's names, and uriName
// the tag of a URI there (RFC 5280, section 4.2.1.6).
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

const uriName = 6

// maxNames is how many names a client certificate may have.
const maxNames = 64

// clientCertificate is what the client of one connection has shown, and how
// it was judged last.
type clientCertificate struct {
	chain []*x509.Certificate // as it was sent: its own first; at least that

	verdict atomic.Pointer[verdict]
}

// verdict is of one trust bundle, and of the times from and until between
// which nothing in it changes.
type verdict struct {
	trust       *trust
	from, until time.Time
	names       []snapshot.Identity // by which it may be known; nil: refused
	refused     *refusal
}

// recheck is how long a certificate that was refused stays so: it costs
// strangers nothing to ask again.
const recheck = time.Second

// identities returns what the certificate says of its holder, or why it counts
// for nothing now. It is judged again whenever the trust bundle has changed or
// something in the chain has begun or ceased to be valid.
func (c *clientCertificate) identities(t *trust, now time.Time) ([]snapshot.Identity, *refusal) {
	v := c.verdict.Load()
	if v == nil || v.trust != t || now.Before(v.from) || now.After(v.until) {
		v = judge(c.chain, t, now)
		c.verdict.Store(v)
	}
	return v.names, v.refused
}

func judge(chain []*x509.Certificate, t *trust, now time.Time) *verdict {
	v := &verdict{trust: t, from: now, until: now.Add(recheck)}
	names, err := namesOf(chain[0])
	if err != nil {
		v.refused = refuse(ReasonCertificateRefused, "the client certificate cannot be used: "+err.Error())
		return v
	}
	if v.from, v.until, v.refused = t.verify(chain, names[0].TrustDomain(), now); v.refused != nil {
		v.from, v.until = now, now.Add(recheck)
		return v
	}
	v.names = names
	return v
}

// verify builds a chain to a CA of the bundle, and returns between which times
// it holds.
func (t *trust) verify(chain []*x509.Certificate, domain string, now time.Time) (from, until time.Time, _ *refusal) {
	if t == nil {
		return from, until, refuse(ReasonCertificateRefused, "no client certificate is taken here")
	}
	leaf := chain[0]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	switch {
	case leaf.IsCA:
		return from, until, refuse(ReasonCertificateRefused, "the client certificate is a CA's: use one that was issued to the caller")
	case now.After(leaf.NotAfter):
		return from, until, refuse(ReasonCertificateExpired, "the client certificate has expired: connect again with a new one")
	case now.Before(leaf.NotBefore):
		return from, until, refuse(ReasonCertificateRefused, "the client certificate is not valid yet: is the clock right, here and where it was issued?")
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: t.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return from, until, refusedChain(err)
	}
	foreign := true
	for _, path := range chains {
		if slices.ContainsFunc(path[1:], func(ca *x509.Certificate) bool { return !speaksFor(ca, domain) }) {
			continue
		}
		foreign = false
		begin, end := path[0].NotBefore, path[0].NotAfter
		for _, c := range path[1:] {
			if c.NotBefore.After(begin) {
				begin = c.NotBefore
			}
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			from, until = begin, end
		}
	}
	if foreign {
		return from, until, refuse(ReasonCertificateRefused, "a CA of the client certificate speaks for one trust domain alone, and the certificate has no SPIFFE id of it")
	}
	return from, until, nil
}

// speaksFor reports whether a CA may vouch for SPIFFE ids of a trust domain, or
// for other names where domain is empty. One that names its own domain speaks
// for its ids alone (X509-SVID, section 3.1): it may be a partner's, who would
// otherwise be whomever callers.yaml knows by a DNS name or a subject.
func speaksFor(ca *x509.Certificate, domain string) bool {
	for _, u := range ca.URIs {
		if strings.EqualFold(u.Scheme, "spiffe") && (u.Host == "" || u.Host != domain) {
			return false
		}
	}
	return true
}

// refusedChain says why no chain was found, in words of our own: the error
// quotes what a stranger has sent.
func refusedChain(err error) *refusal {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch invalid.Reason {
		case x509.Expired:
			return refuse(ReasonCertificateExpired, "a CA of the client certificate has expired, or is not valid yet: get a new certificate")
		case x509.IncompatibleUsage:
			return refuse(ReasonCertificateRefused, "the client certificate is not for clients: its extended key usage lacks clientAuth")
		default:
			return refuse(ReasonCertificateRefused, "the client certificate breaks a constraint of its CAs")
		}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return refuse(ReasonCertificateRefused, "no CA that this server trusts now has issued the client certificate: send those between with it, or have its root added to the server's trust bundle")
	}
	return refuse(ReasonCertificateRefused, "the client certificate cannot be verified")
}

// namesOf returns by what the holder of a certificate may be known, at least
// one. A SPIFFE id counts alone (X509-SVID, sections 2 and 5.2); otherwise the
// URIs, the DNS names and the subject all count.
func namesOf(leaf *x509.Certificate) ([]snapshot.Identity, error) {
	if len(leaf.URIs)+len(leaf.DNSNames) > maxNames {
		return nil, fmt.Errorf("it has more than %d names", maxNames)
	}
	uris, err := urisOf(leaf)
	if err != nil {
		return nil, err
	}
	var names []snapshot.Identity
	for _, text := range uris {
		id := snapshot.Identity{Kind: snapshot.IdentityURI, Name: text}
		if scheme, _, _ := strings.Cut(text, ":"); strings.EqualFold(scheme, "spiffe") {
			switch {
			case len(uris) > 1:
				return nil, errors.New("it has a SPIFFE id and another URI: an X.509-SVID has exactly one")
			case id.TrustDomain() == "":
				return nil, errors.New("its SPIFFE id is none: that is spiffe://TRUST-DOMAIN/PATH, in this one form")
			}
			return []snapshot.Identity{id}, nil
		}
		names = append(names, id)
	}
	for _, name := range leaf.DNSNames {
		names = append(names, snapshot.Identity{Kind: snapshot.IdentityDNS, Name: strings.ToLower(name)})
	}
	subject, err := subjectOf(leaf)
	if err != nil {
		return nil, err
	}
	if subject != "" {
		names = append(names, snapshot.Identity{Kind: snapshot.IdentitySubject, Name: subject})
	}
	if len(names) == 0 {
		return nil, errors.New("it names nobody: it has no URI, no DNS name and no subject")
	}
	return names, nil
}

// urisOf reads the URIs from what was signed: url.URL has forgotten how a scheme
// was written, and whether an empty fragment followed.
func urisOf(leaf *x509.Certificate) ([]string, error) {
	var out []string
	for _, extension := range leaf.Extensions {
		if !extension.Id.Equal(subjectAltName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return nil, errors.New("its subject alternative names can't be read")
		}
		for _, name := range names {
			if name.Class == asn1.ClassContextSpecific && name.Tag == uriName {
				out = append(out, string(name.Bytes))
			}
		}
	}
	if len(out) != len(leaf.URIs) {
		return nil, errors.New("its URIs can't be read")
	}
	return out, nil
}

// subjectOf writes the subject from what was signed: pkix.Name keeps one
// common name of several.
func subjectOf(leaf *x509.Certificate) (string, error) {
	var subject pkix.RDNSequence
	if rest, err := asn1.Unmarshal(leaf.RawSubject, &subject); err != nil || len(rest) > 0 {
		return "", errors.New("its subject can't be read")
	}
	for _, set := range subject {
		for _, attribute := range set {
			if _, ok := attribute.Value.(string); !ok {
				return "", errors.New("its subject holds something that is no text")
			}
		}
	}
	return subject.String(), nil
}
