package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/forward"
	"github.com/writ-pdp/writ/audit/tree"
)

// forwardFlags say where the log's checkpoints are sent.
type forwardFlags struct {
	CheckpointFile []string `help:"Keep the log's newest signed checkpoint in this file, too: best on a disk that those who keep the log can't change. The file's directory must be there. May be repeated." type:"path" env:"WRIT_CHECKPOINT_FILE" placeholder:"FILE" group:"Log"`
	Witness        []string `help:"Send each checkpoint to this witness (C2SP tlog-witness), whose cosignatures are kept in checkpoint.cosigned of the data directory. May be repeated." env:"WRIT_WITNESS" placeholder:"URL=KEY" group:"Log"`
}

// sinks are the places that the flags name.
func (f forwardFlags) sinks() ([]forward.Sink, error) {
	var out []forward.Sink
	for _, path := range f.CheckpointFile {
		s, err := forward.NewFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	for _, text := range f.Witness {
		// A key ends in base64, which may hold "=", and a URL's query might.
		url, key, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage("--witness is URL=KEY, with the witness's verifier key: NAME+ID+BASE64")
		}
		w, err := tree.NewWitness(key)
		if err != nil {
			return nil, usage("--witness " + url + ": " + err.Error())
		}
		s, err := forward.NewHTTP(forward.HTTPConfig{URL: url, Keys: []*tree.Witness{w}})
		if err != nil {
			return nil, usage("--witness: " + err.Error())
		}
		out = append(out, s)
	}
	return out, nil
}

// forwarded sends a log's checkpoints to other places.
type forwarded struct {
	*forward.Forwarder
	audit *audit.Log
}

// newForwarded makes it; nil where there is no place.
func newForwarded(records *audit.Log, sinks []forward.Sink, data string, log *slog.Logger) (*forwarded, error) {
	if len(sinks) == 0 {
		return nil, nil
	}
	verifier, err := note.NewVerifier(records.Verifier())
	if err != nil {
		return nil, fmt.Errorf("the verifier key of the log: %w", err)
	}
	f := &forwarded{audit: records}
	f.Forwarder, err = forward.New(forward.Config{
		Dir: records.Dir(), Verifier: verifier, Sinks: sinks,
		Cosigned: func(signed []byte, _ tree.Signed) { keepCosigned(data, signed, log) },
		Changed: func(s forward.Status) {
			if s.Err != nil {
				log.Error("checkpoints can't be sent", "place", s.Sink, "error", s.Err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// keepCosigned keeps the newest checkpoint with its cosignatures.
func keepCosigned(data string, signed []byte, log *slog.Logger) {
	root, err := os.OpenRoot(data)
	if err == nil {
		err = tree.ReplaceFile(root, "checkpoint.cosigned", signed, 0o644)
		root.Close()
	}
	if err != nil {
		log.Error("a cosigned checkpoint can't be kept", "file", filepath.Join(data, "checkpoint.cosigned"), "error", err)
	}
}

// run sends until ctx ends. A checkpoint covers all before it, so it does to
// look for a new one now and then.
func (f *forwarded) run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	var sent []byte
	for {
		if signed := f.audit.Checkpoint(); !bytes.Equal(signed, sent) {
			f.Offer(signed)
			sent = signed
		}
		select {
		case <-every.C:
		case err := <-ended:
			return err
		}
	}
}
