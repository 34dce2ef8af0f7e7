package server_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/writ-pdp/writ/server"
)

var aPing = frame(http2.FramePing, 0, 0, make([]byte, 8)...)

// flow connects two ends, one of which is read at its pace.
func flow(door *server.Paces) (paced, client net.Conn, admitted, refused func()) {
	far, client := net.Pipe()
	paced, admitted, refused = door.Connection(far)
	return paced, client, admitted, refused
}

// A connection that brings frames and no calls is read slowly, and then not at
// all.
func TestFloodsAreReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := server.NewPaces()
		paced, client, _, _ := flow(door)
		go func() {
			client.Write([]byte(http2.ClientPreface))
			for {
				if _, err := client.Write(aPing); err != nil {
					return
				}
			}
		}()
		begun, read := time.Now(), 0
		buffer := make([]byte, 32<<10)
		for time.Since(begun) < 2*time.Second {
			n, err := paced.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			read += n
		}
		frames := read / len(aPing)
		if most := server.PaceFirst + 3*server.PaceAllowance; frames > most {
			t.Errorf("%d frames were read in two seconds, want at most %d", frames, most)
		}
		if frames < server.PaceAllowance {
			t.Errorf("%d frames were read in two seconds: less than the allowance", frames)
		}
		paced.Close()
		client.Close()
		if n := door.Open(); n != 0 {
			t.Errorf("%d connections are counted", n)
		}
	})
}

// Where there are many connections, one that is in debt for too long is closed.
func TestFloodsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := server.NewPaces()
		door.Crowd(1000)
		paced, client, _, refused := flow(door)
		defer client.Close()
		go func() {
			client.Write([]byte(http2.ClientPreface))
			for {
				if _, err := client.Write(bytes.Repeat(aPing, 100)); err != nil {
					return
				}
			}
		}()
		begun, read := time.Now(), 0
		buffer := make([]byte, 32<<10)
		for {
			n, err := paced.Read(buffer)
			if err != nil {
				break
			}
			read += n
			for range 50 {
				refused()
			}
		}
		if took := time.Since(begun); took < server.PaceLongest || took > 3*server.PaceLongest {
			t.Errorf("it was closed after %v", took)
		}
		if most := server.PaceFirst + 2*server.PaceSip/len(aPing); read/len(aPing) > most {
			t.Errorf("%d frames were read, want at most %d", read/len(aPing), most)
		}
		paced.Close()
		if n := door.Open(); n != 1000 {
			t.Errorf("%d connections are counted", n)
		}
	})
}

// A client whose calls are let in is never kept waiting, however many it makes.
func TestCallsAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := server.NewPaces()
		paced, client, admitted, _ := flow(door)
		defer client.Close()
		defer paced.Close()
		// As many frames as a call of grpc-go may have.
		call := bytes.Join([][]byte{
			frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, make([]byte, 100)...), frame(http2.FrameData, 1, 1, make([]byte, 200)...),
			frame(http2.FrameWindowUpdate, 0, 0, number32(100)...), aPing, frame(http2.FramePing, http2.FlagPingAck, 0, make([]byte, 8)...),
		}, nil)
		go func() {
			client.Write([]byte(http2.ClientPreface))
			client.Write(frame(http2.FrameSettings, 0, 0))
			for range 2_000 {
				client.Write(call)
			}
			client.Close()
		}()
		begun, pending := time.Now(), -len(http2.ClientPreface)-9
		buffer := make([]byte, 32<<10)
		for {
			n, err := paced.Read(buffer)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for pending += n; pending >= len(call); pending -= len(call) {
				admitted()
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("they waited for %v", took)
		}
	})
}

// Large messages cost nothing, and neither does what brings much back.
func TestLargeMessagesAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paced, client, _, _ := flow(server.NewPaces())
		defer client.Close()
		defer paced.Close()
		go io.Copy(io.Discard, client)
		go func() {
			client.Write([]byte(http2.ClientPreface))
			for range 1000 {
				client.Write(frame(http2.FrameData, 0, 1, make([]byte, 16<<10)...))
			}
			for range 1000 {
				client.Write(frame(http2.FrameWindowUpdate, 0, 0, number32(16<<10)...))
			}
			client.Close()
		}()
		begun := time.Now()
		buffer := make([]byte, 32<<10)
		for {
			n, err := paced.Read(buffer)
			if err != nil {
				break
			}
			paced.Write(make([]byte, n)) // which an answer does
			paced.Write(make([]byte, 16<<10))
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("they waited for %v", took)
		}
	})
}

