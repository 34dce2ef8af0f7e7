package target

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxURLBytes limits a URL, as given and in normal form (RFC 9110, section
// 4.1, asks for 8000 at least).
const MaxURLBytes = 8192

// URL is an absolute URL with a host, in normal form. The zero URL names
// nothing.
type URL struct {
	// Text is scheme://host[:port]/path[?query] (RFC 3986), the port only
	// where it is not the scheme's default, an IPv6 address in brackets.
	Text   string
	Scheme string // lower case
	Host   Host
	Port   int // 1 to 65535; the scheme's default where the URL has none
	// Path starts with a slash, percent-encoded as in Text.
	Path string
}

// NewURL returns text in normal form (RFC 3986, section 6.2.2): scheme and
// host in lower case, the default port left out, an empty path written "/",
// upper-case hexadecimal digits, percent-encoded letters, digits, "-", "_" and
// "~" decoded, and what RFC 3986 does not allow in a path or query (such as
// Unicode or a bracket) percent-encoded as UTF-8. Percent-encoded delimiters
// stay as they are, since RFC 3986 tells them from plain ones.
//
// Refused, because RFC 3986, WHATWG URL and real parsers take them to
// different places: a scheme beyond [defaultPort], a URL without "//" and a
// host, relative and opaque ones, user information, fragments, backslashes,
// control and space characters anywhere (WHATWG strips some), dot segments,
// also with a ";" parameter, percent-encoded dots, slashes, backslashes and
// control characters in the path, a broken percent-encoding, an empty query
// or port, ports with leading zeros, and whatever [NewHost] refuses.
func NewURL(text string) (URL, error) {
	if err := checkURLText(text); err != nil {
		return URL{}, err
	}
	scheme, rest, err := cutScheme(text)
	if err != nil {
		return URL{}, err
	}
	authority, rest := cutAuthority(rest)
	u := URL{Scheme: scheme, Port: defaultPort[scheme]}
	if u.Host, u.Port, err = splitAuthority(authority, u.Port); err != nil {
		return URL{}, err
	}

	path, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery && query == "" {
		return URL{}, errors.New("the URL has an empty query: leave the question mark out")
	}
	if path == "" {
		path = "/"
	}
	if u.Path, err = normalURLPath(path); err != nil {
		return URL{}, err
	}
	if query, err = normalEncoding(query, inQuery); err != nil {
		return URL{}, err
	}
	u.Text = joinURL(u, query)
	if len(u.Text) > MaxURLBytes {
		return URL{}, errURLLong()
	}
	return u, nil
}

// checkURLText refuses what may not stand anywhere in a URL.
func checkURLText(text string) error {
	if len(text) > MaxURLBytes {
		return errURLLong()
	}
	if !utf8.ValidString(text) {
		return errors.New("the URL is not valid UTF-8")
	}
	for _, r := range text {
		switch {
		case r == '\\':
			return errors.New("the URL holds a backslash, which some parsers read as a slash: percent-encode it in a query, and write / in a path")
		case r == '#':
			return errors.New("the URL has a fragment, which no server sees: leave it out")
		case unicode.IsControl(r):
			return errors.New("the URL holds a control character, which some parsers drop")
		case unicode.IsSpace(r):
			return errors.New("the URL holds a space, which some parsers drop: percent-encode it")
		}
	}
	return nil
}

func errURLLong() error { return fmt.Errorf("the URL is longer than %d bytes", MaxURLBytes) }

// cutScheme returns the scheme in lower case and what follows "://".
func cutScheme(text string) (scheme, rest string, err error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(scheme, "/?") || scheme == "" {
		return "", "", errors.New("the URL is relative: start with a scheme, as in https://host/path")
	}
	scheme = lowerASCII(scheme)
	if _, ok := defaultPort[scheme]; !ok {
		return "", "", errors.New("the URL's scheme is not one that reaches a host on a known port, such as https")
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok {
		return "", "", errors.New("the URL has no host: write scheme://host/path")
	}
	return scheme, rest, nil
}

// cutAuthority splits what follows "://" at the first "/" or "?".
func cutAuthority(s string) (authority, rest string) {
	if i := strings.IndexAny(s, "/?"); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// splitAuthority reads host and port; port is the scheme's default.
func splitAuthority(authority string, port int) (Host, int, error) {
	switch {
	case authority == "":
		return Host{}, 0, errors.New("the URL's host is empty: write scheme://host/path with two slashes")
	case strings.Contains(authority, "@"):
		return Host{}, 0, errors.New("the URL holds user information: leave out everything up to the @")
	}
	name, after, hasPort := authority, "", false
	if authority[0] == '[' {
		var ok bool
		if name, after, ok = strings.Cut(authority[1:], "]"); !ok {
			return Host{}, 0, errors.New("the URL's IPv6 address lacks its closing bracket")
		}
		if !strings.Contains(name, ":") {
			return Host{}, 0, errors.New("the URL has brackets around something other than an IPv6 address")
		}
		if after, hasPort = strings.CutPrefix(after, ":"); !hasPort && after != "" {
			return Host{}, 0, errors.New("the URL has something between the IPv6 address and the port")
		}
	} else if name, after, hasPort = strings.Cut(authority, ":"); strings.Contains(after, ":") {
		return Host{}, 0, errors.New("the URL's host holds colons: put an IPv6 address in brackets")
	}
	host, err := NewHost(name)
	if err != nil {
		return Host{}, 0, err
	}
	if hasPort {
		if port, err = parsePort(after); err != nil {
			return Host{}, 0, err
		}
	}
	return host, port, nil
}

func parsePort(s string) (int, error) {
	ok := len(s) >= 1 && len(s) <= 5 && s[0] != '0'
	for i := 0; ok && i < len(s); i++ {
		ok = '0' <= s[i] && s[i] <= '9'
	}
	n, err := strconv.Atoi(s)
	if !ok || err != nil || n > 65535 {
		return 0, errors.New("the URL's port is not a decimal number from 1 to 65535 without leading zeros")
	}
	return n, nil
}

// normalURLPath refuses dot segments and normalises the encoding.
func normalURLPath(path string) (string, error) {
	for segment := range strings.SplitSeq(path, "/") {
		// Servlet containers drop a ";" parameter before they resolve dots.
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." {
			return "", errors.New("the URL's path has a . or .. segment: give the path that it leads to")
		}
	}
	return normalEncoding(path, inPath)
}

// component is the part of a URL that is read.
type component bool

const (
	inPath  component = false
	inQuery component = true
)

const upperHex = "0123456789ABCDEF"

// normalEncoding returns s with percent-encodings in their one form.
func normalEncoding(s string, c component) (string, error) {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '%':
			v, ok := hexByte(s[i+1:])
			if !ok {
				return "", errors.New("the URL holds a % that two hexadecimal digits do not follow: write %25")
			}
			if c == inPath && (v == '.' || v == '/' || v == '\\' || v < 0x20 || v == 0x7F) {
				return "", errors.New("the URL's path holds a percent-encoded dot, slash, backslash or control character")
			}
			i += 2
			if isUnreserved(v) {
				b.WriteByte(v)
				continue
			}
			ch = v
			fallthrough
		case !allowedPlain(ch, c):
			b.WriteByte('%')
			b.WriteByte(upperHex[ch>>4])
			b.WriteByte(upperHex[ch&0xF])
		default:
			b.WriteByte(ch)
		}
	}
	return b.String(), nil
}

// hexByte reads two hexadecimal digits at the start of s.
func hexByte(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	hi, lo := strings.IndexByte(upperHex, upper(s[0])), strings.IndexByte(upperHex, upper(s[1]))
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func upper(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - ('a' - 'A')
	}
	return b
}

// isUnreserved: RFC 3986, section 2.3.
func isUnreserved(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-._~", b) >= 0
}

// allowedPlain reports whether b may stand unencoded: pchar and "/" (RFC 3986,
// section 3.3), in a query also "?" (section 3.4).
func allowedPlain(b byte, c component) bool {
	return isUnreserved(b) || strings.IndexByte("!$&'()*+,;=:@/", b) >= 0 || c == inQuery && b == '?'
}

func joinURL(u URL, query string) string {
	var b strings.Builder
	b.WriteString(u.Scheme)
	b.WriteString("://")
	if u.Host.IP && strings.Contains(u.Host.Text, ":") {
		b.WriteString("[" + u.Host.Text + "]")
	} else {
		b.WriteString(u.Host.Text)
	}
	if u.Port != defaultPort[u.Scheme] {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(u.Port))
	}
	b.WriteString(u.Path)
	if query != "" {
		b.WriteByte('?')
		b.WriteString(query)
	}
	return b.String()
}
