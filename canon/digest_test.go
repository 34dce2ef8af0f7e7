package canon_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
)

// SHA-256 of the two bytes {}.
const emptyObject = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

func TestDigest(t *testing.T) {
	d := canon.Sum([]byte("{}"))
	if d.String() != emptyObject || string(d.AppendText([]byte("x"))) != "x"+emptyObject || d.IsZero() {
		t.Errorf("got %s, want %s", d, emptyObject)
	}
	back, err := canon.ParseDigest(emptyObject)
	if err != nil || back != d {
		t.Errorf("got %v, %v", back, err)
	}
	var zero canon.Digest
	if !zero.IsZero() || zero.String() != "" || len(zero.AppendText(nil)) != 0 {
		t.Errorf("the zero Digest reads %q", zero)
	}
}

func TestParseDigestRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty":          "",
		"no algorithm":   emptyObject[7:],
		"algorithm":      "sha512:" + emptyObject[7:],
		"capital prefix": "SHA256:" + emptyObject[7:],
		"capital digits": "sha256:" + strings.ToUpper(emptyObject[7:]),
		"short":          emptyObject[:len(emptyObject)-1],
		"long":           emptyObject + "0",
		"no hex":         emptyObject[:len(emptyObject)-1] + "g",
		"zero":           "sha256:" + strings.Repeat("0", 64),
		"space":          " " + emptyObject[:len(emptyObject)-1],
	} {
		if d, err := canon.ParseDigest(s); err == nil || !d.IsZero() {
			t.Errorf("%s: %q was read as %v", name, s, d)
		}
	}
}
