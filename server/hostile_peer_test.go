package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

const explainMethod = "/writ.v1.DecisionService/Explain"

// patience is how long a test waits for what is to come on a loaded machine.
const patience = 30 * time.Second

// peer is a client that sends what it likes. What it is sent is read all the
// time, unless it is deaf.
type peer struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder

	mu      sync.Mutex
	status  map[uint32]int    // guarded by mu: grpc-status of each stream
	http    map[uint32]string // guarded by mu: :status
	reset   map[uint32]http2.ErrCode
	goaway  *http2.ErrCode // guarded by mu
	closed  bool           // guarded by mu
	pings   int            // guarded by mu: answers
	changed chan struct{}  // guarded by mu: closed at the next news
}

// reach connects without a word.
func reach(t testing.TB, address string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * patience))
	p := &peer{
		t: t, conn: conn, framer: http2.NewFramer(conn, conn), changed: make(chan struct{}),
		status: map[uint32]int{}, http: map[uint32]string{}, reset: map[uint32]http2.ErrCode{},
	}
	p.framer.AllowIllegalWrites = true
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.hpack = hpack.NewEncoder(&p.block)
	return p
}

// dialPeer speaks HTTP/2 as far as the settings.
func dialPeer(t testing.TB, address string, settings ...http2.Setting) *peer {
	t.Helper()
	p := dialDeaf(t, address, settings...)
	go p.listen()
	return p
}

// dialDeaf does the same, and never reads.
func dialDeaf(t testing.TB, address string, settings ...http2.Setting) *peer {
	t.Helper()
	p := reach(t, address)
	p.bytes([]byte(http2.ClientPreface))
	_ = p.framer.WriteSettings(settings...)
	return p
}

func (p *peer) listen() {
	for {
		f, err := p.framer.ReadFrame()
		p.mu.Lock()
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				switch h.Name {
				case "grpc-status":
					p.status[f.StreamID], _ = strconv.Atoi(h.Value)
				case ":status":
					p.http[f.StreamID] = h.Value
				}
			}
		case *http2.RSTStreamFrame:
			p.reset[f.StreamID] = f.ErrCode
		case *http2.GoAwayFrame:
			code := f.ErrCode
			p.goaway = &code
		case *http2.PingFrame:
			if f.IsAck() {
				p.pings++
			}
		}
		if _, stream := err.(http2.StreamError); err != nil && !stream {
			p.closed = true
		}
		close(p.changed)
		p.changed = make(chan struct{})
		ended := p.closed
		p.mu.Unlock()
		if ended {
			return
		}
	}
}

// bytes sends bytes. Whoever is cut off finds out by listening.
func (p *peer) bytes(b ...[]byte) bool {
	_, err := p.conn.Write(bytes.Join(b, nil))
	return err == nil
}

// fields encodes a header block of pairs.
func (p *peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// call is the header of a call, but for what instead says: name, value; a value
// of "-" leaves the name out.
func call(path, secret string, instead ...string) []string {
	pairs := []string{
		":method", "POST", ":scheme", "http", ":path", path, ":authority", "localhost",
		"content-type", "application/grpc", "te", "trailers", "authorization", "Bearer " + secret,
	}
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		replaced := false
		for j := 0; j < len(instead); j += 2 {
			replaced = replaced || instead[j] == pairs[i]
		}
		if !replaced {
			out = append(out, pairs[i], pairs[i+1])
		}
	}
	var pseudo []string
	for j := 0; j < len(instead); j += 2 {
		switch {
		case instead[j+1] == "-":
		case strings.HasPrefix(instead[j], ":"):
			pseudo = append(pseudo, instead[j], instead[j+1])
		default:
			out = append(out, instead[j], instead[j+1])
		}
	}
	return append(pseudo, out...)
}

func (p *peer) headers(stream uint32, end bool, pairs ...string) bool {
	return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.fields(pairs...), EndHeaders: true, EndStream: end}) == nil
}

func (p *peer) data(stream uint32, end bool, data []byte) bool {
	return p.framer.WriteData(stream, end, data) == nil
}

