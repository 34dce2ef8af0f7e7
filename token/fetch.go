package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// fetchTimeout bounds one fetch of an issuer's keys, whole.
const fetchTimeout = 5 * time.Second

// fetcher fetches key sets: from the host of the URL alone, without redirects,
// cookies or proxies.
type fetcher struct{ public, private *http.Client }

func newFetcher() fetcher {
	return fetcher{public: client(refusePrivate), private: client(nil)}
}

func client(control func(network, address string, c syscall.RawConn) error) *http.Client {
	dialer := &net.Dialer{Timeout: fetchTimeout, Control: control}
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, TLSHandshakeTimeout: fetchTimeout, ResponseHeaderTimeout: fetchTimeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects: write the URL that answers")
		},
	}
}

// refusePrivate is asked with the address that a name has been resolved to, so
// a name can't lead inside.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("an address that can't be read: %w", err)
	}
	ip := at.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || special(ip) {
		return errors.New("the address is private: set allow_private_addresses for the issuer if that is meant")
	}
	return nil
}

// special reports addresses that are global in form and not in meaning: IPv4
// of shared, benchmark and reserved networks, and IPv6 that wraps IPv4 (RFC
// 6890).
func special(ip netip.Addr) bool {
	for _, prefix := range [...]string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2001:db8::/32", "2002::/16"} {
		if netip.MustParsePrefix(prefix).Contains(ip) {
			return true
		}
	}
	return false
}

// fetch gets the keys behind a URL.
func (f fetcher) fetch(ctx context.Context, url string, private bool) (*Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	client := f.public
	if private {
		client = f.private
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, MaxKeySet+1))
	if err != nil {
		return nil, err
	}
	return ParseKeys(data)
}
