package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// connection is what the transport says of who is at the other end of one
// connection. It is made once, and read at each call. The zero value is
// nobody, elsewhere.
type connection struct {
	credentials.CommonAuthInfo
	nearby      bool               // on this machine: this start's secrets count
	user        *snapshot.Identity // at a Unix-domain socket; nil: not known
	certificate *clientCertificate // nil: none was shown
	pace        *pace              // at which it is read; nil: as it comes
}

// AuthType makes a connection what gRPC keeps of a handshake.
func (*connection) AuthType() string { return "writ" }

// newConnection says what is known of a connection but for TLS.
func newConnection(local, remote net.Addr) *connection {
	c := &connection{nearby: near(local) && near(remote)}
	c.SecurityLevel = credentials.NoSecurity
	if from, ok := remote.(*unixPeer); ok {
		c.user = &from.user
	}
	return c
}

// shown adds what a handshake has shown.
func (c *connection) shown(state tls.ConnectionState) {
	c.SecurityLevel = credentials.PrivacyAndIntegrity
	if len(state.PeerCertificates) > 0 {
		c.certificate = &clientCertificate{chain: state.PeerCertificates}
	}
}

// near reports whether an address can be of this machine alone.
func near(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr, *unixPeer:
		return true
	case net.Addr:
		return a.Network() == "bufconn" // within this process
	}
	return false
}

// doorkeeper makes the connections of the gRPC door: with TLS, where it is
// configured, but for Unix-domain sockets, which the kernel vouches for.
type doorkeeper struct {
	tls   credentials.TransportCredentials // nil: plain text
	paces *paces
}

func (d *doorkeeper) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := newConnection(raw.LocalAddr(), raw.RemoteAddr())
	c.pace = d.paces.pace()
	if _, local := raw.LocalAddr().(*net.UnixAddr); local || d.tls == nil {
		return &pacedConn{Conn: raw, pace: c.pace}, c, nil
	}
	conn, info, err := d.tls.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok {
		_ = conn.Close() // the error below counts
		return nil, nil, errNotTLS
	}
	c.shown(state.State)
	return &pacedConn{Conn: conn, pace: c.pace}, c, nil
}

func (d *doorkeeper) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errServerOnly
}

func (d *doorkeeper) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "writ"}
}
func (d *doorkeeper) Clone() credentials.TransportCredentials { return &doorkeeper{d.tls, d.paces} }
func (d *doorkeeper) OverrideServerName(string) error         { return errServerOnly }

// connectionOf returns who is at the other end of the call's connection.
func connectionOf(ctx context.Context) *connection {
	if c, ok := ctx.Value(httpCallKey{}).(*httpCall); ok {
		return c.from
	}
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*connection); ok {
			return c
		}
	}
	return &connection{}
}

// greet judges the certificate that a client shows in its handshake, so that
// nothing of a connection whose calls would all be refused is read. It is
// judged again at each call.
func (s *Server) greet(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil // then health is all it has, or the secrets on this machine
	}
	names, refused := (&clientCertificate{chain: state.PeerCertificates}).identities(s.tls.trusted(), time.Now())
	if refused == nil {
		refused = s.foreignDomain(names)
	}
	if refused == nil {
		return nil
	}
	if silent, due := s.handshakes.due(refused.reason); due {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "handshakes refused",
			slog.String("reason", string(refused.reason)), slog.String("message", refused.message), slog.Int("not_logged_before", silent))
	}
	return refused
}

// foreignDomain refuses a SPIFFE id of a trust domain in which the bundle in
// force knows nobody.
func (s *Server) foreignDomain(names []snapshot.Identity) *refusal {
	domain := names[0].TrustDomain()
	known := s.known()
	if domain == "" || known == nil {
		return nil
	}
	for id := range known {
		if id.TrustDomain() == domain {
			return nil
		}
	}
	return refuse(ReasonCertificateRefused, "the client certificate's SPIFFE id is of a trust domain in which callers.yaml has no caller")
}

// known are the identities of the bundle in force; nil: there is none.
func (s *Server) known() map[snapshot.Identity]*writ.Caller {
	if s.identities == nil {
		return nil
	}
	return s.identities()
}

// authenticate says which caller a call's one credential stands for: its
// connection's client certificate, else a bearer secret of this start, which
// counts on this machine only, else its user at the Unix-domain socket.
func (s *Server) authenticate(ctx context.Context) (*writ.Caller, *refusal) {
	from := connectionOf(ctx)
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	switch {
	case from.certificate != nil:
		if len(headers) > 0 {
			return nil, refuse(ReasonUnauthenticated, "the call has a client certificate and an authorization header: send one of them, so that it is clear who calls")
		}
		names, refused := from.certificate.identities(s.tls.trusted(), time.Now())
		if refused != nil {
			return nil, refused
		}
		return s.named(ctx, names)
	case !from.nearby:
		return nil, refuse(ReasonUnauthenticated,
			"a call from another machine needs a client certificate, of a CA in the server's trust bundle, that callers.yaml names: secrets count on the server's machine only")
	case len(headers) == 0 && from.user != nil:
		return s.named(ctx, []snapshot.Identity{*from.user})
	}
	var caller *writ.Caller
	switch s.credentials.match(bearer(headers)) {
	case HostFile:
		caller = s.localHost()
	case ServerFile:
		caller = s.localServer()
	case OperatorFile:
		caller = s.localOperator()
	default:
		return nil, refuse(ReasonUnauthenticated,
			`send the metadata "authorization: Bearer SECRET", with the secret from the file host, server or operator of the server's credentials directory`)
	}
	if caller != nil {
		return caller, nil
	}
	if !s.serving.Load() {
		return nil, s.notReady()
	}
	return nil, refuse(ReasonCallerUnknown, "there is no bundle in force, which GET /readyz tells, or it has no local caller for this secret: then add one to callers.yaml")
}

// named finds the one caller of these names, all in the bundle in force now.
func (s *Server) named(ctx context.Context, names []snapshot.Identity) (*writ.Caller, *refusal) {
	known := s.known()
	if known == nil {
		return nil, s.notReady()
	}
	var caller *writ.Caller
	for _, name := range names {
		switch c := known[name]; {
		case c == nil || c == caller:
		case caller != nil:
			s.unnamed(ctx, ReasonCertificateShared, names)
			return nil, refuse(ReasonCertificateShared, "the client certificate names more than one caller of callers.yaml: use a certificate for each")
		default:
			caller = c
		}
	}
	if caller == nil {
		s.unnamed(ctx, ReasonCallerUnknown, names)
		return nil, refuse(ReasonCallerUnknown, "callers.yaml names nobody who has this client certificate, or is this user: add the caller with mtls, subject or unix; the server's log says with which name")
	}
	return caller, nil
}

// unnamed logs which names are nobody's, for those who write callers.yaml. The
// kernel or a trusted CA vouches for them: they are no stranger's text.
func (s *Server) unnamed(ctx context.Context, reason Reason, names []snapshot.Identity) {
	if silent, due := s.handshakes.due(reason); due {
		texts := make([]string, len(names))
		for i, name := range names {
			texts[i] = name.String()
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "no caller has these names, or several have",
			slog.String("reason", string(reason)), slog.Any("names", texts), slog.Int("not_logged_before", silent))
	}
}
