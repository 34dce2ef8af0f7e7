package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// clientFlags say how a command shows a server who is asking.
type clientFlags struct {
	TLSCA   string `name:"tls-ca" help:"The CAs (PEM) of the server's certificate: asks over TLS." env:"WRIT_CLIENT_CA" placeholder:"FILE" group:"Who is asking"`
	TLSCert string `name:"tls-cert" help:"Your client certificate (PEM), in place of a secret. Asks over TLS." env:"WRIT_CLIENT_CERT" placeholder:"FILE" group:"Who is asking"`
	TLSKey  string `name:"tls-key" help:"Its key (PEM)." env:"WRIT_CLIENT_KEY" placeholder:"FILE" group:"Who is asking"`
	TLSName string `name:"tls-name" help:"The name in the server's certificate. Default: the host in its address." env:"WRIT_CLIENT_SERVER_NAME" placeholder:"NAME" group:"Who is asking"`
}

// client asks a server.
type client struct {
	conn   *grpc.ClientConn
	secret string // empty: the connection says who asks
}

// unixScheme begins the address of a Unix-domain socket.
const unixScheme = "unix:"

// dial connects to the server at addr: HOST:PORT, or unix:PATH. Who asks is
// said by the client certificate if there is one, at a socket by the user
// unless data is named, and else by the secret of this name in data, which is
// never sent to another machine.
func (f *clientFlags) dial(addr string, data *directory, name string) (*client, error) {
	socket := strings.HasPrefix(addr, unixScheme)
	config, err := f.tls()
	switch {
	case err != nil:
		return nil, err
	case socket && config != nil:
		return nil, usage("a Unix-domain socket has no TLS: leave the --tls flags out")
	case socket && data == nil:
		return connect(addr, insecure.NewCredentials(), "")
	}
	if config != nil && f.TLSCert != "" {
		return connect(addr, credentials.NewTLS(config), "")
	}
	if !socket {
		if err := onThisMachine(addr); err != nil {
			return nil, err
		}
	}
	dir, err := dataDir(data)
	if err != nil {
		return nil, err
	}
	secret, err := readSecret(filepath.Join(dir, "credentials"), name)
	if err != nil {
		return nil, err
	}
	if config != nil {
		return connect(addr, credentials.NewTLS(config), secret)
	}
	return connect(addr, insecure.NewCredentials(), secret)
}

// tls is nil where no flag asks for it.
func (f *clientFlags) tls() (*tls.Config, error) {
	if f.TLSCA == "" && f.TLSCert == "" && f.TLSKey == "" && f.TLSName == "" {
		return nil, nil
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return nil, usage("--tls-cert and --tls-key belong together: name both files")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: f.TLSName}
	if f.TLSCA != "" {
		text, err := os.ReadFile(f.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("reading the CAs of the server's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s holds no certificate in PEM", f.TLSCA)
		}
	}
	if f.TLSCert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
			if err != nil {
				return nil, fmt.Errorf("reading your client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		// Read again for each connection: a command that watches outlives a
		// certificate.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}

// dial connects to a server on this machine with one secret of the credentials
// directory: server.HostFile, server.ServerFile or server.OperatorFile.
func dial(addr, credentials, name string) (*client, error) {
	if err := onThisMachine(addr); err != nil {
		return nil, err
	}
	secret, err := readSecret(credentials, name)
	if err != nil {
		return nil, err
	}
	return connect(addr, insecure.NewCredentials(), secret)
}

// onThisMachine refuses an address to which no secret may go.
func onThisMachine(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the server's address %q is neither HOST:PORT nor unix:PATH: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not on this machine: the local secret is only sent over loopback, so show who you are with --tls-cert, --tls-key and --tls-ca", addr)
	}
	return nil
}

func readSecret(credentials, name string) (string, error) {
	secret, err := server.ReadSecret(credentials, name)
	if err != nil {
		return "", fmt.Errorf("the server's credentials (name its data directory with --data): %w", err)
	}
	return secret, nil
}

func connect(addr string, transport credentials.TransportCredentials, secret string) (*client, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(transport), grpc.WithUnaryInterceptor(tell), grpc.WithStreamInterceptor(tellStream))
	if err != nil {
		return nil, err
	}
	return &client{conn, secret}, nil
}

// as says in a call's context who asks, where the connection doesn't.
func (c *client) as(ctx context.Context) context.Context { return bearing(ctx, c.secret) }

func bearing(ctx context.Context, secret string) context.Context {
	if secret == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
}

// explain asks why a proposal is answered as it is, in the place of the caller
// named as; empty: the bundle's local host.
func (c *client) explain(ctx context.Context, p *writv1.Proposal, as string) (*writv1.ExplainResponse, error) {
	e, err := writv1.NewDecisionServiceClient(c.conn).Explain(c.as(ctx), &writv1.ExplainRequest{Proposal: p, Caller: as})
	if err != nil {
		return nil, fmt.Errorf("the server could not explain: %w", err)
	}
	return e, nil
}

func (c *client) close() error { return c.conn.Close() }

// decide sends one proposal.
func (c *client) decide(ctx context.Context, p *writv1.Proposal) (*writv1.DecideResponse, error) {
	r, err := writv1.NewDecisionServiceClient(c.conn).Decide(c.as(ctx), &writv1.DecideRequest{Proposal: p})
	if err != nil {
		return nil, fmt.Errorf("the server could not decide, which counts as DENY: %w", err)
	}
	if r.GetDecision() == nil {
		return nil, errors.New("the server sent no decision, which counts as DENY")
	}
	return r, nil
}

// redeem spends a grant, as the MCP server that got the call of this proposal.
func (c *client) redeem(ctx context.Context, p *writv1.Proposal, grant string) (*writv1.RedeemResponse, error) {
	attempt := make([]byte, 16)
	rand.Read(attempt)
	r, err := writv1.NewEnforcementServiceClient(c.conn).Redeem(c.as(ctx), &writv1.RedeemRequest{
		Grant: grant, Server: p.GetServer().GetId(), Tool: p.GetTool(), ArgumentsJson: p.GetArgumentsJson(), ExtraParamsJson: p.GetExtraParamsJson(),
		Principal: p.GetPrincipal(), RedemptionId: base64.RawURLEncoding.EncodeToString(attempt),
	})
	if err != nil {
		return nil, fmt.Errorf("the server could not redeem, which counts as DENY: %w", err)
	}
	return r, nil
}
