package server

import (
	"net"
	"time"
)

// How many connections a listener takes: a connection costs work, and a TLS
// handshake much of it, before anybody knows who is there. Others wait in the
// kernel's queue.
const (
	arrivalRate  = 512 // a second
	arrivalBurst = 32  // at one instant
)

// arrivals is a listener that takes connections at that rate.
type arrivals struct {
	net.Listener
	due time.Time // of the next connection, if they came evenly; Accept's
}

func (l *arrivals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	const apart = time.Second / arrivalRate
	now := time.Now()
	if earliest := now.Add(-arrivalBurst * apart); l.due.Before(earliest) {
		l.due = earliest
	}
	l.due = l.due.Add(apart)
	time.Sleep(l.due.Sub(now))
	return conn, nil
}
