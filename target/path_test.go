package target_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/target"
)

// TestNewPath holds normal forms to what Python's PurePosixPath gives as
// str(p), p.parts[1:], p.name and p.parents: the table was written from its
// answers. Where PurePosixPath accepts and design rules refuse, the case is in
// TestNewPathRefuses.
func TestNewPath(t *testing.T) {
	tests := []struct {
		in        string
		text      string
		segments  []string
		name      string
		ancestors []string
	}{
		{"/", "/", nil, "", nil},
		{"///", "/", nil, "", nil},
		{"////", "/", nil, "", nil},
		{"/.", "/", nil, "", nil},
		{"/./", "/", nil, "", nil},
		{"/././.", "/", nil, "", nil},
		{"/a", "/a", []string{"a"}, "a", []string{"/"}},
		{"/a/", "/a", []string{"a"}, "a", []string{"/"}},
		{"/a/.", "/a", []string{"a"}, "a", []string{"/"}},
		{"/a/./././", "/a", []string{"a"}, "a", []string{"/"}},
		{"/a//b", "/a/b", []string{"a", "b"}, "b", []string{"/a", "/"}},
		{"/a/./b", "/a/b", []string{"a", "b"}, "b", []string{"/a", "/"}},
		{"/a/b/", "/a/b", []string{"a", "b"}, "b", []string{"/a", "/"}},
		{"///a", "/a", []string{"a"}, "a", []string{"/"}},
		{"////a//b/./", "/a/b", []string{"a", "b"}, "b", []string{"/a", "/"}},
		{"/a/b/c", "/a/b/c", []string{"a", "b", "c"}, "c", []string{"/a/b", "/a", "/"}},
		{"/...", "/...", []string{"..."}, "...", []string{"/"}},
		{"/..a", "/..a", []string{"..a"}, "..a", []string{"/"}},
		{"/a..", "/a..", []string{"a.."}, "a..", []string{"/"}},
		{"/a/.../b", "/a/.../b", []string{"a", "...", "b"}, "b", []string{"/a/...", "/a", "/"}},
		{"/a/. /b", "/a/. /b", []string{"a", ". ", "b"}, "b", []string{"/a/. ", "/a", "/"}},
		{"/ a/b ", "/ a/b ", []string{" a", "b "}, "b ", []string{"/ a", "/"}},
		{"/.hidden", "/.hidden", []string{".hidden"}, ".hidden", []string{"/"}},
		{"/~", "/~", []string{"~"}, "~", []string{"/"}},
		{"/~root/x", "/~root/x", []string{"~root", "x"}, "x", []string{"/~root", "/"}},
		{"/a:b", "/a:b", []string{"a:b"}, "a:b", []string{"/"}},
		{"/a|b", "/a|b", []string{"a|b"}, "a|b", []string{"/"}},
		{"/*", "/*", []string{"*"}, "*", []string{"/"}},
		{"/$HOME/x", "/$HOME/x", []string{"$HOME", "x"}, "x", []string{"/$HOME", "/"}},
		{"/-rf", "/-rf", []string{"-rf"}, "-rf", []string{"/"}},
		{"/%", "/%", []string{"%"}, "%", []string{"/"}},
		{"/%2", "/%2", []string{"%2"}, "%2", []string{"/"}},
		{"/%41", "/%41", []string{"%41"}, "%41", []string{"/"}},
		{"/a%20b", "/a%20b", []string{"a%20b"}, "a%20b", []string{"/"}},
		{"/a.b/c.tar.gz", "/a.b/c.tar.gz", []string{"a.b", "c.tar.gz"}, "c.tar.gz", []string{"/a.b", "/"}},
		{"/A/a", "/A/a", []string{"A", "a"}, "a", []string{"/A", "/"}},
		{"/é/日本", "/é/日本", []string{"é", "日本"}, "日本", []string{"/é", "/"}},
		{"/e\u0301", "/e\u0301", []string{"e\u0301"}, "e\u0301", []string{"/"}},
		{"/a\u200bb", "/a\u200bb", []string{"a\u200bb"}, "a\u200bb", []string{"/"}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			p, err := target.NewPath(tt.in, target.PathOptions{})
			if err != nil {
				t.Fatalf("NewPath(%q): %v", tt.in, err)
			}
			if p.Text != tt.text {
				t.Errorf("Text = %q, want %q", p.Text, tt.text)
			}
			if !slices.Equal(p.Segments, tt.segments) {
				t.Errorf("Segments = %q, want %q", p.Segments, tt.segments)
			}
			if p.Name() != tt.name {
				t.Errorf("Name() = %q, want %q", p.Name(), tt.name)
			}
			if got := p.Ancestors(); !slices.Equal(got, tt.ancestors) {
				t.Errorf("Ancestors() = %q, want %q", got, tt.ancestors)
			}
		})
	}
}

