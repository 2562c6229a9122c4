// The table itself: open addressing over pointers. Readers see either the old or the new pointer of a slot; writers
// take turns.

package labels

import (
	"sync"
	"sync/atomic"
)

const minSlots = 16

// Child is stored under its label values.
type Child[T any] struct {
	hash   uint64
	Values []string
	Value  T
}

// Table maps label values to children. The zero value is not ready, use New.
type Table[T any] struct {
	slots atomic.Pointer[[]atomic.Pointer[Child[T]]]
	// removed stands in slots whose child is gone, so that searches go on past them.
	removed *Child[T]

	mutex sync.Mutex
	// live are the children, used also counts slots of removed ones.
	live, used int
}

// New returns an empty table.
func New[T any]() *Table[T] {
	t := &Table[T]{removed: &Child[T]{}}
	slots := make([]atomic.Pointer[Child[T]], minSlots)
	t.slots.Store(&slots)
	return t
}

// Find returns the child with the values, or nil.
func (t *Table[T]) Find(hash uint64, values []string) *Child[T] {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		child := slots[i&uint64(len(slots)-1)].Load()
		if child == nil {
			return nil
		}
		if child.hash == hash && equal(child.Values, values) {
			return child
		}
	}
}

// Get returns the child with the values, made by newChild if there is none yet. newChild must own the values.
func (t *Table[T]) Get(hash uint64, values []string, newChild func() *Child[T]) *Child[T] {
	if child := t.Find(hash, values); child != nil {
		return child
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if child := t.Find(hash, values); child != nil {
		return child
	}
	child := newChild()
	child.hash = hash
	if slots := *t.slots.Load(); (t.used+1)*2 > len(slots) {
		t.rebuild()
	}
	put(*t.slots.Load(), child)
	t.live++
	t.used++
	return child
}

// Remove removes the children that match and returns how many there were.
func (t *Table[T]) Remove(match func(values []string) bool) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	n := 0
	slots := *t.slots.Load()
	for i := range slots {
		if child := slots[i].Load(); child != nil && child != t.removed && match(child.Values) {
			slots[i].Store(t.removed)
			n++
		}
	}
	t.live -= n
	return n
}

// RemoveOne removes the child with the values and reports whether there was one.
func (t *Table[T]) RemoveOne(hash uint64, values []string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	child := t.Find(hash, values)
	if child == nil {
		return false
	}
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	i := hash & mask
	for !slots[i].CompareAndSwap(child, t.removed) {
		i = (i + 1) & mask
	}
	t.live--
	return true
}

// Each calls f for every child, in no order.
func (t *Table[T]) Each(f func(*Child[T])) {
	slots := *t.slots.Load()
	for i := range slots {
		if child := slots[i].Load(); child != nil && child != t.removed {
			f(child)
		}
	}
}

// rebuild copies the living children to a table with room for as many again.
func (t *Table[T]) rebuild() {
	size := minSlots
	for size < 4*(t.live+1) {
		size *= 2
	}
	slots := make([]atomic.Pointer[Child[T]], size)
	t.Each(func(child *Child[T]) { put(slots, child) })
	t.used = t.live
	t.slots.Store(&slots)
}

func put[T any](slots []atomic.Pointer[Child[T]], child *Child[T]) {
	mask := uint64(len(slots) - 1)
	i := child.hash & mask
	for slots[i].Load() != nil {
		i = (i + 1) & mask
	}
	slots[i].Store(child)
}

// equal compares slices. The removed child has no values; a vector without labels has one child that is never equal
// to it by its hash.
func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
