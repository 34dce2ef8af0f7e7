package entities

import "slices"

// vector is a list that never changes. Edits of it share all pages but those
// that differ.
type vector[T any] struct {
	pages []*[pageSize]T
	n     int
}

const pageSize = 64

func (v *vector[T]) at(i int32) *T { return &v.pages[i/pageSize][i%pageSize] }

// draft is a vector that is being made of another.
type draft[T any] struct {
	vector[T]
	own []bool // by page: it is this draft's alone
}

func (v *vector[T]) edit() *draft[T] {
	return &draft[T]{vector[T]{slices.Clone(v.pages), v.n}, make([]bool, len(v.pages))}
}

// change returns an element to be written to.
func (d *draft[T]) change(i int32) *T {
	if page := i / pageSize; !d.own[page] {
		copied := *d.pages[page]
		d.pages[page], d.own[page] = &copied, true
	}
	return d.at(i)
}

// push adds an element and returns its index.
func (d *draft[T]) push(x T) int32 {
	i := int32(d.n)
	if d.n == len(d.pages)*pageSize {
		d.pages, d.own = append(d.pages, new([pageSize]T)), append(d.own, true)
	}
	d.n++
	*d.change(i) = x
	return i
}
