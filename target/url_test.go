package target_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/target"
)

func TestNewURL(t *testing.T) {
	tests := []struct {
		in, text, scheme, host string
		port                   int
		path                   string
	}{
		// RFC 3986, section 6.2.2 and 6.2.3.
		{"http://example.com", "http://example.com/", "http", "example.com", 80, "/"},
		{"http://example.com/", "http://example.com/", "http", "example.com", 80, "/"},
		{"http://example.com:80/", "http://example.com/", "http", "example.com", 80, "/"},
		{"HTTP://EXAMPLE.COM:80", "http://example.com/", "http", "example.com", 80, "/"},
		{"https://example.com:443/", "https://example.com/", "https", "example.com", 443, "/"},
		{"http://example.com:443/", "http://example.com:443/", "http", "example.com", 443, "/"},
		{"https://example.com:8443/A/b", "https://example.com:8443/A/b", "https", "example.com", 8443, "/A/b"},
		{"ws://example.com:80/x", "ws://example.com/x", "ws", "example.com", 80, "/x"},
		{"wss://example.com/x", "wss://example.com/x", "wss", "example.com", 443, "/x"},
		{"ftp://example.com:21/x", "ftp://example.com/x", "ftp", "example.com", 21, "/x"},
		{"ssh://example.com:2222", "ssh://example.com:2222/", "ssh", "example.com", 2222, "/"},
		{"postgresql://db.internal:5432/app", "postgresql://db.internal/app", "postgresql", "db.internal", 5432, "/app"},
		{"http://example.com./x", "http://example.com/x", "http", "example.com", 80, "/x"},
		{"http://bücher.example/", "http://xn--bcher-kva.example/", "http", "xn--bcher-kva.example", 80, "/"},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080/", "http", "127.0.0.1", 8080, "/"},
		{"http://[::1]/", "http://[::1]/", "http", "::1", 80, "/"},
		{"http://[2001:DB8::0:1]:80", "http://[2001:db8::1]/", "http", "2001:db8::1", 80, "/"},
		{"http://[2001:db8::1]:8080/x", "http://[2001:db8::1]:8080/x", "http", "2001:db8::1", 8080, "/x"},
		{"http://example.com:65535/", "http://example.com:65535/", "http", "example.com", 65535, "/"},
		{"http://example.com:1", "http://example.com:1/", "http", "example.com", 1, "/"},

		{"http://a/%7euser", "http://a/~user", "http", "a", 80, "/~user"},
		{"http://a/%41%62%30%2d%5f", "http://a/Ab0-_", "http", "a", 80, "/Ab0-_"},
		{"http://a/%3b%3B", "http://a/%3B%3B", "http", "a", 80, "/%3B%3B"},
		{"http://a/a%20b", "http://a/a%20b", "http", "a", 80, "/a%20b"},
		{"http://a/%25", "http://a/%25", "http", "a", 80, "/%25"},
		{"http://a/%252e", "http://a/%252e", "http", "a", 80, "/%252e"},
		{"http://a/%e9", "http://a/%E9", "http", "a", 80, "/%E9"},
		{"http://a/é", "http://a/%C3%A9", "http", "a", 80, "/%C3%A9"},
		{"http://a/%c3%a9", "http://a/%C3%A9", "http", "a", 80, "/%C3%A9"},
		{"http://a/[x]{y}|^`\"<>", "http://a/%5Bx%5D%7By%7D%7C%5E%60%22%3C%3E", "http", "a", 80, "/%5Bx%5D%7By%7D%7C%5E%60%22%3C%3E"},
		{"http://a/!$&'()*+,;=:@", "http://a/!$&'()*+,;=:@", "http", "a", 80, "/!$&'()*+,;=:@"},
		{"http://a/x@b", "http://a/x@b", "http", "a", 80, "/x@b"},
		{"http://a/b//c/", "http://a/b//c/", "http", "a", 80, "/b//c/"},
		{"http://a//b", "http://a//b", "http", "a", 80, "//b"},
		{"http://a/.../..a/a../.a", "http://a/.../..a/a../.a", "http", "a", 80, "/.../..a/a../.a"},

		{"http://a?x=1", "http://a/?x=1", "http", "a", 80, "/"},
		{"http://a/?x=%2f%2E%2e%5c&y=%C3%a9", "http://a/?x=%2F..%5C&y=%C3%A9", "http", "a", 80, "/"},
		{"http://a/?x[0]=é", "http://a/?x%5B0%5D=%C3%A9", "http", "a", 80, "/"},
		{"http://a/?u=http://b:1/../@c?d", "http://a/?u=http://b:1/../@c?d", "http", "a", 80, "/"},
		{"http://a/??", "http://a/??", "http", "a", 80, "/"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			u, err := target.NewURL(tt.in)
			if err != nil {
				t.Fatalf("NewURL(%q): %v", tt.in, err)
			}
			if u.Text != tt.text {
				t.Errorf("Text = %q, want %q", u.Text, tt.text)
			}
			if u.Scheme != tt.scheme || u.Host.Text != tt.host || u.Port != tt.port || u.Path != tt.path {
				t.Errorf("got %+v, want scheme %q, host %q, port %d, path %q", u, tt.scheme, tt.host, tt.port, tt.path)
			}
			sameAsNetURL(t, tt.in, u)
			if again, err := target.NewURL(u.Text); err != nil || again != u {
				t.Errorf("read again: %+v, %v; want %+v", again, err, u)
			}
		})
	}
}

