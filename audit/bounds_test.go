package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ/audit"
)

// TestResourcesLeftOut: of many resources as many are told as fit, in order,
// and the rest is counted.
func TestResourcesLeftOut(t *testing.T) {
	for _, tc := range []struct {
		name   string
		secret bool
		length int // of one resource
		count  int
	}{
		{"as large as paths may be", false, 4096, 256},
		{"small", false, 10, 20_000},
		{"secret", true, 40, 2_000},
		{"one that never fits", false, 70_000, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := fullRecord()
			r.SecretResources, r.ResourcesLeftOut, r.Resources = tc.secret, 0, nil
			for i := range tc.count {
				r.Resources = append(r.Resources, fmt.Sprintf("%0*d", tc.length, i))
			}
			leaf := leafOf(&r, &testKey)
			m := readLeaf(t, leaf)
			told := len(m.Resources)
			if told+int(m.ResourcesLeftOut) != tc.count || m.ResourcesLeftOut == 0 || m.Redacted {
				t.Fatalf("%d told, %d left out of %d, redacted %t", told, m.ResourcesLeftOut, tc.count, m.Redacted)
			}
			// What is told is the beginning, and the rest of the record is whole.
			expected := r
			expected.Resources, expected.ResourcesLeftOut = r.Resources[:told], tc.count-told
			if !proto.Equal(m, message(expected)) {
				t.Errorf("got %.2000v", m)
			}
			// Nothing is left out that would have fitted, but for the digits of a count.
			one := tc.length
			if tc.secret {
				one = len(underKey("x"))
			}
			if room := maxBody + len(front) - len(leaf); room > one+len(`"",`)+32 {
				t.Errorf("there was room for %d bytes more", room)
			}
		})
	}
}

// TestJustFits: at the bound nothing is cut, and one byte over it something is.
func TestJustFits(t *testing.T) {
	r := fullRecord()
	r.ResourcesLeftOut, r.Explanation = 0, ""
	r.Explanation = strings.Repeat("x", maxBody+len(front)-len(leafOf(&r, &testKey))-len(`,"explanation":""`))
	leaf := leafOf(&r, &testKey)
	if len(leaf) != maxBody+len(front) || !proto.Equal(readLeaf(t, leaf), message(r)) {
		t.Errorf("%d bytes", len(leaf))
	}
	r.Explanation += "x"
	if m := readLeaf(t, leafOf(&r, &testKey)); m.ResourcesLeftOut == 0 || m.Redacted || m.Explanation != r.Explanation {
		t.Errorf("%d left out, redacted %t", m.ResourcesLeftOut, m.Redacted)
	}
	// Also the count of what is left out has to fit, whether a few or many are.
	for _, count := range []int{16_000, 20_000} {
		r = fullRecord()
		r.SecretResources, r.ResourcesLeftOut, r.Resources = false, 0, slices.Repeat([]string{"x"}, count)
		r.Explanation = strings.Repeat("x", 500)
		for range 5 { // resources come in pieces of four bytes
			r.Explanation += "x"
			if m := readLeaf(t, leafOf(&r, &testKey)); len(m.Resources) < 10_000 || len(m.Resources) == count || m.Explanation != r.Explanation {
				t.Errorf("%d of %d told", len(m.Resources), count)
			}
		}
	}
}

// TestRedacted: what is too long without resources, what pdp calls redacted,
// and what has no key holds no value; all else is there.
func TestRedacted(t *testing.T) {
	long := strings.Repeat("secret ", 10_000)
	for name, edit := range map[string]func(*audit.Record){
		"told so":            func(r *audit.Record) { r.Redacted = true },
		"a long argument":    func(r *audit.Record) { r.Arguments[0].JSON = long },
		"a long reference":   func(r *audit.Record) { r.Evidence[1].Reference = long },
		"and long resources": func(r *audit.Record) { r.Resources[0], r.SecretResources, r.Arguments[0].JSON = long, false, long },
		"many arguments": func(r *audit.Record) {
			for i := range 2000 {
				r.Arguments = append(r.Arguments, audit.Argument{Pointer: fmt.Sprintf("/%d", i), JSON: `"a secret of some length"`})
			}
		},
	} {
		r := fullRecord()
		edit(&r)
		leaf := leafOf(&r, &testKey)
		expected := fullRecord()
		expected.Redacted = true
		same(t, leaf, message(expected))
		if strings.Contains(string(leaf), "secret ") || strings.Contains(string(leaf), "GBP") {
			t.Errorf("%s: a value is told: %s", name, leaf)
		}
	}
	r, expected := fullRecord(), fullRecord()
	expected.Redacted = true
	expected.CallDigest, expected.ProposalDigest, expected.ReviewDigest, expected.TokenDigest, expected.RetriesDigest = "", "", "", "", ""
	same(t, leafOf(&r, nil), message(expected))
}

