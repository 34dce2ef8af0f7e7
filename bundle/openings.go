package bundle

import "strings"

// openings are the brackets and the quotation mark that are open at the end of
// a YAML text.
type openings struct {
	brackets []bracket
	quote    byte // ' or "; 0: none
	quoteAt  int  // its offset
}

type bracket struct {
	char byte
	at   int // its offset
}

func (b bracket) closer() byte {
	if b.char == '{' {
		return '}'
	}
	return ']'
}

// closers closes the brackets.
func (o openings) closers() string {
	var b strings.Builder
	for i := len(o.brackets) - 1; i >= 0; i-- {
		b.WriteByte(o.brackets[i].closer())
	}
	return b.String()
}

// scanOpenings finds the openings of a text. It knows comments, quotes, flow
// collections and block scalars, and takes the rest for plain text: good
// enough to suggest how a text might go on, which the reader then judges.
func scanOpenings(text string) openings {
	var o openings
	begins := true // a value may begin here
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case o.quote == '"' && c == '\\':
			i++
		case o.quote == '\'' && c == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case o.quote != 0 && c == o.quote:
			o.quote, begins = 0, false
		case o.quote != 0:
		case c == '\n':
			begins = true
		case c == ' ' || c == '\r' || c == '\t':
		case c == '#' && (i == 0 || strings.IndexByte(" \t\n", text[i-1]) >= 0):
			i = endOfLine(text, i) - 1
		case begins && (c == '"' || c == '\''):
			o.quote, o.quoteAt = c, i
		case (begins || len(o.brackets) > 0) && (c == '{' || c == '['):
			o.brackets, begins = append(o.brackets, bracket{c, i}), true
		case len(o.brackets) > 0 && (c == '}' || c == ']'):
			o.brackets, begins = o.brackets[:len(o.brackets)-1], false
		case len(o.brackets) > 0 && c == ',':
			begins = true
		case begins && len(o.brackets) == 0 && (c == '|' || c == '>'):
			i = endOfBlock(text, i) - 1
		case (c == ':' || c == '-' && begins || c == '?' && begins) && (i+1 == len(text) || strings.IndexByte(" \t\r\n", text[i+1]) >= 0):
			begins = true
		default:
			begins = false
		}
	}
	return o
}

func endOfLine(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(text)
}

// endOfBlock returns the offset of the first line after the block scalar whose
// | or > is at an offset: one that is indented no deeper than its line.
func endOfBlock(text string, at int) int {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	outer := indent(text[strings.LastIndexByte(text[:at], '\n')+1:])
	at = endOfLine(text, at)
	for at < len(text) {
		line := text[at+1 : endOfLine(text, min(at+1, len(text)))]
		if strings.TrimSpace(line) != "" && indent(line) <= outer {
			return at
		}
		at = endOfLine(text, min(at+1, len(text)))
	}
	return at
}
