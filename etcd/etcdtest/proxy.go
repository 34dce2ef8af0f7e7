package etcdtest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and one address.
type Proxy struct {
	listener net.Listener
	allow    func(from string) bool // peers only: whether who connects may; nil: everybody
	sent     atomic.Int64           // bytes to clients
	group    sync.WaitGroup

	mu     sync.Mutex
	target string                // guarded by mu
	delay  time.Duration         // guarded by mu: of each piece of traffic
	open   chan struct{}         // guarded by mu: closed while traffic flows
	mute   bool                  // guarded by mu: nothing goes to clients
	refuse bool                  // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

// NewProxy stands before an address, which may be another proxy's, until the
// test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, nil)
}

func newProxy(t testing.TB, target string, allow func(from string) bool) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, allow: allow, open: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(p.open)
	p.group.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Sent returns how many bytes went to clients so far.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

// SetDelay makes all traffic this much later.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Silence holds all traffic back, without closing anything, as a network does
// that loses packets; or lets it go on.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		if on {
			p.open = make(chan struct{})
		}
	default:
		if !on {
			close(p.open)
		}
	}
}

// Mute closes a connection instead of passing on what the server answers, from
// the next request on (of HTTP/2): that still reaches it. Or it lets answers pass
// again.
func (p *Proxy) Mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// Refuse closes all connections and every new one; or lets them be made again.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
	if on {
		for c := range p.conns {
			c.Close()
		}
	}
}

// Redirect has clients reach another address.
func (p *Proxy) Redirect(addr string) {
	p.mu.Lock()
	p.target = addr
	p.mu.Unlock()
	p.cut()
}

// cut closes all connections: who is still allowed makes new ones.
func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.Silence(false)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cut()
	p.group.Wait()
}

func (p *Proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.forward(c) })
	}
}

func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) forward(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	var head []byte
	if p.allow != nil {
		var from string
		if head, from = peer(client); !p.allow(from) {
			return
		}
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	if !p.add(server) {
		return
	}
	defer p.remove(server)
	if _, err := server.Write(head); err != nil {
		return
	}
	var both sync.WaitGroup
	asked := &requests{skip: preface}
	both.Go(func() { p.copy(server, client, asked, nil) })
	both.Go(func() { p.copy(client, server, asked, &p.sent) })
	both.Wait()
}

// copy copies until one side ends, and then ends the other. What it counts goes
// to clients.
func (p *Proxy) copy(to, from net.Conn, asked *requests, count *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		open, delay, mute := p.open, p.delay, p.mute
		p.mu.Unlock()
		switch {
		case count == nil:
			asked.pass(buffer[:n], mute)
		case mute && asked.muted.Load():
			return
		}
		<-open
		if delay > 0 {
			time.Sleep(delay)
		}
		if count != nil {
			count.Add(int64(n))
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// requests notices those of one connection.
type requests struct {
	skip  int         // bytes until the next frame
	head  []byte      // of a frame, as far as it has come
	muted atomic.Bool // there was one while its answer is not to be passed on
}

// The form of HTTP/2: RFC 9113, sections 3.4, 4.1 and 6.2.
const (
	preface    = 24
	frameHead  = 9
	headerType = 1
)

// pass looks at what a client sends.
func (r *requests) pass(b []byte, mute bool) {
	for len(b) > 0 {
		if n := min(r.skip, len(b)); n > 0 {
			r.skip, b = r.skip-n, b[n:]
			continue
		}
		n := min(frameHead-len(r.head), len(b))
		r.head, b = append(r.head, b[:n]...), b[n:]
		if len(r.head) < frameHead {
			return
		}
		r.skip = int(r.head[0])<<16 | int(r.head[1])<<8 | int(r.head[2])
		if r.head[3] == headerType {
			r.muted.Store(mute)
		}
		r.head = r.head[:0]
	}
}

// peer reads the head of the first request between members, which says which
// member sends it.
func peer(c net.Conn) (head []byte, from string) {
	one := make([]byte, 4096)
	for !bytes.Contains(head, []byte("\r\n\r\n")) && len(head) < 64<<10 {
		n, err := c.Read(one)
		head = append(head, one[:n]...)
		if err != nil {
			if err != io.EOF {
				return head, ""
			}
			break
		}
	}
	const field = "\r\nX-Server-From: "
	if _, rest, ok := bytes.Cut(head, []byte(field)); ok {
		id, _, _ := bytes.Cut(rest, []byte("\r\n"))
		from = string(id)
	}
	return head, from
}
