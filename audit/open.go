package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// Recovery says what [Open] has put in order. The zero Recovery is nothing: the
// log was closed as it should be.
type Recovery struct {
	// Cut is how many bytes have been cut off the end of the segment File: an
	// unfinished record, which was never confirmed to anybody.
	Cut  int64
	File string
	// Leftovers are files of a step that was never finished: a checkpoint that
	// was not yet in place, a segment without a record. None held a record.
	Leftovers []string
	// Tiles is true if there were no tiles, and they have been made again from
	// the records, which hash to the checkpoint's root.
	Tiles bool
}

// Open opens the log in a directory and makes what is missing of a new one. It
// fails if another process has it open, or if anything is not as the package
// comment says, but for what a crash leaves behind. The caller closes the log.
func Open(cfg Config) (*Log, error) {
	return open(cfg, func(d device) device { return d })
}

func open(cfg Config, wrap func(device) device) (*Log, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	d, err := openDisk(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("audit: opening the log: %w", err)
	}
	o := &opening{disk: d}
	if err := o.open(cfg); err != nil {
		return nil, fmt.Errorf("audit: opening the log in %s: %w", cfg.Dir, errors.Join(err, o.close()))
	}
	l, err := o.start(cfg, wrap(d))
	if err != nil {
		return nil, fmt.Errorf("audit: opening the log in %s: %w", cfg.Dir, errors.Join(err, o.close()))
	}
	return l, nil
}

// complete puts in what is not said.
func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("a log needs a directory")
	}
	if c.SegmentBytes < 0 || c.SegmentAge < 0 || c.Checkpoint < 0 {
		return errors.New("SegmentBytes, SegmentAge and Checkpoint can't be negative")
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 256 << 20
	}
	if c.SegmentAge == 0 {
		c.SegmentAge = 24 * time.Hour
	}
	if c.Checkpoint == 0 {
		c.Checkpoint = time.Second
	}
	return nil
}

// opening is a log that is being opened.
type opening struct {
	disk     *disk
	keys     keys
	signed   []byte // the checkpoint; nil: the log is new
	at       tree.Checkpoint
	tree     *tree.Tree
	segments []segment.Segment
	next     uint64
	recovery Recovery
}

func (o *opening) close() error {
	var err error
	if o.tree != nil {
		err = o.tree.Close()
	}
	return errors.Join(err, o.disk.close())
}

// open reads what is there.
func (o *opening) open(cfg Config) (err error) {
	if o.segments, err = segment.List(o.disk.path(segment.Dir)); err != nil {
		return err
	}
	o.signed, err = tree.ReadFile(o.disk.dir, tree.CheckpointFile, tree.MaxSigned)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return err
	}
	if isNew && o.hasRecords() {
		return fmt.Errorf("%s: is missing, and there are records: put it back, or move the log away to begin another", o.disk.path(tree.CheckpointFile))
	}
	if o.keys, err = openKeys(o.disk, cfg.Origin, isNew); err != nil {
		return err
	}
	if isNew {
		o.tree, err = tree.New(o.disk.name)
		return err
	}
	signed, err := tree.Open(o.signed, o.keys.verifier)
	if err != nil {
		return fmt.Errorf("%s: %w: put back the checkpoint and the keys of this log", o.disk.path(tree.CheckpointFile), err)
	}
	o.at = signed.Checkpoint
	if err := o.clearUnfinished(); err != nil {
		return err
	}
	if err := o.loadTree(); err != nil {
		return err
	}
	if err := o.checkSegments(); err != nil {
		return err
	}
	return o.readOn()
}

func (o *opening) hasRecords() bool {
	for _, s := range o.segments {
		if s.First > 0 || s.Size > 0 {
			return true
		}
	}
	return false
}

// loadTree loads the tree from its tiles, or where there is not one of them
// makes it from the records again.
func (o *opening) loadTree() (err error) {
	if _, err := o.disk.dir.Lstat(tree.Dir); errors.Is(err, fs.ErrNotExist) && o.at.Size > 0 {
		return o.makeTree()
	}
	if o.tree, err = tree.Load(o.disk.name, o.at); err != nil {
		return fmt.Errorf("%w: put back the tiles as they were, or move all of %s away, and they are made again from the records if those are as the checkpoint says", err, o.disk.path(tree.Dir))
	}
	return nil
}

