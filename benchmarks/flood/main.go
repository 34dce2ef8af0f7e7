// Command flood calls a gRPC server as often as it can, whatever it answers,
// until its standard input ends; then it tells how much that was. It is the
// peer of BenchmarkFlood, in a process of its own and with the lowest priority:
// it stands for another machine.
//
//	go run ./benchmarks/flood --address 127.0.0.1:PORT --method /writ.v1.DecisionService/Explain [--secret TEXT] [--message HEX] [--connections 64] [--streams 128] [--reset]
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
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
	Connections int64 `json:"connections"` // made
}

// flood is one flood.
type flood struct {
	address string
	call    []byte // header and message of a call, as frames of stream 0
	resets  bool   // each call is reset at once
	streams int64  // at once on a connection

	sent, ended, connections atomic.Int64
}

func main() {
	var (
		address     = flag.String("address", "", "HOST:PORT of the server; required")
		method      = flag.String("method", "", "full name of the method; required")
		secret      = flag.String("secret", "", "bearer secret; empty: none is sent")
		message     = flag.String("message", "", "the message, in hexadecimal")
		connections = flag.Int("connections", 64, "connections at once")
		streams     = flag.Int64("streams", 128, "calls at once on each")
		resets      = flag.Bool("reset", false, "reset each call as soon as it is sent")
		idle        = flag.String("idle", "", "grpc or http: call nothing, but hold the connections, and say so by a line")
		trusting    = flag.Bool("tls", false, "with --idle: TLS, with whatever certificate")
	)
	flag.Parse()
	payload, err := hex.DecodeString(*message)
	if err != nil || *address == "" || *method == "" {
		fmt.Fprintln(os.Stderr, "flood: --address and --method are required, and --message is hexadecimal")
		os.Exit(2)
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
	f := &flood{address: *address, call: frames(*address, *method, *secret, payload, *resets), resets: *resets, streams: *streams}
	for range *connections {
		go func() {
			for {
				f.connection()
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = json.NewEncoder(os.Stdout).Encode(Told{Sent: f.sent.Load(), Ended: f.ended.Load(), Connections: f.connections.Load()})
}

// frames is one call as frames without their stream.
func frames(address, method, secret string, payload []byte, reset bool) []byte {
	var block, out bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0) // so that a call's bytes are always the same
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", address},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer " + secret},
	} {
		if h[0] != "authorization" || secret != "" {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
	}
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	_ = fr.WriteHeaders(http2.HeadersFrameParam{BlockFragment: block.Bytes(), EndHeaders: true})
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload))), payload...)
	_ = fr.WriteData(0, true, data)
	if reset {
		_ = fr.WriteRSTStream(0, http2.ErrCodeCancel)
	}
	return out.Bytes()
}

// connection floods one connection to its end.
func (f *flood) connection() {
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		return
	}
	defer conn.Close()
	f.connections.Add(1)
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&hello, nil)
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32})
	_ = fr.WriteWindowUpdate(0, math.MaxInt32-65535)
	if _, err := conn.Write(hello.Bytes()); err != nil {
		return
	}
	places := make(chan struct{}, f.streams)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		f.listen(bufio.NewReaderSize(conn, 64<<10), places)
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

// on appends a call as frames of a stream.
func (f *flood) on(out []byte, stream uint32) []byte {
	at := len(out)
	out = append(out, f.call...)
	for at < len(out) {
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
		if _, err := in.Discard(length); err != nil {
			return
		}
		kind, flags := http2.FrameType(head[3]), http2.Flags(head[4])
		if kind == http2.FrameRSTStream || kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream) {
			f.ended.Add(1)
			select {
			case <-places:
			default:
			}
		}
	}
}
