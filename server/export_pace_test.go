package server

import "net"

// Paces is what the paces of a door's connections have in common.
type Paces struct{ door *paces }

// NewPaces makes a door without connections.
func NewPaces() *Paces { return &Paces{newPaces()} }

// Hurry ends all waiting, as the server does when it drains.
func (p *Paces) Hurry() { p.door.hurry() }

// Connection is one more connection of the door; admitted and refused are what
// the gate says of its calls.
func (p *Paces) Connection(conn net.Conn) (paced net.Conn, admitted, refused func()) {
	pace := p.door.pace()
	return &pacedConn{Conn: conn, pace: pace}, func() { pace.add(callCredit) }, func() { pace.add(-refusalCost) }
}

// Open is how many connections the door counts.
func (p *Paces) Open() int { return int(p.door.read.Load()) }

// Crowd counts n connections more.
func (p *Paces) Crowd(n int64) { p.door.read.Add(n) }

// PacedConnections is how many connections of a server are read.
func (s *Server) PacedConnections() int { return int(s.paces.read.Load()) }

// NewArrivals takes what l takes, no faster than a door does.
func NewArrivals(l net.Listener) net.Listener { return &arrivals{Listener: l} }

// CountFrames counts the frames that cost something in the pieces of a
// connection's bytes.
func CountFrames(pieces ...[]byte) (n int) {
	var f frames
	for _, piece := range pieces {
		n += f.count(piece)
	}
	return n
}

// The numbers of a pace.
const (
	PaceFirst     = firstCredit
	PaceDebt      = mostDebt
	PaceAllowance = allowance
	PaceLongest   = longestDebt
	PaceSip       = sip
)

// Bearer returns the token of authorization headers.
func Bearer(headers []string) string { return bearer(headers) }

// ConnectTimeout reads Connect-Timeout-Ms.
var ConnectTimeout = connectTimeout

// OwnHost reports whether a request's Host is this listener's own.
var OwnHost = ownHost

// IsJSON reports whether a header announces JSON.
var IsJSON = isJSON