// A client that is sent much, and gives back the room for it as eagerly as
// golang.org/x/net/http2 does, is never kept waiting, however crowded the door.
func TestWindowUpdatesAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := server.NewPaces()
		door.Crowd(1000)
		paced, client, _, _ := flow(door)
		defer client.Close()
		defer paced.Close()
		message := frame(http2.FrameData, 0, 1, make([]byte, 4<<10)...)
		go func() {
			client.Write([]byte(http2.ClientPreface))
			for {
				if _, err := io.ReadFull(client, make([]byte, len(message))); err != nil {
					return
				}
				client.Write(frame(http2.FrameWindowUpdate, 0, 0, number32(4<<10)...))
				client.Write(frame(http2.FrameWindowUpdate, 0, 1, number32(4<<10)...))
			}
		}()
		buffer := make([]byte, 32<<10)
		read := func(n int) {
			for n > 0 {
				got, err := paced.Read(buffer[:n])
				if err != nil {
					t.Fatal(err)
				}
				n -= got
			}
		}
		begun := time.Now()
		read(len(http2.ClientPreface))
		for range 5000 {
			paced.Write(message)
			read(2 * 13)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it waited for %v", took)
		}
	})
}

// Of a new connection little is read before what is in it has cost something:
// whoever comes again and again has no calls for nothing. The rest of a frame
// that has begun is read at once.
func TestNewConnectionsAreReadInSips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paced, client, _, _ := flow(server.NewPaces())
		defer paced.Close()
		shortest := frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, make([]byte, 7)...)
		go client.Write(append([]byte(http2.ClientPreface), bytes.Repeat(shortest, 100)...))
		buffer := make([]byte, 32<<10)
		n, err := paced.Read(buffer)
		if most := server.PaceFirst * len(shortest); err != nil || n > most {
			t.Errorf("%d bytes were read at once, want at most %d: %v", n, most, err)
		}
		client.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		paced, client, _, _ := flow(server.NewPaces())
		defer paced.Close()
		message := frame(http2.FrameData, 0, 1, make([]byte, 16<<10)...)
		head := len(http2.ClientPreface) + 9
		go client.Write(append([]byte(http2.ClientPreface), message...))
		buffer := make([]byte, 32<<10)
		if _, err := io.ReadFull(paced, buffer[:head]); err != nil {
			t.Fatal(err)
		}
		if n, err := paced.Read(buffer); err != nil || n != 16<<10 {
			t.Errorf("%d bytes of a message of %d were read at once: %v", n, 16<<10, err)
		}
		client.Close()
	})
}

// Whoever waits stops at once when the connection is closed or the server
// drains.
func TestWaitingEnds(t *testing.T) {
	for name, end := range map[string]func(door *server.Paces, paced net.Conn){
		"closed":  func(_ *server.Paces, paced net.Conn) { paced.Close() },
		"drained": func(door *server.Paces, _ net.Conn) { door.Hurry() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				door := server.NewPaces()
				paced, client, _, refused := flow(door)
				defer client.Close()
				defer paced.Close()
				go client.Write(append([]byte(http2.ClientPreface), bytes.Repeat(aPing, 10)...))
				buffer := make([]byte, 32<<10)
				for read := 0; read < len(http2.ClientPreface)+10*len(aPing); {
					n, err := paced.Read(buffer)
					if err != nil {
						t.Fatal(err)
					}
					read += n
				}
				for range 100 {
					refused()
				}
				begun, done := time.Now(), make(chan struct{})
				go func() {
					defer close(done)
					paced.Read(buffer)
				}()
				synctest.Wait()
				end(door, paced)
				client.Close()
				<-done
				if took := time.Since(begun); took > 0 {
					t.Errorf("it waited for %v", took)
				}
			})
		})
	}
}

func TestCountFrames(t *testing.T) {
	preface := []byte(http2.ClientPreface)
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"nothing", nil, 0},
		{"half a preface", preface[:10], 0},
		{"a preface", preface, 0},
		{"half a header", join(preface, aPing[:8]), 0},
		{"a header without its payload", join(preface, aPing[:9]), 1},
		{"three", join(preface, aPing, frame(http2.FrameSettings, 0, 0), frame(http2.FrameData, 1, 1)), 3},
		{"much", join(preface, frame(http2.FrameData, 0, 1, make([]byte, 1024)...), aPing), 1},
		{"not so much", join(preface, frame(http2.FrameData, 0, 1, make([]byte, 1023)...), aPing), 2},
		{"a long header block", join(preface, frame(http2.FrameHeaders, 0, 1, make([]byte, 16<<10)...)), 1},
	} {
		if n := server.CountFrames(c.data); n != c.want {
			t.Errorf("%s: %d frames, want %d", c.name, n, c.want)
		}
		var pieces [][]byte
		for i := range c.data {
			pieces = append(pieces, c.data[i:i+1])
		}
		if n := server.CountFrames(pieces...); n != c.want {
			t.Errorf("%s, byte by byte: %d frames, want %d", c.name, n, c.want)
		}
	}
}
