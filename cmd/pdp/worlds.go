package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// sourceConfig says where a service's worlds come from.
type sourceConfig struct {
	dir          string        // the bundle's directory, which is followed
	files        []bundle.File // in its place: a bundle that never changes
	etcd         *etcd.Config  // in place of both: the cluster that is followed; nil: none
	persist      bool          // keep the last good bundle for a start while dir is broken
	maxAge       time.Duration // how old that may be; 0: a day
	allowEmpty   bool          // take a bundle that has suddenly lost all its policies, servers or entities
	maxStaleness time.Duration // how long the source may be silent; 0: for ever
}

// worlds are what a service decides by: the bundle in force, and what is
// revoked.
type worlds struct {
	cfg       sourceConfig
	log       *slog.Logger
	audit     *audit.Log
	holder    *snapshot.Holder
	journal   *revocation.Journal
	follower  *bundle.Follower
	directory *bundle.Directory
	etcd      *etcd.Source  // nil: the worlds come from directory, and what is revoked from journal
	stopEtcd  func()        // ends following it; nil: it is not followed
	ended     chan struct{} // closed when following it has ended
	failed    error         // why; nil: it was stopped. Written before ended is closed

	mu   sync.Mutex
	told bundle.Status // guarded by mu: the last
}

// openWorlds opens the revocation log and puts the first world in force. An
// error that holds a [bundle.LoadError] says why there is none.
func openWorlds(ctx context.Context, cfg sourceConfig, data string, records *audit.Log, log *slog.Logger) (_ *worlds, err error) {
	w := &worlds{cfg: cfg, log: log, audit: records, holder: &snapshot.Holder{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if cfg.etcd != nil {
		if err := w.openEtcd(ctx, *cfg.etcd, data); err != nil {
			return nil, err
		}
		return w, nil
	}
	if w.journal, err = openRevocations(data, log); err != nil {
		return nil, err
	}
	if w.directory, err = bundle.OpenDirectory(bundle.DirectoryConfig{
		Dir: cfg.dir, Files: cfg.files, State: filepath.Join(data, "bundle"), Persist: cfg.persist, MaxAge: cfg.maxAge, Log: log,
	}); err != nil {
		return nil, err
	}
	if err := checkLost(records, w.directory.Source(), w.journal.View()); err != nil {
		return nil, err
	}
	if w.follower, err = bundle.NewFollower(bundle.FollowerConfig{
		Holder: w.holder, Source: w.directory.Source(), AllowEmpty: cfg.allowEmpty,
		Import: importer(w.journal, records, log), Changed: w.changed,
	}); err != nil {
		return nil, err
	}
	w.journal.OnChange(w.follower.Revoke)
	w.follower.Revoke(w.journal.View())
	if err := w.directory.Load(ctx, w.follower); err != nil {
		return nil, err
	}
	return w, nil
}

// run follows the source until ctx ends.
func (w *worlds) run(ctx context.Context) error {
	if w.etcd != nil {
		return w.runEtcd(ctx)
	}
	return w.directory.Run(ctx, w.follower)
}

// revocations is the log that takes what operators revoke.
func (w *worlds) revocations() pdp.RevocationLog {
	if w.etcd != nil {
		return w.etcd
	}
	return w.journal
}

func (w *worlds) close() error {
	if w.etcd != nil {
		return w.closeEtcd()
	}
	if w.journal == nil {
		return nil
	}
	return w.journal.Close()
}

// revision is of the world in force; empty: there is none.
func (w *worlds) revision() string {
	if world := w.holder.Load(); world != nil {
		return world.Revision
	}
	return ""
}

// maxTold is how many faults a log line, and a record, tell, and maxFault how
// many bytes of each; more are counted.
const (
	maxTold  = 16
	maxFault = 512
)

// changed logs and records each reload, each refused one, and each mending.
// The first world is told by the record of the start.
func (w *worlds) changed(s bundle.Status) {
	w.mu.Lock()
	before := w.told
	w.told = s
	w.mu.Unlock()
	revision := slog.String("revision", s.Revision.String())
	switch {
	case s.Fault != nil:
		faults := faultsOf(s.Fault)
		message := "the newest bundle was refused, and the one before stays in force"
		if s.Revision.String() == "" {
			message = "the bundle was refused, and none is in force"
		}
		w.log.Error(message, revision, "faults", len(faults), "told", texts(faults))
		w.record(s, texts(faults))
	case s.Accepted > before.Accepted:
		w.log.Info("a bundle is in force", revision, "warnings", len(s.Warnings))
		if s.Accepted > 1 {
			w.record(s, nil)
		}
	default:
		w.log.Info("the bundle in force is the newest again", revision)
	}
}

// record keeps a reload in the log. What is in force stays so where that
// fails: no answer is given without a record of its own.
func (w *worlds) record(s bundle.Status, faults []string) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	err := w.audit.Append(ctx, audit.Record{Kind: audit.KindReload, Time: time.Now().UTC(), Revision: s.Revision.String(), Faults: faults}, false)
	if err != nil {
		w.log.Error("a reload could not be recorded", "error", err)
	}
}

// faultsOf takes an error apart. What has no place is a fault without one.
func faultsOf(err error) writ.Faults {
	if faults, ok := errors.AsType[writ.Faults](err); ok {
		return faults.Errors()
	}
	if fault, ok := errors.AsType[writ.Fault](err); ok {
		return writ.Faults{fault}
	}
	return writ.Faults{{Message: err.Error()}}
}

// texts are the first faults, in a few words each.
func texts(faults writ.Faults) []string {
	var out []string
	for i, f := range faults {
		if i == maxTold {
			return append(out, fmt.Sprintf("and %d more", len(faults)-i))
		}
		text := f.Error()
		if len(text) > maxFault {
			text = strings.ToValidUTF8(text[:maxFault], "") + "…"
		}
		out = append(out, text)
	}
	return out
}

// places are where the faults are, without what they say.
func places(faults writ.Faults) []string {
	var out []string
	for _, f := range faults {
		if f.File != "" {
			out = append(out, strings.TrimSuffix(writ.Fault{File: f.File, Line: f.Line, Column: f.Column}.Error(), ": "))
		}
	}
	return out
}

// troubles are what /readyz tells of the worlds.
func (w *worlds) troubles() []server.Trouble {
	var out []server.Trouble
	s := w.follower.Status()
	if s.Revision.Generation == 0 {
		out = append(out, server.Trouble{Part: "bundle", Since: s.Since, Message: "no bundle is loaded yet"})
	}
	if s.Fault != nil {
		faults := faultsOf(s.Fault)
		message := fmt.Sprintf("the newest bundle is refused, and the one before is in force: the server's log says what is wrong (faults: %d)", len(faults))
		if s.Refused == "" {
			message = "the bundle cannot be read, and the one before is in force: the server's log says why"
		}
		out = append(out, server.Trouble{Part: "bundle", Since: s.Since, Message: message, Places: places(faults)})
	}
	if limit := w.cfg.maxStaleness; limit > 0 && !s.HeardAt.IsZero() && time.Since(s.HeardAt) > limit {
		out = append(out, server.Trouble{Part: "source", Since: s.HeardAt, Message: fmt.Sprintf("nothing was heard of the bundle's source for more than %v: what could have consequences is denied", limit)})
	}
	if w.etcd != nil {
		out = append(out, w.etcdTroubles()...)
	}
	if state := w.audit.State(); state.Condition != audit.OK {
		message := fmt.Sprintf("the log is %s: every answer that allows a write is denied", state.Condition)
		if state.Condition.Recording() {
			message = "the log's disk is slow"
		}
		out = append(out, server.Trouble{Part: "log", Since: state.Since, Message: message})
	}
	return out
}
