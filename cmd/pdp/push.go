package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/revocation"
)

type pushCmd struct {
	Bundle *directory `arg:"" optional:"" help:"Directory of the bundle." placeholder:"DIR"`

	List     bool   `help:"List the generations that etcd keeps, the newest first." group:"Push"`
	Rollback uint64 `help:"Bring the bundle of an earlier generation back, as a new one. Revocations stay as they are." placeholder:"GEN" group:"Push"`
	DryRun   bool   `help:"Write nothing, and say what would be done." group:"Push"`
	Note     string `help:"Why, for those who list generations." placeholder:"TEXT" group:"Push"`
	Keep     int    `help:"How many generations stay; 10 unless you say otherwise." default:"10" placeholder:"N" group:"Push"`
	Again    bool   `help:"Upload every file, also those that etcd has: mends what is damaged there." group:"Push"`

	etcdFlags `embed:""`
	Timeout   time.Duration `help:"How long all of it may take." default:"2m"`
	JSON      bool          `help:"Print JSON."`
}

func (*pushCmd) Help() string {
	return `Checks the bundle, uploads what etcd lacks of it, and makes it the current
generation for every server that runs with --etcd, all of it or none. New lines
of revocations.yaml become part of the revocation log in the same step; lines
that were taken out stay in force. Run pdp check before: push runs no scenarios.
If somebody else pushes meanwhile, nothing is put in force: look at theirs, then
push again. docs/etcd.md says how to begin, and what is guaranteed.

Examples:
  pdp push ./bundle --etcd https://etcd-0:2379,https://etcd-1:2379,https://etcd-2:2379
  pdp push ./bundle --dry-run
  pdp push --list
  pdp push --rollback 17 --note "18 denies refunds"`
}

func (p *pushCmd) Run(c *console) error {
	ways := 0
	for _, way := range []bool{p.Bundle != nil, p.List, p.Rollback != 0} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return usage("give the directory of a bundle, or --list, or --rollback GEN")
	}
	if len(p.Etcd) == 0 {
		return usage("name the members of the cluster with --etcd, or in WRIT_ETCD")
	}
	if p.Timeout <= 0 {
		return usage("--timeout is more than 0")
	}
	cfg, err := p.config(newLogger(c.err))
	if err != nil {
		return err
	}
	client, err := etcd.Dial(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, p.Timeout)
	defer cancel()
	if p.List {
		err = p.list(ctx, c, client)
	} else {
		err = p.push(ctx, c, client)
	}
	return errors.Join(err, client.Close())
}

func (p *pushCmd) push(ctx context.Context, c *console, client *etcd.Client) error {
	o := etcd.PushOptions{By: pushes(), Note: p.Note, DryRun: p.DryRun, Again: p.Again, Keep: p.Keep}
	var out etcd.Pushed
	var err error
	if p.Bundle != nil {
		var files []bundle.File
		if files, err = bundle.ReadDir(string(*p.Bundle)); err != nil {
			return err
		}
		out, err = client.Push(ctx, files, o)
	} else {
		out, err = client.Rollback(ctx, p.Rollback, o)
	}
	if faults, ok := errors.AsType[writ.Faults](err); ok {
		for _, f := range faults {
			fmt.Fprintln(c.err, f)
		}
		return errors.New("the bundle has faults and was not pushed")
	}
	if err != nil {
		return err
	}
	for _, f := range out.Warnings {
		fmt.Fprintln(c.err, f)
	}
	if out.PruneFault != nil {
		fmt.Fprintln(c.err, "pdp: the bundle is in force, but old generations were not pruned, and will be with the next push:", out.PruneFault)
	}
	if p.JSON {
		return printJSON(c.out, p.told(out))
	}
	p.print(c, out)
	return nil
}

// pushes says who pushes.
func pushes() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

