package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ/snapshot"
)

type testcertsCmd struct {
	Dir     string   `arg:"" help:"Directory for the files, made where it is missing. It must hold none of these names."`
	Callers []string `arg:"" help:"Names of callers: each gets a client certificate with the SPIFFE id spiffe://DOMAIN/NAME."`

	Domain string        `help:"Trust domain of the SPIFFE ids." default:"writ.test"`
	Host   []string      `help:"Further DNS names or IP addresses of the server; it has localhost, 127.0.0.1 and ::1. May be repeated." placeholder:"NAME"`
	Valid  time.Duration `help:"How long the certificates are valid: a day at most." default:"24h"`
}

func (*testcertsCmd) Help() string {
	return `For tests only: the certificates of a real server and of real callers come from
your own CA, or from SPIRE.

Makes a CA, whose key is not kept, and with it
  DIR/ca.pem                         the CA: --tls-client-ca of serve, --tls-ca of clients
  DIR/server.pem, server-key.pem     --tls-cert and --tls-key of serve
  DIR/NAME.pem, NAME-key.pem         --tls-cert and --tls-key of each caller`
}

// testName marks everything that the command makes.
const testName = "Writ tests only"

func (k *testcertsCmd) Run(c *console) error {
	if k.Valid <= 0 || k.Valid > 24*time.Hour {
		return usage("--valid is more than 0 and at most 24h: these certificates are for tests")
	}
	seen := map[string]bool{"ca": true, "CA": true, "server": true}
	for _, name := range k.Callers {
		if seen[name] {
			return usage(fmt.Sprintf("the name %q is taken: give each caller another", name))
		}
		seen[name] = true
		if id, err := snapshot.ParseName(k.id(name)); err != nil || id.TrustDomain() != k.Domain || filepath.Base(name) != name {
			return usage(fmt.Sprintf("%s is no SPIFFE id: domain and names are of letters, digits, dots, hyphens and underscores", k.id(name)))
		}
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	ca, err := newTestCA(k.Valid)
	if err != nil {
		return err
	}
	if err := k.write("ca.pem", "CERTIFICATE", ca.certificate.Raw, 0o644); err != nil {
		return err
	}
	server := &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range k.Host {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	if err := k.issue(ca, "server", server); err != nil {
		return err
	}
	for _, name := range k.Callers {
		id, err := url.Parse(k.id(name))
		if err != nil {
			return err
		}
		if err := k.issue(ca, name, &x509.Certificate{URIs: []*url.URL{id}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.out, "%s  %s\n", filepath.Join(k.Dir, name+".pem"), id); err != nil {
			return err
		}
	}
	return nil
}

func (k *testcertsCmd) id(name string) string { return "spiffe://" + k.Domain + "/" + name }

// issue makes a key and a certificate and writes both.
func (k *testcertsCmd) issue(ca *testCA, name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage, template.Subject.CommonName = x509.KeyUsageDigitalSignature, name
	certificate, err := ca.sign(template, key.Public())
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := k.write(name+"-key.pem", "PRIVATE KEY", secret, 0o600); err != nil {
		return err
	}
	return k.write(name+".pem", "CERTIFICATE", certificate.Raw, 0o644)
}

// write makes a new file: nobody's own certificates are overwritten.
func (k *testcertsCmd) write(name, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(filepath.Join(k.Dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if os.IsExist(err) {
		return fmt.Errorf("there is a %s already: name an empty directory: %w", name, err)
	}
	if err != nil {
		return err
	}
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

// testCA is a CA whose key is only in memory.
type testCA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	from, until time.Time
}

func newTestCA(valid time.Duration) (*testCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &testCA{key: key, from: now.Add(-time.Minute), until: now.Add(valid)}
	// It has another name than what it signs: OpenSSL takes those for self-signed
	// that have their issuer's name.
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca.certificate = template // it signs itself
	ca.certificate, err = ca.sign(template, key.Public())
	return ca, err
}

func (ca *testCA) sign(template *x509.Certificate, key crypto.PublicKey) (*x509.Certificate, error) {
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	template.Subject.Organization = []string{testName}
	template.NotBefore, template.NotAfter = ca.from, ca.until
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key, ca.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
