package snapshot_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/snapshot"
)

func TestTemplateEntity(t *testing.T) {
	for _, tt := range []struct {
		template, subject string
		claims            map[string]string
		typ, id           string // empty type: an error
	}{
		{`User::"{sub}"`, "dana", nil, "User", "dana"},
		{`User::"okta|{sub}"`, "dana", nil, "User", "okta|dana"},
		{`Acme::User::"{sub}@acme.example"`, "dana", nil, "Acme::User", "dana@acme.example"},
		{`Agent::"{client_id}"`, "x", map[string]string{"client_id": "copilot"}, "Agent", "copilot"},
		{`User::"{tid}/{sub}"`, "dana", map[string]string{"tid": "acme"}, "User", "acme/dana"},
		{`User::"{https://acme.example/id}"`, "x", map[string]string{"https://acme.example/id": "7"}, "User", "7"},
		// What is substituted is opaque.
		{`User::"{sub}"`, `a" || true || "{sub}` + "\n", nil, "User", `a" || true || "{sub}` + "\n"},
		{`User::"{sub}"`, `User::"admin"`, nil, "User", `User::"admin"`},
		// A claim called sub is not the subject.
		{`User::"{sub}"`, "dana", map[string]string{"sub": "admin"}, "User", "dana"},

		{`User::"{sub}"`, "", nil, "", ""},
		{`Agent::"{client_id}"`, "x", nil, "", ""},
		{`Agent::"{client_id}"`, "x", map[string]string{"client_id": ""}, "", ""},
		{`User::"{sub}"`, "a\xff", nil, "", ""},
		{`User::"{sub}"`, strings.Repeat("a", 1024), nil, "User", strings.Repeat("a", 1024)},
		{`User::"{sub}"`, strings.Repeat("a", 1025), nil, "", ""},
		{`User::"x{sub}"`, strings.Repeat("a", 1024), nil, "", ""},
		// Two accounts must not meet in one entity.
		{`User::"{tid}/{sub}"`, "c", map[string]string{"tid": "a/b"}, "", ""},
		{`User::"{tid}aa{sub}"`, "c", map[string]string{"tid": "a"}, "", ""},
		{`User::"{tid}/{sub}"`, "b/c", map[string]string{"tid": "a"}, "User", "a/b/c"},
	} {
		tmpl, err := snapshot.ParseTemplate(tt.template)
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		uid, err := tmpl.Entity(tt.subject, tt.claims)
		if (err != nil) != (tt.typ == "") {
			t.Errorf("%s of %q %v: error %v", tt.template, tt.subject, tt.claims, err)
			continue
		}
		if want := types.NewEntityUID(types.EntityType(tt.typ), types.String(tt.id)); err == nil && uid != want {
			t.Errorf("%s of %q %v: %s, want %s", tt.template, tt.subject, tt.claims, uid, want)
		}
		if err != nil {
			continue
		}
		subject, claims, ok := tmpl.Match(uid)
		if again, err := tmpl.Entity(subject, claims); !ok || err != nil || again != uid {
			t.Errorf("%s doesn't match its own entity %s: %q %v %v", tt.template, uid, subject, claims, ok)
		}
	}
}

func TestTemplateMatch(t *testing.T) {
	for _, tt := range []struct {
		template, typ, id string
		subject           string
		claims            map[string]string
		ok                bool
	}{
		{`User::"{sub}"`, "User", "dana", "dana", nil, true},
		{`User::"okta|{sub}"`, "User", "okta|dana", "dana", nil, true},
		{`User::"{preferred_username}"`, "User", "dana", "", map[string]string{"preferred_username": "dana"}, true},
		{`User::"{tid}/{sub}"`, "User", "a/b/c", "b/c", map[string]string{"tid": "a"}, true},
		{`User::"{sub}"`, "Agent", "dana", "", nil, false},
		{`User::"okta|{sub}"`, "User", "dana", "", nil, false},
		{`User::"okta|{sub}"`, "User", "okta|", "", nil, false},
		{`User::"{sub}@acme"`, "User", "dana", "", nil, false},
	} {
		tmpl, err := snapshot.ParseTemplate(tt.template)
		if err != nil {
			t.Fatal(err)
		}
		subject, claims, ok := tmpl.Match(types.NewEntityUID(types.EntityType(tt.typ), types.String(tt.id)))
		if subject != tt.subject || !maps.Equal(claims, tt.claims) || ok != tt.ok {
			t.Errorf("%s of %s::%q: %q %v %v", tt.template, tt.typ, tt.id, subject, claims, ok)
		}
	}
	var zero snapshot.Template
	if _, _, ok := zero.Match(types.EntityUID{}); ok {
		t.Error("the zero template matches")
	}
	if _, err := zero.Entity("dana", nil); err == nil {
		t.Error("the zero template makes an entity")
	}
}

