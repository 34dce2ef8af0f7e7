package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// DefaultPrefix is where keys are when Config.Prefix is empty.
const DefaultPrefix = "/writ/"

// Config says how to reach the cluster.
type Config struct {
	// Endpoints are the members' client addresses: HOST:PORT, or a URL with
	// https:// or http:// and nothing after the port; all with the same scheme.
	// At least one is required; name all members, or what one of them can't be
	// asked for is asked of nobody.
	Endpoints []string
	// Prefix begins each key: it starts and ends with "/". Empty:
	// [DefaultPrefix]. One prefix is one source.
	Prefix string

	// TLS is for the connections, of TLS 1.3 at least. Nil: the system's roots
	// where endpoints say https://, and otherwise no TLS.
	TLS *tls.Config
	// Plaintext allows connections without TLS to other machines. Whoever can
	// change what is on that network writes the policies.
	Plaintext bool
	// Username and Password are of an etcd user; both empty: none (the common
	// name of a client certificate may be one, too).
	Username, Password string

	// RequestTimeout is how long one request may take before it counts as lost;
	// 0: 2 s. At least 50 ms.
	RequestTimeout time.Duration
	// Probe is how often a source asks etcd whether it is up to date; 0: 1 s.
	// At least 10 ms.
	Probe time.Duration

	Log *slog.Logger // nil: nothing is logged
}

// The defaults and the least of durations.
const (
	defaultRequest, leastRequest = 2 * time.Second, 50 * time.Millisecond
	defaultProbe, leastProbe     = time.Second, 10 * time.Millisecond
)

// maxPrefix is the greatest size of a prefix in bytes.
const maxPrefix = 256

// settled returns cfg with its defaults, and endpoints without schemes.
func (cfg Config) settled() (Config, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if err := checkPrefix(cfg.Prefix); err != nil {
		return cfg, err
	}
	cfg, err := cfg.withEndpoints()
	if err != nil {
		return cfg, err
	}
	if (cfg.Username == "") != (cfg.Password == "") {
		return cfg, errors.New("etcd: a user name and a password belong together: give both or neither")
	}
	for _, d := range []struct {
		name        string
		value       *time.Duration
		least, none time.Duration
	}{
		{"request timeout", &cfg.RequestTimeout, leastRequest, defaultRequest},
		{"probe interval", &cfg.Probe, leastProbe, defaultProbe},
	} {
		if *d.value == 0 {
			*d.value = d.none
		}
		if *d.value < d.least {
			return cfg, fmt.Errorf("etcd: the %s of %v is too short: at least %v", d.name, *d.value, d.least)
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}

func checkPrefix(prefix string) error {
	for _, c := range []byte(prefix) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("etcd: the prefix %q holds other characters than printable ASCII without spaces", prefix)
		}
	}
	if len(prefix) < 3 || len(prefix) > maxPrefix || prefix[0] != '/' || !strings.HasSuffix(prefix, "/") || strings.Contains(prefix, "//") {
		return fmt.Errorf("etcd: the prefix %q must start and end with / and have a name between, in at most %d bytes: /writ/", prefix, maxPrefix)
	}
	return nil
}

// withEndpoints checks the endpoints, takes their schemes away and sets TLS
// where they ask for it: the client would take the first one's scheme for all.
func (cfg Config) withEndpoints() (Config, error) {
	if len(cfg.Endpoints) == 0 {
		return cfg, errors.New("etcd: no endpoint is named: give the members' client addresses, such as 10.0.0.1:2379")
	}
	schemes := map[string]bool{}
	var hosts []string
	for _, endpoint := range cfg.Endpoints {
		scheme, host, ok := strings.Cut(endpoint, "://")
		if !ok {
			scheme, host = "", endpoint
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil || name == "" || port == "" || strings.ContainsAny(host, "/@?# ") || ok && scheme != "http" && scheme != "https" {
			return cfg, fmt.Errorf("etcd: the endpoint %q: write HOST:PORT, http://HOST:PORT or https://HOST:PORT", endpoint)
		}
		schemes[scheme] = true
		if !loopback(name) && !cfg.Plaintext && scheme != "https" && (scheme == "http" || cfg.TLS == nil) {
			return cfg, fmt.Errorf("etcd: the endpoint %q is on another machine and without TLS, so whoever is between could write policies: "+
				"use https:// with the cluster's CA (--etcd-ca), or allow plaintext where the network itself authenticates (--etcd-plaintext)", endpoint)
		}
		hosts = append(hosts, host)
	}
	switch {
	case len(schemes) > 1:
		return cfg, errors.New("etcd: write all endpoints with the same scheme")
	case schemes["http"] && cfg.TLS != nil:
		return cfg, errors.New("etcd: endpoints with http:// use no TLS, but certificates are given: write https://")
	case schemes["https"] && cfg.TLS == nil:
		cfg.TLS = &tls.Config{}
	}
	if cfg.TLS != nil {
		cfg.TLS = cfg.TLS.Clone()
		cfg.TLS.MinVersion = max(cfg.TLS.MinVersion, tls.VersionTLS13)
	}
	cfg.Endpoints = hosts
	return cfg, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Limits of the connection.
const (
	maxReceive = 256 << 20 // bytes of one answer
	// keepAlive is how often a connection without traffic is tried. Members cut
	// those off that do so more often than every 5 s, and gRPC does not go below
	// 10 s.
	keepAlive        = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// Client talks to the cluster: it pushes generations and lists them. A
// [Source] has one of its own. It is safe for concurrent use.
type Client struct {
	cfg     Config
	keys    keys
	etcd    *clientv3.Client
	contact *contact
}

// Dial makes a client. Without a user name it connects only when it is used.
func Dial(cfg Config) (*Client, error) {
	cfg, err := cfg.settled()
	if err != nil {
		return nil, err
	}
	var contact contact
	c, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints, TLS: cfg.TLS, Username: cfg.Username, Password: cfg.Password,
		DialTimeout: 2 * cfg.RequestTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallRecvMsgSize: maxReceive,
		DialOptions:        []grpc.DialOption{grpc.WithChainUnaryInterceptor(contact.attempt)},
		// This client's logger discards: what happens is told by this package.
		Logger: clientv3.NewCtxClient(context.Background()).GetLogger(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: connecting to %s: %w", strings.Join(cfg.Endpoints, ", "), explain(contact.because(err, &cfg)))
	}
	return &Client{cfg: cfg, keys: keys{cfg.Prefix}, etcd: c, contact: &contact}, nil
}

// Close ends the connections.
func (c *Client) Close() error {
	if err := c.etcd.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: closing: %w", err)
	}
	return nil
}
