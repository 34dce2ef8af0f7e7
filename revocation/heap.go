package revocation

import (
	"container/heap"
	"time"
)

// inForce holds entries that have begun, the widest on top. Ended ones are
// dropped when they come to the top.
type inForce struct {
	all   *chunks
	begun []int32
}

func (f *inForce) push(i int32) { heap.Push(f, i) }

// widest returns the widest entry in force at now, or none. now must not go
// back from call to call.
func (f *inForce) widest(now time.Time) int32 {
	for len(f.begun) > 0 {
		top := f.begun[0]
		if until := f.all.at(top).Until; until.IsZero() || now.Before(until) {
			return top
		}
		heap.Pop(f)
	}
	return none
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (f *inForce) Len() int           { return len(f.begun) }
func (f *inForce) Less(i, j int) bool { return wider(f.all, f.begun[i], f.begun[j]) }
func (f *inForce) Swap(i, j int)      { f.begun[i], f.begun[j] = f.begun[j], f.begun[i] }
func (f *inForce) Push(x any)         { f.begun = append(f.begun, x.(int32)) }
func (f *inForce) Pop() any {
	last := f.begun[len(f.begun)-1]
	f.begun = f.begun[:len(f.begun)-1]
	return last
}
