package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/server"
)

// becomes waits until what the server that serve started answers to a GET
// matches: becomes PATTERN PATH.
func becomes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: becomes PATTERN PATH")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	base, transport := overHTTP(ts)
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := client.Get(base + args[1])
		ts.Check(err)
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		if pattern.Match(data) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never matches %s:\n%s", args[1], args[0], data)
		}
	}
}

// With --persist a start goes on with the last good bundle while the one in
// its directory is broken, and says so.
func TestServePersist(t *testing.T) {
	dir, data := filepath.Join(t.TempDir(), "bundle"), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/hello")); err != nil {
		t.Fatal(err)
	}
	// serve starts, hands the troubles to look, and stops.
	serve := func(persist bool, look func(revision string, troubles []server.Trouble)) error {
		cfg := serviceConfig{source: sourceConfig{dir: dir, persist: persist}, data: data, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(io.Discard)}
		s, err := start(t.Context(), cfg)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		return s.run(ctx, func() error {
			look(s.worlds.revision(), s.worlds.troubles())
			stop()
			return nil
		})
	}
	first := ""
	if err := serve(true, func(revision string, troubles []server.Trouble) {
		if first = revision; len(troubles) > 0 {
			t.Errorf("troubles: %+v", troubles)
		}
	}); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "policies", "broken.cedar")
	if err := os.WriteFile(broken, []byte("@id(\"broken\")\npermit (principal, action == Action::\"files/nothing\", resource);\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := serve(false, nil); err == nil {
		t.Error("it starts")
	} else if unloaded, ok := errors.AsType[*bundle.LoadError](err); !ok || unloaded.Kept != nil {
		t.Errorf("not asked for: %v", err)
	}
	if err := serve(true, func(revision string, troubles []server.Trouble) {
		if len(troubles) != 1 || troubles[0].Part != "bundle" || !slices.Equal(troubles[0].Places, []string{"policies/broken.cedar:2:30"}) || revision[:71] != first[:71] {
			t.Errorf("%s after %s, troubles: %+v", revision, first, troubles)
		}
	}); err != nil {
		t.Error(err)
	}
}
