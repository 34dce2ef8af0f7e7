package target

import (
	"errors"
	"strings"
)

// Limits of an address (RFC 5321, section 4.5.3.1; RFC 3696, erratum 1690).
const (
	MaxLocalBytes = 64
	MaxEmailBytes = 254
)

// Email is one mailbox in normal form. The zero Email names nothing.
type Email struct {
	Text string // local@host
	// Local is the part before the @ as given, its case kept.
	Local string
	Host  Host // a name, never an address
}

// NewEmail returns local@domain with the domain as [NewHost] writes it. The
// local part is an ASCII dot-atom (RFC 5322, section 3.2.3).
//
// Its case is kept, because only the domain's own host may read it (RFC 5321,
// section 2.4): Ann@ and ann@ may be two mailboxes, and to permit one is not
// to permit the other. They may be one as well, so a rule that forbids should
// name hosts, not mailboxes.
//
// Refused: display names and angle brackets, comments, quoted local parts
// (one mailbox has many quoted spellings), "%" and "!" in local parts (relays
// read them as routes to another host: RFC 1123, section 5.2.16), local parts
// beyond ASCII, and domains that are IP addresses or address literals.
func NewEmail(text string) (Email, error) {
	if len(text) > 4*MaxEmailBytes {
		return Email{}, errEmailLong()
	}
	local, domain, ok := strings.Cut(text, "@")
	if !ok || strings.Contains(domain, "@") {
		return Email{}, errors.New("the email address does not have exactly one @: write local@domain and nothing else")
	}
	if err := checkLocal(local); err != nil {
		return Email{}, err
	}
	host, err := NewHost(domain)
	if err != nil {
		return Email{}, err
	}
	if host.IP {
		return Email{}, errors.New("the email address has an IP address for its domain: write the domain's name")
	}
	e := Email{Text: local + "@" + host.Text, Local: local, Host: host}
	if len(e.Text) > MaxEmailBytes {
		return Email{}, errEmailLong()
	}
	return e, nil
}

func errEmailLong() error { return errors.New("the email address is longer than 254 bytes") }

// checkLocal holds a local part to dot-atom, without the routing characters.
func checkLocal(local string) error {
	if local == "" || len(local) > MaxLocalBytes {
		return errors.New("the email address has a local part that is empty or longer than 64 bytes")
	}
	for i := 0; i < len(local); i++ {
		switch b := local[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte("#$&'*+-/=?^_`{|}~", b) >= 0:
		case b == '.':
			if i == 0 || i == len(local)-1 || local[i-1] == '.' {
				return errors.New("the email address has a dot at the start or end of its local part, or two in a row")
			}
		case b == '%' || b == '!':
			return errors.New("the email address has a % or ! in its local part, which relays may read as a route to another host")
		case b == '"':
			return errors.New("the email address has a quoted local part: write one without quotes")
		default:
			return errors.New("the email address has a character in its local part that does not belong there: letters, digits and #$&'*+-/=?^_`{|}~ only, without a name or brackets around the address")
		}
	}
	return nil
}
