package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/writ-pdp/writ/audit"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// pulse is how long a watcher of the log hears nothing at most: then it is told
// how far it has come.
const pulse = 5 * time.Second

// maxFilter is how many words each list of a filter may have.
const maxFilter = 64

// WatchDecisions tells the records of the log from an index on, and goes on
// with what is added. Each watcher reads the files by itself, so one that reads
// slowly keeps nobody waiting.
func (a *audits) WatchDecisions(req *writv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[writv1.WatchDecisionsResponse]) error {
	if a.log == nil {
		return noAuditLog()
	}
	if err := checkFilter(req); err != nil {
		return err
	}
	from, err := a.start(req)
	if err != nil {
		return err
	}
	cursor := a.log.Follow(from)
	w := &auditWatch{filter: req, all: matchesAll(req), cursor: cursor, send: stream.Send, next: from}
	defer cursor.Close()
	for {
		// Also the first time: then it is known where this begins.
		if err := w.tell(""); err != nil {
			return err
		}
		for w.quiet = false; !w.quiet; {
			if err := w.during(stream.Context(), pulse); err != nil {
				return err
			}
		}
	}
}

// start returns the index to begin with.
func (a *audits) start(req *writv1.WatchDecisionsRequest) (uint64, error) {
	_, onDisk := a.log.Size()
	switch at := req.GetStart().(type) {
	case *writv1.WatchDecisionsRequest_Index:
		if at.Index > onDisk {
			return 0, &refusal{
				reason: ReasonOutOfRange, message: fmt.Sprintf("index: the log has %d records: this index belongs to another log, or to records that a crash has lost", onDisk),
			}
		}
		return at.Index, nil
	case *writv1.WatchDecisionsRequest_Newest:
		if at.Newest {
			return onDisk, nil
		}
	}
	return 0, refuse(ReasonMalformedRequest, "start: say where to begin: index, or newest: true")
}

// auditWatch is one watcher of the log.
type auditWatch struct {
	filter *writv1.WatchDecisionsRequest
	all    bool // the filter lets everything through
	cursor AuditCursor
	send   func(*writv1.WatchDecisionsResponse) error
	next   uint64 // the index after the last record read
	quiet  bool   // during has told nothing
}

// during tells what comes within d.
func (w *auditWatch) during(ctx context.Context, d time.Duration) error {
	w.quiet = true
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for within.Err() == nil {
		index, line, err := w.cursor.Next(within)
		if within.Err() != nil && err != nil {
			break
		}
		if err != nil {
			return err
		}
		w.next = index + 1
		if !w.all {
			match, err := matches(w.filter, line)
			if err != nil {
				return fmt.Errorf("record %d: %w", index, err)
			}
			if !match {
				continue
			}
		}
		w.quiet = false
		if err := w.tell(string(line)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *auditWatch) tell(line string) error {
	if err := w.send(&writv1.WatchDecisionsResponse{NextIndex: w.next, RecordJson: line}); err != nil {
		return refuse(ReasonCanceled, "the watcher is gone")
	}
	return nil
}

// checkFilter refuses what could never match by mistake, or would cost too much.
func checkFilter(f *writv1.WatchDecisionsRequest) error {
	for _, list := range [...]struct {
		name  string
		words []string
	}{{"kinds", f.GetKinds()}, {"codes", f.GetCodes()}, {"servers", f.GetServers()}} {
		if len(list.words) > maxFilter {
			return refuse(ReasonMalformedRequest, fmt.Sprintf("%s: at most %d", list.name, maxFilter))
		}
	}
	for _, kind := range f.GetKinds() {
		if !slices.Contains(audit.Kinds[:], audit.Kind(kind)) {
			return refuse(ReasonMalformedRequest, "kinds: there is no such kind of record")
		}
	}
	return nil
}

func matchesAll(f *writv1.WatchDecisionsRequest) bool {
	return len(f.GetKinds())+len(f.GetCodes())+len(f.GetServers()) == 0 && f.GetTool() == "" && f.GetPrincipal() == ""
}

// matches reports whether a record is one that was asked for.
func matches(f *writv1.WatchDecisionsRequest, line []byte) (bool, error) {
	var r struct {
		Kind, Code, Server, Tool, Subject, Principal string
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return false, err
	}
	among := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	return among(f.GetKinds(), r.Kind) && among(f.GetCodes(), r.Code) && among(f.GetServers(), r.Server) &&
		(f.GetTool() == "" || r.Tool == f.GetTool()) &&
		(f.GetPrincipal() == "" || r.Principal == f.GetPrincipal() || r.Subject == f.GetPrincipal()), nil
}
