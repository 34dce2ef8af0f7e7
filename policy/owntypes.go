package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
)

// maxTypeSize bounds a declared type once every common type that it names is
// written out: common types that name each other twice double at every step.
const maxTypeSize = 4096

// ownTypes checks the types that a bundle declares.
type ownTypes struct {
	src    Source
	ast    *schemaast.Schema
	sizes  map[schemaast.Ident]int // of common types, written out; -1 while being measured
	faults writ.Faults
}

// parseOwnTypes reads the bundle's schema and returns it together with
// Writ's own entity types. A bundle declares entity types, enumerated ones
// and common types, in no namespace, and no actions.
func parseOwnTypes(src Source) (*schemaast.Schema, writ.Faults) {
	if f := checkLimits(src); f != nil {
		return nil, writ.Faults{*f}
	}
	var parsed cedarschema.Schema
	parsed.SetFilename(src.File)
	err := parsed.UnmarshalCedar(src.Text)
	if twice := declaredTwice(src); len(twice) > 0 {
		return nil, twice.Sort()
	}
	if err != nil {
		return nil, writ.Faults{schemaFault(src, err)}
	}
	o := &ownTypes{src: src, ast: parsed.AST(), sizes: map[schemaast.Ident]int{}}
	o.checkDeclarations()
	if o.ast.Entities == nil {
		o.ast.Entities = schemaast.Entities{}
	}
	for name, e := range redeclarable() {
		if _, enum := o.ast.Enums[name]; !enum {
			if _, own := o.ast.Entities[name]; !own {
				o.ast.Entities[name] = e
			}
		}
	}
	maps.Copy(o.ast.Entities, builtIn())
	if len(o.faults) == 0 {
		o.checkReferences()
	}
	return o.ast, o.faults.Sort()
}

// schemaFault is parseFault, but shows a missing semicolon where it is missing,
// and not before whatever comes next.
func schemaFault(src Source, err error) writ.Fault {
	f := parseFault(src, err)
	if !strings.HasPrefix(f.Message, "expected ';'") {
		return f
	}
	at, last := offsetOf(src.Text, f.Line, f.Column), -1
	tokens, _ := scan(src.Text, schemaLanguage)
	for _, t := range tokens {
		if int(t.end) <= at {
			last = int(t.end)
		}
	}
	if last < 0 {
		return f
	}
	return faultAt(src, last, f.Message)
}

// declaredTwice reports the names that are declared for a second time: of
// types, at which Cedar's parser stops some way behind, and of attributes, of
// which it drops the first in silence. What is no schema yields nothing sound,
// but a name that is not declared twice is never reported.
func declaredTwice(src Source) writ.Faults {
	var faults writ.Faults
	note := func(first map[string]token, what, name string, t token) {
		before, twice := first[name]
		if !twice {
			first[name] = t
			return
		}
		line, column := place(src.Text, int(before.start))
		faults = append(faults, faultAt(src, int(t.start), fmt.Sprintf("%s %s is declared twice, first at %d:%d: keep one", what, name, line, column)))
	}
	tokens, _ := scan(src.Text, schemaLanguage)
	text := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return tokens[i].text(src.Text)
	}
	entities, commons := map[string]token{}, map[string]token{}
	var records []map[string]token // by nesting
	for i := 0; i < len(tokens); i++ {
		switch text(i) {
		case "{":
			records = append(records, map[string]token{})
			continue
		case "}":
			records = records[:max(0, len(records)-1)]
			continue
		}
		if len(records) > 0 {
			if starts := text(i-1) == "{" || text(i-1) == ","; starts && (text(i+1) == ":" || text(i+1) == "?" && text(i+2) == ":") {
				name := text(i)
				if unquoted, err := strconv.Unquote(name); err == nil {
					name = unquoted
				}
				note(records[len(records)-1], "attribute", name, tokens[i])
			}
			continue
		}
		if before := text(i - 1); before != "" && before != ";" && before != "}" && before != ")" {
			continue // no declaration starts here; one may follow an annotation
		}
		switch text(i) {
		case "type":
			if i+1 < len(tokens) && tokens[i+1].kind == tokenWord {
				note(commons, "type", text(i+1), tokens[i+1])
			}
		case "entity":
			for i++; i < len(tokens) && tokens[i].kind == tokenWord; i += 2 {
				note(entities, "entity type", text(i), tokens[i])
				if text(i+1) != "," {
					break
				}
			}
		}
	}
	return faults
}

// checkDeclarations checks what is declared and under which names.
func (o *ownTypes) checkDeclarations() {
	for name := range o.ast.Namespaces {
		o.fault(string(name), "namespace %s: declare the bundle's types without a namespace", name)
	}
	for name := range o.ast.Actions {
		o.fault(string(name), "action %q: actions come from the contracts in servers/, never from the schema", string(name))
	}
	for name := range o.ast.Entities {
		o.checkName("entity type", string(name))
	}
	for name := range o.ast.Enums {
		o.checkName("entity type", string(name))
	}
	for name := range o.ast.CommonTypes {
		o.checkName("type", string(name))
		_, own := o.ast.Entities[name]
		_, enum := o.ast.Enums[name]
		_, ours := redeclarable()[name]
		if own || enum || ours {
			o.faultAt("type", string(name), "type %s has the name of an entity type: choose another", name)
		}
	}
}

func (o *ownTypes) checkName(what, name string) {
	if isReserved(name) {
		o.fault(name, "%s %s: the name is reserved: choose another", what, name)
	}
}

