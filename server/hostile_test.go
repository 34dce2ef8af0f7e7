package server_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ/server"
)

func plain() credentials.TransportCredentials { return insecure.NewCredentials() }

// The strict reader, over the wire.
func TestRequestsAreReadStrictly(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	asked := 0
	for _, c := range strictCases {
		err := h.send(as(t, h.host), decideMethod, c.data)
		if c.reason == "" {
			asked++
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		info := wantRefusal(t, err, codes.InvalidArgument, c.reason)
		if where := info.GetMetadata()["message"] + " " + info.GetMetadata()["field"]; c.where != "" && where != c.where {
			t.Errorf("%s: refused at %q, want %q", c.name, where, c.where)
		}
	}
	if n := len(d.questions()); n != asked {
		t.Errorf("asked %d times, want %d", n, asked)
	}
	h.alive(t)
}

func TestRandomMessages(t *testing.T) {
	h := open(t, &decider{}, nil)
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		message := make([]byte, random.IntN(200))
		for i := range message {
			message[i] = byte(random.Uint32())
		}
		err := h.send(as(t, h.host), decideMethod, message)
		switch status.Code(err) {
		case codes.OK, codes.InvalidArgument:
		default:
			t.Fatalf("%s: %v", hex.EncodeToString(message), err)
		}
	}
	h.alive(t)
}

func TestGiantHeaders(t *testing.T) {
	d := &decider{}
	h := openTCP(t, d, nil)
	ctx := metadata.AppendToOutgoingContext(as(t, h.host), "x-much", strings.Repeat("x", 20<<10))
	if err := h.send(ctx, decideMethod, nil); err == nil {
		t.Error("20 KiB of headers passed")
	}
	// Many small ones come to the same.
	ctx = as(t, h.host)
	for i := range 500 {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-"+strconv.Itoa(i), "some value")
	}
	if err := h.send(ctx, decideMethod, nil); err == nil {
		t.Error("500 headers passed")
	}
	// This client heeds what the server announces; others don't. A header
	// that is repeated takes one byte more each time (RFC 7541).
	bomb := []string{"x-much", strings.Repeat("x", 1000)}
	for range 10 {
		bomb = append(bomb, bomb...)
	}
	for name, headers := range map[string][]string{
		"one long header": {"x-much", strings.Repeat("x", 17<<10)}, "two dozen headers": bomb[:48], "a thousand headers in 2 KiB": bomb,
	} {
		client := dialHTTP2(t, h.address)
		client.headers(1, true, h.host, headers...)
		if code, err := client.ending(1); err == nil {
			t.Errorf("%s: got status %d, want the stream or the connection ended", name, code)
		}
	}
	if n := len(d.questions()); n != 0 {
		t.Errorf("asked %d times", n)
	}
	h.alive(t)
}

func TestCompressionIsNotInstalled(t *testing.T) {
	// The client of this test has no compressor either, so the frames are made by hand.
	h := openTCP(t, &decider{}, nil)
	c := dialHTTP2(t, h.address)
	c.headers(1, false, h.host, "grpc-encoding", "gzip")
	c.data(1, true, []byte{1, 0, 0, 0, 1, 0})
	if code := c.grpcStatus(1); code != int(codes.Unimplemented) {
		t.Errorf("got status %d", code)
	}
	// Marked as compressed without saying how.
	c.headers(3, false, h.host)
	c.data(3, true, []byte{1, 0, 0, 0, 1, 0})
	if code := c.grpcStatus(3); code != int(codes.InvalidArgument) && code != int(codes.Internal) {
		t.Errorf("got status %d", code)
	}
	h.alive(t)
}

// What a client's library never sends.
func TestHostileFrames(t *testing.T) {
	frame := func(length uint32, payload ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, length), payload...)
	}
	for _, c := range []struct {
		name string
		data []byte
		want codes.Code
	}{
		{"no message", nil, codes.Internal},
		{"header cut off", []byte{0, 0, 0}, codes.Internal},
		{"message cut off", frame(100, 1, 2, 3), codes.Internal},
		{"longer than said", append(frame(1, 0x0a), 1, 2, 3), codes.Internal},
		{"two messages", append(frame(0), frame(0)...), codes.Internal},
		{"said to have 4 GiB", frame(0xffffffff, 1, 2, 3), codes.ResourceExhausted},
		{"said to have 513 KiB", frame(513<<10, 1, 2, 3), codes.ResourceExhausted},
		{"a reserved flag", []byte{7, 0, 0, 0, 0}, codes.Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &decider{}
			h := openTCP(t, d, nil)
			client := dialHTTP2(t, h.address)
			client.headers(1, false, h.host)
			client.data(1, true, c.data)
			if code := client.grpcStatus(1); code != int(c.want) {
				t.Errorf("got status %d, want %d", code, c.want)
			}
			if n := len(d.questions()); n != 0 {
				t.Errorf("asked %d times", n)
			}
			if strings.Contains(h.log.String(), "ERROR") {
				t.Errorf("a client's fault is logged as the server's: %s", h.log)
			}
			h.alive(t)
		})
	}
}

// Someone who never finishes a message is cut off by the server's deadline,
// without one of the client's.
func TestUnfinishedMessage(t *testing.T) {
	wantNoLeak(t)
	d := &decider{}
	h := openTCP(t, d, func(c *server.Config) { c.Limits.Deadline = 100 * time.Millisecond; c.Limits.InFlight = 1 })
	client := dialHTTP2(t, h.address)
	client.headers(1, false, h.host)
	client.data(1, false, []byte{0, 0, 0, 0, 100, 1, 2, 3})
	if code := client.grpcStatus(1); code != int(codes.DeadlineExceeded) {
		t.Errorf("got status %d", code)
	}
	if n := len(d.questions()); n != 0 {
		t.Errorf("asked %d times", n)
	}
	wantAnswerSoon(t, h) // the one place in flight is free again
}

