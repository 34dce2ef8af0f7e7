package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// stamp writes the zero time as absent.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// revoked is what came of one revocation.
type revoked struct {
	Revocation         *writv1.Revocation
	Revision           string
	InForce, Withdrawn []*writv1.Revocation
}

func (r *revoked) print(w io.Writer, asJSON bool) error {
	if asJSON {
		out := struct {
			Revocation json.RawMessage   `json:"revocation"`
			Revision   string            `json:"revision"`
			InForce    []json.RawMessage `json:"inForce"`
			Withdrawn  []json.RawMessage `json:"withdrawn"`
		}{Revision: r.Revision, InForce: []json.RawMessage{}, Withdrawn: []json.RawMessage{}}
		var errs []error
		raw := func(e *writv1.Revocation) json.RawMessage {
			data, err := protojson.Marshal(e)
			errs = append(errs, err)
			return data
		}
		out.Revocation = raw(r.Revocation)
		for _, e := range r.InForce {
			out.InForce = append(out.InForce, raw(e))
		}
		for _, e := range r.Withdrawn {
			out.Withdrawn = append(out.Withdrawn, raw(e))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return printJSON(w, out)
	}
	var b strings.Builder
	if r.Revocation.GetLift() {
		fmt.Fprintf(&b, "lifted, as number %d: %s\n", r.Revocation.GetSequence(), nameText(r.Revocation))
		if len(r.Withdrawn) == 0 {
			fmt.Fprintf(&b, "  nothing stood under this name, so nothing was withdrawn\n")
		}
		for _, e := range r.Withdrawn {
			fmt.Fprintf(&b, "  withdrawn  %s\n", line(e))
		}
	} else {
		fmt.Fprintf(&b, "revoked, as number %d: %s\n", r.Revocation.GetSequence(), nameText(r.Revocation))
	}
	inForce := false
	for _, e := range r.InForce {
		inForce = inForce || e.GetSequence() == r.Revocation.GetSequence()
		fmt.Fprintf(&b, "  in force   %s\n", line(e))
	}
	if !inForce && !r.Revocation.GetLift() {
		fmt.Fprintf(&b, "  not now    %s\n", line(r.Revocation))
	}
	if len(r.InForce) == 0 {
		fmt.Fprintf(&b, "  nothing of this name is in force now\n")
	}
	if r.Revision != "" {
		fmt.Fprintf(&b, "  revision   %s\n", r.Revision)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func nameText(e *writv1.Revocation) string {
	if e.GetIssuer() != "" {
		return e.GetKind() + " " + shown(e.GetIssuer()) + " " + shown(e.GetId())
	}
	return e.GetKind() + " " + shown(e.GetId())
}

// shown is text from the log as it may go to a terminal: with a space, or what
// a terminal would obey, quoted.
func shown(s string) string {
	if quoted := strconv.QuoteToGraphic(s); quoted != `"`+s+`"` || strings.ContainsRune(s, ' ') {
		return quoted
	}
	return s
}

// line is one entry in one line, without its name.
func line(e *writv1.Revocation) string {
	var parts []string
	at := func(what string, t *timestamppb.Timestamp) {
		if t != nil {
			parts = append(parts, what+" "+t.AsTime().Format(time.RFC3339Nano))
		}
	}
	at("issued before", e.GetIssuedBefore())
	at("from", e.GetFrom())
	at("until", e.GetUntil())
	if len(parts) == 0 && !e.GetLift() {
		parts = append(parts, "for good")
	}
	if e.GetReason() != "" {
		parts = append(parts, "reason "+strconv.QuoteToGraphic(e.GetReason()))
	}
	if e.GetAuthor() != "" {
		parts = append(parts, "by "+strconv.QuoteToGraphic(e.GetAuthor()))
	}
	return fmt.Sprintf("%d  %s", e.GetSequence(), strings.Join(parts, ", "))
}

// list prints the log, or a part of it.
func (k *revokeCmd) list(c *console) error {
	name, err := parseName(k.Name, true)
	if err != nil {
		return err
	}
	client, err := k.dial()
	if err != nil {
		return err
	}
	defer client.close()
	o := client.operator()
	ctx := o.as(c.ctx)
	ask := &writv1.ListRevocationsRequest{After: k.After, Kind: name.kind, Id: name.id, InForce: k.InForce}
	entries := []json.RawMessage{}
	err = o.all(ctx, ask, func(e *writv1.Revocation) error {
		if name.issuer != "" && e.GetIssuer() != name.issuer {
			return nil
		}
		if k.JSON {
			data, err := protojson.Marshal(e)
			entries = append(entries, data)
			return err
		}
		what := "revoked"
		if e.GetLift() {
			what = "lifted "
		}
		sequence, rest, _ := strings.Cut(line(e), "  ")
		_, err := fmt.Fprintf(c.out, "%6s  %s  %s  %s\n", sequence, what, nameText(e), rest)
		return err
	})
	if err != nil {
		return fmt.Errorf("the server could not list the revocations: %w", err)
	}
	if k.JSON {
		return printJSON(c.out, map[string]any{"revocations": entries})
	}
	return nil
}

// watch prints what happens to the log until the command is interrupted. When
// the server ends the stream, as it does now and then, it goes on after what
// was told.
func (k *revokeCmd) watch(c *console) error {
	client, err := k.dial()
	if err != nil {
		return err
	}
	defer client.close()
	o := client.operator()
	after := k.After
	for {
		stream, err := o.WatchRevocations(o.as(c.ctx), &writv1.WatchRevocationsRequest{After: after})
		for err == nil {
			var r *writv1.WatchRevocationsResponse
			if r, err = stream.Recv(); err == nil {
				if r.GetEvent() == writv1.RevocationEvent_REVOCATION_EVENT_ADDED {
					after = max(after, r.GetRevocation().GetSequence())
				}
				if printed := k.event(c.out, r); printed != nil {
					return printed
				}
			}
		}
		if c.ctx.Err() != nil {
			return nil // interrupted
		}
		if code := status.Code(err); code != codes.Unavailable && !errors.Is(err, io.EOF) {
			return fmt.Errorf("the server could not watch: %w", err)
		}
		fmt.Fprintln(c.err, "pdp: the server has ended the watch; going on after", after)
		if !pause(c.ctx, time.Second) {
			return nil
		}
	}
}

// pause waits; false: ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *revokeCmd) event(w io.Writer, r *writv1.WatchRevocationsResponse) error {
	what := "unknown"
	switch r.GetEvent() {
	case writv1.RevocationEvent_REVOCATION_EVENT_ADDED:
		what = "revoked"
		if r.GetRevocation().GetLift() {
			what = "lifted"
		}
	case writv1.RevocationEvent_REVOCATION_EVENT_BEGAN:
		what = "began"
	case writv1.RevocationEvent_REVOCATION_EVENT_ENDED:
		what = "ended"
	case writv1.RevocationEvent_REVOCATION_EVENT_UNSPECIFIED:
	}
	if k.JSON {
		data, err := protojson.Marshal(r.GetRevocation())
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(struct {
			Event      string          `json:"event"`
			Revocation json.RawMessage `json:"revocation"`
		}{what, data})
	}
	sequence, rest, _ := strings.Cut(line(r.GetRevocation()), "  ")
	_, err := fmt.Fprintf(w, "%6s  %-7s  %s  %s\n", sequence, what, nameText(r.GetRevocation()), rest)
	return err
}
