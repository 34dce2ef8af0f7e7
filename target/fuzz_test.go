package target_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-pdp/writ/target"
)

func FuzzNewPath(f *testing.F) {
	for _, seed := range []string{
		"/", "//", "///", "/a/b/c", "/a//b/./", "/a/../b", "a/b", ".", "~/x", `/a\b`, "/a%2eb", "/%2e\u0301", "/%2\ufb00", "/\x00",
		"/É/e\u0301", "/Straße", "/\u212a", "/\u13a0/\uab70", "/\u0345\u03b1", "/\xff", "/" + strings.Repeat("a/", 128),
	} {
		for _, base := range []string{"", "/srv/work", "///srv/./Work//"} {
			f.Add(seed, base, false)
			f.Add(seed, base, true)
		}
	}
	f.Fuzz(func(t *testing.T, text, base string, fold bool) {
		p, err := target.NewPath(text, target.PathOptions{Base: base, Fold: fold})
		if err != nil {
			if p.Text != "" || p.Segments != nil {
				t.Fatalf("refused, but gave %+v", p)
			}
			return
		}
		checkPath(t, p)
		again, err := target.NewPath(p.Text, target.PathOptions{Fold: fold})
		if err != nil || again.Text != p.Text || !slices.Equal(again.Segments, p.Segments) {
			t.Fatalf("%q read again: %+v, %v", p.Text, again, err)
		}

		// Within and Ancestors say the same.
		for _, text := range p.Ancestors() {
			above, err := target.NewPath(text, target.PathOptions{Fold: fold})
			if err != nil || above.Text != text {
				t.Fatalf("ancestor %q of %q: %q, %v", text, p.Text, above.Text, err)
			}
			if !p.Within(above) || above.Within(p) {
				t.Fatalf("%q and its ancestor %q: within is wrong", p.Text, text)
			}
		}
		root, err := target.NewPath(base, target.PathOptions{Fold: fold})
		if err != nil {
			return
		}
		if want := root.Text == p.Text || slices.Contains(p.Ancestors(), root.Text); p.Within(root) != want {
			t.Fatalf("%q within %q = %v, but its ancestors say %v", p.Text, root.Text, !want, want)
		}
		if text[0] != '/' && !p.Within(root) {
			t.Fatalf("relative %q left its base %q: %q", text, base, p.Text)
		}
	})
}

// checkPath holds p to the documented normal form.
func checkPath(t *testing.T, p target.Path) {
	t.Helper()
	if want := "/" + strings.Join(p.Segments, "/"); p.Text != want {
		t.Fatalf("Text %q, but Segments %q", p.Text, p.Segments)
	}
	if len(p.Text) > 4096 || len(p.Segments) > 128 || !utf8.ValidString(p.Text) {
		t.Fatalf("normal form of %d bytes, %d segments", len(p.Text), len(p.Segments))
	}
	for _, name := range p.Segments {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00\n") {
			t.Fatalf("segment %q in %q", name, p.Text)
		}
	}
	if n := len(p.Ancestors()); n != len(p.Segments) {
		t.Fatalf("%q has %d ancestors", p.Text, n)
	}
}

func FuzzNewHost(f *testing.F) {
	for _, seed := range []string{
		"", ".", "example.com", "EXAMPLE.com.", "a..b", "bücher.example", "xn--bcher-kva.example", "xn--abc-", "xn--", "straße.de",
		"ශ්\u200dරී.lk", "xn--10cl1a0b660p.lk", "דוגמה.טעסט", "1.2.3.4", "1.2.3.4.", "0x7f.1", "0177.0.0.1", "2130706433", "::1", "::ffff:1.2.3.4",
		"fe80::1%eth0", "2001:DB8::0:1", "[::1]", "a@b", "a_b", "ｅx．com", "exam\u00adple.com", "-a", "r3---sn-x.example", "\xff", "\u13a0\uab70.example",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := target.NewHost(text)
		if err != nil {
			if h != (target.Host{}) {
				t.Fatalf("refused, but gave %+v", h)
			}
			return
		}
		checkHost(t, h)
		if again, err := target.NewHost(h.Text); err != nil || again != h {
			t.Fatalf("%q read again: %+v, %v", h.Text, again, err)
		}
		for _, name := range h.Ancestors() {
			if !strings.HasSuffix(h.Text, "."+name) {
				t.Fatalf("%q is no ancestor of %q", name, h.Text)
			}
		}
	})
}

// checkHost holds h to the documented normal form.
func checkHost(t *testing.T, h target.Host) {
	t.Helper()
	if h.IP {
		if addr, err := netip.ParseAddr(h.Text); err != nil || addr.String() != h.Text || addr.Zone() != "" || addr.Is4In6() {
			t.Fatalf("address %q: %v", h.Text, err)
		}
		return
	}
	if _, err := netip.ParseAddr(h.Text); err == nil {
		t.Fatalf("%q is an address, but IP is false", h.Text)
	}
	if len(h.Text) > 253 {
		t.Fatalf("name of %d bytes", len(h.Text))
	}
	for label := range strings.SplitSeq(h.Text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			t.Fatalf("label %q in %q", label, h.Text)
		}
	}
}

func FuzzNewURL(f *testing.F) {
	for _, seed := range []string{
		"http://example.com", "HTTPS://EXAMPLE.com:443/%7e?x=%2f", "http://[2001:DB8::1]:80/", "ws://a:81/é?[ü]", `http:\\evil`, "http:/evil", "http:///evil",
		"http://a@b", "http://a%40b", "http://a#@b", "http://a\t/", "http://example。com", "http://a/..;x", "http://a/%2e", "http://a/%", "http://a?",
		"http://a:0", "http://a:", "http://[::1", "http://a//b", "http://a/'()*!", "postgresql://db/x", "mailto:a@b", "//a", "http://bücher.example/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := target.NewURL(text)
		if err != nil {
			if u != (target.URL{}) {
				t.Fatalf("refused, but gave %+v", u)
			}
			return
		}
		checkHost(t, u.Host)
		if u.Port < 1 || u.Port > 65535 || !strings.HasPrefix(u.Path, "/") || len(u.Text) > 8192 {
			t.Fatalf("%+v", u)
		}
		for i := 0; i < len(u.Text); i++ {
			if b := u.Text[i]; b <= ' ' || b >= 0x7F || strings.IndexByte("\"#<>\\^`{|}", b) >= 0 {
				t.Fatalf("normal form %q holds %q", u.Text, b)
			}
		}
		if again, err := target.NewURL(u.Text); err != nil || again != u {
			t.Fatalf("%q read again: %+v, %v", u.Text, again, err)
		}
		sameAsNetURL(t, text, u)
	})
}

func FuzzNewEmail(f *testing.F) {
	for _, seed := range []string{
		"ann@example.com", "Ann.Lee+x@EXAMPLE.com.", "@", "a@b@c", `"a"@b`, "a..b@c", "a@[1.2.3.4]", "a@1.2.3.4", "ä@b", "a@bücher.example", "a%b@c", "a\n@b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := target.NewEmail(text)
		if err != nil {
			if e != (target.Email{}) {
				t.Fatalf("refused, but gave %+v", e)
			}
			return
		}
		checkHost(t, e.Host)
		if e.Host.IP || e.Text != e.Local+"@"+e.Host.Text || len(e.Local) > 64 || len(e.Text) > 254 || !strings.HasPrefix(text, e.Local+"@") {
			t.Fatalf("%q: %+v", text, e)
		}
		if again, err := target.NewEmail(e.Text); err != nil || again != e {
			t.Fatalf("%q read again: %+v, %v", e.Text, again, err)
		}
	})
}
