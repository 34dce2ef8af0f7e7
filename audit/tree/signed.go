package tree

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// MaxSigned bounds a signed checkpoint, in bytes.
const MaxSigned = 64 << 10

// Signed is a checkpoint with a valid signature of its log.
type Signed struct {
	Checkpoint
	// Cosignatures are those, all valid, of the witnesses that were asked for.
	Cosignatures []Cosignature
}

// Why a signed checkpoint is refused. Errors of [Open] wrap one of these, or
// say that the text is malformed.
var (
	ErrOrigin     = errors.New("this is the checkpoint of another log")
	ErrForeignKey = errors.New("the log's key has not signed this checkpoint")
	ErrSignature  = errors.New("a signature of this checkpoint is wrong")
)

// Sign returns the signed checkpoint. The signer's name must be the origin.
func Sign(c Checkpoint, log note.Signer) ([]byte, error) {
	if log.Name() != c.Origin {
		return nil, fmt.Errorf("tree: the key of %q can't sign a checkpoint of %q", log.Name(), c.Origin)
	}
	body, err := c.Body()
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: body}, log)
	if err != nil {
		return nil, fmt.Errorf("tree: signing the checkpoint: %w", err)
	}
	return signed, nil
}

// Open reads a signed checkpoint of the log whose key and name the verifier
// has. All signatures of the log and of these witnesses must be valid; others
// are ignored, and a witness need not have signed.
func Open(signed []byte, log note.Verifier, witnesses ...*Witness) (Signed, error) {
	s, _, err := open(signed, log, witnesses)
	return s, err
}

func open(signed []byte, log note.Verifier, witnesses []*Witness) (Signed, *note.Note, error) {
	if log == nil {
		return Signed{}, nil, errors.New("tree: a checkpoint can't be opened without the log's verifier key")
	}
	if len(signed) > MaxSigned {
		return Signed{}, nil, fmt.Errorf("%w: it is longer than %d bytes", errCheckpoint, MaxSigned)
	}
	known := []note.Verifier{log}
	for _, w := range witnesses {
		known = append(known, w)
	}
	n, err := note.Open(signed, note.VerifierList(known...))
	if unverified, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		n = unverified.Note
	} else if wrong, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return Signed{}, nil, fmt.Errorf("tree: %w: that of %s", ErrSignature, wrong.Name)
	} else if err != nil {
		return Signed{}, nil, fmt.Errorf("%w: %w", errCheckpoint, err)
	}
	c, err := ParseBody(n.Text)
	if err != nil {
		return Signed{}, nil, err
	}
	if c.Origin != log.Name() {
		return Signed{}, nil, fmt.Errorf("tree: %w: its origin is %q, and this log's %q", ErrOrigin, c.Origin, log.Name())
	}
	s := Signed{Checkpoint: c}
	own := false
	for _, sig := range n.Sigs {
		if !canonical(sig) {
			return Signed{}, nil, fmt.Errorf("%w: the signature of %s is not in the form it was written in", errCheckpoint, sig.Name)
		}
		if sig.Name == log.Name() && sig.Hash == log.KeyHash() {
			own = true
			continue
		}
		s.Cosignatures = append(s.Cosignatures, cosignature(sig))
	}
	if !own {
		return Signed{}, nil, fmt.Errorf("tree: %w: expected is key %s+%08x", ErrForeignKey, log.Name(), log.KeyHash())
	}
	return s, n, nil
}

// canonical reports whether a signature's base64 is the one text for its bytes.
func canonical(sig note.Signature) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
	return err == nil
}

// Cosign adds those of the signature lines that are valid cosignatures of the
// witnesses to a signed checkpoint of the log, which keeps what it has. Lines of
// other keys are left out; a wrong line of a witness is an error.
func Cosign(signed, lines []byte, log note.Verifier, witnesses ...*Witness) ([]byte, Signed, error) {
	before, had, err := open(signed, log, witnesses)
	if err != nil {
		return nil, Signed{}, err
	}
	if err := signatureLines(lines); err != nil {
		return nil, Signed{}, err
	}
	after, n, err := open(bytes.Join([][]byte{signed, lines}, nil), log, witnesses)
	if err != nil {
		return nil, Signed{}, err
	}
	if !after.Equal(before.Checkpoint) {
		return nil, Signed{}, errors.New("tree: the cosignatures change the checkpoint")
	}
	n.UnverifiedSigs = had.UnverifiedSigs
	cosigned, err := note.Sign(n)
	if err != nil {
		return nil, Signed{}, fmt.Errorf("tree: adding cosignatures: %w", err)
	}
	return cosigned, after, nil
}

// signatureLines makes sure that all that is there is lines of signatures.
func signatureLines(lines []byte) error {
	text, ok := strings.CutSuffix(string(lines), "\n")
	if !ok {
		return errors.New("tree: signatures must be lines, each ended")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "— ") {
			return errors.New("tree: a line of a signature must start with an em dash and a space")
		}
	}
	return nil
}
