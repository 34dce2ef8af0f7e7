package policy

import (
	"bytes"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// Cedar's parser stops at the first thing that it can't read. So that authors
// see all of their mistakes at once, the policies of such a file are then read
// one by one. A semicolon ends a policy and stands nowhere else, and neither
// does the @ of an annotation stand inside one. Where a file is not read as a
// whole it has a fault, so that nothing of it is ever in force.

// maxSyntaxFaults bounds the faults of one file before the rest of it goes
// unread.
const maxSyntaxFaults = 20

const byteOrderMark = "\ufeff"

const unchecked = "; the rest of this file was not checked"

// readFile reads one file of policies.
func readFile(src Source) *policyFile {
	f := &policyFile{source: src}
	f.read()
	return f
}

func (f *policyFile) read() {
	src := f.source
	if fault := checkText(src); fault != nil {
		fault.Message += unchecked
		f.faults = append(f.faults, *fault)
		return
	}
	whole := checkLimits(src)
	if whole == nil {
		parsed, err := cedar.NewPolicyListFromBytes(src.File, src.Text)
		if err == nil {
			for i, p := range parsed {
				start, end := p.Position().Offset, len(src.Text)
				if i+1 < len(parsed) {
					end = parsed[i+1].Position().Offset
				}
				f.declare(&entry{source: src, offset: start}, (*ast.Policy)(p.AST()), policyText(src.Text[start:end]))
			}
			return
		}
		fault := parseFault(src, err)
		whole = &fault
	}
	f.incomplete = true
	r := &recovery{policyFile: f, src: src, text: bytes.Clone(src.Text)}
	if r.read(); r.faults == 0 { // what makes a whole unreadable makes one of its parts so
		f.faults = append(f.faults, *whole)
	}
}

// policyText cuts what follows the policy at the start of text: white space
// and comments.
func policyText(text []byte) []byte {
	tokens, _ := scan(text, policyLanguage)
	if len(tokens) == 0 {
		return text
	}
	return text[:tokens[len(tokens)-1].end]
}

// recovery reads the policies of a file, one of which can't be read.
type recovery struct {
	*policyFile
	src Source
	// text is the file's, but for what is blanked because it is reported.
	text   []byte
	faults int
	// line is that of offset at.
	line, at int
}

// read reports what can't be read, and declares the policies that can.
func (r *recovery) read() {
	r.line = 1
	if bytes.HasPrefix(r.text, []byte(byteOrderMark)) {
		r.report(0, "the file starts with a byte order mark: remove it")
		r.blank(0, len(byteOrderMark))
	}
	broken, ok := r.breaks()
	if !ok {
		return
	}
	all := pieces(r.text)
	for i, p := range all {
		if r.giveUp(p.start) {
			return
		}
		end := p.end
		if p.open && i+1 < len(all) {
			end = all[i+1].start
		} else if p.open {
			end = len(r.text)
		}
		if !slices.ContainsFunc(broken, func(offset int) bool { return p.start <= offset && offset < end }) {
			r.piece(p)
		}
	}
}

// giveUp reports, once there are too many faults, that what follows is not
// read.
func (r *recovery) giveUp(offset int) bool {
	if r.faults < maxSyntaxFaults {
		return false
	}
	r.report(offset, "there are too many faults before this"+unchecked)
	return true
}

func (r *recovery) report(offset int, message string) {
	r.faults++
	r.policyFile.faults = append(r.policyFile.faults, faultAt(r.src, offset, message))
}

func (r *recovery) blank(start, end int) {
	for i := start; i < end; i++ {
		r.text[i] = ' '
	}
}

// breaks reports and blanks the strings and comments that have no end, and
// returns where they are. Such a string is taken to end with its line. ok is
// false when there are too many.
func (r *recovery) breaks() (at []int, ok bool) {
	for {
		_, broken := scan(r.text, policyLanguage)
		if broken == nil {
			return at, true
		}
		if r.giveUp(broken.offset) {
			return nil, false
		}
		end, message := len(r.text), broken.message
		if r.text[broken.offset] != '"' {
			message += unchecked
		} else if line := bytes.IndexByte(r.text[broken.offset:], '\n'); line >= 0 {
			end = broken.offset + line
		}
		r.report(broken.offset, message)
		r.blank(broken.offset, end)
		at = append(at, broken.offset)
	}
}

// piece is a part of a file that should be one policy.
type piece struct {
	start, end int
	// after is the end of what the parser is given to say what is wrong: the
	// next semicolon.
	after int
	// open says that the policy has no semicolon.
	open bool
}

// pieces parts a file after each semicolon, and before whatever starts another
// policy.
func pieces(text []byte) []piece {
	tokens, _ := scan(text, policyLanguage)
	var out []piece
	at := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return tokens[i].text(text)
	}
	for i := 0; i < len(tokens); {
		p := piece{start: int(tokens[i].start)}
		effect := func() bool {
			return (at(i) == "permit" || at(i) == "forbid") && at(i+1) == "(" && at(i-1) != "." && at(i-1) != "has"
		}
		for i < len(tokens) && at(i) != ";" && !effect() { // annotations, and what is wrong there
			i++
		}
		for i++; i < len(tokens) && at(i-1) != ";" && at(i) != "@" && !effect(); {
			i++
		}
		i = min(i, len(tokens))
		p.open = at(i-1) != ";"
		p.end = int(tokens[i-1].end)
		out = append(out, p)
	}
	for i := len(out) - 1; i >= 0; i-- {
		if out[i].after = out[i].end; out[i].open && i+1 < len(out) {
			out[i].after = out[i+1].after
		}
	}
	return out
}

// piece reads one piece of the file.
func (r *recovery) piece(p piece) {
	parsed, fault := r.parsePiece(p.start, p.text(r.text, p.after))
	if fault != nil {
		r.faults++
		r.policyFile.faults = append(r.policyFile.faults, *fault)
	}
	if p.open { // the policy alone, as if it were closed
		closed := append(bytes.Clone(p.text(r.text, p.end)), ';')
		if parsed, fault = r.parsePiece(p.start, closed); fault == nil {
			r.declareAt(p.start, parsed, closed)
		}
		return
	}
	if fault == nil {
		r.declareAt(p.start, parsed, p.text(r.text, p.end))
	}
}

func (p piece) text(of []byte, end int) []byte { return of[p.start:end] }

// parsePiece gives a text, which stands at offset, to the parser once it is
// measured.
func (r *recovery) parsePiece(offset int, text []byte) (*ast.Policy, *writ.Fault) {
	src := Source{r.src.File, text}
	f := checkLimits(src)
	if f == nil {
		parsed, err := cedar.NewPolicyListFromBytes(src.File, text)
		switch {
		case err != nil:
			fault := parseFault(src, err)
			f = &fault
		case len(parsed) > 0:
			return (*ast.Policy)(parsed[0].AST()), nil
		default:
			return nil, nil
		}
	}
	at := 0
	if f.Line > 0 {
		at = max(0, offsetOf(text, f.Line, f.Column))
	}
	f.Line, f.Column = place(r.src.Text, offset+at)
	return nil, f
}

// declareAt declares a policy that was read by itself.
func (r *recovery) declareAt(offset int, p *ast.Policy, text []byte) {
	if p == nil {
		return
	}
	r.line += bytes.Count(r.src.Text[r.at:offset], []byte("\n"))
	r.at = offset
	p.Position = ast.Position{Filename: r.src.File, Offset: offset, Line: r.line, Column: 1}
	r.declare(&entry{source: r.src, offset: offset}, p, text)
}
