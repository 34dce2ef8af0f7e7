package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/revocation"
)

// PushOptions says how to push.
type PushOptions struct {
	By, Note string // who pushes and why, for people; at most 1024 bytes each
	DryRun   bool   // write nothing, and say what would be done
	Again    bool   // upload every file, also those that etcd has
	// Keep is how many generations stay, the new one counted; 0: 10. At least 2,
	// so that a replica that is fetching one can end.
	Keep int
	// Grace is for how long a generation stays at least that is no longer the
	// current one; 0: 10 minutes.
	Grace time.Duration
}

// The defaults of pruning.
const (
	defaultKeep  = 10
	defaultGrace = 10 * time.Minute
)

func (o PushOptions) settled() (PushOptions, error) {
	if o.Keep == 0 {
		o.Keep = defaultKeep
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	switch {
	case o.Keep < 2:
		return o, fmt.Errorf("etcd: keeping %d generations is too few: at least 2, since replicas may still fetch the last but one", o.Keep)
	case o.Grace < 0:
		return o, errors.New("etcd: the grace of old generations is negative")
	case len(o.By) > revocation.MaxID || len(o.Note) > revocation.MaxID:
		return o, fmt.Errorf("etcd: who pushes, and why, may take %d bytes each", revocation.MaxID)
	}
	return o, nil
}

// Pushed is what a push has done, or would do.
type Pushed struct {
	Generation Generation // in force from now on; in a dry run, without an ID
	// Unchanged says that it was in force already, and nothing was written.
	Unchanged bool

	Added, Changed, Removed []string           // files, against the generation before
	Uploaded, UploadedBytes int                // contents that etcd didn't have
	Revocations             []revocation.Entry // added to the log; in a dry run, without a sequence
	Gone                    int                // lines of revocations.yaml that were taken out: they stay in force

	Warnings   writ.Faults
	Pruned     []uint64 // generations that are no longer kept
	PruneFault error    // the push is in force, but this kept old ones from being pruned
}

// Push makes a bundle the current generation, if it may be served: otherwise
// the error is its [writ.Faults] and nothing was written. Lines of its
// revocations.yaml that are new become part of the log, by the rule of
// [revocation.Merge], in the same transaction as the bundle. If another push
// comes first, the error is an [ErrConcurrent].
func (c *Client) Push(ctx context.Context, files []bundle.File, o PushOptions) (Pushed, error) {
	o, err := o.settled()
	if err != nil {
		return Pushed{}, err
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		return Pushed{}, faults
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(x, y bundle.File) int { return cmp.Compare(x.Name, y.Name) })
	m, text, err := newManifest(files)
	if err == nil {
		_, err = parseManifest(text) // no replica may refuse it
	}
	if err != nil {
		return Pushed{}, fmt.Errorf("etcd: listing the files: %w", err)
	}
	p := &push{client: c, options: o, files: files, listed: m, text: text, revocations: b.Revocations, imports: true}
	p.out = Pushed{Warnings: b.Warnings, Generation: Generation{
		Bundle: b.Snapshot.Revision, Files: len(files), PushedBy: o.By, Note: o.Note, Manifest: blob{digestOf(text), len(text)},
	}}
	for _, f := range files {
		p.out.Generation.Bytes += len(f.Data)
	}
	return p.run(ctx)
}

// Rollback makes the bundle of an earlier generation current again, as a new
// generation. Revocations stay as they are.
func (c *Client) Rollback(ctx context.Context, generation uint64, o PushOptions) (Pushed, error) {
	o, err := o.settled()
	if err != nil {
		return Pushed{}, err
	}
	got, err := c.get(ctx, c.keys.generation(generation))
	if err != nil {
		return Pushed{}, fmt.Errorf("etcd: reading generation %d: %w", generation, explain(err))
	}
	if len(got.Kvs) == 0 {
		return Pushed{}, fmt.Errorf("etcd: there is no generation %d, or it is no longer kept: list them", generation)
	}
	g, err := parseGeneration(got.Kvs[0].Value)
	if err != nil {
		return Pushed{}, damaged(c.keys.generation(generation), "%v", err)
	}
	have := contents{}
	files, err := c.fetch(ctx, g, have)
	if err != nil {
		return Pushed{}, err
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		return Pushed{}, faults
	}
	text := have[g.Manifest.Digest]
	m, err := parseManifest(text)
	if err != nil {
		return Pushed{}, err
	}
	p := &push{client: c, options: o, files: files, listed: m, text: text}
	p.out = Pushed{Warnings: b.Warnings, Generation: Generation{
		Bundle: b.Snapshot.Revision, Files: g.Files, Bytes: g.Bytes, PushedBy: o.By, Note: o.Note, RollbackTo: generation, Manifest: g.Manifest,
	}}
	return p.run(ctx)
}

// Generations returns the generations that are kept, the newest first, and the
// number of the current one; 0: nothing has been pushed.
func (c *Client) Generations(ctx context.Context) (_ []Generation, current uint64, _ error) {
	kept, err := c.generations(ctx)
	if err != nil {
		return nil, 0, err
	}
	at, err := c.position(ctx)
	if err != nil {
		return nil, 0, err
	}
	slices.Reverse(kept)
	return kept, at.generation, nil
}

// generations reads the generations that are kept, in order.
func (c *Client) generations(ctx context.Context) ([]Generation, error) {
	got, err := c.scan(ctx, c.keys.generations())
	if err != nil {
		return nil, fmt.Errorf("etcd: reading %s: %w", c.keys.generations(), explain(err))
	}
	var kept []Generation
	for _, kv := range got.Kvs {
		g, err := parseGeneration(kv.Value)
		if err == nil && c.keys.generation(g.Number) != string(kv.Key) {
			err = errors.New("it is another generation's")
		}
		if err != nil {
			return nil, damaged(string(kv.Key), "%v", err)
		}
		kept = append(kept, *g)
	}
	return kept, nil
}

// push is one push or rollback on its way.
type push struct {
	client      *Client
	options     PushOptions
	files       []bundle.File
	listed      manifest // files, in the same order
	text        []byte   // of listed
	revocations []revocation.Entry
	imports     bool // revocations are to become part of the log
	before      *state
	out         Pushed
}

// run does what remains once it is known that the bundle may be served.
func (p *push) run(ctx context.Context) (Pushed, error) {
	c, g := p.client, &p.out.Generation
	if !p.options.DryRun {
		if _, err := c.identify(ctx); err != nil {
			return Pushed{}, err
		}
	}
	var log *revocation.View
	var err error
	if p.before, log, err = c.readLog(ctx); err != nil {
		return Pushed{}, err
	}
	if err := p.compare(ctx); err != nil {
		return Pushed{}, err
	}
	g.Number, g.PushedAt = p.before.number()+1, time.Now().UTC().Truncate(time.Second)
	merged, err := p.merge(ctx, log)
	if err != nil {
		return Pushed{}, err
	}
	if current := p.before.current; current != nil && current.Manifest == g.Manifest && len(merged.add)+len(merged.gone) == 0 && !p.options.Again {
		p.out.Generation, p.out.Unchanged = *current, true
		return p.out, nil
	}
	if p.options.DryRun {
		p.out.Revocations, p.out.Gone = merged.add, len(merged.gone)
		missing, err := c.missing(ctx, p.blobs(), p.options.Again)
		p.count(missing)
		return p.out, err
	}
	l, err := c.lock(ctx, p.options.By)
	if err != nil {
		return Pushed{}, err
	}
	defer l.stop()
	missing, err := c.missing(ctx, p.blobs(), p.options.Again)
	if err != nil {
		return Pushed{}, err
	}
	p.count(missing)
	if err := c.upload(ctx, l, missing, p.content()); err != nil {
		return Pushed{}, err
	}
	if err := p.flip(ctx, l); err != nil {
		return Pushed{}, err
	}
	p.out.Pruned, p.out.PruneFault = c.prune(ctx, l, p.options.Keep, p.options.Grace)
	return p.out, nil
}

// compare says what is new against the current generation.
func (p *push) compare(ctx context.Context) error {
	old := map[string]digest{}
	if current := p.before.current; current != nil {
		have := contents{}
		err := p.client.download(ctx, []blob{current.Manifest}, have)
		var m manifest
		if err == nil {
			m, err = parseManifest(have[current.Manifest.Digest])
		}
		if err != nil && !p.options.Again {
			return fmt.Errorf("etcd: the list of files of generation %d: %w", current.Number, err)
		}
		for _, f := range m.Files {
			old[f.Name] = f.Digest
		}
	}
	for _, f := range p.listed.Files {
		switch was, ok := old[f.Name]; {
		case !ok:
			p.out.Added = append(p.out.Added, f.Name)
		case was != f.Digest:
			p.out.Changed = append(p.out.Changed, f.Name)
		}
		delete(old, f.Name)
	}
	for name := range old {
		p.out.Removed = append(p.out.Removed, name)
	}
	slices.Sort(p.out.Removed)
	return nil
}

// blobs are the contents of the push, each once.
func (p *push) blobs() []blob {
	blobs := []blob{p.out.Generation.Manifest}
	seen := map[digest]bool{}
	for _, f := range p.listed.Files {
		if !seen[f.Digest] {
			seen[f.Digest] = true
			blobs = append(blobs, f.blob)
		}
	}
	return blobs
}

// content finds the bytes of a blob.
func (p *push) content() contents {
	all := contents{p.out.Generation.Manifest.Digest: p.text}
	for i, f := range p.listed.Files {
		all[f.Digest] = p.files[i].Data
	}
	return all
}

func (p *push) count(missing []blob) {
	p.out.Uploaded, p.out.UploadedBytes = len(missing), 0
	for _, b := range missing {
		p.out.UploadedBytes += b.Size
	}
}

// flip makes the generation current, and its new revocations part of the log,
// in one transaction.
func (p *push) flip(ctx context.Context, l *lock) error {
	c, g := p.client, &p.out.Generation
	g.ID, g.Previous = rand.Text(), ""
	if p.before.current != nil {
		g.Previous = p.before.current.ID
	}
	text, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("etcd: writing generation %d: %w", g.Number, err)
	}
	now, log, err := c.readLog(ctx)
	if err != nil {
		return err
	}
	if now.currentAt != p.before.currentAt {
		return fmt.Errorf("%w: generation %d by %q is current: look at it, then push again", ErrConcurrent, now.number(), now.current.PushedBy)
	}
	merged, err := p.merge(ctx, log)
	if err != nil {
		return err
	}
	if more, err := p.lighten(ctx, l, now.position(), &merged); err != nil || more {
		if more {
			err = p.flip(ctx, l)
		}
		return err
	}
	// What replicas add meanwhile changes nothing of what is merged: that is
	// compared with lines that only pushes add, and this one has the lock.
	for at := now.position(); ; {
		w, err := merged.write(c.keys, at, g.Number)
		if err != nil {
			return err
		}
		w.key, w.value = c.keys.generation(g.Number), string(text)
		w.when = append(w.when, l.held, unchanged(c.keys.current(), at.currentAt), clientv3.Compare(clientv3.Value(c.keys.source()), "=", at.source))
		w.also = append(w.also, clientv3.OpPut(c.keys.current(), string(text)))
		w.ask = append(c.keys.asking(), clientv3.OpGet(c.keys.pushing()))
		done, _, answers, err := c.commit(ctx, w)
		if err != nil {
			return err
		}
		if done {
			p.out.Revocations, p.out.Gone = append(p.out.Revocations, merged.add...), len(merged.gone)
			return nil
		}
		if modified(answers[len(answers)-1]) != l.revision {
			return errLockLost
		}
		next, err := c.keys.parsePosition(answers)
		switch {
		case err != nil:
			return err
		case next.source != at.source || next.currentAt != at.currentAt:
			return damaged(c.keys.current(), "it was changed by something else than a push")
		case next.sequenceAt == at.sequenceAt:
			return damaged(w.key, "it is there, though it comes next")
		}
		at = next
	}
}
