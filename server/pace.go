package server

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// What a connection is read for. Credit is counted in frames of HTTP/2: what
// arrives costs some, what is let in brings some, and whoever has none is not
// read until time has brought some. So those who flood a connection with what
// comes to nothing, in whichever of the many ways that HTTP/2 has, wait in their
// own socket's buffer, before they have cost any work; while a client whose
// calls are let in is never kept waiting. The HTTP door speaks HTTP/1.1, where a
// request is read once the one before it is answered: it waits there.
const (
	firstCredit = 16   // of a new connection: enough for its first calls
	mostCredit  = 1024 // kept for a burst
	mostDebt    = 512
	callCredit  = 8  // brought by a call that is let in: it has 2 to 5 frames
	refusalCost = 24 // of a call that is refused, beyond its frames
	requestCost = 2  // of a request of HTTP/1.1: what a call's frames cost
	probeCost   = 6
	metricsCost = 64 // they are gathered anew for each who asks
	// bytesSent is how much sent to the client brings one more: for its window
	// updates, of which eager clients send two for each 4 KiB, one of them for the
	// connection.
	bytesSent = 2 << 10
	// payload is the size of data from which a frame costs nothing.
	payload = 1 << 10
	// allowance is how much credit a second time brings to all connections
	// together, of which each has its share, at least leastShare.
	allowance, leastShare = 4096, 4
	// sip is how many bytes are read at once, at most, while there is little
	// credit, and frameBytes how many for each that there is: the shortest calls
	// have as many. So a connection that is new, or made anew again and again, has
	// few calls read before they cost it something.
	sip, frameBytes = 2 << 10, 16
	// longestDebt is how long a connection may be without credit, before it is
	// closed: it takes a place, and nobody may be at its other end any more.
	longestDebt = 10 * time.Second
)

var errNoCredit = errors.New("server: the connection is closed: for too long, too little of what it brought was a call that could be let in")

// paces is what the paces of a server's connections have in common.
type paces struct {
	read    atomic.Int64  // connections that are read
	hurried chan struct{} // closed when the server drains: nobody is kept waiting any more
	once    sync.Once     // closes hurried
}

// pace says how fast one connection is read. A nil *pace is of a connection
// that has none.
type pace struct {
	door   *paces
	more   chan struct{} // has one element once credit has come
	closed chan struct{}

	mu     sync.Mutex
	begun  bool      // guarded by mu: counted by the doors
	ended  bool      // guarded by mu
	credit float64   // guarded by mu
	at     time.Time // guarded by mu: when time last brought credit
	solved time.Time // guarded by mu: when there was credit last
	sent   int       // guarded by mu: bytes that have not brought credit yet
}

func newPaces() *paces { return &paces{hurried: make(chan struct{})} }

// hurry keeps nobody waiting any more.
func (d *paces) hurry() { d.once.Do(func() { close(d.hurried) }) }

// pace is the pace of a new connection.
func (d *paces) pace() *pace {
	return &pace{door: d, more: make(chan struct{}, 1), closed: make(chan struct{}), credit: firstCredit}
}

// end ends waiting.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.closed)
	if p.begun {
		p.door.read.Add(-1)
	}
}

// wait returns once there is credit, the connection is closed or the server
// drains: how many bytes to read at most. It fails where there was no credit
// for too long, and when ctx ends.
func (p *pace) wait(ctx context.Context) (int, error) {
	for {
		credit, share, dry := p.now()
		switch {
		case credit >= mostCredit/4:
			return math.MaxInt, nil
		case credit > 0:
			return min(max(int(credit), 1)*frameBytes, sip), nil
		case dry > longestDebt:
			return 0, errNoCredit
		}
		timer := time.NewTimer(min(time.Duration((1-credit)/share*float64(time.Second)), longestDebt))
		select {
		case <-p.more:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-p.closed:
			timer.Stop()
			return sip, nil
		case <-p.door.hurried:
			timer.Stop()
			return sip, nil
		}
		timer.Stop()
	}
}

// now adds what time has brought, and says for how long there was no credit.
func (p *pace) now() (credit, share float64, dry time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun, p.at, p.solved = true, now, now
		if p.door.read.Add(1); p.ended {
			p.door.read.Add(-1)
		}
	}
	share = max(allowance/float64(max(p.door.read.Load(), 1)), leastShare)
	if p.credit < firstCredit {
		p.credit = min(p.credit+now.Sub(p.at).Seconds()*share, firstCredit)
	}
	if p.at = now; p.credit > 0 {
		p.solved = now
	}
	return p.credit, share, now.Sub(p.solved)
}

// request waits until a request of HTTP/1.1 may be answered, and takes its
// cost. It fails as wait does.
func (p *pace) request(ctx context.Context) error {
	if p == nil {
		return nil
	}
	_, err := p.wait(ctx)
	p.add(-requestCost)
	return err
}

// add changes the credit.
func (p *pace) add(frames int) {
	if p == nil || frames == 0 {
		return
	}
	p.mu.Lock()
	p.credit = min(max(p.credit+float64(frames), -mostDebt), mostCredit)
	p.mu.Unlock()
	if frames > 0 {
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

// wrote counts bytes that were sent to the client.
func (p *pace) wrote(n int) {
	p.mu.Lock()
	p.sent += n
	frames := p.sent / bytesSent
	p.sent %= bytesSent
	p.mu.Unlock()
	p.add(frames)
}

// pacedConn is a connection that is read at its pace, deciphered where it was
// ciphered.
type pacedConn struct {
	net.Conn
	pace *pace
	in   frames // of Read
}

func (c *pacedConn) Read(b []byte) (int, error) {
	most, err := c.pace.wait(context.Background())
	if err != nil {
		return 0, err
	}
	most = max(most, c.in.skip) // the rest of a frame is paid for
	n, err := c.Conn.Read(b[:min(len(b), most)])
	c.pace.add(-c.in.count(b[:n]))
	return n, err
}

func (c *pacedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.pace.wrote(n)
	return n, err
}

func (c *pacedConn) Close() error {
	c.pace.end()
	return c.Conn.Close()
}

// frames counts the frames of a stream of bytes that begins with the preface
// (RFC 9113, sections 3.4 and 4.1). What is no HTTP/2 is the transport's to
// refuse.
type frames struct {
	begun bool
	skip  int // bytes to the next frame's header
	head  [9]byte
	have  int // of head
}

// count returns how many frames begin in data, but for those that carry much.
func (f *frames) count(data []byte) (n int) {
	if !f.begun {
		f.begun, f.skip = true, len(http2.ClientPreface)
	}
	for len(data) > 0 {
		if f.skip > 0 {
			skipped := min(f.skip, len(data))
			f.skip -= skipped
			data = data[skipped:]
			continue
		}
		copied := copy(f.head[f.have:], data)
		f.have += copied
		data = data[copied:]
		if f.have < len(f.head) {
			break
		}
		f.have = 0
		f.skip = int(binary.BigEndian.Uint32(f.head[:4]) >> 8)
		if http2.FrameType(f.head[3]) != http2.FrameData || f.skip < payload {
			n++
		}
	}
	return n
}
