package snapshot_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/snapshot"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]snapshot.Identity{
		"spiffe://acme.example/ap-host":         {Kind: snapshot.IdentityURI, Name: "spiffe://acme.example/ap-host"},
		"spiffe://acme.example/ns/x/sa/Y_1.z":   {Kind: snapshot.IdentityURI, Name: "spiffe://acme.example/ns/x/sa/Y_1.z"},
		"urn:acme:ap-host":                      {Kind: snapshot.IdentityURI, Name: "urn:acme:ap-host"},
		"https://ap.acme.example:8443/host?a=b": {Kind: snapshot.IdentityURI, Name: "https://ap.acme.example:8443/host?a=b"},
		"AP-host.Acme.example":                  {Kind: snapshot.IdentityDNS, Name: "ap-host.acme.example"},
		"localhost":                             {Kind: snapshot.IdentityDNS, Name: "localhost"},
	} {
		if got, err := snapshot.ParseName(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	// SPIFFE-ID, sections 2.1 to 2.3, and RFC 1035, section 2.3.1.
	for _, text := range []string{
		"", "a b", "ümlaut.example", "a\x00b", "*.acme.example", "acme.example.", ".acme.example", "a..b", "-a.example", "a-.example",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "ab",
		"spiffe://acme.example", "spiffe://acme.example/", "spiffe:///ap-host", "spiffe://Acme.example/ap-host", "SPIFFE://acme.example/ap-host",
		"spiffe://acme.example:8443/ap-host", "spiffe://me@acme.example/ap-host", "spiffe://acme.example/a//b", "spiffe://acme.example/a/",
		"spiffe://acme.example/./a", "spiffe://acme.example/a/..", "spiffe://acme.example/a%2Fb", "spiffe://acme.example/a?b", "spiffe://acme.example/a#b",
		"spiffe://acme.example/ä", "spiffe:acme", "spiffe://acme.example/" + strings.Repeat("a", 2048), "spiffe://" + strings.Repeat("a", 256) + "/x",
		":", "1:2", "http://[::1", "urn:a#",
	} {
		if got, err := snapshot.ParseName(text); err == nil || got != (snapshot.Identity{}) {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestTrustDomain(t *testing.T) {
	for text, want := range map[string]string{
		"spiffe://acme.example/ap-host": "acme.example", "https://acme.example/ap-host": "", "acme.example": "",
	} {
		id, err := snapshot.ParseName(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := id.TrustDomain(); got != want {
			t.Errorf("%s is of trust domain %q, want %q", text, got, want)
		}
	}
	if got := (snapshot.Identity{Kind: snapshot.IdentitySubject, Name: "spiffe://acme.example/ap-host"}).TrustDomain(); got != "" {
		t.Errorf("a subject is of trust domain %q", got)
	}
}

// RFC 4514, sections 2.4 and 3, as crypto/x509/pkix writes it.
func TestParseSubject(t *testing.T) {
	for _, text := range []string{
		"CN=ap-host,O=Acme", "CN=ap-host", "CN=a+OU=b,C=GB", `CN=Acme\, Inc.`, `CN=\#1`, `CN=\ a\ `, "CN=a#b c", `CN=\\`, "CN=ä=b",
		"1.2.840.113549.1.9.1=#160161", "CN=x,0.9.2342.19200300.100.1.25=#160461636d65",
	} {
		if got, err := snapshot.ParseSubject(text); err != nil || got != (snapshot.Identity{Kind: snapshot.IdentitySubject, Name: text}) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "ap-host", "CN=", "=x", "cn=ap-host", "CN=ap-host, O=Acme", "CN = ap-host", "CN=a,", ",CN=a", "CN=a,,O=b", `CN=a\`, `CN=a"b`, "CN=a;O=b",
		"CN=#1", "CN= a", "CN=a ", `CN=\a`, `CN=a\ b`, "emailAddress=a@b", "1.2.3=abc", "1.2.3=#zz", "1.2.3=#AB", "CN=" + strings.Repeat("a", 2048),
	} {
		if got, err := snapshot.ParseSubject(text); err == nil || got != (snapshot.Identity{}) {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestUIDIdentity(t *testing.T) {
	if got, err := snapshot.UIDIdentity(1000); err != nil || got != (snapshot.Identity{Kind: snapshot.IdentityUID, Name: "1000"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, uid := range []uint32{65534, 1<<32 - 1} {
		if got, err := snapshot.UIDIdentity(uid); err == nil {
			t.Errorf("%d is %v", uid, got)
		}
	}
}

// What is read is one identity, and reading its name again gives the same.
func FuzzIdentity(f *testing.F) {
	for _, seed := range []string{
		"spiffe://acme.example/ap-host", "spiffe://acme.example/a%2fb", "urn:a:b", "AP.acme.example", "CN=ap-host,O=Acme", `CN=\#\ x\,y+OU=z`, "1.2.3=#0500", `CN=a\`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (snapshot.Identity, error){snapshot.ParseName, snapshot.ParseSubject} {
			id, err := parse(text)
			if err != nil {
				if id != (snapshot.Identity{}) {
					t.Errorf("%q is wrong, and is %v", text, id)
				}
				continue
			}
			if again, err := parse(id.Name); err != nil || again != id {
				t.Errorf("%q is %v, which is %v, %v", text, id, again, err)
			}
			if domain := id.TrustDomain(); domain != "" && !strings.HasPrefix(id.Name, "spiffe://"+domain+"/") {
				t.Errorf("%v is of trust domain %q", id, domain)
			}
		}
	})
}
