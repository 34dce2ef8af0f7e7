package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ/canon"
)

// MaxFiles is how many files a bundle may hold.
const MaxFiles = 10_000

// What files may hold at most, in bytes.
const (
	maxFile     = 1 << 20
	maxTools    = 16 << 20 // servers/*.tools.json
	maxEntities = 64 << 20 // entities/**.json
	maxTotal    = 256 << 20
)

// sizeOf returns how many bytes the file with this name may hold.
func sizeOf(name string) int {
	switch {
	case strings.HasPrefix(name, "entities/"):
		return maxEntities
	case strings.HasSuffix(name, ".tools.json"):
		return maxTools
	}
	return maxFile
}

// known is what a fault about a strange file says there is.
const known = "a bundle holds servers/ID.yaml with servers/ID.tools.json, policies/**.cedar, entities/**.json, scenarios/**.yaml, " +
	"jwks/NAME.json, schema.cedarschema, bundle.yaml, issuers.yaml, callers.yaml and revocations.yaml; " +
	"README.md, files named LICENSE* and files whose names begin with a dot may lie anywhere"

// layout is a bundle's files by their part in it. Each list is in bytewise
// order of names.
type layout struct {
	bundle, issuers, callers, revocations, schema *File
	servers                                       map[string]*serverFiles // by id
	policies, entities, scenarios, keySets        []*File
}

// serverFiles are the two files of one server.
type serverFiles struct{ review, tools *File }

// ignored reports whether a file is no part of the bundle: it is for people,
// or hidden.
func ignored(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	base := path.Base(name)
	switch path.Ext(base) {
	case ".cedar", ".json", ".yaml", ".cedarschema":
		return false // a rule, whatever its name starts with
	}
	return base == "README.md" || strings.HasPrefix(base, "LICENSE")
}