func (o *opening) makeTree() (err error) {
	if o.tree, err = tree.New(o.disk.name); err != nil {
		return err
	}
	r, err := segment.OpenReader(o.disk.path(segment.Dir), 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for o.tree.Size() < o.at.Size {
		_, record, err := r.Next()
		if err != nil {
			return fmt.Errorf("making the tiles again, at record %d of %d: %w", r.Index(), o.at.Size, err)
		}
		o.tree.Append(tree.LeafHash(record))
	}
	if root := o.tree.Root(); root != o.at.Root {
		return fmt.Errorf("the %d records of the checkpoint hash to the root %v, and it says %v: records were changed; put back segments and checkpoint as they were", o.at.Size, root, o.at.Root)
	}
	o.recovery.Tiles = true
	return nil
}

// path is the whole path of a segment, for messages.
func (o *opening) path(s segment.Segment) string {
	return o.disk.path(segment.Dir + "/" + s.Name())
}

// start begins to write where the log ends.
func (o *opening) start(cfg Config, dev device) (*Log, error) {
	l := &Log{
		dir: cfg.Dir, recovered: o.recovery, verifier: o.keys.text, signer: o.keys.signer, key: o.keys.hmac,
		health: newHealth(cfg.Changed),
		work:   make(chan struct{}, 1), gathered: time.NewTimer(time.Hour),
		closed: make(chan struct{}), abandoned: make(chan struct{}), written: make(chan struct{}), done: make(chan struct{}),
		taken: o.next, synced: o.next, most: maxLeaves,
	}
	l.gathered.Stop()
	l.close = sync.OnceValue(l.closeAll)
	l.checkpoint.Store(&o.signed)
	w, err := o.writer(cfg, dev)
	if err != nil {
		return nil, err
	}
	w.log, w.watch = l, newWatch(l.health, ofWriter)
	k := &keeper{log: l, device: dev, watch: newWatch(l.health, ofKeeper), every: cfg.Checkpoint, tree: o.tree, kept: o.at.Size}
	if o.signed == nil {
		// From now on a missing checkpoint is damage.
		if err := k.keep(); err != nil {
			return nil, errors.Join(err, w.segment.Close())
		}
	}
	go w.run()
	go func() {
		defer close(l.done)
		<-k.run()
		if err := o.close(); err != nil {
			l.lose(fmt.Errorf("audit: closing the log in %s: %w", cfg.Dir, err))
		}
	}()
	return l, nil
}

// writer cuts off what a crash has left, makes sure that the rest is on the
// disk, and returns the writer that goes on there, without its log.
func (o *opening) writer(cfg Config, dev device) (*writer, error) {
	newest := segment.Segment{First: o.next}
	isNew := len(o.segments) == 0
	if !isNew {
		newest = o.segments[len(o.segments)-1]
	}
	name := segment.Dir + "/" + newest.Name()
	f, err := dev.Segment(name, isNew)
	if err != nil {
		return nil, err
	}
	w := &writer{device: dev, limit: cfg.SegmentBytes, age: cfg.SegmentAge, segment: f, name: name, size: newest.Size, synced: newest.Size, next: o.next}
	if o.recovery.Cut > 0 {
		err = f.Truncate(newest.Size)
	}
	if err == nil {
		w.info, err = f.Stat()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = dev.SyncSegments()
	}
	if err == nil && newest.Size > 0 {
		w.born, err = o.began(newest)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.path(newest), err), f.Close())
	}
	return w, nil
}

// began returns when a segment got its first record, by what that says. A clock
// that was set back makes it now.
func (o *opening) began(s segment.Segment) (time.Time, error) {
	record, err := segment.ReadRecord(o.disk.path(segment.Dir), s.First)
	if err != nil {
		return time.Time{}, err
	}
	var of struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(record, &of); err != nil {
		return time.Time{}, fmt.Errorf("record %d: %w", s.First, err)
	}
	now := time.Now()
	return now.Add(-max(0, now.Sub(of.Time))), nil
}
