package target

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ/canon"
)

// Limits of a path, on the text as given and on its normal form.
const (
	MaxPathBytes    = 4096 // PATH_MAX of the usual systems, in bytes of UTF-8
	MaxPathSegments = 128
)

// Path is an absolute POSIX path in normal form (POSIX.1-2017, section 4.13,
// read without a file system). The zero Path names nothing: it is within
// nothing and nothing is within it.
type Path struct {
	// Text starts with a slash and ends in none, but for the root, which is
	// "/". It holds no empty, "." or ".." segment.
	Text string
	// Segments are the names from the root down; none for the root.
	Segments []string
}

// PathOptions says how a server reads its paths.
type PathOptions struct {
	// Base is the absolute directory to which relative paths belong. Empty:
	// relative paths are refused.
	Base string
	// Fold says that names are case-insensitive: the normal form is then the
	// folded text ([canon.Fold]), so that Text no longer tells spellings apart
	// that the server's file system holds to be one.
	Fold bool
}

// NewPath returns text in normal form. "." segments, repeated slashes and
// trailing slashes drop; three or more leading slashes are one (POSIX.1-2017,
// section 3.271).
//
// Refused, because servers read them in different ways: ".." segments,
// exactly two leading slashes (POSIX leaves their meaning open), backslashes,
// control characters (Unicode Cc), percent-encoded ".", "/", "\" and NUL,
// invalid UTF-8, an empty text, a relative path without a base, and a
// relative path that starts with "~", which many servers take for a home
// directory, or like a URL, a drive or a variable.
func NewPath(text string, o PathOptions) (Path, error) {
	if text == "" {
		return Path{}, errors.New("the path is empty: give an absolute path")
	}
	if len(text) > MaxPathBytes {
		return Path{}, errPathLong()
	}
	if !utf8.ValidString(text) {
		return Path{}, errors.New("the path is not valid UTF-8")
	}
	if err := checkPathText(text); err != nil {
		return Path{}, err
	}
	if o.Fold {
		// Folding can hide what the server still sees (%2e before a combining
		// accent) and can bring it about (%2ﬀ becomes %2ff): check both texts.
		text = canon.Fold(text)
		if err := checkPathText(text); err != nil {
			return Path{}, err
		}
	}

	var above []string
	if text[0] != '/' {
		if o.Base == "" {
			return Path{}, errors.New("the path is relative: give an absolute path")
		}
		if text[0] == '~' {
			return Path{}, errors.New("the path starts with ~, which a server may take for a home directory: give an absolute path")
		}
		if first, _, _ := strings.Cut(text, "/"); strings.ContainsRune(first, ':') || first != "" && strings.ContainsRune("$%", rune(first[0])) {
			return Path{}, errors.New("the path starts like a URL, a drive or a variable, which a server may follow: give an absolute path")
		}
		base, err := NewPath(o.Base, PathOptions{Fold: o.Fold})
		if err != nil {
			return Path{}, fmt.Errorf("the base for relative paths: %w", err)
		}
		above = base.Segments
	} else if strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "///") {
		return Path{}, errors.New("the path starts with exactly two slashes, which systems read differently: use one")
	}
	return normalPath(above, text)
}

// checkPathText refuses what may not stand anywhere in a path.
func checkPathText(text string) error {
	for i, r := range text {
		switch {
		case r == '\\':
			return errors.New("the path holds a backslash: separate names with /")
		case unicode.IsControl(r):
			return errors.New("the path holds a control character")
		case r == '%' && i+2 < len(text):
			switch strings.ToLower(text[i+1 : i+3]) {
			case "2e", "2f", "5c", "00":
				return errors.New("the path holds a percent-encoded dot, slash, backslash or NUL: write paths unencoded")
			}
		}
	}
	return nil
}

// normalPath drops empty and "." segments of text and puts it below the
// segments above.
func normalPath(above []string, text string) (Path, error) {
	segments := make([]string, len(above), len(above)+strings.Count(text, "/")+1)
	copy(segments, above)
	for name := range strings.SplitSeq(text, "/") {
		switch name {
		case "", ".":
			continue
		case "..":
			return Path{}, errors.New("the path has a .. segment: give the path that it leads to")
		}
		if len(segments) == MaxPathSegments {
			return Path{}, fmt.Errorf("the path has more than %d segments", MaxPathSegments)
		}
		segments = append(segments, name)
	}
	if len(segments) == 0 {
		return Path{Text: "/"}, nil
	}
	size := 0
	for _, name := range segments {
		size += 1 + len(name)
	}
	if size > MaxPathBytes {
		return Path{}, errPathLong()
	}
	// Nothing dropped and nothing put above: the text is its normal form.
	if size != len(text) || text[0] != '/' {
		text = "/" + strings.Join(segments, "/")
	}
	return Path{Text: text, Segments: slices.Clip(segments)}, nil
}

func errPathLong() error { return fmt.Errorf("the path is longer than %d bytes", MaxPathBytes) }

// Name returns the last segment: the empty string for the root.
func (p Path) Name() string {
	if len(p.Segments) == 0 {
		return ""
	}
	return p.Segments[len(p.Segments)-1]
}

// Within reports whether p is root or below it. Both must have been made with
// the same Fold.
func (p Path) Within(root Path) bool {
	if p.Text == "" || root.Text == "" {
		return false
	}
	rest, ok := strings.CutPrefix(p.Text, root.Text)
	return ok && (root.Text == "/" || rest == "" || rest[0] == '/')
}

// Ancestors returns the normal texts of the directories above p, the nearest
// first, "/" last; none for the root.
func (p Path) Ancestors() []string {
	if len(p.Segments) == 0 {
		return nil
	}
	out := make([]string, 0, len(p.Segments))
	for i := strings.LastIndexByte(p.Text, '/'); i > 0; i = strings.LastIndexByte(p.Text[:i], '/') {
		out = append(out, p.Text[:i])
	}
	return append(out, "/")
}