func TestParseTemplateRefuses(t *testing.T) {
	for _, text := range []string{
		``, `User`, `User::`, `User::""`, `User::"dana"`, `"{sub}"`, `::"{sub}"`, `User:"{sub}"`, `User::{sub}`, `User::"{sub}`,
		`User::'{sub}'`, `1User::"{sub}"`, `Us er::"{sub}"`, ` User::"{sub}"`, `A::::B::"{sub}"`, `User::"{}"`, `User::"{sub"`, `User::"sub}"`,
		`User::"{sub}}"`, `User::"{{sub}}"`, `User::"{a}{b}"`, `User::"{sub}|{sub}"`, `User::"a\n{sub}"`, "User::\"\n{sub}\"", `User::"{sub}"x"`,
		"User::\"\xff{sub}\"", `User::"{a b}"`,
	} {
		if tmpl, err := snapshot.ParseTemplate(text); err == nil {
			t.Errorf("%q is taken as %v", text, tmpl)
		}
	}
}

func TestTemplateOverlaps(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`User::"{sub}"`, `User::"{sub}"`, true},
		{`User::"{sub}"`, `User::"okta|{sub}"`, true},
		{`User::"a{sub}"`, `User::"ab{sub}"`, true},
		{`User::"okta|{sub}"`, `User::"entra|{sub}"`, false},
		{`User::"{sub}"`, `Agent::"{sub}"`, false},
	} {
		a, err := snapshot.ParseTemplate(tt.a)
		b, err2 := snapshot.ParseTemplate(tt.b)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s and %s: want %v", tt.a, tt.b, tt.want)
		}
	}
}

// FuzzTemplate holds a template to its promise: what it makes, it matches,
// and two accounts never give one entity.
func FuzzTemplate(f *testing.F) {
	f.Add(`User::"{sub}"`, "dana", "x", "erin", "y")
	f.Add(`User::"{tid}/{sub}"`, "b/c", "a", "c", "a/b")
	f.Add(`User::"{tid}aa{sub}"`, "aab", "a", "b", "aa")
	f.Add(`Acme::U::"p{tid}-{sub}-s"`, "-", "-", "", "--")
	f.Fuzz(func(t *testing.T, text, sub1, tid1, sub2, tid2 string) {
		tmpl, err := snapshot.ParseTemplate(text)
		if err != nil {
			return
		}
		claims1, claims2 := map[string]string{"tid": tid1}, map[string]string{"tid": tid2}
		one, err1 := tmpl.Entity(sub1, claims1)
		two, err2 := tmpl.Entity(sub2, claims2)
		if err1 != nil || err2 != nil {
			return
		}
		s1, c1, ok := tmpl.Match(one)
		if again, err := tmpl.Entity(s1, c1); !ok || err != nil || again != one {
			t.Fatalf("%s makes %s and doesn't match it", text, one)
		}
		s2, c2, _ := tmpl.Match(two)
		if one == two && (s1 != s2 || !maps.Equal(c1, c2)) {
			t.Fatalf("%s makes %s of two accounts", text, one)
		}
		if strings.Contains(text, "{sub}") && one == two && sub1 != sub2 {
			t.Fatalf("%s makes %s of %q and %q", text, one, sub1, sub2)
		}
	})
}
