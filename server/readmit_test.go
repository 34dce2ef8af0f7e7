package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
)

// A call whose message comes late is made by whom the bundle says then, not by
// whom it said when the call began.
func TestLateMessagesAreOfTheCallerThen(t *testing.T) {
	before := &writ.Caller{Name: "before", Roles: []writ.Role{writ.RoleHost}}
	for _, c := range []struct {
		name   string
		then   *writ.Caller
		status string
	}{
		{"another", &writ.Caller{Name: "then", Roles: []writ.Role{writ.RoleHost}}, "200"},
		{"without a right", &writ.Caller{Name: "before", Roles: []writ.Role{writ.RoleServer}}, "403"},
		{"nobody", nil, "403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var current atomic.Pointer[writ.Caller]
			var admitted atomic.Int32
			current.Store(before)
			d := &decider{}
			h := open(t, d, func(cfg *server.Config) {
				cfg.LocalHost = func() *writ.Caller { admitted.Add(1); return current.Load() }
			})
			conn, err := net.Dial("tcp", h.web)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const body = "{}"
			if _, err := io.WriteString(conn, h.requestHead(h.host, fmt.Sprintf("Content-Length: %d", len(body)))); err != nil {
				t.Fatal(err)
			}
			wait(t, "the call to be let in", func() bool { return admitted.Load() > 0 })
			current.Store(c.then)
			if _, err := io.WriteString(conn, body); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.Contains(line, " "+c.status+" ") {
				t.Errorf("%q, %v, want %s", line, err, c.status)
			}
			for _, q := range d.questions() {
				if c.status != "200" || q.caller != c.then {
					t.Errorf("asked as %v", q.caller)
				}
			}
		})
	}
}

// A watcher that has lost its right hears nothing more.
func TestWatchersLoseTheirRight(t *testing.T) {
	var current atomic.Pointer[writ.Caller]
	current.Store(operatorCaller)
	r := newRevoker(t, revocation.Entry{Kind: revocation.Server, ID: "a"})
	h, client := operate(t, r, func(c *server.Config) { c.LocalOperator = current.Load })
	w := watching(t, client, h.operator, 0)
	wait(t, "the first entry", func() bool { return len(w.all()) == 1 })
	current.Store(&writ.Caller{Name: operatorCaller.Name, Roles: []writ.Role{writ.RoleApprover}})
	if _, _, err := r.Revoke(t.Context(), operatorCaller, []revocation.Entry{{Kind: revocation.Server, ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the watch goes on")
	}
	wantRefusal(t, w.err, codes.PermissionDenied, server.ReasonMethodDenied)
	if got := w.all(); len(got) != 1 {
		t.Errorf("told %q", got)
	}
	_, err := client.ListRevocations(as(t, h.operator), &writv1.ListRevocationsRequest{})
	wantRefusal(t, err, codes.PermissionDenied, server.ReasonMethodDenied)
}
