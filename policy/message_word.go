package policy

import (
	"fmt"
	"strings"
)

// entityHint says how to write the entity that a scope names as text, or the
// list that it can't take; token i is what it has instead.
func (r *parseReport) entityHint(i int) string {
	variable := ""
	for j := i - 1; j >= 0 && variable == "" && r.text(j) != ";"; j-- {
		switch text := r.text(j); text {
		case "principal", "action", "resource":
			variable = text
		case "when", "unless":
			return ""
		}
	}
	switch text := r.text(i); {
	case variable == "":
	case text == "[" && variable != "action":
		return fmt.Sprintf(": only `action in` takes a list. Write `%s` alone here, and `when { %s in [ … ] }`", variable, variable)
	case i < len(r.tokens) && r.tokens[i].kind == tokenString:
		t := map[string]string{"principal": "User", "action": "Action", "resource": "Path"}[variable]
		switch {
		case variable == "principal" && r.text(i-1) == "in":
			t = "Group"
		case variable == "resource" && !strings.HasPrefix(text, `"/`):
			return ": an entity is written with its type, as in Path::\"/srv/work\" or Repository::\"acme/site\""
		}
		return fmt.Sprintf(": an entity is written with its type, as in %s::%s", t, text)
	}
	return ""
}

// inScope reports whether token i stands inside the brackets of a scope.
func (r *parseReport) inScope(i int) bool {
	for j := i - 1; j >= 0; j-- {
		switch r.text(j) {
		case ")", ";", "{", "}":
			return false
		case "(":
			return r.text(j-1) == "permit" || r.text(j-1) == "forbid"
		}
	}
	return false
}

// conditionHint is about a token that stands where a condition starts or ends.
func (r *parseReport) conditionHint(i int, want string) string {
	got := r.text(i)
	switch before := r.text(i - 1); {
	case want == "{" && (before == "when" || before == "unless"):
		return fmt.Sprintf(": a condition stands in braces, as in `%s { … }`", before)
	case want != ";":
	case got == "if" || got == "where" || got == "only":
		return ": conditions start with when or unless"
	case before == "}" && (got == "&&" || got == "and" || got == "||" || got == "or"):
		return ": several conditions are written one after the other, as in `when { … } unless { … }`, and hold together; || goes inside the braces"
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
	hint := didYouMean(name, methodNames[:])
	if other := foreignMethods[strings.ToLower(name)]; other != "" {
		hint = ": " + other
	}
	return at, fmt.Sprintf("%s is not a method%s", name, hint)
}

// foreignMethods are methods of other languages, in lower case, and how Cedar
// says it.
var foreignMethods = map[string]string{
	"startswith": "write `like \"start*\"`", "hasprefix": "write `like \"start*\"`",
	"endswith": "write `like \"*end\"`", "hassuffix": "write `like \"*end\"`",
	"includes": "for a part of a text write `like \"*part*\"`, for an element contains", "matches": "Cedar has no regular expressions; `like` matches text, with * for anything",
	"length": "sets have isEmpty, contains, containsAll and containsAny, and nothing counts", "size": "sets have isEmpty, contains, containsAll and containsAny, and nothing counts",
	"tolower": "texts are compared as they are", "toupper": "texts are compared as they are", "lower": "texts are compared as they are",
}

// methodNames are the methods that values have.
var methodNames = [...]string{
	"contains", "containsAll", "containsAny", "isEmpty", "hasTag", "getTag",
	"lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual",
	"isIpv4", "isIpv6", "isLoopback", "isMulticast", "isInRange",
	"offset", "durationSince", "toDate", "toTime", "toDays", "toHours", "toMinutes", "toSeconds", "toMilliseconds",
}
