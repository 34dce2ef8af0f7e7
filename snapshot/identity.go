package snapshot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
)

// Identity is one thing that a transport credential says of who is at the
// other end. Identities of two kinds are never the same, whatever their texts.
// The zero Identity is nobody's.
type Identity struct {
	Kind IdentityKind
	Name string
}

// IdentityKind says what of a credential an identity is.
type IdentityKind string

// Kinds of identities.
const (
	// IdentityURI is a URI of a certificate's subject alternative names, as it
	// is. Those of the scheme spiffe are SPIFFE ids.
	IdentityURI IdentityKind = "uri"
	// IdentityDNS is a DNS name there, in lower case (RFC 4343).
	IdentityDNS IdentityKind = "dns"
	// IdentitySubject is a certificate's subject, as RFC 4514 writes it.
	IdentitySubject IdentityKind = "subject"
	// IdentityUID is the user id, in decimal, of the process at the other end of
	// a Unix-domain socket.
	IdentityUID IdentityKind = "uid"
)

func (i Identity) String() string { return string(i.Kind) + " " + i.Name }

// maxIdentity is how many bytes a name may have; a SPIFFE id may have as many
// (SPIFFE-ID, section 2.3).
const maxIdentity = 2048

// ParseName reads a name in a certificate's subject alternative names: a URI
// if it holds a colon, else a DNS name. A URI of the scheme spiffe must be the
// SPIFFE id of a workload.
func ParseName(text string) (Identity, error) {
	switch {
	case text == "" || len(text) > maxIdentity:
		return Identity{}, fmt.Errorf("a name has between 1 and %d bytes", maxIdentity)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Identity{}, errors.New("a URI or DNS name is of printable ASCII characters without spaces: write what is beyond percent-encoded, or in Punycode")
	case !strings.Contains(text, ":"):
		return parseDNS(text)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.String() != text {
		return Identity{}, errors.New("this is no URI in its normal form: write it as the certificate has it, such as spiffe://acme.example/ap-host")
	}
	if u.Scheme == spiffeScheme {
		if err := checkSPIFFE(text); err != nil {
			return Identity{}, err
		}
	}
	return Identity{IdentityURI, text}, nil
}

func parseDNS(text string) (Identity, error) {
	name := strings.ToLower(text)
	if len(name) > 253 {
		return Identity{}, errors.New("a DNS name has at most 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Identity{}, errors.New("this is neither a URI nor a DNS name: a DNS name is of letters, digits, hyphens and dots, without * and without a dot at its end")
		}
	}
	return Identity{IdentityDNS, name}, nil
}

const (
	spiffeScheme = "spiffe"
	spiffePrefix = "spiffe://"
)

// checkSPIFFE says why text is not the SPIFFE id of a workload (SPIFFE-ID,
// section 2): a trust domain and a path, both in their one form.
func checkSPIFFE(text string) error {
	rest, ok := strings.CutPrefix(text, spiffePrefix)
	domain, path, found := strings.Cut(rest, "/")
	switch {
	case !ok || len(text) > maxIdentity:
		return fmt.Errorf("a SPIFFE id is spiffe://TRUST-DOMAIN/PATH, with at most %d bytes", maxIdentity)
	case domain == "" || len(domain) > 255 || strings.Trim(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "":
		return errors.New("the trust domain of a SPIFFE id is of lower-case letters, digits, dots, hyphens and underscores, without a port")
	case !found:
		return errors.New("this SPIFFE id names a whole trust domain: add the path of one workload")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return errors.New("the path of a SPIFFE id has no empty segment, no . and no .., and no slash at its end")
		}
		for _, r := range segment {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_' {
				return errors.New("the path of a SPIFFE id is of letters, digits, dots, hyphens, underscores and slashes")
			}
		}
	}
	return nil
}

// TrustDomain is the trust domain of a SPIFFE id, or "" for any other identity.
func (i Identity) TrustDomain() string {
	if i.Kind != IdentityURI || checkSPIFFE(i.Name) != nil {
		return ""
	}
	domain, _, _ := strings.Cut(strings.TrimPrefix(i.Name, spiffePrefix), "/")
	return domain
}

// subjectTypes are the attributes that have a name in a subject's text
// (RFC 4514, section 3); others are written by their object identifiers.
var subjectTypes = map[string]bool{
	"CN": true, "SERIALNUMBER": true, "C": true, "L": true, "ST": true, "STREET": true, "O": true, "OU": true, "POSTALCODE": true,
}

// ParseSubject reads a certificate's subject as RFC 4514 writes it: the last
// attribute first, without spaces after the commas. It must be in the form that
// package crypto/x509/pkix gives it, with which it is compared.
func ParseSubject(text string) (Identity, error) {
	if text == "" || len(text) > maxIdentity {
		return Identity{}, fmt.Errorf("a subject has between 1 and %d bytes", maxIdentity)
	}
	for rest, more := text, true; more; {
		var part string
		part, rest, more = cutAttribute(rest)
		if err := checkAttribute(part); err != nil {
			return Identity{}, err
		}
	}
	return Identity{IdentitySubject, text}, nil
}

// cutAttribute cuts at the first comma or plus that is not escaped.
func cutAttribute(text string) (part, rest string, more bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',', '+':
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func checkAttribute(part string) error {
	name, value, found := strings.Cut(part, "=")
	if !found || value == "" {
		return errors.New("a subject is of TYPE=value parts: write it as openssl x509 -noout -subject -nameopt RFC2253 prints it, such as CN=ap-host,O=Acme")
	}
	if !subjectTypes[name] {
		number, isHex := strings.CutPrefix(value, "#")
		if _, err := hex.DecodeString(number); name == "" || strings.Trim(name, "0123456789.") != "" || !isHex || err != nil || number != strings.ToLower(number) {
			return errors.New("a subject's attributes are CN, O, OU, C, L, ST, STREET, POSTALCODE and SERIALNUMBER, in capitals and without spaces around; any other is written by its object identifier: 1.2.840.113549.1.9.1=#160161")
		}
		return nil
	}
	runes := []rune(value)
	for i := 0; i < len(runes); i++ {
		escaped := runes[i] == '\\'
		if escaped {
			i++
		}
		if i == len(runes) {
			return errors.New("the subject ends in a backslash")
		}
		must := strings.ContainsRune(`,+"\<>;`, runes[i])
		first := i == 0 || escaped && i == 1
		switch {
		case runes[i] == '#' && first, runes[i] == ' ' && (first || i == len(runes)-1):
			must = true
		}
		if escaped != must {
			return errors.New(`in a subject the characters , + " \ < > ; have a backslash before them, # at the beginning of a value and spaces at either end, too, and nothing else has`)
		}
	}
	return nil
}

// overflowUID is what the kernel says of every user whom the user namespace of
// the server does not know.
const overflowUID = 65534

// UIDIdentity is the user of a process on this machine. The id that stands for
// all users of foreign user namespaces is an error, and so is that of nobody.
func UIDIdentity(uid uint32) (Identity, error) {
	if uid == overflowUID || uid == math.MaxUint32 {
		return Identity{}, fmt.Errorf("%d is no single user: the kernel says it of every user whom it can't name here", uid)
	}
	return Identity{IdentityUID, strconv.FormatUint(uint64(uid), 10)}, nil
}
