package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
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
	if bytes.HasPrefix(src.Text, []byte("\ufeff")) {
		return faultAt(src, 0, "the file starts with a byte order mark: save it without")
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
		return r.at(i), fmt.Sprintf("expected a name, found %s%s", r.found(i), quoteHint(r.text(i)))
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

// call explains a function or method that isn't one.
func (r *parseReport) call(name, rest string) (int, string) {
	at := r.at(r.lastBefore(lastPart(name)))
	constructors := []string{"datetime", "decimal", "duration", "ip"}
	switch rest {
	case "not a function":
		return at, fmt.Sprintf("%s is not a function%s", name, didYouMean(name, constructors))
	case "a method, not a function":
		return at, fmt.Sprintf("%s is a method: write value.%s(…)", name, name)
	case "a function, not a method":
		return at, fmt.Sprintf("%s is a function: write %s(\"…\")", name, name)
	}
	return at, fmt.Sprintf("%s is not a method%s", name, didYouMean(name, methodNames[:]))
}

// methodNames are the methods that values have.
var methodNames = [...]string{
	"contains", "containsAll", "containsAny", "isEmpty", "hasTag", "getTag",
	"lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual",
	"isIpv4", "isIpv6", "isLoopback", "isMulticast", "isInRange",
	"offset", "durationSince", "toDate", "toTime", "toDays", "toHours", "toMinutes", "toSeconds", "toMilliseconds",
}

// expected explains a token that isn't the one that must follow.
func (r *parseReport) expected(i int, want string) string {
	got := r.text(i)
	switch {
	case got == "":
		return fmt.Sprintf("the text ends where `%s` should follow", want)
	case want == ";" && (got == "permit" || got == "forbid" || got == "@"):
		return fmt.Sprintf("the policy before this `%s` lacks its `;`", got)
	case want == "}" || want == ")" || want == "then" || want == "else":
		if isComparison(got) {
			return fmt.Sprintf("comparisons don't chain: put `&&` between two of them, or brackets around one, before this `%s`", got)
		}
	case want == "principal" || want == "action" || want == "resource":
		return fmt.Sprintf("the scope is (principal, action, resource): expected %s, found %s", want, r.found(i))
	}
	return fmt.Sprintf("expected `%s`, found %s%s", want, r.found(i), r.hint(i))
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
	if text := r.text(i); text != "" {
		return "`" + text + "`"
	}
	return "the end of the text"
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

// badLiteral finds the first string with an escape that Cedar doesn't know,
// or number that it can't hold. Cedar-go gives these errors no place.
func (r *parseReport) badLiteral() (int, string) {
	for i, t := range r.tokens {
		text := r.text(i)
		switch t.kind {
		case tokenInt:
			if r.text(i-1) == "-" {
				text = "-" + text
			}
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				return int(t.start), fmt.Sprintf("the number %s is beyond the range of a Long, -2^63 to 2^63-1", text)
			}
		case tokenString:
			if j, escape := badEscape(text, r.text(i-1) == "like"); escape != "" {
				return int(t.start) + j, fmt.Sprintf("%s is not an escape: there are \\n \\r \\t \\0 \\\\ \\\" \\' \\x41 \\u{e9}, and \\* in patterns", escape)
			}
		}
	}
	return 0, ""
}

// badEscape returns the first escape of a quoted string that Cedar refuses,
// and its offset.
func badEscape(quoted string, pattern bool) (int, string) {
	for i := 1; i < len(quoted)-1; i++ {
		if quoted[i] != '\\' {
			continue
		}
		rest := quoted[i : len(quoted)-1]
		size := escapeSize(rest, pattern)
		if size == 0 {
			_, n := utf8.DecodeRuneInString(rest[1:])
			return i, rest[:1+n]
		}
		i += size - 1
	}
	return 0, ""
}

// escapeSize returns the length of the escape that s starts with, or 0.
func escapeSize(s string, pattern bool) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 'n', 'r', 't', '0', '\\', '"', '\'':
		return 2
	case '*':
		if pattern {
			return 2
		}
	case 'x':
		if len(s) >= 4 {
			if n, err := strconv.ParseUint(s[2:4], 16, 8); err == nil && n < 0x80 {
				return 4
			}
		}
	case 'u':
		digits, _, ok := cutWords(s, "\\u{", "}")
		hex := strings.ReplaceAll(digits, "_", "")
		n, err := strconv.ParseUint(hex, 16, 32)
		if ok && err == nil && digits[0] != '_' && len(hex) <= 6 && utf8.ValidRune(rune(n)) {
			return len("\\u{") + len(digits) + len("}")
		}
	}
	return 0
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