func (p *pushCmd) print(c *console, out etcd.Pushed) {
	g := out.Generation
	switch {
	case out.Unchanged:
		fmt.Fprintf(c.out, "generation %d has this bundle already: nothing was done\n", g.Number)
		return
	case p.DryRun:
		fmt.Fprintf(c.out, "this would be generation %d, %s\n", g.Number, g.Bundle)
	default:
		fmt.Fprintf(c.out, "generation %d is current, %s\n", g.Number, g.Bundle)
	}
	for _, part := range []struct {
		sign  string
		names []string
	}{{"+", out.Added}, {"~", out.Changed}, {"-", out.Removed}} {
		for _, name := range part.names {
			fmt.Fprintf(c.out, "  %s %s\n", part.sign, name)
		}
	}
	fmt.Fprintf(c.out, "  uploads: %d, together %d bytes; revocations added: %d\n", out.Uploaded, out.UploadedBytes, len(out.Revocations))
	for _, e := range out.Revocations {
		verb := "revoked"
		if e.Lift {
			verb = "lifted"
		}
		fmt.Fprintf(c.out, "    %s %s %s\n", verb, e.Kind, shown(e.ID))
	}
	if out.Gone > 0 {
		fmt.Fprintf(c.out, "  lines taken out of revocations.yaml, which stay in force: %d (lift them with pdp revoke --lift)\n", out.Gone)
	}
	if len(out.Pruned) > 0 {
		fmt.Fprintf(c.out, "  no longer kept: %v\n", out.Pruned)
	}
}

// pushedJSON is what push prints with --json.
type pushedJSON struct {
	generationJSON
	DryRun        bool          `json:"dry_run"`
	Unchanged     bool          `json:"unchanged"`
	Added         []string      `json:"added,omitempty"`
	Changed       []string      `json:"changed,omitempty"`
	Removed       []string      `json:"removed,omitempty"`
	Uploaded      int           `json:"uploaded"`
	UploadedBytes int           `json:"uploaded_bytes"`
	Revocations   []revokedJSON `json:"revocations,omitempty"`
	Gone          int           `json:"lines_gone"`
	Pruned        []uint64      `json:"pruned,omitempty"`
}

type revokedJSON struct {
	Sequence uint64 `json:"sequence,omitempty"`
	Kind     string `json:"kind"`
	Issuer   string `json:"issuer,omitempty"`
	ID       string `json:"id"`
	Lift     bool   `json:"lift,omitempty"`
}

// generationJSON is a generation as push prints it.
type generationJSON struct {
	Generation uint64    `json:"generation"`
	Current    bool      `json:"current"`
	Bundle     string    `json:"bundle"`
	Files      int       `json:"files"`
	Bytes      int       `json:"bytes"`
	PushedAt   time.Time `json:"pushed_at"`
	PushedBy   string    `json:"pushed_by,omitempty"`
	Note       string    `json:"note,omitempty"`
	RollbackTo uint64    `json:"rollback_to,omitempty"`
}

func generationOf(g etcd.Generation, current bool) generationJSON {
	return generationJSON{g.Number, current, g.Bundle, g.Files, g.Bytes, g.PushedAt, g.PushedBy, g.Note, g.RollbackTo}
}

func (p *pushCmd) told(out etcd.Pushed) pushedJSON {
	told := pushedJSON{
		generationJSON: generationOf(out.Generation, !p.DryRun || out.Unchanged), DryRun: p.DryRun, Unchanged: out.Unchanged,
		Added: out.Added, Changed: out.Changed, Removed: out.Removed, Uploaded: out.Uploaded, UploadedBytes: out.UploadedBytes,
		Gone: out.Gone, Pruned: out.Pruned,
	}
	for _, e := range out.Revocations {
		told.Revocations = append(told.Revocations, revokedOf(e))
	}
	return told
}

func revokedOf(e revocation.Entry) revokedJSON {
	return revokedJSON{e.Sequence, string(e.Kind), e.Issuer, e.ID, e.Lift}
}

func (p *pushCmd) list(ctx context.Context, c *console, client *etcd.Client) error {
	all, current, err := client.Generations(ctx)
	if err != nil {
		return err
	}
	if p.JSON {
		told := make([]generationJSON, len(all))
		for i, g := range all {
			told[i] = generationOf(g, g.Number == current)
		}
		return printJSON(c.out, told)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "generation\tpushed\tby\tfiles\tbundle\tnote")
	for _, g := range all {
		mark := ""
		if g.Number == current {
			mark = " current"
		}
		note := shown(g.Note)
		if g.RollbackTo > 0 {
			note = fmt.Sprintf("back to %d; %s", g.RollbackTo, note)
		}
		fmt.Fprintf(w, "%d%s\t%s\t%s\t%d\t%.19s\t%s\n", g.Number, mark, g.PushedAt.Format(time.RFC3339), shown(g.PushedBy), g.Files, g.Bundle, note)
	}
	return w.Flush()
}
