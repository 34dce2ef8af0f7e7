package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/verify"
)

// auditCmd reads a log from its files: no server need run.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Hash every record again and hold the log against its signed checkpoint, or one kept elsewhere."`
	Tail   auditTailCmd   `cmd:"" help:"Print the newest records, and with --follow those to come."`
	Search auditSearchCmd `cmd:"" help:"Find records: by principal, tool, code, time, trace or decision."`
	Prove  auditProveCmd  `cmd:"" help:"Prove that a record is in the log, or that the log only grew."`
	Export auditExportCmd `cmd:"" help:"Write records as JSON lines, or as OCSF API Activity."`
}

func (*auditCmd) Help() string {
	return `The log is in log/ of the server's data directory. All of this only reads it, also
while a server writes, and needs no server: a copy of the directory does.

  pdp audit verify                      is it all as it was signed?
  pdp audit tail -f --outcome DENY      what is refused just now
  pdp audit search --trace ID           what became of one call
  pdp audit prove 17                    a proof for others that record 17 is in it
  pdp audit export --format ocsf        for a SIEM`
}

// logFlags say which log is read.
type logFlags struct {
	Data *directory `help:"Data directory of the server. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR" group:"Log"`
	Log  *directory `help:"The log's own directory, wherever it is; in place of --data." placeholder:"DIR" group:"Log"`
}

// dir is the log's directory.
func (f logFlags) dir() (string, error) {
	if f.Log != nil {
		if f.Data != nil && os.Getenv("WRIT_DATA_DIR") == "" {
			return "", usage("give --data or --log, not both")
		}
		return string(*f.Log), nil
	}
	data, err := dataDir(f.Data)
	if err != nil {
		return "", err
	}
	return filepath.Join(data, "log"), nil
}

// keyFlags say by which keys a log is verified.
type keyFlags struct {
	Verifier string   `help:"File with the log's verifier key, from a place that the log's keepers can't change. Default: the one that lies in the log's directory, which whoever rewrites the log could replace." type:"path" placeholder:"FILE" group:"Keys"`
	Witness  []string `help:"Verifier key of a witness whose cosignatures count; may be repeated." placeholder:"KEY" group:"Keys"`
}

// keys reads the keys. beside is true where the log's own directory vouches
// for itself.
func (f keyFlags) keys(dir string) (log note.Verifier, witnesses []*tree.Witness, beside bool, err error) {
	file := f.Verifier
	if file == "" {
		file, beside = filepath.Join(dir, tree.VerifierFile), true
	}
	log, err = tree.ReadVerifier(file)
	switch {
	case beside && errors.Is(err, fs.ErrNotExist):
		return nil, nil, false, fmt.Errorf("there is no log in %s, or its verifier key is gone: name the server's data directory with --data, the log's own with --log, or a kept key with --verifier: %w", dir, err)
	case err != nil:
		return nil, nil, false, fmt.Errorf("%w: --verifier is a file with the one line of the log's own file %s", err, tree.VerifierFile)
	}
	for _, text := range f.Witness {
		w, err := tree.NewWitness(text)
		if err != nil {
			return nil, nil, false, usage("--witness: " + err.Error())
		}
		witnesses = append(witnesses, w)
	}
	return log, witnesses, beside, nil
}

