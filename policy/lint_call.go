package policy

import (
	"fmt"
	"regexp"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// signature is what an extension function takes, the receiver first, and
// gives.
type signature struct {
	takes []string
	gives string
}

var signatures = map[types.Path]signature{
	"ip":       {[]string{"String"}, "ipaddr"},
	"decimal":  {[]string{"String"}, "decimal"},
	"datetime": {[]string{"String"}, "datetime"},
	"duration": {[]string{"String"}, "duration"},

	"lessThan":           {[]string{"decimal", "decimal"}, "Bool"},
	"lessThanOrEqual":    {[]string{"decimal", "decimal"}, "Bool"},
	"greaterThan":        {[]string{"decimal", "decimal"}, "Bool"},
	"greaterThanOrEqual": {[]string{"decimal", "decimal"}, "Bool"},

	"isIpv4":      {[]string{"ipaddr"}, "Bool"},
	"isIpv6":      {[]string{"ipaddr"}, "Bool"},
	"isLoopback":  {[]string{"ipaddr"}, "Bool"},
	"isMulticast": {[]string{"ipaddr"}, "Bool"},
	"isInRange":   {[]string{"ipaddr", "ipaddr"}, "Bool"},

	"toDate":        {[]string{"datetime"}, "datetime"},
	"toTime":        {[]string{"datetime"}, "duration"},
	"offset":        {[]string{"datetime", "duration"}, "datetime"},
	"durationSince": {[]string{"datetime", "datetime"}, "duration"},

	"toDays":         {[]string{"duration"}, "Long"},
	"toHours":        {[]string{"duration"}, "Long"},
	"toMinutes":      {[]string{"duration"}, "Long"},
	"toSeconds":      {[]string{"duration"}, "Long"},
	"toMilliseconds": {[]string{"duration"}, "Long"},
}

// typeNamed returns one of the types that signatures name.
func typeNamed(name string) typ {
	switch name {
	case "Bool":
		return boolType(either)
	case "Long":
		return longType
	case "String":
		return stringType
	}
	return extensionType(name)
}

// call types an extension function or method.
func (c *checker) call(e *expr, name types.Path, args []typ) typ {
	s, ok := signatures[name]
	if !ok {
		return typ{}
	}
	out := typeNamed(s.gives)
	if len(args) != len(s.takes) {
		method := len(s.takes)
		got := len(args)
		if !isConstructor(name) {
			method, got = method-1, got-1
		}
		c.note(topicCall, e, fmt.Sprintf("%s takes %s, not %d", name, count(method, "argument"), got))
		return out
	}
	if isConstructor(name) {
		c.constructor(e, name, args[0])
		return out
	}
	for i, want := range s.takes {
		if t := args[i]; t.known() && !sameType(t.t, typeNamed(want).t) {
			c.note(topicCall, e, c.wrongArgument(e, name, i, want, args))
			break
		}
	}
	return out
}

// wrongArgument says what argument i should be.
func (c *checker) wrongArgument(e *expr, name types.Path, i int, want string, args []typ) string {
	if message := c.decimalArgument(e, name, i, args); message != "" {
		return message
	}
	arg := e.args[i]
	if i == 0 {
		return fmt.Sprintf("%s is a method of %ss, and %s is %s", name, want, c.named(arg), describe(args[i].t))
	}
	return fmt.Sprintf("%s takes a %s, and %s is %s", name, want, c.named(arg), describe(args[i].t))
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "one " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// constructor checks the literal that a decimal, datetime, duration or IP
// address is made from.
func (c *checker) constructor(e *expr, name types.Path, arg typ) {
	literal, ok := e.args[0].node.(ast.NodeValue)
	if !ok {
		c.note(topicCall, e, fmt.Sprintf("%s takes a text in double quotes, not %s: a value that is only known later can't be converted", name, c.named(e.args[0])))
		return
	}
	text, ok := literal.Value.(types.String)
	if !ok {
		message := fmt.Sprintf("%s takes a text in double quotes", name)
		if d := decimalText(e.args[0]); d != "" && name == "decimal" {
			message += ": write `" + d + "`"
		} else if arg.known() {
			message += ", not " + describe(arg.t)
		}
		c.note(topicCall, e, message)
		return
	}
	if message := badLiteral(name, string(text)); message != "" {
		c.note(topicLiteral, e, message)
	}
}

var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

// badLiteral says why text makes no value, and what does.
func badLiteral(name types.Path, text string) string {
	switch name {
	case "decimal":
		if _, err := types.ParseDecimal(text); err != nil {
			message := "decimals are written with 1–4 digits after the point, from -922337203685477.5808 to 922337203685477.5807"
			if fixed := text + ".0"; wholeNumber.MatchString(text) {
				if _, err := types.ParseDecimal(fixed); err == nil {
					message = fmt.Sprintf("decimals are written with 1–4 digits after the point: `decimal(%q)`", fixed)
				}
			}
			return message
		}
	case "datetime":
		if _, err := types.ParseDatetime(text); err != nil {
			return "datetimes are written like `datetime(\"2026-11-30\")` or `datetime(\"2026-11-30T09:00:00Z\")`"
		}
	case "duration":
		if _, err := types.ParseDuration(text); err != nil {
			return "durations are written like `duration(\"1d12h30m\")`, with d, h, m, s and ms in this order"
		}
	case "ip":
		if _, err := types.ParseIPAddr(text); err != nil {
			return "IP addresses are written like `ip(\"192.0.2.1\")`, ranges like `ip(\"192.0.2.0/24\")`"
		}
	}
	return ""
}

// getTag types the reading of a tag.
func (c *checker) getTag(e *expr, args []typ, g guards) typ {
	c.wantTags(e, args[0], args[1])
	et, ok := args[0].entity()
	if !ok {
		return typ{}
	}
	tags := c.in.schema.whole.Entities[et].Tags
	if tags == nil {
		c.note(topicTag, e, noTags(string(et)))
	} else if !g.has(guardKey(e.args[0], "\x00"+e.args[1].text())) {
		c.note(topicTag, e, fmt.Sprintf("the tag may be absent: write `%s.hasTag(%s) && …`", e.args[0].text(), e.args[1].text()))
	}
	return typ{t: tags}
}

// set types a set literal.
func (c *checker) set(e *expr, args []typ) typ {
	if len(args) == 0 {
		c.note(topicSet, e, "an empty set has no type: for \"is there anything in it\" write isEmpty()")
		return typ{}
	}
	first := args[0]
	for i, t := range args {
		x, isX := first.entity()
		y, isY := t.entity()
		if !t.known() || !first.known() {
			return typ{}
		}
		if !sameType(first.t, t.t) || isX && isY && x != y {
			c.note(topicSet, e.args[i], fmt.Sprintf("the elements of a set have one type: %s is %s and %s is %s",
				c.named(e.args[0]), describe(first.t), c.named(e.args[i]), describe(t.t)))
			return typ{}
		}
	}
	return typ{t: resolved.SetType{Element: first.t}}
}

// recordOf types a record literal.
func recordOf(n ast.NodeTypeRecord, args []typ) typ {
	out := resolved.RecordType{}
	for i, member := range n.Elements {
		if !args[i].known() {
			return typ{}
		}
		out[member.Key] = resolved.Attribute{Type: args[i].t}
	}
	return typ{t: out}
}