// checkReferences checks that every type that a declaration names exists, and
// that none grows without bound once written out.
func (o *ownTypes) checkReferences() {
	for _, name := range slices.Sorted(maps.Keys(o.ast.CommonTypes)) {
		o.commonSize(name)
	}
	ours := builtIn()
	for _, name := range slices.Sorted(maps.Keys(o.ast.Entities)) {
		if _, ok := ours[name]; ok {
			continue
		}
		e := o.ast.Entities[name]
		for _, parent := range e.ParentTypes {
			if !o.isEntity(string(parent)) {
				o.undeclared(string(name), string(parent))
			} else if _, writs := ours[schemaast.Ident(parent)]; writs {
				o.fault(string(name), "%s is in %s, which is Writ's own: a bundle's entities can be in the bundle's own types only", name, parent)
			}
		}
		size := o.size(string(name), e.Shape)
		if e.Tags != nil {
			size += o.size(string(name), e.Tags)
		}
		o.checkSize("entity type", string(name), size)
	}
}

// commonSize returns the size of a common type, written out.
func (o *ownTypes) commonSize(name schemaast.Ident) int {
	if size, ok := o.sizes[name]; ok {
		if size < 0 {
			o.fault(string(name), "type %s contains itself", name)
			return 0
		}
		return size
	}
	o.sizes[name] = -1
	size := o.size(string(name), o.ast.CommonTypes[name].Type)
	o.sizes[name] = size
	o.checkSize("type", string(name), size)
	return size
}

func (o *ownTypes) checkSize(what, name string, size int) {
	if size > maxTypeSize {
		o.fault(name, "%s %s has more than %d parts once the types that it names are written out: make it smaller", what, name, maxTypeSize)
	}
}

// size returns the number of parts of t, never more than a little above
// maxTypeSize, and reports what it names that isn't declared.
func (o *ownTypes) size(owner string, t schemaast.IsType) int {
	switch t := t.(type) {
	case schemaast.SetType:
		return 1 + o.size(owner, t.Element)
	case schemaast.RecordType:
		n := 1
		for _, attribute := range slices.Sorted(maps.Keys(t)) {
			n = min(n+o.size(owner, t[attribute].Type), maxTypeSize+1)
		}
		return n
	case schemaast.EntityTypeRef:
		if !o.isEntity(string(t)) {
			o.undeclared(owner, string(t))
		}
		return 1
	case schemaast.TypeRef:
		name := string(t)
		if builtin, ok := strings.CutPrefix(name, "__cedar::"); ok {
			if !cedarTypes[builtin] {
				o.undeclared(owner, name)
			}
			return 1
		}
		if _, ok := o.ast.CommonTypes[schemaast.Ident(name)]; ok {
			return o.commonSize(schemaast.Ident(name))
		}
		if !o.isEntity(name) && !cedarTypes[name] {
			o.undeclared(owner, name)
		}
		return 1
	case schemaast.StringType, schemaast.LongType, schemaast.BoolType, schemaast.ExtensionType:
		return 1
	}
	return 1
}

func (o *ownTypes) isEntity(name string) bool {
	_, entity := o.ast.Entities[schemaast.Ident(name)]
	_, enum := o.ast.Enums[schemaast.Ident(name)]
	return entity || enum
}

func (o *ownTypes) undeclared(owner, name string) {
	names := slices.Sorted(maps.Keys(cedarTypes))
	for n := range o.ast.Entities {
		names = append(names, string(n))
	}
	for n := range o.ast.Enums {
		names = append(names, string(n))
	}
	for n := range o.ast.CommonTypes {
		names = append(names, string(n))
	}
	slices.Sort(names)
	o.fault(name, "%s names %s, which nothing declares%s", owner, name, didYouMean(name, names))
}

// fault reports a fault where the schema's text first has the word: an
// identifier, or a string with that content.
func (o *ownTypes) fault(word, format string, args ...any) { o.faultAt("", word, format, args...) }

// faultAt is fault where the word follows another.
func (o *ownTypes) faultAt(after, word, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	first, _, _ := strings.Cut(word, "::")
	tokens, _ := scan(o.src.Text, schemaLanguage)
	for i, t := range tokens {
		if after != "" && (i == 0 || tokens[i-1].text(o.src.Text) != after) {
			continue
		}
		if text := t.text(o.src.Text); text == first || t.kind == tokenString && text == strconv.Quote(word) {
			o.faults = append(o.faults, faultAt(o.src, int(t.start), message))
			return
		}
	}
	o.faults = append(o.faults, writ.Fault{File: o.src.File, Message: message})
}

// checkedTypes lists the entity types that the bundle may hold entities of.
func (s *Schema) checkedTypes() []string {
	ours := builtIn()
	var out []string
	for t := range s.whole.Entities {
		if _, ok := ours[schemaast.Ident(t)]; !ok {
			out = append(out, string(t))
		}
	}
	for t := range s.whole.Enums {
		out = append(out, string(t))
	}
	slices.Sort(out)
	return out
}

// reservedEntity reports whether entities of type t are Writ's to make: those
// of the types that builtIn declares, and actions. A bundle asks for each of a
// million entities.
func reservedEntity(t types.EntityType) bool {
	switch t {
	case typeTool, typeServer, typePath, typeHost, typeURL, typeEmail, typeCaller, typeRole, typeService, typePolicy, typeSource, typeAction:
		return true
	}
	return false
}
