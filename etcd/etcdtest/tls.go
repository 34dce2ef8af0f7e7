package etcdtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority of a test. Its key is in memory only.
type CA struct {
	File string // its certificate, PEM

	t           testing.TB
	dir         string
	certificate *x509.Certificate
	key         crypto.Signer
}

// Pair is a certificate and its key.
type Pair struct{ Cert, Key string } // files, PEM

// NewCA makes a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir()}
	ca.certificate = &x509.Certificate{
		Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	ca.key, der = ca.sign(ca.certificate)
	var err error
	if ca.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.File = ca.write("ca.pem", "CERTIFICATE", der)
	return ca
}

// Server makes a member's certificate, for names or addresses.
func (ca *CA) Server(name string, hosts ...string) Pair {
	ca.t.Helper()
	return ca.server(name, time.Hour, hosts)
}

// Ended makes one that is no longer valid.
func (ca *CA) Ended(name string, hosts ...string) Pair {
	ca.t.Helper()
	return ca.server(name, -time.Hour, hosts)
}

func (ca *CA) server(name string, valid time.Duration, hosts []string) Pair {
	ca.t.Helper()
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotAfter: time.Now().Add(valid)}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return ca.issue(name, template)
}

// Client makes a client's certificate, which ends after a time, or has ended
// before now.
func (ca *CA) Client(name string, valid time.Duration) Pair {
	ca.t.Helper()
	return ca.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotAfter: time.Now().Add(valid)})
}

func (ca *CA) issue(name string, template *x509.Certificate) Pair {
	ca.t.Helper()
	template.Subject.CommonName, template.NotBefore, template.KeyUsage = name, time.Now().Add(-24*time.Hour), x509.KeyUsageDigitalSignature
	key, der := ca.sign(template)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return Pair{ca.write(name+".pem", "CERTIFICATE", der), ca.write(name+"-key.pem", "PRIVATE KEY", secret)}
}

// sign makes a key, and has the CA certify it; the CA's own it signs itself.
func (ca *CA) sign(template *x509.Certificate) (crypto.Signer, []byte) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	by := ca.key
	if by == nil {
		by = key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		ca.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), by)
	if err != nil {
		ca.t.Fatal(err)
	}
	return key, der
}

func (ca *CA) write(name, kind string, der []byte) string {
	ca.t.Helper()
	file := filepath.Join(ca.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
	return file
}

// Config is what a client with this certificate needs to reach members whose
// certificates are the CA's. The zero Pair: it shows none.
func (ca *CA) Config(p Pair) *tls.Config {
	ca.t.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(ca.certificate)
	if p != (Pair{}) {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			ca.t.Fatal(err)
		}
		// As cmd/pdp does: shown whoever the member says that it trusts.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}
