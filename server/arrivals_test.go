package server_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/server"
)

// crowd is a listener at which somebody always waits.
type crowd struct{ net.Listener }

func (crowd) Accept() (net.Conn, error) { return nil, nil }

// Connections are taken at once up to a burst of 32, and then 512 a second.
func TestConnectionsAreTakenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := server.NewArrivals(crowd{})
		begun := time.Now()
		take := func(n int) time.Duration {
			for range n {
				if _, err := l.Accept(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begun)
		}
		if took := take(32); took > 0 {
			t.Errorf("the first waited for %v", took)
		}
		if took := take(1024); took < 1990*time.Millisecond || took > 2010*time.Millisecond {
			t.Errorf("1024 more came within %v, want two seconds", took)
		}
		time.Sleep(time.Minute)
		if begun = time.Now(); take(32) > 0 {
			t.Error("after a minute they waited")
		}
	})
}
