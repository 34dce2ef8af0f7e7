package target_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/target"
)

func TestNewEmail(t *testing.T) {
	local64 := strings.Repeat("a", 64)
	tests := []struct{ in, text, local, host string }{
		{"ann@example.com", "ann@example.com", "ann", "example.com"},
		{"Ann.Lee@EXAMPLE.com", "Ann.Lee@example.com", "Ann.Lee", "example.com"},
		{"ann+bills@example.com.", "ann+bills@example.com", "ann+bills", "example.com"},
		{"o'hara/x=1@example.com", "o'hara/x=1@example.com", "o'hara/x=1", "example.com"},
		{"#$&'*+-/=?^_`{|}~@example.com", "#$&'*+-/=?^_`{|}~@example.com", "#$&'*+-/=?^_`{|}~", "example.com"},
		{"a.b.c@x", "a.b.c@x", "a.b.c", "x"},
		{"ann@bücher.example", "ann@xn--bcher-kva.example", "ann", "xn--bcher-kva.example"},
		{local64 + "@example.com", local64 + "@example.com", local64, "example.com"},
	}
	for _, tt := range tests {
		e, err := target.NewEmail(tt.in)
		if err != nil {
			t.Errorf("NewEmail(%q): %v", tt.in, err)
			continue
		}
		want := target.Email{Text: tt.text, Local: tt.local, Host: target.Host{Text: tt.host}}
		if e != want {
			t.Errorf("NewEmail(%q) = %+v, want %+v", tt.in, e, want)
		}
		if again, err := target.NewEmail(e.Text); err != nil || again != e {
			t.Errorf("%q read again: %+v, %v", e.Text, again, err)
		}
	}
}

func TestNewEmailRefuses(t *testing.T) {
	tests := []struct{ name, in, reason string }{
		{"empty", "", "exactly one @"},
		{"no at sign", "ann.example.com", "exactly one @"},
		{"two at signs", "ann@evil.example@example.com", "exactly one @"},
		{"source route", "@relay.example:ann@example.com", "exactly one @"},
		{"empty local part", "@example.com", "empty"},
		{"65-byte local part", strings.Repeat("a", 65) + "@example.com", "64 bytes"},
		{"255 bytes", "a@" + strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 61), "254 bytes"},
		{"long", "a@" + strings.Repeat("a.", 5000), "254 bytes"},
		{"empty domain", "ann@", "empty"},
		{"leading dot", ".ann@example.com", "dot"},
		{"trailing dot", "ann.@example.com", "dot"},
		{"two dots", "ann..lee@example.com", "dot"},
		{"quoted", `"ann"@example.com`, "quoted"},
		{"quoted at sign", `"ann@evil.example"@example.com`, "exactly one @"},
		{"percent route", "ann%evil.example@example.com", "route"},
		{"bang route", "evil.example!ann@example.com", "route"},
		{"display name", "Ann <ann@example.com>", "brackets"},
		{"angle brackets", "<ann@example.com>", "brackets"},
		{"comment", "ann(x)@example.com", "brackets"},
		{"list", "ann,bob@example.com", "local part"},
		{"second address", "ann@example.com,bob@example.com", "exactly one @"},
		{"mailto", "mailto:ann@example.com", "local part"},
		{"leading space", " ann@example.com", "local part"},
		{"trailing space", "ann@example.com ", "character"},
		{"header", "ann@example.com\r\nBcc bob", "character"},
		{"header in the local part", "ann\r\nBcc:x@example.com", "local part"},
		{"NUL", "ann\x00@example.com", "local part"},
		{"backslash", `ann\x@example.com`, "local part"},
		{"Unicode local part", "änn@example.com", "local part"},
		{"invalid UTF-8", "ann\xff@example.com", "local part"},
		{"full-width at sign", "ann＠example.com", "exactly one @"},
		{"IPv4", "ann@192.0.2.1", "IP address"},
		{"IPv6", "ann@2001:db8::1", "IP address"},
		{"address literal", "ann@[192.0.2.1]", "brackets"},
		{"IPv6 address literal", "ann@[IPv6:2001:db8::1]", "brackets"},
		{"underscore", "ann@my_host.example", "underscore"},
		{"full-width dot", "ann@example．com", "IDNA2008"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := target.NewEmail(tt.in)
			refused(t, err, tt.reason)
			if e != (target.Email{}) {
				t.Errorf("refused, but gave %+v", e)
			}
		})
	}
}