// checkpoint reads a signed checkpoint from a file; empty: that of the log.
func checkpoint(dir, file string, log note.Verifier, witnesses []*tree.Witness) ([]byte, tree.Signed, error) {
	kept := file != ""
	if !kept {
		file = filepath.Join(dir, tree.CheckpointFile)
	}
	info, err := os.Stat(file)
	if kept && errors.Is(err, fs.ErrNotExist) {
		return nil, tree.Signed{}, fmt.Errorf("there is no checkpoint in the place that you name: %w", err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tree.Signed{}, fmt.Errorf("there is no checkpoint: a server signs one within a second or two of the first record: %w", err)
	}
	if err != nil {
		return nil, tree.Signed{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, tree.Signed{}, fmt.Errorf("%s is no regular file: no checkpoint is read from it", file)
	}
	if info.Size() > tree.MaxSigned {
		return nil, tree.Signed{}, fmt.Errorf("%s has %d bytes: no checkpoint is that long", file, info.Size())
	}
	signed, err := os.ReadFile(file)
	if err != nil {
		return nil, tree.Signed{}, err
	}
	head, err := tree.Open(signed, log, witnesses...)
	if err != nil {
		return nil, tree.Signed{}, fmt.Errorf("%s is no checkpoint that this log's key has signed: take the checkpoint and the verifier key of one log: %w", file, err)
	}
	return signed, head, nil
}

type auditVerifyCmd struct {
	logFlags `embed:""`
	keyFlags `embed:""`

	From         string `help:"Checkpoint that was kept elsewhere: the log must continue it, and only what came after is hashed again." type:"path" placeholder:"FILE"`
	Whole        bool   `help:"With --from: hash all records again."`
	MinWitnesses int    `help:"How many of the witnesses must have cosigned the checkpoint: that of --from, or the log's own." placeholder:"N" group:"Keys"`
	JSON         bool   `help:"Print the report as JSON."`
}

func (*auditVerifyCmd) Help() string {
	return `Every record is hashed again; the tree over the hashes must be that of the tiles
on the disk and have the root that the log's key has signed. Whatever was
changed, moved or taken out since then is named. It only reads, also while a
server writes.

Who has the log's key can rewrite a log and sign it again. Keep checkpoints (the
file log/checkpoint, a few lines) and the verifier key (log/verifier) where the
log's keepers can't reach them, and verify against these:
  pdp audit verify --verifier kept/verifier --from kept/checkpoint

pdp serve --checkpoint-file keeps them so by itself, and with pdp serve --witness
the one that witnesses have cosigned is checkpoint.cosigned of the data directory:
  pdp audit verify --from DIR/checkpoint.cosigned --witness KEY --min-witnesses 1

Exit codes: 0 all is as it was signed, 1 something is not, or can't be told.`
}

func (k *auditVerifyCmd) Run(c *console) error {
	dir, err := k.dir()
	if err != nil {
		return err
	}
	log, witnesses, beside, err := k.keys(dir)
	if err != nil {
		return err
	}
	if k.Whole && k.From == "" {
		return usage("--whole belongs to --from: without it all records are hashed anyway")
	}
	if k.MinWitnesses < 0 || k.MinWitnesses > len(witnesses) {
		return usage("--min-witnesses is from 0 to the number of witnesses given with --witness")
	}
	o := verify.Options{Verifier: log, Witnesses: witnesses, MinWitnesses: k.MinWitnesses, Whole: k.Whole}
	var from tree.Signed
	if k.From != "" {
		if _, from, err = checkpoint(dir, k.From, log, witnesses); err != nil {
			return err
		}
		if n := len(from.Cosignatures); n < k.MinWitnesses {
			return fmt.Errorf("%s: %d of the given witnesses have cosigned it, and %d must have: take one that they have cosigned, such as checkpoint.cosigned of the data directory", k.From, n, k.MinWitnesses)
		}
		o.From, o.MinWitnesses = &from.Checkpoint, 0 // the log continues what they cosigned
	}
	bar := newProgress(c.err, "records")
	o.Progress = func(done, total int64) { bar.done(int(done), int(total)) }
	report, err := verify.Verify(c.ctx, dir, o)
	bar.end()
	if err != nil {
		return err
	}
	if k.JSON {
		err = printJSON(c.out, struct {
			verify.Report
			FromCosignatures []tree.Cosignature `json:"from_cosignatures,omitempty"`
		}{report, from.Cosignatures})
	} else {
		err = printReport(c, report, beside, k.From, from)
	}
	if err == nil && !report.OK {
		err = exit(exitFailed)
	}
	return err
}

func printReport(c *console, r verify.Report, beside bool, file string, from tree.Signed) error {
	say := func(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }
	if !r.OK {
		for _, f := range r.Findings {
			say("%s", f)
		}
		if r.More > 0 {
			say("and %d more", r.More)
		}
		say("NOT VERIFIED: the log is not as it was signed: %s", count(len(r.Findings)+r.More, "finding"))
		fmt.Fprintln(c.err, "pdp: copy the directory of the log before anything writes to it, and verify a backup with the same verifier key: it tells what these records were.")
		return nil
	}
	since := ""
	if r.From > 0 {
		since = fmt.Sprintf(" from %d on", r.From)
	}
	if file != "" {
		since += fmt.Sprintf(", continuing %s,", file)
	}
	say("VERIFIED  %s: %s%s and %s are as its signed checkpoint of %s says", r.Origin,
		count(int(r.Records), "record"), since, count(int(r.Tiles), "tile"), count(int(r.Size), "record"))
	cosigned := func(what string, list []tree.Cosignature) {
		for _, s := range list {
			say("  %s is cosigned by %s at %s", what, s.Witness, s.Time.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	cosigned("the log's checkpoint", r.Cosignatures)
	cosigned(file, from.Cosignatures)
	if r.AfterCheckpoint > 0 {
		say("  newer, in order, and not yet covered by a checkpoint: %s", count(int(r.AfterCheckpoint), "record"))
	}
	if r.TornBytes > 0 {
		say("  at the end, of a crash or just being written: %s of an unfinished record", count(int(r.TornBytes), "byte"))
	}
	if beside {
		fmt.Fprintln(c.err, "pdp: the verifier key lies beside the log: who rewrites one could replace the other. Keep a copy elsewhere, and give it with --verifier.")
	}
	return nil
}
