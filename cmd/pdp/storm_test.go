package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// variant is a bundle whose every part has its number: the policy that denies
// in its code, and the contract in its version.
type variant struct {
	files          map[string]string
	code, contract string
}

func variants(t *testing.T, n int) map[string]variant {
	t.Helper()
	read, err := bundle.ReadDir("../../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]variant{} // by the bundle's digest
	for i := range n {
		v := variant{files: map[string]string{}, code: fmt.Sprintf("NUMBER_%d", i)}
		for _, f := range read {
			v.files[f.Name] = string(f.Data)
		}
		v.files["servers/files.yaml"] += fmt.Sprintf("version: \"%d\"\n", i)
		v.files["policies/number.cedar"] = fmt.Sprintf("@id(\"number\")\n@code(%q)\nforbid (principal, action == Action::\"files/read_text_file\", resource);\n", v.code)
		delete(v.files, "scenarios/files.yaml")
		var files []bundle.File
		for name, data := range v.files {
			files = append(files, bundle.File{Name: name, Data: []byte(data)})
		}
		b, faults := bundle.Build(files, nil)
		if b == nil {
			t.Fatal(faults)
		}
		v.contract = b.Snapshot.Contract("files", "read_text_file").Digest.String()
		out[b.Snapshot.Revision] = v
	}
	if len(out) != n {
		t.Fatalf("%d variants of %d differ", len(out), n)
	}
	return out
}

// publish swaps ..data, as Kubernetes does.
func publish(t *testing.T, dir string, n int, files map[string]string) {
	t.Helper()
	link := filepath.Join(dir, "..data")
	old, _ := os.Readlink(link)
	next := fmt.Sprintf("..%d", n)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		path := filepath.Join(dir, next, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(data), 0o644))
	}
	check(os.Symlink(next, link+"_tmp"))
	check(os.Rename(link+"_tmp", link))
	for _, top := range []string{"policies", "servers"} {
		if _, err := os.Lstat(filepath.Join(dir, top)); err != nil {
			check(os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)))
		}
	}
	if old != "" {
		check(os.RemoveAll(filepath.Join(dir, old)))
	}
}

// TestServeStorm swaps the bundle as fast as it comes while clients ask: every
// answer is wholly of the revision that it names, and none is of an older one
// than the client has seen. WRIT_STORM says for how long (1 s without).
func TestServeStorm(t *testing.T) {
	duration := time.Second
	if text := os.Getenv("WRIT_STORM"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	all := variants(t, 5)
	var order []variant
	for _, v := range all {
		order = append(order, v)
	}
	hello, err := bundle.ReadDir("../../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	loaded, faults := bundle.Build(hello, nil)
	if loaded == nil {
		t.Fatal(faults)
	}
	dir := t.TempDir()
	publish(t, dir, 0, order[0].files)
	s, err := start(t.Context(), serviceConfig{
		source: sourceConfig{dir: dir}, data: t.TempDir(), grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(io.Discard),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = s.run(ctx, func() error {
		defer stop()
		var done atomic.Bool
		var answers atomic.Int64
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				client, err := dial(s.grpc.Addr().String(), s.credentials.Dir(), server.HostFile)
				if err != nil {
					t.Error(err)
					return
				}
				defer client.close()
				var last snapshot.Revision
				for !done.Load() {
					scenario := loaded.Scenarios[0].At(time.Now())
					p, err := server.ProposalToProto(&scenario.Proposal)
					if err != nil {
						t.Error(err)
						return
					}
					a, err := client.decide(t.Context(), p)
					if err != nil {
						if status.Code(err) == codes.ResourceExhausted { // asked too fast
							time.Sleep(10 * time.Millisecond)
							continue
						}
						t.Error(err)
						return
					}
					d := a.GetDecision()
					r, err := snapshot.ParseRevision(d.GetRevision())
					v, known := all[r.Bundle]
					if err != nil || !known || d.GetCode() != v.code || d.GetContractDigest() != v.contract || r.Generation < last.Generation {
						t.Errorf("%s with contract %s in %s, after %v: want %s with %s", d.GetCode(), d.GetContractDigest(), d.GetRevision(), last, v.code, v.contract)
						return
					}
					last = r
					answers.Add(1)
				}
			})
		}
		swaps := 0
		begun := time.Now()
		few := func() bool { return s.worlds.follower.Status().Accepted < 3 && time.Since(begun) < time.Minute }
		for time.Since(begun) < duration || few() {
			swaps++
			publish(t, dir, swaps, order[swaps%len(order)].files)
		}
		done.Store(true)
		clients.Wait()
		status := s.worlds.follower.Status()
		t.Logf("%d swaps, %d worlds, %d refusals, %d answers", swaps, status.Accepted, status.Refusals, answers.Load())
		if status.Accepted < 3 || answers.Load() == 0 {
			t.Errorf("%d worlds, %d answers", status.Accepted, answers.Load())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