func TestDeadlineThatHasPassed(t *testing.T) {
	d := &decider{}
	h := openTCP(t, d, nil)
	client := dialHTTP2(t, h.address)
	for i, timeout := range []string{"1n", "0n", "0S"} {
		stream := uint32(2*i + 1)
		client.headers(stream, false, h.host, "grpc-timeout", timeout)
		client.data(stream, true, []byte{0, 0, 0, 0, 0})
		if code := client.grpcStatus(stream); code != int(codes.DeadlineExceeded) {
			t.Errorf("%s: got status %d", timeout, code)
		}
	}
	if n := len(d.questions()); n != 0 {
		t.Errorf("decided %d times after the deadline", n)
	}
	h.alive(t)
}

// Calls that are begun and dropped at once must not use up what the caller
// may have in flight, nor decide anything twice.
func TestRapidReset(t *testing.T) {
	wantNoLeak(t)
	h := openTCP(t, &decider{}, func(c *server.Config) { c.Limits.InFlight = 4; c.Limits.Burst = 1 << 20; c.Limits.Rate = 1 << 20 })
	client := dialHTTP2(t, h.address)
	for i := range 300 {
		stream := uint32(2*i + 1)
		client.headers(stream, false, h.host)
		if client.err == nil {
			client.err = client.framer.WriteRSTStream(stream, http2.ErrCodeCancel)
		}
	}
	wantAnswerSoon(t, h)
}

// wantAnswerSoon waits for places in flight that are about to be free.
func wantAnswerSoon(t *testing.T, h *house) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := h.decide(t, nil)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the places in flight are gone: %v", err)
		}
	}
}

func TestNoHTTP2AtAll(t *testing.T) {
	h := openTCP(t, &decider{}, nil)
	random := rand.New(rand.NewPCG(3, 4))
	for _, garbage := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n"),
		[]byte("POST " + decideMethod + " HTTP/1.1\r\nContent-Type: application/grpc\r\n\r\n"),
		bytes.Repeat([]byte{0}, 100_000),
		[]byte(http2.ClientPreface + strings.Repeat("\xff", 1000)),
		func() []byte {
			b := make([]byte, 10_000)
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		}(),
	} {
		conn, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		conn.Write(garbage)
		buffer := make([]byte, 4096)
		for {
			if _, err := conn.Read(buffer); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%.20q: the connection stays open", garbage)
				}
				break
			}
		}
		conn.Close()
	}
	h.alive(t)
}

func TestConnectionsAreLimited(t *testing.T) {
	h := openTCP(t, &decider{}, func(c *server.Config) { c.Limits.Connections = 1 })
	h.alive(t)
	other, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(plain()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answered := make(chan error, 1)
	go func() {
		var in, out []byte
		answered <- other.Invoke(as(t, h.host), decideMethod, &in, &out, grpc.ForceCodecV2(raw{}))
	}()
	select {
	case err := <-answered:
		t.Fatalf("a second connection was served: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	h.conn.Close()
	if err := <-answered; err != nil {
		t.Errorf("once the first is gone: %v", err)
	}
}

// http2Client speaks HTTP/2 frame by frame.
type http2Client struct {
	t      *testing.T
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	err    error // the first of a write
	status map[uint32]int
}

func dialHTTP2(t *testing.T, address string) *http2Client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c := &http2Client{t: t, framer: http2.NewFramer(conn, conn), status: make(map[uint32]int)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.hpack = hpack.NewEncoder(&c.block)
	c.err = c.framer.WriteSettings()
	return c
}

func (c *http2Client) headers(stream uint32, end bool, secret string, more ...string) {
	c.block.Reset()
	pairs := append([]string{
		":method", "POST", ":scheme", "http", ":path", decideMethod, ":authority", "pdp", "content-type", "application/grpc", "te", "trailers",
		"authorization", "Bearer " + secret,
	}, more...)
	for i := 0; i < len(pairs); i += 2 {
		if err := c.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.err == nil {
		c.err = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: end})
	}
}

func (c *http2Client) data(stream uint32, end bool, data []byte) {
	if c.err == nil {
		c.err = c.framer.WriteData(stream, end, data)
	}
}

// grpcStatus returns the grpc-status that the stream ends with.
func (c *http2Client) grpcStatus(stream uint32) int {
	c.t.Helper()
	code, err := c.ending(stream)
	if err != nil {
		c.t.Fatalf("stream %d ended without a status: %v", stream, err)
	}
	return code
}

// ending returns the grpc-status that the stream ends with, or how else it or
// the connection ended.
func (c *http2Client) ending(stream uint32) (int, error) {
	c.t.Helper()
	if c.err != nil {
		c.t.Fatal(c.err)
	}
	for {
		if code, ok := c.status[stream]; ok {
			return code, nil
		}
		f, err := c.framer.ReadFrame()
		if e, ok := err.(net.Error); ok && e.Timeout() {
			c.t.Fatalf("stream %d does not end", stream)
		}
		if err != nil {
			return 0, err
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					code, err := strconv.Atoi(h.Value)
					if err != nil {
						c.t.Fatal(err)
					}
					c.status[f.StreamID] = code
				}
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if err := c.framer.WriteSettingsAck(); err != nil {
					return 0, err
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return 0, fmt.Errorf("reset: %v", f.ErrCode)
			}
		}
	}
}