func TestNewPathRefuses(t *testing.T) {
	tests := []struct{ name, in, reason string }{
		{"empty", "", "empty"},
		{"relative", "a/b", "relative"},
		{"relative dot", ".", "relative"},
		{"home", "~/x", "relative"},
		{"file URL", "file:///srv/work", "relative"},
		{"two slashes", "//", "two slashes"},
		{"two slashes and a name", "//a", "two slashes"},
		{"two slashes and a dot", "//./a", "two slashes"},
		{"parent", "/..", ".. segment"},
		{"parent inside", "/a/../b", ".. segment"},
		{"parent at the end", "/a/..", ".. segment"},
		{"parent before a slash", "/a/../", ".. segment"},
		{"escape of the lab", "/workspace/project/../../home/user/.ssh/id_rsa", ".. segment"},
		{"backslash", `/a\b`, "backslash"},
		{"backslash parent", `/a/..\..\b`, "backslash"},
		{"NUL", "/a\x00b", "control"},
		{"newline", "/a\nb", "control"},
		{"tab", "/a\tb", "control"},
		{"escape", "/a\x1bb", "control"},
		{"delete", "/a\x7fb", "control"},
		{"C1 control", "/a\u0085b", "control"},
		{"encoded dot", "/a/%2e%2e/b", "percent-encoded"},
		{"encoded dot, upper case", "/a/%2E./b", "percent-encoded"},
		{"encoded slash", "/a%2fb", "percent-encoded"},
		{"encoded slash, upper case", "/a%2Fb", "percent-encoded"},
		{"encoded backslash", "/a%5cb", "percent-encoded"},
		{"encoded backslash, upper case", "/a%5Cb", "percent-encoded"},
		{"encoded NUL", "/a%00", "percent-encoded"},
		{"encoded dot after a percent sign", "/%%2e", "percent-encoded"},
		{"invalid UTF-8", "/a\xffb", "UTF-8"},
		{"overlong dot", "/\xc0\xae\xc0\xae/b", "UTF-8"},
		{"surrogate", "/a\xed\xa0\x80", "UTF-8"},
		{"4097 bytes", "/" + strings.Repeat("a", 4096), "4096 bytes"},
		{"4097 bytes that shrink", strings.Repeat("/", 4096) + "a", "4096 bytes"},
		{"129 segments", strings.Repeat("/a", 129), "128 segments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := target.NewPath(tt.in, target.PathOptions{})
			refused(t, err, tt.reason)
			if p.Text != "" || p.Segments != nil {
				t.Errorf("refused, but gave %+v", p)
			}
		})
	}
}

// refused fails unless err gives the reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want an error with %q", reason)
	}
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("error %q, want one with %q", err, reason)
	}
}

func TestNewPathLimits(t *testing.T) {
	long := "/" + strings.Repeat("a", target.MaxPathBytes-1)
	deep := strings.Repeat("/a", target.MaxPathSegments)
	for _, in := range []string{long, deep, deep + "/././."} {
		if _, err := target.NewPath(in, target.PathOptions{}); err != nil {
			t.Errorf("NewPath of %d bytes: %v", len(in), err)
		}
	}
}

func TestNewPathBase(t *testing.T) {
	tests := []struct{ base, in, text string }{
		// str(PurePosixPath(base) / in)
		{"/srv/work", "x", "/srv/work/x"},
		{"/srv/work", "./x", "/srv/work/x"},
		{"/srv/work", "a//b/", "/srv/work/a/b"},
		{"/srv/work", ".", "/srv/work"},
		{"/srv/work", "/x", "/x"},
		{"/", "x", "/x"},
		{"///srv//work/./", "x", "/srv/work/x"},
		{"/srv/work", "a~", "/srv/work/a~"},
		{"/srv/work", "./~", "/srv/work/~"},
	}
	for _, tt := range tests {
		p, err := target.NewPath(tt.in, target.PathOptions{Base: tt.base})
		if err != nil {
			t.Errorf("NewPath(%q) under %q: %v", tt.in, tt.base, err)
			continue
		}
		if p.Text != tt.text {
			t.Errorf("NewPath(%q) under %q = %q, want %q", tt.in, tt.base, p.Text, tt.text)
		}
		if want := strings.Split(tt.text[1:], "/"); !slices.Equal(p.Segments, want) {
			t.Errorf("Segments of %q = %q, want %q", p.Text, p.Segments, want)
		}
	}

	refusals := []struct{ name, base, in, reason string }{
		{"parent", "/srv/work", "a/../../x", ".. segment"},
		{"parent alone", "/srv/work", "..", ".. segment"},
		{"empty", "/srv/work", "", "empty"},
		{"home", "/srv/work", "~", "home directory"},
		{"a home", "/srv/work", "~root/x", "home directory"},
		{"a URL", "/srv/work", "file:///etc/passwd", "drive or a variable"},
		{"a drive", "/srv/work", "C:/x", "drive or a variable"},
		{"a drive alone", "/srv/work", "C:", "drive or a variable"},
		{"a variable", "/srv/work", "$HOME/x", "drive or a variable"},
		{"another variable", "/srv/work", "%HOME%/x", "drive or a variable"},
		{"two slashes", "/srv/work", "//x", "two slashes"},
		{"relative base", "srv", "x", "base"},
		{"climbing base", "/srv/..", "x", "base"},
		{"too long together", "/" + strings.Repeat("b", 4000), strings.Repeat("a", 100), "4096 bytes"},
		{"too deep together", strings.Repeat("/b", 100), strings.Repeat("a/", 29), "128 segments"},
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			_, err := target.NewPath(tt.in, target.PathOptions{Base: tt.base})
			refused(t, err, tt.reason)
		})
	}
}

