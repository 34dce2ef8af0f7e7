package bundle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/writ-pdp/writ"
)

// File is one file of a bundle.
type File struct {
	Name string // relative to the bundle, with forward slashes
	Data []byte // not to be changed any more; nil in a file of [Bundle.Kept]

	sum  sum // of the content; zero: it isn't known yet
	size int // bytes of the content, where Data is nil
	// again reads the content once more, where Data is nil.
	again func() ([]byte, error)
}

// sum is the SHA-256 digest of a file's content.
type sum [sha256.Size]byte

// Kept returns the file of that name without its content, if b was built of a
// file with that name and with content of that SHA-256 digest, so that whoever
// reads a bundle again needn't hold in memory what has not changed. It is good
// for a [Build] after b. again reads the content for who wants it all the same:
// see [File.Content].
func (b *Bundle) Kept(name string, digest [sha256.Size]byte, again func() ([]byte, error)) (_ File, ok bool) {
	if b == nil || b.memory.files[name] == nil || b.memory.files[name].sum != digest {
		return File{}, false
	}
	m := b.memory.files[name]
	if m.data != nil { // whoever has the file may change what is in it
		return File{Name: name, Data: slices.Clone(m.data)}, true
	}
	return File{Name: name, sum: digest, size: m.size, again: again}, true
}

// large reports whether b was built of a file with this name, and doesn't have
// its content.
func (b *Bundle) large(name string) bool {
	return b != nil && b.memory.files[name] != nil && b.memory.files[name].data == nil
}

// Content returns what the file holds. Where Data is nil it is read again, and
// is an error if it is not what it was.
func (f *File) Content() ([]byte, error) {
	if f.Data != nil || f.again == nil {
		return f.Data, nil
	}
	data, err := f.again()
	switch {
	case err != nil:
		return nil, err
	case sha256.Sum256(data) != f.sum:
		return nil, errors.New("it was changed while the bundle was read")
	}
	return data, nil
}

// Size is how many bytes the file holds.
func (f *File) Size() int {
	if f.Data == nil {
		return f.size
	}
	return len(f.Data)
}

// hashed returns the files with their digests, for what goes on to work with
// them at once.
func hashed(files []File) []File {
	out := slices.Clone(files)
	for i := range out {
		out[i].sum = out[i].digest()
	}
	return out
}

// digest returns the digest of the content.
func (f *File) digest() sum {
	if f.sum != (sum{}) {
		return f.sum
	}
	return sha256.Sum256(f.Data)
}

// text is Content for a fault's place. Where it can't be had there is a fault
// more, and no text.
func (b *builder) text(f *File) []byte {
	data, err := f.Content()
	if err != nil {
		b.faults = append(b.faults, writ.Fault{File: f.Name, Message: fmt.Sprintf("the file can't be read again to say what is wrong in it: %s", err)})
	}
	return data
}
