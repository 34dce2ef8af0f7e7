package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often the files are looked at.
	lookEvery = time.Second
	// lookAtMost is how often handshakes may have them looked at.
	lookAtMost = 100 * time.Millisecond
)

// TLSConfig names the files that a server shows and trusts, all PEM
// (RFC 7468). They may be replaced while it runs.
type TLSConfig struct {
	// CertFile is the server's certificate, the CAs between it and the root
	// after it, and KeyFile its key, which others must not be able to write to.
	// Both are required.
	CertFile, KeyFile string
	// ClientCAFile is the trust bundle: the certificates of the CAs whose client
	// certificates are taken. Empty: client certificates are not asked for, and
	// other machines cannot be served.
	ClientCAFile string
	// Log receives what happens to the files; nil: nobody.
	Log *slog.Logger
}

// TLS holds what the files said the last time that they were good. The key
// pair and the trust bundle are apart: a fault in one does not keep the other
// from being renewed. Make one with [OpenTLS]; [TLS.Run] looks at the files.
type TLS struct {
	log  *slog.Logger
	pair *reread[tls.Certificate]
	ca   *reread[trust] // nil: client certificates are not asked for

	looking sync.Mutex   // held by who looks at the files
	looked  atomic.Int64 // when that was last, as Unix nanoseconds
}

// OpenTLS reads the files. A fault in them is an error that says what to do.
func OpenTLS(cfg TLSConfig) (*TLS, error) {
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, errors.New("server: TLS needs a certificate and its key: name both files")
	}
	t := &TLS{log: cfg.Log}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.pair = &reread[tls.Certificate]{
		what: "the server's certificate and key", files: []string{cfg.CertFile, cfg.KeyFile}, log: t.log,
		parse: func(texts [][]byte, now time.Time) (*tls.Certificate, error) { return parsePair(cfg, texts, now) },
		check: func(path string, mode os.FileMode) error {
			if path == cfg.KeyFile {
				return ownKey(path, mode)
			}
			return notWritable(path, mode)
		},
	}
	now := time.Now()
	if err := t.pair.first(now); err != nil {
		return nil, err
	}
	if info, err := os.Stat(cfg.KeyFile); err == nil && info.Mode().Perm()&0o044 != 0 && runtime.GOOS != "windows" {
		t.log.Warn("others may read the key file: chmod 600 it", "file", cfg.KeyFile, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	if cfg.ClientCAFile != "" {
		t.ca = &reread[trust]{
			what: "the CAs of client certificates", files: []string{cfg.ClientCAFile}, log: t.log, check: notWritable,
			parse: func(texts [][]byte, _ time.Time) (*trust, error) { return parseTrust(cfg.ClientCAFile, texts[0]) },
		}
		if err := t.ca.first(now); err != nil {
			return nil, err
		}
	}
	t.looked.Store(now.UnixNano())
	return t, nil
}

// Run looks at the files every second until ctx ends.
func (t *TLS) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			t.look(lookAtMost)
		}
	}
}

// look looks at the files, unless somebody does or has just done so.
func (t *TLS) look(atMost time.Duration) {
	if !t.looking.TryLock() {
		return
	}
	defer t.looking.Unlock()
	now := time.Now()
	if since := now.UnixNano() - t.looked.Load(); since >= 0 && since < int64(atMost) {
		return
	}
	t.looked.Store(now.UnixNano())
	t.pair.again(now)
	if t.ca != nil {
		t.ca.again(now)
	}
}

// Troubles says what people should know of the files, for /readyz.
func (t *TLS) Troubles() []Trouble {
	var out []Trouble
	told := t.pair.trouble()
	if told == nil {
		if until := t.pair.good.Load().Leaf.NotAfter; time.Now().After(until) {
			told = &Trouble{Part: "tls", Since: until, Message: "the server's certificate has expired, so no client takes it: put a new one and its key in place, which needs no restart"}
		}
	}
	if told != nil {
		out = append(out, *told)
	}
	if t.ca != nil {
		if told := t.ca.trouble(); told != nil {
			out = append(out, *told)
		}
	}
	return out
}

// trusted is the trust bundle in force; nil: no client certificate is taken.
func (t *TLS) trusted() *trust {
	if t == nil || t.ca == nil {
		return nil
	}
	return t.ca.good.Load()
}

// config is for one door. verify judges each client certificate, and each
// handshake without one, before the connection is made.
//
// crypto/tls checks by itself that the client has the certificate's key
// (RFC 8446, section 4.4.3), and no chain: it would do so against CAs that
// can't be replaced. A session is never resumed, so that each connection has
// shown its certificate to the CAs of its time.
func (t *TLS) config(verify func(tls.ConnectionState) error) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			t.look(lookAtMost)
			return t.pair.good.Load(), nil
		},
		VerifyConnection:       verify,
		SessionTicketsDisabled: true,
	}
	if t.ca != nil {
		c.ClientAuth = tls.RequestClientCert
	}
	return c
}

func parsePair(cfg TLSConfig, texts [][]byte, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate with its key, in PEM and not encrypted: %w", cfg.CertFile, cfg.KeyFile, err)
	}
	leaf := pair.Leaf
	server := len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0
	for _, usage := range leaf.ExtKeyUsage {
		server = server || usage == x509.ExtKeyUsageServerAuth || usage == x509.ExtKeyUsageAny
	}
	switch {
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("the certificate in %s expired at %s: renew it", cfg.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("the certificate in %s is not valid before %s: is this machine's clock right?", cfg.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	case !server:
		return nil, fmt.Errorf("the certificate in %s is not for servers: its extended key usage lacks serverAuth", cfg.CertFile)
	}
	return &pair, nil
}

// trust is one trust bundle. A connection remembers under which it was judged.
type trust struct{ roots *x509.CertPool }

// parseTrust reads a trust bundle. It leaves nothing out in silence: a bundle
// that is cut off would shut callers out, and a certificate that is no CA's
// would be taken as if it had been issued.
func parseTrust(file string, text []byte) (*trust, error) {
	t := &trust{roots: x509.NewCertPool()}
	found := 0
	for rest := text; ; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s holds a %s: a trust bundle has certificates of CAs and nothing else", file, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of %s: %w", found+1, file, err)
		}
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, fmt.Errorf("certificate %d of %s is no CA's: put the CA that issued it in its place", found+1, file)
		}
		t.roots.AddCert(c)
	}
	switch {
	case found == 0:
		return nil, fmt.Errorf("%s holds no certificate in PEM: it must have those of the CAs of the callers' certificates", file)
	case bytes.Count(text, []byte("-----BEGIN ")) != found:
		return nil, fmt.Errorf("%s has something in it that is cut off or no PEM, beside %d certificates", file, found)
	}
	return t, nil
}