// sameAsNetURL fails if net/url reads in, or the normal form, as another host
// or port.
func sameAsNetURL(t *testing.T, in string, u target.URL) {
	t.Helper()
	for _, text := range []string{in, u.Text} {
		std, err := url.Parse(text)
		if err != nil {
			if text == u.Text {
				t.Errorf("net/url refuses the normal form %q: %v", text, err)
			}
			continue // net/url is stricter on this spelling
		}
		host, err := target.NewHost(std.Hostname())
		if err != nil || host != u.Host {
			t.Errorf("net/url reads the host of %q as %q (%v), want %q", text, std.Hostname(), err, u.Host.Text)
		}
		if port := std.Port(); port != "" && port != strconv.Itoa(u.Port) {
			t.Errorf("net/url reads the port of %q as %s, want %d", text, port, u.Port)
		}
		if std.User != nil || std.Fragment != "" || std.Opaque != "" {
			t.Errorf("net/url sees user information, a fragment or an opaque URL in %q", text)
		}
		if std.Scheme != u.Scheme {
			t.Errorf("net/url reads the scheme of %q as %q, want %q", text, std.Scheme, u.Scheme)
		}
	}
	if std, err := url.Parse(u.Text); err == nil && std.String() != u.Text {
		t.Errorf("net/url writes the normal form %q as %q", u.Text, std)
	}
}

