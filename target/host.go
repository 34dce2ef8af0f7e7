package target

import (
	"errors"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Limits of a host name (RFC 1035, section 2.3.4; without the trailing dot).
const (
	MaxHostBytes  = 253
	MaxLabelBytes = 63
)

// maxHostInput bounds the work on a name in Unicode: 253 bytes of A-labels
// hold fewer than 253 characters of at most 4 bytes.
const maxHostInput = 1024

// Host is a host name or IP address in normal form. The zero Host names
// nothing.
type Host struct {
	// Text is a name of lower-case letter-digit-hyphen labels (RFC 5890,
	// section 2.3.1: A-labels and NR-LDH labels) without a trailing dot, an
	// IPv4 address in dotted decimal, or an IPv6 address as RFC 5952 writes it,
	// without brackets.
	Text string
	// IP says that Text is an address.
	IP bool
}

// NewHost returns text in normal form: lower-case ASCII, a Unicode name as
// its A-labels, one trailing dot of a name stripped.
//
// Names follow RFC 952 and RFC 1123 (letters, digits, hyphens) and, beyond
// ASCII, IDNA2008 without mapping (see profile). Underscores are refused: names of
// hosts have none, and name services and TLS libraries differ on them. A name
// whose last label is a number, decimal or 0x-hexadecimal, is refused unless
// it is an IPv4 address in its one canonical form, since many parsers read
// 127.1, 0177.0.0.1, 0x7f.1 and 2130706433 as addresses (WHATWG URL,
// "ends in a number"); 1.2.3.4. is such a name as well.
//
// IPv6 addresses stand without brackets and zone. Those that stand for an
// IPv4 address (mapped, compatible, translated and NAT64) are refused: a rule
// about the IPv4 address would not see them.
func NewHost(text string) (Host, error) {
	switch {
	case text == "":
		return Host{}, errors.New("the host is empty")
	case len(text) > maxHostInput:
		return Host{}, errors.New("the host name is longer than 253 bytes")
	case !utf8.ValidString(text):
		return Host{}, errors.New("the host is not valid UTF-8")
	case strings.Contains(text, "@"):
		return Host{}, errors.New("the host holds user information: leave out everything up to the @")
	case strings.ContainsAny(text, "[]"):
		return Host{}, errors.New("the host holds brackets: write an IPv6 address without them, except in a URL")
	case strings.Contains(text, ":"):
		return newIPv6(text)
	}

	name, err := asciiName(strings.TrimSuffix(text, "."))
	if err != nil {
		return Host{}, err
	}
	if err := checkName(name); err != nil {
		return Host{}, err
	}
	if endsInNumber(name) {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() {
			return Host{}, errors.New("the host ends in a number but is not a canonical IPv4 address: write four decimal numbers from 0 to 255, without leading zeros or a trailing dot")
		}
		return Host{Text: addr.String(), IP: true}, nil
	}
	return Host{Text: name}, nil
}

// newIPv6 reads an IPv6 address without brackets.
func newIPv6(text string) (Host, error) {
	if strings.Contains(text, "%") {
		return Host{}, errors.New("the IPv6 address has a zone, which means something on one machine only: leave it out")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return Host{}, errors.New("the host is not an IPv6 address, and a name holds no colon: a port belongs to a URL")
	}
	if standsForIPv4(addr) {
		return Host{}, errors.New("the IPv6 address stands for an IPv4 address: write the IPv4 address")
	}
	return Host{Text: addr.String(), IP: true}, nil
}

// standsForIPv4 reports whether an IPv6 address is another spelling of an
// IPv4 address.
func standsForIPv4(addr netip.Addr) bool {
	if addr == netip.IPv6Unspecified() || addr == netip.IPv6Loopback() {
		return false
	}
	for _, p := range &ipv4InIPv6 {
		if p.Contains(addr) {
			return true
		}
	}
	return addr.Is4In6() // IPv4-mapped: RFC 4291, section 2.5.5.2
}

// ipv4InIPv6 are the prefixes, beside the IPv4-mapped one, under which an IPv6
// address carries an IPv4 address that hosts or translators send it on to.
var ipv4InIPv6 = [...]netip.Prefix{
	netip.MustParsePrefix("::/96"),           // IPv4-compatible: RFC 4291, section 2.5.5.1 (:: and ::1 lie here too)
	netip.MustParsePrefix("::ffff:0:0:0/96"), // IPv4-translated: RFC 2765, section 2.1
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64: RFC 6052, section 2.1
	netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64 in local use: RFC 8215
}

// checkName holds an ASCII name without its trailing dot to RFC 1123, section
// 2.1, and the limits of RFC 1035.
func checkName(name string) error {
	if len(name) > MaxHostBytes {
		return errors.New("the host name is longer than 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("the host name has an empty label: dots stand between labels only")
		case len(label) > MaxLabelBytes:
			return errors.New("the host name has a label longer than 63 bytes")
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("the host name has a label that starts or ends with a hyphen")
		}
		for i := 0; i < len(label); i++ {
			switch b := label[i]; {
			case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '-':
			case b == '_':
				return errors.New("the host name holds an underscore: names of hosts are letters, digits and hyphens")
			case b == '%':
				return errors.New("the host name holds a percent sign: write it unencoded and without a zone")
			default:
				return errors.New("the host name holds a character that names of hosts do not have: letters, digits, hyphens and dots only")
			}
		}
	}
	return nil
}

// endsInNumber reports whether the last label of a checked name is one that
// parsers of IPv4 addresses read as a number.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits, hex := last, false
	if strings.HasPrefix(last, "0x") {
		digits, hex = last[2:], true
	}
	for i := 0; i < len(digits); i++ {
		if b := digits[i]; (b < '0' || b > '9') && (!hex || b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

// Ancestors returns the domains above a name, the nearest first: b.example
// and example for a.b.example. An address has none.
func (h Host) Ancestors() []string {
	n := strings.Count(h.Text, ".")
	if h.IP || n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	for rest := h.Text; ; {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			return out
		}
		rest = rest[i+1:]
		out = append(out, rest)
	}
}
