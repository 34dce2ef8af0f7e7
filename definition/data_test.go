package definition_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/definition"
)

// change is one line of the history of a real server's tools.
type change struct {
	Tool          string
	Before, After json.RawMessage
}

// history returns every definition of GitHub's MCP server that its history
// holds, by "line/tool/side". The file lies beside the checkout and is not
// part of it.
func history(t *testing.T) map[string][]byte {
	t.Helper()
	name := filepath.Join("..", "..", "shared", "data", "github-tool-definition-changes.jsonl")
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT TESTED AGAINST REAL DEFINITIONS: %s is absent", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for line := 1; lines.Scan(); line++ {
		var c change
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("%d/%s/before", line, c.Tool)] = c.Before
		out[fmt.Sprintf("%d/%s/after", line, c.Tool)] = c.After
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(out) < 200 {
		t.Fatalf("%s has %d definitions only", name, len(out))
	}
	return out
}

func TestHistoryParses(t *testing.T) {
	var refused []string
	for key, text := range history(t) {
		tool, err := definition.Parse(text)
		if err != nil {
			refused = append(refused, key)
			if !bytes.Contains(text, []byte(`"inputSchema": null`)) {
				t.Errorf("%s: %v", key, err)
				continue
			}
			holds(t, err, "get_me", "/inputSchema", "null")
			continue
		}
		if name := strings.Split(key, "/")[1]; tool.Name != name {
			t.Errorf("%s: name %q", key, tool.Name)
		}
	}
	if len(refused) != 2 {
		t.Errorf("refused %q, want the two whose inputSchema is null", refused)
	}
}

// good returns the definitions of the history that parse.
func good(t *testing.T) map[string]*definition.Tool {
	t.Helper()
	out := map[string]*definition.Tool{}
	for key, text := range history(t) {
		if tool, err := definition.Parse(text); err == nil {
			out[key] = tool
		}
	}
	return out
}

func TestHistoryDigestIgnoresSpelling(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for key, tool := range good(t) {
		for range 4 {
			text := spell(nil, r, tool.Object)
			again, err := definition.Parse(text)
			if err != nil {
				t.Errorf("%s: %v", key, err)
			} else if again.Digest != tool.Digest {
				t.Errorf("%s: another order or white space changes the digest: %s", key, text)
			}
		}
	}
}

// spell writes v as JSON with members in any order, white space anywhere,
// escapes where none are needed, and numbers in other forms.
func spell(b []byte, r *rand.Rand, v any) []byte {
	space := func() { b = append(b, []string{"", "", " ", "\n\t"}[r.IntN(4)]...) }
	space()
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		names := slices.Collect(maps.Keys(v))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = spell(b, r, name)
			b = spell(append(b, ':'), r, v[name])
		}
		b = append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = spell(b, r, e)
		}
		b = append(b, ']')
	case string:
		b = append(b, '"')
		for _, c := range v {
			if c < 0x10000 && r.IntN(3) == 0 || c < ' ' || c == '"' || c == '\\' {
				b = fmt.Appendf(b, `\u%04x`, c)
			} else {
				b = append(b, string(c)...)
			}
		}
		b = append(b, '"')
	case json.Number:
		b = append(b, v...)
		if !strings.ContainsAny(string(v), ".e") && r.IntN(2) == 0 {
			b = append(b, ".0"...)
		}
	default:
		text, _ := json.Marshal(v)
		b = append(b, text...)
	}
	space()
	return b
}

func TestHistoryDigestIgnoresIcons(t *testing.T) {
	for key, tool := range good(t) {
		for name, icons := range map[string]any{
			"none":    nil,
			"empty":   []any{},
			"another": []any{map[string]any{"src": "data:image/png;base64,AAAA", "mimeType": "image/png"}},
		} {
			object := maps.Clone(tool.Object)
			delete(object, "icons")
			if icons != nil {
				object["icons"] = icons
			}
			if again := parse(t, key, object); again.Digest != tool.Digest {
				t.Errorf("%s: icons (%s) change the digest", key, name)
			}
		}
	}
}

func parse(t *testing.T, key string, object any) *definition.Tool {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := definition.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return tool
}

// TestHistoryDigestSeesEverythingElse changes one value at a time, at every
// depth, and removes and adds one member at a time.
func TestHistoryDigestSeesEverythingElse(t *testing.T) {
	changes, seen := 0, map[string]string{}
	for key, tool := range good(t) {
		for where, changed := range mutations("", tool.Object) {
			if where == "/icons" || strings.HasPrefix(where, "/icons/") {
				continue
			}
			text, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			other, err := definition.Parse(text)
			if err != nil {
				continue // no definition any more
			}
			changes++
			if other.Digest == tool.Digest {
				t.Errorf("%s: a change at %s leaves the digest as it was", key, where)
			}
		}
		// Equal digests, equal text.
		object := maps.Clone(tool.Object)
		delete(object, "icons")
		text, _ := json.Marshal(object)
		if before, ok := seen[tool.Digest.String()]; ok && before != string(text) {
			t.Errorf("%s: two definitions have one digest", key)
		}
		seen[tool.Digest.String()] = string(text)
	}
	if changes < 5000 {
		t.Errorf("tried %d changes only", changes)
	}
}

// mutations yields v with one change each, and the pointer of the change.
func mutations(at string, v any) func(yield func(string, any) bool) {
	return func(yield func(string, any) bool) {
		switch v := v.(type) {
		case map[string]any:
			for name, e := range v {
				for where, changed := range mutations(at+"/"+name, e) {
					m := maps.Clone(v)
					m[name] = changed
					if !yield(where, m) {
						return
					}
				}
				m := maps.Clone(v)
				delete(m, name)
				if !yield(at+"/"+name, m) {
					return
				}
			}
			m := maps.Clone(v)
			m["x-new"] = nil
			yield(at+"/x-new", m)
		case []any:
			for i, e := range v {
				for where, changed := range mutations(fmt.Sprintf("%s/%d", at, i), e) {
					s := slices.Clone(v)
					s[i] = changed
					if !yield(where, s) {
						return
					}
				}
			}
			if len(v) > 1 && !yield(at, slices.Concat(v[1:], v[:1])) {
				return
			}
			yield(at, append(slices.Clone(v), nil))
		case string:
			yield(at, v+" ")
		case bool:
			yield(at, !v)
		case json.Number:
			yield(at, v+"1")
		case nil:
			yield(at, false)
		}
	}
}

func TestHistoryAsList(t *testing.T) {
	var latest []any
	names := map[string]bool{}
	tools := good(t)
	for _, key := range slices.Sorted(maps.Keys(tools)) {
		if tool := tools[key]; !names[tool.Name] {
			names[tool.Name] = true
			latest = append(latest, tool.Object)
		}
	}
	text, err := json.Marshal(map[string]any{"tools": latest})
	if err != nil {
		t.Fatal(err)
	}
	list, err := definition.ParseList(text)
	if err != nil || len(list) != len(latest) {
		t.Errorf("%d of %d tools, %v", len(list), len(latest), err)
	}
}