func TestNewPathFold(t *testing.T) {
	fold := target.PathOptions{Fold: true}
	tests := []struct{ in, text string }{
		{"/Srv/WORK", "/srv/work"},
		{"/É", "/é"},
		{"/e\u0301", "/é"}, // NFC
		{"/STRASSE", "/strasse"},
		{"/Straße", "/strasse"}, // full case folding: ß is ss
		{"/\u212a", "/k"},       // Kelvin sign
		{"/Σίσυφος", "/σίσυφοσ"},
	}
	for _, tt := range tests {
		p, err := target.NewPath(tt.in, fold)
		if err != nil {
			t.Errorf("NewPath(%q): %v", tt.in, err)
		} else if p.Text != tt.text {
			t.Errorf("NewPath(%q) = %q, want %q", tt.in, p.Text, tt.text)
		}
	}

	p, err := target.NewPath("Work/A", target.PathOptions{Fold: true, Base: "/SRV"})
	if err != nil || p.Text != "/srv/work/a" {
		t.Errorf("under a base: %q, %v", p.Text, err)
	}

	refusals := []struct{ name, in, reason string }{
		{"encoded dot that folding hides", "/%2e\u0301", "percent-encoded"},
		{"encoded slash that folding makes", "/%2\ufb00", "percent-encoded"},       // %2ﬀ
		{"longer when folded", "/" + strings.Repeat("\u0149", 2047), "4096 bytes"}, // ŉ becomes ʼn
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			_, err := target.NewPath(tt.in, fold)
			refused(t, err, tt.reason)
		})
	}
}

// TestWithin gives what PurePosixPath(path).relative_to(root) accepts.
func TestWithin(t *testing.T) {
	tests := []struct {
		path, root string
		want       bool
	}{
		{"/workspace/project", "/workspace/project", true},
		{"/workspace/project/", "/workspace/project", true},
		{"/workspace/project/x", "/workspace/project", true},
		{"/workspace/project/.x", "/workspace/project", true},
		{"/workspace//project/./x", "/workspace/project/", true},
		{"/workspace/project/workspace/project", "/workspace/project", true},
		{"/workspace/project2", "/workspace/project", false},
		{"/workspace/project-old/x", "/workspace/project", false},
		{"/workspace/projec", "/workspace/project", false},
		{"/workspace", "/workspace/project", false},
		{"/x/workspace/project", "/workspace/project", false},
		{"/Workspace/project/x", "/workspace/project", false},
		{"/a", "/a/b", false},
		{"/", "/", true},
		{"/a", "/", true},
		{"///a", "/", true},
		{"/", "/a", false},
	}
	for _, tt := range tests {
		if got := path(t, tt.path).Within(path(t, tt.root)); got != tt.want {
			t.Errorf("%q within %q = %v, want %v", tt.path, tt.root, got, tt.want)
		}
	}

	var zero target.Path
	if root := path(t, "/"); zero.Within(root) || root.Within(zero) || zero.Within(zero) {
		t.Error("the zero Path is within something, or something within it")
	}
}

func path(t *testing.T, text string) target.Path {
	t.Helper()
	p, err := target.NewPath(text, target.PathOptions{})
	if err != nil {
		t.Fatalf("NewPath(%q): %v", text, err)
	}
	return p
}

func BenchmarkNewPath(b *testing.B) {
	for b.Loop() {
		if _, err := target.NewPath("/workspace/project/reports/2026/q2.txt", target.PathOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
