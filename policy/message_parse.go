package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
)

// parseFault says where and why cedar-go could not parse a policy file or a
// schema. err is what its parser returned.
func parseFault(src Source, err error) writ.Fault {
	lang := policyLanguage
	if strings.HasSuffix(src.File, ".cedarschema") {
		lang = schemaLanguage
	}
	if lang == schemaLanguage && bytes.HasPrefix(src.Text, []byte(byteOrderMark)) {
		return faultAt(src, 0, "the file starts with a byte order mark: remove it")
	}
	tokens, broken := scan(src.Text, lang)
	if broken != nil && lang == policyLanguage {
		return faultAt(src, broken.offset, broken.message)
	}
	r := parseReport{src: src, tokens: tokens}
	if lang == policyLanguage {
		if at, message := r.badLiteral(); message != "" {
			return faultAt(src, at, message)
		}
	}
	m := placedError.FindStringSubmatch(err.Error())
	if m == nil {
		return writ.Fault{File: src.File, Message: "this can't be parsed: " + err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	offset := offsetOf(src.Text, line, column)
	if offset < 0 {
		return writ.Fault{File: src.File, Line: max(line, 1), Message: m[3]}
	}
	if lang == schemaLanguage {
		return faultAt(src, offset, schemaWords.Replace(m[3]))
	}
	r.after = len(tokens)
	for i, t := range tokens {
		if int(t.start) >= offset {
			r.after = i
			break
		}
	}
	at, message := r.translate(m[3])
	return faultAt(src, at, message)
}

// placedError matches cedar-go's errors that have a place: of a policy, with
// the token, and of a schema.
var placedError = regexp.MustCompile(`(?s):(\d+):(\d+)(?: "(?:[^"\\]|\\.)*")?: (.*)$`)

var schemaWords = strings.NewReplacer("got EOF", "the file ends", "got ", "found ", "identifier ", "")

// parseReport explains one error of the policy parser.
type parseReport struct {
	src    Source
	tokens []token
	// after is the token at which the parser says it was: mostly the one
	// behind that which it refused.
	after int
}

func (r *parseReport) text(i int) string {
	if i < 0 || i >= len(r.tokens) {
		return ""
	}
	return r.tokens[i].text(r.src.Text)
}

// at returns the offset of token i, or of the text's end.
func (r *parseReport) at(i int) int {
	if i < 0 || i >= len(r.tokens) {
		return len(strings.TrimRight(string(r.src.Text), " \t\r\n"))
	}
	return int(r.tokens[i].start)
}

// refused returns the index of the token before the reported place. At the
// end of the text the parser doesn't move on, and it is the end itself unless
// want is the last token.
func (r *parseReport) refused(want string) int {
	if r.after == len(r.tokens) && r.text(r.after-1) != want {
		return r.after
	}
	return r.after - 1
}

// lastBefore returns the index of the last token before the reported place
// that reads want.
func (r *parseReport) lastBefore(want string) int {
	for i := min(r.after, len(r.tokens)-1); i >= 0; i-- {
		if text := r.text(i); text == want || text == strconv.Quote(want) {
			return i
		}
	}
	return r.after
}

// translate returns the place and the meaning of a parser's message.
func (r *parseReport) translate(message string) (int, string) {
	if got, want, ok := cutWords(message, "exact got ", " want "); ok {
		i := r.refused(got)
		if got == "" {
			i = len(r.tokens)
		}
		return r.at(i), r.expected(i, want)
	}
	if got, _, ok := cutWords(message, "got ", " want ,"); ok {
		i := r.after
		if got == "" {
			return r.at(i), "the text ends inside brackets: close them"
		}
		return r.at(i), fmt.Sprintf("expected `,` or a closing bracket, found %s%s", r.found(i), r.hint(i))
	}
	if word, ok := strings.CutPrefix(message, "unexpected effect: "); ok {
		i := r.refused(word)
		return r.at(i), fmt.Sprintf("a policy starts with permit or forbid, not with %s%s", r.found(i), didYouMean(word, []string{"permit", "forbid"}))
	}
	if name, ok := strings.CutPrefix(message, "duplicate annotation: @"); ok {
		i := r.lastBefore(name)
		return r.at(i), fmt.Sprintf("the annotation @%s stands here for the second time", name)
	}
	if name, ok := strings.CutPrefix(message, "duplicate key: "); ok {
		i := r.lastBefore(name)
		return r.at(i), fmt.Sprintf("the record has %s twice", name)
	}
	if name, rest, ok := cutWords(message, "`", "` is "); ok {
		return r.call(name, rest)
	}
	if name, rest, ok := cutWords(message, "", " expects "); ok {
		return r.at(r.lastBefore(name)), fmt.Sprintf("%s takes %s", name, rest)
	}
	i := r.refused(r.text(r.after - 1))
	switch message {
	case "invalid primary":
		return r.at(i), r.operand(i)
	case "expected string":
		return r.at(i), "an annotation's value is text in double quotes: @id(\"name\")"
	case "expected string literal":
		return r.at(i), "`like` takes a pattern in double quotes, not an expression"
	case "expected ident or string":
		return r.at(i), fmt.Sprintf("expected a name, found %s", r.found(i))
	case "expected ident or reserved keyword":
		return r.at(i), fmt.Sprintf("expected the name of an annotation, found %s", r.found(i))
	case "expected ident", "expected ident after dot":
		return r.at(i), fmt.Sprintf("expected a name, found %s%s%s", r.found(i), quoteHint(r.text(i)), r.entityHint(i))
	case "unexpected token":
		if r.text(i-1) == "[" {
			return r.at(i), fmt.Sprintf("an index is a name in double quotes, not %s", r.found(i))
		}
		return r.at(i), fmt.Sprintf("`::` is followed by a name, or by an id in double quotes, not by %s", r.found(i))
	}
	return r.at(i), message
}

func quoteHint(text string) string {
	switch text {
	case "true", "false", "if", "then", "else", "in", "like", "has", "is":
		return fmt.Sprintf(", which Cedar reserves: write [\"%s\"]", text)
	}
	return ""
}

// expected explains a token that isn't the one that must follow.
func (r *parseReport) expected(i int, want string) string {
	got := r.text(i)
	switch {
	case got == "":
		return fmt.Sprintf("the text ends where `%s` should follow", want)
	case want == ";" && (got == "permit" || got == "forbid" || got == "@"):
		return fmt.Sprintf("the policy before this `%s` lacks its `;`", got)
	case (want == "," || want == ")") && r.inScope(i) && got != ")" && got != "]":
		return fmt.Sprintf("expected `%s`, found %s: a scope compares the whole principal, action or resource; anything else stands in `when { … }`", want, r.found(i))
	case want == "}" || want == ")" || want == "then" || want == "else":
		if isComparison(got) {
			return fmt.Sprintf("comparisons don't chain: put `&&` between two of them, or brackets around one, before this `%s`", got)
		}
	case want == "principal" || want == "action" || want == "resource":
		return fmt.Sprintf("the scope is (principal, action, resource): expected %s, found %s", want, r.found(i))
	}
	hint := r.conditionHint(i, want)
	if hint == "" {
		hint = r.hint(i)
	}
	return fmt.Sprintf("expected `%s`, found %s%s", want, r.found(i), hint)
}

func isComparison(text string) bool {
	switch text {
	case "<", "<=", ">", ">=", "==", "!=", "in", "like", "has", "is":
		return true
	}
	return false
}

// operand explains a token that can't start an operand.
func (r *parseReport) operand(i int) string {
	got := r.text(i)
	if i >= len(r.tokens) {
		return "the text ends where a value should follow"
	}
	if r.tokens[i].kind != tokenWord || quoteHint(got) != "" {
		return fmt.Sprintf("expected a value before %s%s", r.found(i), r.hint(i))
	}
	variables := []string{"principal", "action", "resource", "context"}
	if near := nearest(got, variables); near != "" {
		return fmt.Sprintf("`%s` is not a variable; did you mean %s?", got, near)
	}
	for _, f := range contextFields {
		if string(f.name) == got {
			return fmt.Sprintf("`%s` is not a variable: write context.%s", got, got)
		}
	}
	return fmt.Sprintf("`%s` is not a variable: there are principal, action, resource and context, and text stands in double quotes", got)
}

func (r *parseReport) found(i int) string {
	text := r.text(i)
	c, size := utf8.DecodeRuneInString(text)
	switch {
	case text == "":
		return "the end of the text"
	case size > 1 && (!unicode.IsGraphic(c) || unicode.IsSpace(c)): // also a space that is none to Cedar
		return fmt.Sprintf("the invisible character %U: remove it", c)
	}
	return "`" + text + "`"
}

// hint says what the writer of token i may have meant.
func (r *parseReport) hint(i int) string {
	switch r.text(i) {
	case "=":
		return ": write == to compare"
	case "&", "and", "AND":
		return ": write &&"
	case "|", "or", "OR":
		return ": write ||"
	case "not", "NOT":
		return ": write !"
	case "'":
		return ": text stands in double quotes"
	case "/", "%":
		return ": Cedar doesn't divide"
	}
	return ""
}

// cutWords splits s into what stands between first and second, and what
// follows; s must start with first.
func cutWords(s, first, second string) (between, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, first)
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, second)
}

func lastPart(path string) string {
	return path[strings.LastIndex(path, ":")+1:]
}
