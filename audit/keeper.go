package audit

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

// keeper is the one goroutine that keeps the tree: it adds the leaves of what
// is on the disk, and writes tiles and checkpoints. The writer never waits for
// it, and so no record does.
type keeper struct {
	log    *Log
	device device
	watch  *watch
	every  time.Duration

	tree *tree.Tree
	kept int64 // size of the newest checkpoint
	// behind is set while an attempt has failed: no more goes into the tree
	// until it has its checkpoint, so that what waits stays bounded.
	behind bool
	spare  []tlog.Hash // an empty list of leaves
}

// run keeps until the writer has ended and all it wrote is under a checkpoint,
// or nobody waits for that any longer. The channel is closed then.
func (k *keeper) run() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(k.every)
		defer tick.Stop()
		for last := false; !last; {
			select {
			case <-tick.C:
			case <-k.log.written:
				last = true
			}
			err := k.keep()
			for attempts := (backoff{}); err != nil; err = k.keep() {
				err = explain(k.log.path(tree.CheckpointFile), err)
				k.log.health.fault(ofKeeper, condition(err), err)
				if !k.log.pause(attempts.next()) {
					k.log.lose(fmt.Errorf("%w; the log was closed, and its newest records are under no checkpoint", err))
					return
				}
			}
			k.log.health.fault(ofKeeper, "", nil)
		}
	}()
	return ended
}

// keep makes a checkpoint of all that is on the disk, if the newest is not.
func (k *keeper) keep() error {
	if !k.behind {
		leaves := k.log.takeLeaves(k.spare)
		for _, leaf := range leaves {
			k.tree.Append(leaf)
		}
		k.spare = leaves[:0]
	}
	size := k.tree.Size()
	if size == k.kept && *k.log.checkpoint.Load() != nil {
		return nil
	}
	k.behind = true
	k.watch.begin("writing", tree.Dir)
	err := k.device.Flush(k.tree.Flush)
	k.watch.end(err == nil)
	if err != nil {
		return err
	}
	signed, err := tree.Sign(tree.Checkpoint{Origin: k.log.signer.Name(), Size: size, Root: k.tree.Root()}, k.log.signer)
	if err != nil {
		return err
	}
	k.watch.begin("writing", tree.CheckpointFile)
	err = k.device.Replace(tree.CheckpointFile, signed)
	k.watch.end(err == nil)
	if err != nil {
		return err
	}
	k.kept, k.behind = size, false
	k.log.checkpoint.Store(&signed)
	return nil
}