// frame is a frame as it may not be (RFC 9113, section 4.1).
func frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload ...byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), byte(kind), byte(flags)}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// message is a message of gRPC: a flag and a length, true or not, before it.
func message(flag byte, length uint32, payload ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, length), payload...)
}

// ending tells how a stream ends, for the peer: by a status, a reset, or with
// the connection.
func (p *peer) ending(stream uint32) string {
	p.t.Helper()
	return p.until(func() string {
		if code, ok := p.status[stream]; ok {
			return fmt.Sprintf("status %d", code)
		}
		if code, ok := p.reset[stream]; ok {
			return "reset " + code.String()
		}
		return ""
	})
}

// until waits for what say says, or for the end of the connection.
func (p *peer) until(say func() string) string {
	p.t.Helper()
	for deadline := time.After(patience); ; {
		p.mu.Lock()
		said := say()
		if said == "" && p.closed {
			said = "closed"
			if p.goaway != nil {
				said = "goaway " + p.goaway.String()
			}
		}
		changed := p.changed
		p.mu.Unlock()
		if said != "" {
			return said
		}
		select {
		case <-changed:
		case <-deadline:
			return "nothing"
		}
	}
}

// honest calls as the host, on a connection of its own, until stop is called,
// which fails the test unless every call was answered, and at least one.
func (h *house) honest(t *testing.T) (stop func()) {
	t.Helper()
	conn, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(plain()))
	if err != nil {
		t.Fatal(err)
	}
	client := writv1.NewDecisionServiceClient(conn)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+h.host), 4*patience)
	quit, done := make(chan struct{}), make(chan error, 1)
	answered := 0
	go func() {
		for {
			r, err := client.Decide(ctx, &writv1.DecideRequest{Proposal: &writv1.Proposal{RequestId: "honest"}}, grpc.WaitForReady(true))
			if err == nil && r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
				err = fmt.Errorf("got the outcome %v", r.GetDecision().GetOutcome())
			}
			answered++
			if err != nil {
				done <- err
				return
			}
			select {
			case <-quit:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return sync.OnceFunc(func() {
		t.Helper()
		close(quit)
		if err := <-done; err != nil || answered == 0 {
			t.Errorf("an honest caller's call %d on another connection: %v", answered, err)
		}
		cancel()
		conn.Close()
	})
}

// asked is how often the decider was asked for something else than the honest
// caller wants.
func (h *house) asked() int {
	n := 0
	for _, q := range h.decider.questions() {
		if q.proposal == nil || q.proposal.RequestID != "honest" && q.proposal.RequestID != "still there" {
			n++
		}
	}
	return n
}

// wantCalm fails the test if peers that are gone have left much on the heap or
// goroutines behind, or have made the server panic or complain of itself.
func (h *house) wantCalm(t *testing.T, before uint64) {
	t.Helper()
	const much = 24 << 20
	var heap uint64
	var left string
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		heap, left = heapInUse(), streams()
		if heap < before+much && left == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the heap has %d KiB, and had %d; goroutines that are left: %s", heap>>10, before>>10, left)
			break
		}
	}
	if log := h.log.String(); strings.Contains(log, "panic") || strings.Contains(log, `"ERROR"`) {
		t.Errorf("logged %s", log)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// streams are the goroutines that are within a call.
func streams() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(g, "writ/server.(*Server).gate") || strings.Contains(g, "writ/server.(*httpDoor).ServeHTTP") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// siege runs a server, and a peer's attack on it while an honest caller is
// answered.
func siege(t *testing.T, change func(*server.Config), attack func(t *testing.T, h *house)) {
	t.Helper()
	h := openTCP(t, &decider{}, func(c *server.Config) {
		c.Limits.Burst, c.Limits.Rate = 1<<20, 1<<20 // what is to be seen here are the other limits
		if change != nil {
			change(c)
		}
	})
	h.alive(t)
	before := heapInUse()
	stop := h.honest(t)
	attack(t, h)
	stop()
	h.wantCalm(t, before)
	h.alive(t)
}
