package server

import (
	"context"
	"errors"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// AuditLog is where the server reads what has been recorded. It is safe for
// concurrent use.
type AuditLog interface {
	// Size returns how many records are accepted, and how many of these are on
	// the disk.
	Size() (accepted, onDisk uint64)
	// Follow returns the records from an index on, which is at most how many
	// are on the disk.
	Follow(from uint64) AuditCursor
	// ProveInclusion proves that a record is in the tree of the first size
	// records; 0: in that of the newest checkpoint. It fails with ErrNotInTree
	// where no checkpoint covers that yet.
	ProveInclusion(ctx context.Context, index, size uint64) (AuditProof, error)
	// ProveConsistency proves that the tree of the first size records begins
	// with that of the first old ones. 0 and ErrNotInTree are as for
	// ProveInclusion.
	ProveConsistency(ctx context.Context, old, size uint64) (AuditProof, error)
}

// AuditCursor gives records in order, each as soon as it is on the disk.
type AuditCursor interface {
	// Next returns the next record's index and its line, without the line feed
	// and valid until the next call. When ctx has ended first, it may be called
	// again.
	Next(ctx context.Context) (index uint64, line []byte, err error)
	Close() error
}

// AuditProof is a proof about a tree of the log.
type AuditProof struct {
	Record     []byte   // the line that the proof is of; for consistency: nil
	Size       uint64   // of the tree
	Hashes     [][]byte // 32 bytes each
	Checkpoint []byte   // signed, of this size; nil: none was kept
}

// ErrNotInTree says that no checkpoint covers a record, or so many.
var ErrNotInTree = errors.New("server: no checkpoint of the log covers that")

// audits is the AuditService.
type audits struct {
	writv1.UnimplementedAuditServiceServer
	log AuditLog // nil: there is none
}

// GetInclusionProof proves that a record is in the log.
func (a *audits) GetInclusionProof(ctx context.Context, req *writv1.GetInclusionProofRequest) (*writv1.GetInclusionProofResponse, error) {
	index, size := req.GetIndex(), req.GetTreeSize()
	switch {
	case a.log == nil:
		return nil, noAuditLog()
	case size > 0 && index >= size:
		return nil, refuse(ReasonOutOfRange, "index: it must be less than tree_size")
	}
	proof, err := a.log.ProveInclusion(ctx, index, size)
	if err != nil {
		return nil, unproved(err)
	}
	return &writv1.GetInclusionProofResponse{
		RecordJson: string(proof.Record), TreeSize: proof.Size, Hashes: proof.Hashes, Checkpoint: string(proof.Checkpoint),
	}, nil
}

// GetConsistencyProof proves that the log only grew.
func (a *audits) GetConsistencyProof(ctx context.Context, req *writv1.GetConsistencyProofRequest) (*writv1.GetConsistencyProofResponse, error) {
	old, size := req.GetOldSize(), req.GetNewSize()
	switch {
	case a.log == nil:
		return nil, noAuditLog()
	case old == 0:
		return nil, refuse(ReasonMalformedRequest, "old_size: it must be at least 1")
	case size > 0 && old > size:
		return nil, refuse(ReasonOutOfRange, "old_size: it must not be more than new_size")
	}
	proof, err := a.log.ProveConsistency(ctx, old, size)
	if err != nil {
		return nil, unproved(err)
	}
	return &writv1.GetConsistencyProofResponse{
		OldSize: old, NewSize: proof.Size, Hashes: proof.Hashes, Checkpoint: string(proof.Checkpoint),
	}, nil
}

func unproved(err error) error {
	if errors.Is(err, ErrNotInTree) {
		return refuse(ReasonOutOfRange, "the newest checkpoint does not cover that: it takes about a second until one covers a new record")
	}
	return err
}

func noAuditLog() error {
	return refuse(ReasonNoAuditLog, "this server does not tell of its log")
}
