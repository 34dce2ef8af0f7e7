package target_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/target"
)

func TestNewHost(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := label63 + "." + label63 + "." + label63 + "." + strings.Repeat("a", 61)
	tests := []struct {
		name, in, text string
		ip             bool
	}{
		{"name", "example.com", "example.com", false},
		{"upper case", "EXAMPLE.Com", "example.com", false},
		{"trailing dot", "example.com.", "example.com", false},
		{"one label", "localhost", "localhost", false},
		{"one label and a dot", "localhost.", "localhost", false},
		{"digits", "3com.123.example", "3com.123.example", false},
		{"number before a letter", "1.2.3.4a", "1.2.3.4a", false},
		{"hexadecimal-looking", "0xfg.0x1.example", "0xfg.0x1.example", false},
		{"hyphens", "a-b--c.example", "a-b--c.example", false},
		{"hyphens in third and fourth place", "r3---sn-x.example", "r3---sn-x.example", false},
		{"63-byte label", label63 + ".example", label63 + ".example", false},
		{"253 bytes", name253, name253, false},
		{"253 bytes and a dot", name253 + ".", name253, false},

		// U-labels and their A-labels: RFC 3492, section 7.1, and RFC 5891.
		{"German", "bücher.example", "xn--bcher-kva.example", false},
		{"German A-label", "xn--bcher-kva.example", "xn--bcher-kva.example", false},
		{"German A-label, upper case", "XN--BCHER-KVA.example", "xn--bcher-kva.example", false},
		{"ASCII upper case beside Unicode", "Bücher.EXAMPLE", "xn--bcher-kva.example", false},
		{"Unicode with a trailing dot", "bücher.example.", "xn--bcher-kva.example", false},
		{"Japanese", "日本語.jp", "xn--wgv71a119e.jp", false},
		{"Greek", "παράδειγμα.gr", "xn--hxajbheg2az3al.gr", false},
		{"Arabic, right to left", "مثال.إختبار", "xn--mgbh0fb.xn--kgbechtv", false},
		{"Hebrew, right to left", "דוגמה.טעסט", "xn--6dbbec0c.xn--deba0ad", false},
		{"Catalan middle dot", "col·legi.example", "xn--collegi-xma.example", false},
		{"Katakana middle dot", "ア・ア.example", "xn--ccka0y.example", false},
		{"hyphens beside Unicode", "r3---sn-x.bücher.example", "r3---sn-x.xn--bcher-kva.example", false},
		{"A-label of a deviation", "xn--strae-oqa.de", "xn--strae-oqa.de", false},
		{"A-label with a joiner in its context", "xn--10cl1a0b660p.lk", "xn--10cl1a0b660p.lk", false},

		{"IPv4", "192.0.2.1", "192.0.2.1", true},
		{"IPv4, zero", "0.0.0.0", "0.0.0.0", true},
		{"IPv4, greatest", "255.255.255.255", "255.255.255.255", true},

		// RFC 5952, sections 4.1 to 4.3.
		{"IPv6 loopback", "::1", "::1", true},
		{"IPv6 unspecified", "::", "::", true},
		{"IPv6 unspecified, long", "0:0:0:0:0:0:0:0", "::", true},
		{"IPv6 leading zeros", "2001:0db8::0001", "2001:db8::1", true},
		{"IPv6 upper case", "2001:DB8:AAAA::C", "2001:db8:aaaa::c", true},
		{"IPv6 shortened fully", "2001:db8:0:0:0:0:2:1", "2001:db8::2:1", true},
		{"IPv6 single zero kept", "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1", true},
		{"IPv6 longest run", "2001:0:0:1:0:0:0:1", "2001:0:0:1::1", true},
		{"IPv6 first of equal runs", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", true},
		{"IPv6 with a dotted tail", "2001:db8::192.0.2.1", "2001:db8::c000:201", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := target.NewHost(tt.in)
			if err != nil {
				t.Fatalf("NewHost(%q): %v", tt.in, err)
			}
			if h.Text != tt.text || h.IP != tt.ip {
				t.Errorf("NewHost(%q) = %+v, want %q, IP %v", tt.in, h, tt.text, tt.ip)
			}
		})
	}
}

