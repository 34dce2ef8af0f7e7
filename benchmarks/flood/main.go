// Command flood calls a server as often as it can, whatever it answers, until
// its standard input ends; then it tells how much that was. It is the peer of
// BenchmarkFlood, in a process of its own and with the lowest priority: it
// stands for another machine.
//
//	go run ./benchmarks/flood --address 127.0.0.1:PORT --method /writ.v1.DecisionService/Explain [--protocol grpc|http/1.1] [--tls] [--secret TEXT] [--message FILE] [--connections 64] [--streams 128] [--reset] [--once]
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Told is what a flood tells at its end.
type Told struct {
	Sent        int64 `json:"sent"`        // calls
	Ended       int64 `json:"ended"`       // calls that the server ended
	Answered    int64 `json:"answered"`    // and not by refusing them
	Connections int64 `json:"connections"` // made
}

// flood is one flood.
type flood struct {
	address  string
	protocol string // one of protocols
	tls      bool   // whatever the certificate
	call     []byte // header and message of a call; of HTTP/2 as frames of stream 0
	resets   bool   // each call is reset at once
	once     bool   // each call has a connection of its own
	streams  int64  // at once on a connection

	sent, ended, answered, connections atomic.Int64
}

// The protocols of the doors: gRPC, and JSON over HTTP/1.1.
const (
	overGRPC = "grpc"
	overHTTP = "http/1.1"
)

func main() {
	var (
		address     = flag.String("address", "", "HOST:PORT of the server; required")
		method      = flag.String("method", "", "full name of the method, or another path; required")
		protocol    = flag.String("protocol", overGRPC, "grpc or http/1.1")
		secret      = flag.String("secret", "", "bearer secret; empty: none is sent")
		message     = flag.String("message", "", "a file with the message; empty: it is empty")
		get         = flag.Bool("get", false, "over http/1.1: read the path with GET")
		connections = flag.Int("connections", 64, "connections at once")
		streams     = flag.Int64("streams", 128, "calls at once on each")
		resets      = flag.Bool("reset", false, "reset each call as soon as it is sent")
		once        = flag.Bool("once", false, "make a connection for each call")
		idle        = flag.String("idle", "", "grpc or http: call nothing, but hold the connections, and say so by a line")
		trusting    = flag.Bool("tls", false, "TLS, with whatever certificate")
	)
	flag.Parse()
	if *address == "" || *method == "" {
		fmt.Fprintln(os.Stderr, "flood: --address and --method are required")
		os.Exit(2)
	}
	var payload []byte
	if *message != "" {
		var err error
		if payload, err = os.ReadFile(*message); err != nil {
			fmt.Fprintln(os.Stderr, "flood:", err)
			os.Exit(1)
		}
	}
	if err := yield(); err != nil {
		fmt.Fprintln(os.Stderr, "flood: its priority stays as it is:", err)
	}
	if *idle != "" {
		if err := hold(*address, *idle, *trusting, *connections); err != nil {
			fmt.Fprintln(os.Stderr, "flood:", err)
			os.Exit(1)
		}
		return
	}
	f := &flood{address: *address, protocol: *protocol, tls: *trusting, resets: *resets, once: *once, streams: *streams}
	if f.once {
		f.streams = 1
	}
	switch f.protocol {
	case overGRPC:
		f.call = f.frames(*method, *secret, payload)
	case overHTTP:
		f.call = f.request(*get, *method, *secret, payload)
	default:
		fmt.Fprintf(os.Stderr, "flood: there is no protocol %q here\n", f.protocol)
		os.Exit(2)
	}
	for range *connections {
		go func() {
			for {
				f.connection()
				if !f.once {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = json.NewEncoder(os.Stdout).Encode(Told{Sent: f.sent.Load(), Ended: f.ended.Load(), Answered: f.answered.Load(), Connections: f.connections.Load()})
}

// frames is one call as frames without their stream.
func (f *flood) frames(method, secret string, payload []byte) []byte {
	fields := [][2]string{
		{":method", http.MethodPost}, {":scheme", "http"}, {":path", method}, {":authority", f.address},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	}
	if f.tls {
		fields[1][1] = "https"
	}
	if secret != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + secret})
	}
	var block, out bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0) // so that a call's bytes are always the same
	for _, h := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	_ = fr.WriteHeaders(http2.HeadersFrameParam{BlockFragment: block.Bytes(), EndHeaders: true})
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload))), payload...)
	for len(data) > 0 {
		piece := data[:min(len(data), 16<<10)] // of a frame (RFC 9113, section 4.2)
		data = data[len(piece):]
		_ = fr.WriteData(0, len(data) == 0, piece)
	}
	if f.resets {
		_ = fr.WriteRSTStream(0, http2.ErrCodeCancel)
	}
	return out.Bytes()
}

// connection floods one connection to its end.
func (f *flood) connection() {
	conn, err := f.dial()
	if err != nil {
		return
	}
	defer conn.Close()
	f.connections.Add(1)
	listen := f.replies
	if f.protocol != overHTTP {
		listen = f.listen
		var hello bytes.Buffer
		hello.WriteString(http2.ClientPreface)
		fr := http2.NewFramer(&hello, nil)
		_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32})
		_ = fr.WriteWindowUpdate(0, math.MaxInt32-65535)
		if _, err := conn.Write(hello.Bytes()); err != nil {
			return
		}
	}
	places := make(chan struct{}, f.streams)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		listen(bufio.NewReaderSize(conn, 64<<10), places)
	}()
	defer func() { conn.Close(); <-gone }()
	out := make([]byte, 0, 64<<10)
	for stream := uint32(1); stream < math.MaxInt32; {
		out = out[:0]
		for len(out) < 16<<10 {
			if !f.resets {
				select {
				case places <- struct{}{}:
				case <-gone:
					return
				default:
					if len(out) > 0 {
						goto send
					}
					select {
					case places <- struct{}{}:
					case <-gone:
						return
					}
				}
			}
			out = f.on(out, stream)
			f.sent.Add(1)
			stream += 2
		}
	send:
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// dial connects, and greets where there is TLS.
func (f *flood) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // so that ports do not run out
	}
	if !f.tls {
		return conn, nil
	}
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	if f.protocol == overHTTP {
		config.NextProtos = []string{"http/1.1"}
	}
	secured := tls.Client(conn, config)
	if err := secured.Handshake(); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// on appends a call as frames of a stream, or as a request.
func (f *flood) on(out []byte, stream uint32) []byte {
	at := len(out)
	out = append(out, f.call...)
	for f.protocol != overHTTP && at < len(out) {
		length := int(out[at])<<16 | int(out[at+1])<<8 | int(out[at+2])
		binary.BigEndian.PutUint32(out[at+5:], stream)
		at += 9 + length
	}
	return out
}

// listen counts the calls that end, and lets others begin for them.
func (f *flood) listen(in *bufio.Reader, places chan struct{}) {
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		kind, flags := http2.FrameType(head[3]), http2.Flags(head[4])
		ends := kind == http2.FrameRSTStream || kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream)
		if kind == http2.FrameHeaders && !ends { // trailers alone refuse a call
			f.answered.Add(1)
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if ends && !f.end(places) {
			return
		}
	}
}

// end counts a call that has ended, and says whether the connection goes on.
func (f *flood) end(places chan struct{}) bool {
	f.ended.Add(1)
	if f.once {
		return false
	}
	select {
	case <-places:
	default:
	}
	return true
}
