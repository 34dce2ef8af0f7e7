package server_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// socketDir is a directory whose path leaves room for a socket's name.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// At the socket a caller is its user, or has a secret of this start.
func TestUnixSocket(t *testing.T) {
	wantNoLeak(t)
	own, err := snapshot.UIDIdentity(uint32(os.Getuid()))
	if err != nil {
		t.Skip("NOT RUN: ", err)
	}
	another := snapshot.Identity{Kind: snapshot.IdentityUID, Name: strconv.Itoa(os.Getuid() + 1)}
	m := &mutual{ca: newAuthority(t, "root", nil)}
	files := newTLSFiles(t, m.ca.server(t), m.ca)
	trusted, err := server.OpenTLS(files.config())
	if err != nil {
		t.Fatal(err)
	}
	k := knownAs(map[snapshot.Identity]*writ.Caller{another: hostNamed("another")})
	d := &decider{}
	cfg := config(t, d)
	// The socket has no TLS, whatever the other listeners have.
	cfg.Identities, cfg.TLS = k.now, trusted
	host := secret(t, cfg.Credentials.Dir(), server.HostFile)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.SetServing(true)
	path := filepath.Join(socketDir(t), "pdp.sock")
	socket, err := s.ListenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), bufconn.Listen(1), nil, socket) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(want string) {
		t.Helper()
		if q := d.questions(); len(q) == 0 || q[len(q)-1].caller.Name != want {
			t.Errorf("asked by %v, want %s", q, want)
		}
	}
	wantRefusal(t, decideOn(t.Context(), conn), codes.PermissionDenied, server.ReasonCallerUnknown)
	k.Store(&map[snapshot.Identity]*writ.Caller{own: hostNamed("me"), another: hostNamed("another")})
	if err := decideOn(t.Context(), conn); err != nil { // on the connection of before
		t.Fatal(err)
	}
	asked("me")
	if err := decideOn(as(t, host), conn); err != nil {
		t.Fatal(err)
	}
	asked(hostCaller.Name)
	wantRefusal(t, decideOn(as(t, "invented"), conn), codes.Unauthenticated, server.ReasonUnauthenticated)
	k.Store(&map[snapshot.Identity]*writ.Caller{another: hostNamed("another"), {Kind: snapshot.IdentityDNS, Name: own.Name}: hostNamed("dns")})
	wantRefusal(t, decideOn(t.Context(), conn), codes.PermissionDenied, server.ReasonCallerUnknown)

	// Nobody takes the place of a server that listens.
	if _, err := s.ListenUnix(path, 0o600); err == nil || !strings.Contains(err.Error(), "listens on the socket") {
		t.Errorf("a second listener: %v", err)
	}
	if err := errors.Join(conn.Close(), s.Close(), <-served); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
}

func TestListenUnix(t *testing.T) {
	s, err := server.New(config(t, &decider{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := socketDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	stale, err := net.Listen("unix", at("stale"))
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink("stale", at("link")),
		os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		mode os.FileMode
		want string
	}{
		{at("stale"), 0o600, ""}, {at("new"), 0o666, ""},
		{at("file"), 0o600, "is no socket"}, {at("link"), 0o600, "is no socket"}, {dir, 0o600, "is no socket"},
		{at("none/socket"), 0o600, "must be there"}, {at("open/socket"), 0o600, "choose another"},
		{at("modes"), 0o400, "no mode"}, {at("modes"), os.ModeSetuid | 0o600, "no mode"}, {at(strings.Repeat("x", 120)), 0o600, "cannot listen"},
	} {
		l, err := s.ListenUnix(c.path, c.mode)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q", c.path, c.mode, err, c.want)
		}
		if err != nil {
			continue
		}
		if info, err := os.Lstat(c.path); err != nil || info.Mode() != os.ModeSocket|c.mode {
			t.Errorf("%s: %v, %v", c.path, info.Mode(), err)
		}
		l.Close()
	}
	if text, err := os.ReadFile(at("file")); err != nil || string(text) != "text" {
		t.Errorf("a file is gone: %v", err)
	}
}