func TestNewHostRefuses(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	tests := []struct{ name, in, reason string }{
		{"empty", "", "empty"},
		{"dot", ".", "empty label"},
		{"two trailing dots", "example.com..", "empty label"},
		{"leading dot", ".example.com", "empty label"},
		{"empty label", "a..b", "empty label"},
		{"64-byte label", label63 + "a.example", "63 bytes"},
		{"254 bytes", strings.Repeat(label63+".", 3) + strings.Repeat("a", 62), "253 bytes"},
		{"long input", strings.Repeat("a.", 600), "253 bytes"},
		{"long Unicode label", strings.Repeat("ü", 60) + ".example", "IDNA2008"},
		{"invalid UTF-8", "ex\xffample.com", "UTF-8"},
		{"leading hyphen", "-a.example", "hyphen"},
		{"trailing hyphen", "a-.example", "hyphen"},
		{"underscore", "my_bucket.example", "underscore"},
		{"service label", "_dmarc.example.com", "underscore"},

		{"user information", "user@example.com", "user information"},
		{"user and password", "user:pw@example.com", "user information"},
		{"port", "example.com:80", "port"},
		{"URL", "http://example.com", "port"},
		{"path", "example.com/x", "character"},
		{"backslash", `example.com\x`, "character"},
		{"space", "example .com", "character"},
		{"leading space", " example.com", "character"},
		{"tab", "exa\tmple.com", "character"},
		{"newline", "example.com\n", "character"},
		{"NUL", "example.com\x00.evil", "character"},
		{"wildcard", "*.example.com", "character"},
		{"comma", "a.example,b.example", "character"},
		{"percent-encoding", "%65xample.com", "percent sign"},
		{"percent-encoded dot", "example%2ecom", "percent sign"},

		{"IPv4 octal", "0177.0.0.1", "IPv4"},
		{"IPv4 leading zero", "01.2.3.4", "IPv4"},
		{"IPv4 short", "127.1", "IPv4"},
		{"IPv4 three parts", "127.0.1", "IPv4"},
		{"IPv4 hexadecimal", "0x7f.1", "IPv4"},
		{"IPv4 hexadecimal last", "127.0.0.0x1", "IPv4"},
		{"IPv4 hexadecimal, upper case", "0X7F.0.0.0X1", "IPv4"},
		{"IPv4 hexadecimal number", "0x7f000001", "IPv4"},
		{"IPv4 empty hexadecimal", "127.0.0.0x", "IPv4"},
		{"IPv4 number", "2130706433", "IPv4"},
		{"IPv4 trailing dot", "1.2.3.4.", "IPv4"},
		{"IPv4 out of range", "1.2.3.256", "IPv4"},
		{"IPv4 five parts", "1.2.3.4.5", "IPv4"},
		{"IPv4 huge", "99999999999999999999", "IPv4"},
		{"name that ends in a number", "example.1", "IPv4"},
		{"name that ends in a hexadecimal number", "example.0xab", "IPv4"},
		{"IPv4 full-width", "１２７.0.0.1", "IDNA2008"},
		{"IPv4 circled", "①②⑦.0.0.1", "IDNA2008"},
		{"IPv4 with ideographic full stops", "127。0。0。1", "IDNA2008"},

		{"IPv6 zone", "fe80::1%eth0", "zone"},
		{"IPv6 encoded zone", "fe80::1%25eth0", "zone"},
		{"IPv6 in brackets", "[::1]", "brackets"},
		{"IPv6 unclosed", "[::1", "brackets"},
		{"IPv6 mapped", "::ffff:192.0.2.1", "IPv4 address"},
		{"IPv6 mapped, hexadecimal", "::ffff:c000:201", "IPv4 address"},
		{"IPv6 mapped, long", "0:0:0:0:0:FFFF:c000:0201", "IPv4 address"},
		{"IPv6 compatible", "::192.0.2.1", "IPv4 address"},
		{"IPv6 translated", "::ffff:0:192.0.2.1", "IPv4 address"},
		{"IPv6 NAT64", "64:ff9b::192.0.2.1", "IPv4 address"},
		{"IPv6 NAT64, local", "64:ff9b:1::c000:201", "IPv4 address"},
		{"IPv6 two ellipses", "1::2::3", "not an IPv6 address"},
		{"IPv6 five digits", "2001:00db8::1", "not an IPv6 address"},
		{"IPv6 too long", "1:2:3:4:5:6:7:8:9", "not an IPv6 address"},
		{"IPv6 octal tail", "2001:db8::192.0.2.01", "not an IPv6 address"},
		{"IPv6 trailing dot", "::1.", "not an IPv6 address"},

		// Spellings that mapping resolvers (UTS #46, IDNA2003) take to
		// example.com and others do not.
		{"full-width letters", "ｅｘａｍｐｌｅ.com", "IDNA2008"},
		{"full-width dot", "example．com", "IDNA2008"},
		{"ideographic full stop", "example。com", "IDNA2008"},
		{"half-width ideographic full stop", "example｡com", "IDNA2008"},
		{"soft hyphen", "exam\u00adple.com", "IDNA2008"},
		{"zero-width space", "exam\u200bple.com", "IDNA2008"},
		{"word joiner", "exam\u2060ple.com", "IDNA2008"},
		{"byte order mark", "\ufeffexample.com", "IDNA2008"},
		{"variation selector", "example\ufe0f.com", "IDNA2008"},
		{"mathematical letters", "𝐞xample.com", "IDNA2008"},
		{"Kelvin sign", "\u212aernel.example", "IDNA2008"},
		{"long s", "ſite.example", "IDNA2008"},
		{"ligature", "oﬃce.example", "IDNA2008"},
		{"care of", "℀.example", "IDNA2008"}, // a/c under NFKC
		{"full-width slash", "example.com／x", "IDNA2008"},
		{"full-width commercial at", "a＠example.com", "IDNA2008"},
		{"full-width question mark", "example.com？x", "IDNA2008"},
		{"no-break space", "exam\u00a0ple.com", "IDNA2008"},
		{"upper-case Unicode", "BÜCHER.example", "IDNA2008"},
		{"decomposed", "bu\u0308cher.example", "IDNA2008"},
		{"symbol", "i❤.example", "IDNA2008"},
		{"symbol as A-label", "xn--i-7iq.example", "IDNA2008"},
		{"tatweel", "مـثال.example", "IDNA2008"},
		{"leading combining mark", "\u0301a.example", "IDNA2008"},
		{"Bidi rule", "a\u05d0.example", "IDNA2008"},
		{"Bidi rule, across labels", "1a.\u05d0.example", "IDNA2008"},
		{"unassigned", "\u0378.example", "IDNA2008"},
		{"private use", "\ue000.example", "IDNA2008"},
		{"conjoining jamo", "\u1100.example", "IDNA2008"},
		{"musical symbol", "a\U0001d165.example", "IDNA2008"},
		{"hyphens in a Unicode label", "aü--b.example", "third and fourth"},
		{"underscore beside Unicode", "a_b.bücher.example", "IDNA2008"},

		// Characters of IDNA2008 that IDNA2003 resolvers map or drop.
		{"sharp s", "straße.de", "xn--"},
		{"final sigma", "σοφος.gr", "xn--"},
		{"zero-width non-joiner", "نامه\u200cای.com", "xn--"},
		{"zero-width joiner", "ශ්\u200dරී.lk", "xn--"},

		{"A-label of ASCII", "xn--abc-.example", "IDNA2008"},
		{"A-label of nothing", "xn--.example", "IDNA2008"},
		{"A-label broken", "xn--99999999999.example", "IDNA2008"},
		{"A-label of upper case", "xn--bcher-2pa.example", "IDNA2008"}, // bÜcher
		{"A-label of decomposed text", "xn--bucher-xyd.example", "IDNA2008"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := target.NewHost(tt.in)
			refused(t, err, tt.reason)
			if h != (target.Host{}) {
				t.Errorf("refused, but gave %+v", h)
			}
		})
	}
}

func TestHostAncestors(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"a.b.example", []string{"b.example", "example"}},
		{"example.com.", []string{"com"}},
		{"localhost", nil},
		{"192.0.2.1", nil},
		{"2001:db8::1", nil},
	}
	for _, tt := range tests {
		h, err := target.NewHost(tt.in)
		if err != nil {
			t.Fatalf("NewHost(%q): %v", tt.in, err)
		}
		if got := h.Ancestors(); !slices.Equal(got, tt.want) {
			t.Errorf("ancestors of %q = %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := (target.Host{}).Ancestors(); got != nil {
		t.Errorf("the zero Host has ancestors %q", got)
	}
}

func BenchmarkNewHost(b *testing.B) {
	for b.Loop() {
		if _, err := target.NewHost("mcp.files.example"); err != nil {
			b.Fatal(err)
		}
	}
}