// TestCut: a record that is too long even without values keeps the beginning of
// everything.
func TestCut(t *testing.T) {
	for _, text := range []string{"x", "\x00", "\x7f", "\xff ", "é", "\u2028", "\U000e0041", `"`} {
		r := fullRecord()
		whole := strings.Repeat(text, 2_000)
		fill(&r, whole)
		for _, list := range []*[]string{&r.Actors, &r.Policies, &r.Errors, &r.Faults, &r.Resources} {
			for len(*list) < 12 {
				*list = append(*list, (*list)[0])
			}
		}
		m := readLeaf(t, leafOf(&r, &testKey))
		if !m.Redacted || m.ResourcesLeftOut != 15 || len(m.Resources)+len(m.Arguments)+len(m.Evidence) > 0 || len(m.Faults) != 8 {
			t.Errorf("%q: redacted %t, %d left out, %d faults", text, m.Redacted, m.ResourcesLeftOut, len(m.Faults))
		}
		for _, kept := range []string{m.Id, m.Explanation, m.Revoked.Reason, m.Faults[7], m.Revision} {
			if kept == "" || len(kept) > 3*128 || !strings.HasPrefix(utf8Text(whole), kept) || utf8.ValidString(text) && strings.Contains(kept, "\uFFFD") {
				t.Errorf("%q: kept %q", text, kept)
			}
		}
		if m.CallDigest != underKey(r.CallDigest) {
			t.Errorf("%q: a digest is cut", text)
		}
	}
}

// FuzzRecord: any texts make one line that reads back as it was, or, where it
// is too long, as its beginning.
func FuzzRecord(f *testing.F) {
	f.Add("plain", "more", uint16(1), int64(0), false)
	f.Add("a\u009b2J\u202e\u2028\x00\x1b\x7f\"\\", "\xff\xfe", uint16(3), int64(-1), true)
	f.Add("\U0010ffff", "\xed\xa0\x80", uint16(4000), int64(1<<62), false)
	f.Add(`"},{"`, "[{", uint16(900), int64(253402300799), true)
	f.Fuzz(func(t *testing.T, one, other string, times uint16, seconds int64, redacted bool) {
		r := fullRecord()
		fill(&r, one)
		r.Redacted = redacted
		r.Arguments[0].Pointer, r.Evidence[0].Reference, r.Explanation = other, other, other
		r.Revoked.Until = time.Unix(seconds, 0)
		for range int(times) {
			r.Resources = append(r.Resources, other)
		}
		m := readLeaf(t, leafOf(&r, &testKey))
		if len(one) >= 200 || len(other) >= 200 {
			return // what was cut, and where, is another test's
		}
		if redacted != m.Redacted {
			t.Errorf("redacted: %t", m.Redacted)
		}
		expected := r
		if left := len(r.Resources) - len(m.Resources); !m.Redacted && left > 0 {
			expected.Resources, expected.ResourcesLeftOut = r.Resources[:len(m.Resources)], r.ResourcesLeftOut+left
		}
		want := message(expected)
		if r.Revoked.Until.Before(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)) || !r.Revoked.Until.Before(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			want.Revoked.Until = m.Revoked.Until // see TestTimes
		}
		if !proto.Equal(m, want) {
			t.Errorf("\n got %.3000v\nwant %.3000v", m, want)
		}
	})
}