// TestNewURLTraps lists what RFC 3986 and WHATWG URL, or the parsers that
// follow one or the other, take to different places.
func TestNewURLTraps(t *testing.T) {
	tests := []struct{ name, in, reason string }{
		// WHATWG reads \ as / after a special scheme.
		{"backslashes for slashes", `http:\\evil.example`, "backslash"},
		{"backslash before the at sign", `http://evil.example\@good.example/`, "backslash"},
		{"backslash after the host", `http://good.example\.evil.example/`, "backslash"},
		{"backslash in the path", `http://a/b\..\c`, "backslash"},
		{"backslash in the query", `http://a/?b\c`, "backslash"},
		// WHATWG ignores the number of slashes after a special scheme.
		{"no slash", "http:evil.example", "no host"},
		{"one slash", "http:/evil.example", "no host"},
		{"three slashes", "http:///evil.example", "empty"},
		{"four slashes", "http:////evil.example", "empty"},
		{"scheme-relative", "//evil.example", "relative"},
		{"path", "/x", "relative"},
		{"relative", "x", "relative"},
		{"query with a URL", "?u=http://a", "relative"},
		{"path with a URL", "/http://a", "relative"},
		{"empty", "", "relative"},
		{"colon first", "://a", "relative"},

		{"user", "http://a@b", "user information"},
		{"user and password", "http://a:c@b/", "user information"},
		{"empty user", "http://@b", "user information"},
		{"two at signs", "http://a@b@c", "user information"},
		{"user that looks like a host and port", "http://good.example:80@evil.example/", "user information"},
		{"encoded at sign", "http://a%40b", "percent sign"},
		{"encoded slash in the host", "http://good.example%2f.evil.example/", "percent sign"},
		{"encoded host", "http://%65vil.example/", "percent sign"},
		{"encoded full stop in the host", "http://evil%E3%80%82example/", "percent sign"},
		{"fragment before an at sign", "http://a#@b", "fragment"},
		{"fragment before a slash", "http://a#b/c", "fragment"},
		{"fragment", "http://a/b#c", "fragment"},
		{"empty fragment", "http://a/#", "fragment"},
		{"query before an at sign", "http://good.example?@evil.example\\", "backslash"},

		// WHATWG strips leading and trailing spaces and all tabs and newlines.
		{"leading space", " http://a", "space"},
		{"trailing space", "http://a ", "space"},
		{"space in the path", "http://a/b c", "space"},
		{"no-break space", "http://a/b\u00a0c", "space"},
		{"ideographic space", "http://a/b\u3000c", "space"},
		{"line separator", "http://a/b\u2028c", "space"},
		{"leading control", "\x01http://a", "control"},
		{"tab in the scheme", "ht\ttp://a", "control"},
		{"tab in the slashes", "http:/\t/a", "control"},
		{"tab in the host", "http://a\tb", "control"},
		{"newline in the host", "http://a\nb", "control"},
		{"carriage return", "http://a/\r\nHost: b", "control"},
		{"NUL", "http://a\x00.b", "control"},
		{"delete", "http://a/\x7f", "control"},
		{"C1 control", "http://a/\u0080", "control"},

		{"full-width dot", "http://example．com/", "IDNA2008"},
		{"ideographic full stop", "http://example。com/", "IDNA2008"},
		{"half-width ideographic full stop", "http://example｡com/", "IDNA2008"},
		{"full-width letters", "http://ｅｘａｍｐｌｅ.com/", "IDNA2008"},
		{"full-width digits", "http://１２７.0.0.1/", "IDNA2008"},
		{"full-width slash", "http://good.example／.evil.example/", "IDNA2008"},
		{"full-width colon", "http://a：80/", "IDNA2008"},
		{"full-width number sign", "http://good.example＃.evil.example/", "IDNA2008"},
		{"full-width scheme", "ｈttp://a/", "scheme"},
		{"soft hyphen", "http://exam\u00adple.com/", "IDNA2008"},
		{"zero-width space", "http://exam\u200bple.com/", "IDNA2008"},
		{"right-to-left override", "http://exam\u202eple.com/", "IDNA2008"},
		{"sharp s", "http://faß.de/", "xn--"},
		{"account of", "http://a.example℀.b.example/", "IDNA2008"},

		{"IPv4 octal", "http://0177.0.0.1/", "IPv4"},
		{"IPv4 hexadecimal", "http://0x7f.1/", "IPv4"},
		{"IPv4 short", "http://127.1/", "IPv4"},
		{"IPv4 number", "http://2130706433/", "IPv4"},
		{"IPv4 trailing dot", "http://127.0.0.1./", "IPv4"},
		{"IPv6 zone", "http://[fe80::1%25eth0]/", "zone"},
		{"IPv6 plain zone", "http://[fe80::1%eth0]/", "zone"},
		{"IPv6 mapped", "http://[::ffff:127.0.0.1]/", "IPv4 address"},
		{"IPv6 without brackets", "http://::1/", "brackets"},
		{"IPv6 unclosed", "http://[::1/", "closing bracket"},
		{"IPv6 and a name", "http://[::1].evil.example/", "between"},
		{"IPv6 and a port without a colon", "http://[::1]80/", "between"},
		{"IPv4 in brackets", "http://[127.0.0.1]/", "other than an IPv6"},
		{"name in brackets", "http://[example]/", "other than an IPv6"},
		{"future address in brackets", "http://[v1.a:b]/", "not an IPv6 address"},
		{"bracket inside", "http://a[::1]/", "colons"},
		{"two ports", "http://a:80:81/", "colons"},

		{"port zero", "http://a:0/", "port"},
		{"port with a leading zero", "http://a:080/", "port"},
		{"port too great", "http://a:65536/", "port"},
		{"port that wraps", "http://a:4294967376/", "port"},
		{"port empty", "http://a:/", "port"},
		{"port signed", "http://a:+80/", "port"},
		{"port in other digits", "http://a:８０/", "port"},
		{"port with letters", "http://a:80x/", "port"},
		{"port alone", "http://:80/", "empty"},

		{"dot segment", "http://a/./b", ". or .. segment"},
		{"parent segment", "http://a/b/../c", ". or .. segment"},
		{"parent segment at the end", "http://a/b/..", ". or .. segment"},
		{"dot segment at the end", "http://a/b/.", ". or .. segment"},
		{"dot segment before a query", "http://a/..?x", ". or .. segment"},
		{"parent segment with a parameter", "http://a/b/..;x=1/c", ". or .. segment"},
		{"encoded parent segment", "http://a/%2e%2e/b", "percent-encoded"},
		{"half-encoded parent segment", "http://a/.%2E/b", "percent-encoded"},
		{"encoded dot", "http://a/b%2ehtml", "percent-encoded"},
		{"encoded slash", "http://a/b%2fc", "percent-encoded"},
		{"encoded backslash", "http://a/b%5Cc", "percent-encoded"},
		{"encoded NUL", "http://a/b%00", "percent-encoded"},
		{"encoded newline", "http://a/b%0d%0a", "percent-encoded"},
		{"encoded delete", "http://a/b%7F", "percent-encoded"},
		{"broken percent-encoding", "http://a/%zz", "%25"},
		{"broken percent-encoding at the end", "http://a/%2", "%25"},
		{"lone percent sign", "http://a/100%", "%25"},
		{"IIS percent-encoding", "http://a/%u002e", "%25"},
		{"broken percent-encoding in the query", "http://a/?x=%", "%25"},
		{"empty query", "http://a/?", "empty query"},
		{"empty query, no path", "http://a?", "empty query"},

		{"opaque", "mailto:a@b.example", "scheme"},
		{"script", "javascript://a/%0aalert(1)", "scheme"},
		{"data", "data:text/html,x", "scheme"},
		{"file", "file:///etc/passwd", "scheme"},
		{"file with a host", "file://a/etc/passwd", "scheme"},
		{"view-source", "view-source:http://a/", "scheme"},
		{"blob", "blob:http://a/x", "scheme"},
		{"gopher", "gopher://a:25/_EHLO", "scheme"},
		{"unknown", "foo://a/", "scheme"},
		{"known with a prefix", "xhttp://a/", "scheme"},
		{"nested", "git+https://a/", "scheme"},
		{"host and port", "localhost:8080/x", "scheme"},
		{"invalid UTF-8", "http://a/\xff", "UTF-8"},
		{"underscore", "http://a_b.example/", "underscore"},
		{"empty label", "http://a..b/", "empty label"},
		{"too long", "http://a/" + strings.Repeat("x", target.MaxURLBytes), "8192 bytes"},
		{"too long once encoded", "http://a/" + strings.Repeat("é", 3000), "8192 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := target.NewURL(tt.in)
			refused(t, err, tt.reason)
			if u != (target.URL{}) {
				t.Errorf("refused, but gave %+v", u)
			}
		})
	}
}

