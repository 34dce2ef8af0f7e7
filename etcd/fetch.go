package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/bundle"
)

// Limits of one transaction: etcd takes 128 operations and 1.5 MiB.
const (
	maxOps   = 100
	maxBytes = pieceSize
)

// contents are files by their digests.
type contents map[digest][]byte

// fetch reads the files of a generation, but for contents that have holds. Then
// have holds these files and nothing else; when it fails, what it has got so
// far, too.
func (c *Client) fetch(ctx context.Context, g *Generation, have contents) ([]bundle.File, error) {
	if err := c.download(ctx, []blob{g.Manifest}, have); err != nil {
		return nil, fmt.Errorf("etcd: the list of files of generation %d: %w", g.Number, err)
	}
	m, err := parseManifest(have[g.Manifest.Digest])
	if err != nil {
		return nil, fmt.Errorf("etcd: the list of files of generation %d: %w", g.Number, err)
	}
	blobs := make([]blob, len(m.Files))
	for i, f := range m.Files {
		blobs[i] = f.blob
	}
	if err := c.download(ctx, blobs, have); err != nil {
		return nil, fmt.Errorf("etcd: the files of generation %d: %w", g.Number, err)
	}
	files := make([]bundle.File, len(m.Files))
	used := map[digest]bool{g.Manifest.Digest: true}
	for i, f := range m.Files {
		data := have[f.Digest]
		if len(data) != f.Size {
			return nil, fmt.Errorf("etcd: the files of generation %d: %s has %d bytes, where %d are listed", g.Number, f.Name, len(data), f.Size)
		}
		files[i] = bundle.File{Name: f.Name, Data: data}
		used[f.Digest] = true
	}
	for d := range have {
		if !used[d] {
			delete(have, d)
		}
	}
	return files, nil
}

// download adds to have what it lacks of blobs.
func (c *Client) download(ctx context.Context, blobs []blob, have contents) error {
	var ops []clientv3.Op
	var wanted []blob // whose pieces ops ask for
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		got, err := c.insist(ctx, nil, ops)
		if err != nil {
			return err
		}
		i := 0
		for _, b := range wanted {
			var data []byte
			for range b.pieces() {
				data = append(data, value(got.Responses[i].GetResponseRange().Kvs)...)
				i++
			}
			if digestOf(data) != b.Digest {
				return fmt.Errorf("etcd doesn't hold %s as it was pushed: push it again with --again, which uploads every file", b.Digest)
			}
			have[b.Digest] = data
		}
		ops, wanted, size = nil, nil, 0
		return nil
	}
	asked := map[digest]bool{}
	for _, b := range blobs {
		if _, ok := have[b.Digest]; ok || asked[b.Digest] {
			continue
		}
		asked[b.Digest] = true
		if b.pieces() > maxOps {
			return fmt.Errorf("%s has %d bytes, which is too much", b.Digest, b.Size)
		}
		if len(ops)+b.pieces() > maxOps || size+b.Size > maxBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		for i := range b.pieces() {
			ops = append(ops, clientv3.OpGet(c.keys.piece(b.Digest, i)))
		}
		if b.Size == 0 {
			have[b.Digest] = nil
			if digestOf(nil) != b.Digest {
				return fmt.Errorf("%s is not the digest of an empty file", b.Digest)
			}
			continue
		}
		wanted, size = append(wanted, b), size+b.Size
	}
	return flush()
}