// sortFiles returns the files that count, in bytewise order of names.
func (b *builder) sortFiles(files []File) []File {
	var out []File
	total := 0
	for _, f := range files {
		if !fs.ValidPath(f.Name) || !utf8.ValidString(f.Name) || strings.ContainsFunc(f.Name, unicode.IsControl) || strings.Contains(f.Name, `\`) {
			b.fault("", 0, 0, fmt.Sprintf("the file name %q: write names relative to the bundle with forward slashes and without control characters", f.Name))
			continue
		}
		if ignored(f.Name) {
			continue
		}
		if limit := sizeOf(f.Name); f.Size() > limit {
			b.fault(f.Name, 0, 0, fmt.Sprintf("the file has %d bytes: at most %d are read, so split it", f.Size(), limit))
			continue
		}
		total += f.Size()
		out = append(out, f)
	}
	if len(out) > MaxFiles || total > maxTotal {
		b.fault("", 0, 0, fmt.Sprintf("the bundle has %d files of %d bytes: at most %d of %d bytes are read", len(out), total, MaxFiles, maxTotal))
		return nil
	}
	slices.SortStableFunc(out, func(x, y File) int { return cmp.Compare(x.Name, y.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			b.fault(out[i].Name, 0, 0, "the file is there twice")
			return nil
		}
	}
	return out
}

// arrange gives each file its part. A file that has none is a fault: a
// misspelt name must not mean that a rule is missing.
func (b *builder) arrange(files []File) {
	b.layout.servers = map[string]*serverFiles{}
	for i := range files {
		f := &files[i]
		if !b.layout.place(f) {
			b.fault(f.Name, 0, 0, strange(f.Name)+": "+known)
		}
	}
	if len(b.layout.servers) == 0 {
		b.fault("", 0, 0, "the bundle has no server: write servers/ID.yaml and servers/ID.tools.json")
	}
	if b.layout.lawless() {
		b.fault("", 0, 0, "the bundle has no policy, so nothing would be permitted: write policies/NAME.cedar")
	}
}

// lawless reports whether no file holds a policy.
func (l *layout) lawless() bool {
	return !slices.ContainsFunc(l.policies, func(f *File) bool { return !blank(f.Data) })
}

// blank reports whether a Cedar text is nothing but white space and comments.
func blank(text []byte) bool {
	for {
		text = bytes.TrimLeft(text, " \t\r\n")
		end, size := 0, 1
		switch {
		case len(text) == 0:
			return true
		case bytes.HasPrefix(text, []byte("//")):
			end = bytes.IndexByte(text, '\n')
		case bytes.HasPrefix(text, []byte("/*")):
			end, size = bytes.Index(text[2:], []byte("*/")), len("/**/")
			if end < 0 {
				return false // a comment without end: a fault
			}
		default:
			return false
		}
		if end < 0 {
			return true
		}
		text = text[end+size:]
	}
}

// place reports whether f has a part in a bundle.
func (l *layout) place(f *File) bool {
	switch f.Name {
	case "bundle.yaml":
		l.bundle = f
		return true
	case "issuers.yaml":
		l.issuers = f
		return true
	case "callers.yaml":
		l.callers = f
		return true
	case "revocations.yaml":
		l.revocations = f
		return true
	case "schema.cedarschema":
		l.schema = f
		return true
	}
	dir, rest, ok := strings.Cut(f.Name, "/")
	if !ok {
		return false
	}
	switch ext := path.Ext(rest); {
	case dir == "policies" && ext == ".cedar":
		l.policies = append(l.policies, f)
	case dir == "entities" && ext == ".json":
		l.entities = append(l.entities, f)
	case dir == "scenarios" && ext == ".yaml":
		l.scenarios = append(l.scenarios, f)
	case dir == "jwks" && ext == ".json" && !strings.Contains(rest, "/"):
		l.keySets = append(l.keySets, f)
	case dir == "servers" && !strings.Contains(rest, "/"):
		if id, ok := strings.CutSuffix(rest, ".tools.json"); ok && id != "" {
			l.server(id).tools = f
		} else if id, ok := strings.CutSuffix(rest, ".yaml"); ok && id != "" {
			l.server(id).review = f
		} else {
			return false
		}
	default:
		return false
	}
	return true
}

func (l *layout) server(id string) *serverFiles {
	if l.servers[id] == nil {
		l.servers[id] = &serverFiles{}
	}
	return l.servers[id]
}

// strange says what is wrong with a name that has no part.
func strange(name string) string {
	if stem, ok := strings.CutSuffix(name, ".yml"); ok {
		return "the name ends in .yml: rename it " + path.Base(stem) + ".yaml"
	}
	if backup(path.Base(name)) {
		return "this looks like an editor's backup or swap file, and what it holds may once have been a rule: remove it"
	}
	dir, _, ok := strings.Cut(name, "/")
	if !ok {
		return "no such file belongs here"
	}
	switch dir {
	case "servers", "policies", "entities", "scenarios", "jwks":
		return "no such file belongs in " + dir + "/"
	}
	return "no such directory belongs here"
}

// backup reports whether a file's name is of the kind that editors and tools
// give to copies.
func backup(name string) bool {
	switch path.Ext(name) {
	case ".swp", ".swo", ".swn", ".bak", ".orig", ".rej", ".tmp", ".old":
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// revision names the content of a bundle: equal files give equal revisions,
// in whatever order they came.
func revision(files []File) string {
	h := sha256.New()
	h.Write([]byte("writ.bundle.v1\x00"))
	for i := range files {
		sum := files[i].digest()
		fmt.Fprintf(h, "%d:%s", len(files[i].Name), files[i].Name)
		h.Write(sum[:])
	}
	return canon.Digest(h.Sum(nil)).String()
}

// lineOf turns a byte offset into a line and a column in characters, from 1.
func lineOf(data []byte, offset int) (line, column int) {
	offset = min(max(offset, 0), len(data))
	line = 1
	start := 0
	for i := range offset {
		if data[i] == '\n' {
			line, start = line+1, i+1
		}
	}
	return line, utf8.RuneCount(data[start:offset]) + 1
}