// TestNewURLSpellings: spellings of one resource have one text.
func TestNewURLSpellings(t *testing.T) {
	for want, spellings := range map[string][]string{
		"https://example.com/a~b/%2A?q=%2F": {
			"https://example.com/a~b/%2A?q=%2F", "HTTPS://example.com:443/a%7Eb/%2a?q=%2f", "https://EXAMPLE.com./%61%7eb/%2A?%71=%2F",
		},
		"http://xn--bcher-kva.example/%C3%BC?%C3%BC": {
			"http://bücher.example/ü?ü", "http://Bücher.EXAMPLE:80/%c3%bc?%C3%BC", "http://xn--BCHER-kva.example/%C3%bc?ü",
		},
		"https://[2001:db8::1]/": {
			"https://[2001:db8::1]", "https://[2001:0DB8:0:0:0:0:0:1]:443/", "https://[2001:db8::0.0.0.1]",
		},
	} {
		for _, in := range spellings {
			if u, err := target.NewURL(in); err != nil || u.Text != want {
				t.Errorf("NewURL(%q) = %q, %v; want %q", in, u.Text, err, want)
			}
		}
	}
}

func BenchmarkNewURL(b *testing.B) {
	for b.Loop() {
		if _, err := target.NewURL("https://api.example.com/v1/items/42?expand=all"); err != nil {
			b.Fatal(err)
		}
	}
}
