// The smallest and largest values of a window, kept exactly.
//
// Objectives far out (the 0.999-quantile of some thousand observations) ask for one of the last few values, which no
// cell can tell from its neighbours.
//
// Invariant: no value in the cells is below every low one or above every high one.

package sketch

import "slices"

// tailSize is how many values are kept at each end: enough for the 0.99-quantile of 2,000 and the 0.999-quantile of
// 20,000 observations.
const tailSize = 24

type tails struct {
	// low and high ascend.
	low, high [tailSize]uint64
}

// newTails takes both ends of sorted keys and returns what lies between.
func newTails(sorted []uint64) (*tails, []uint64) {
	t := &tails{}
	copy(t.low[:], sorted)
	copy(t.high[:], sorted[len(sorted)-tailSize:])
	return t, sorted[tailSize : len(sorted)-tailSize]
}

// between returns the keys that belong to the cells: from first on, no more than span above it. Without tails all do.
func (t *tails) between() (first, span uint64) {
	if t == nil {
		return 0, 1<<64 - 1
	}
	first = t.low[tailSize-1]
	return first, t.high[0] - first
}

// swap takes a key beyond the cells' and returns one for the cells.
func (t *tails) swap(key uint64) uint64 {
	if key < t.low[tailSize-1] {
		out := t.low[tailSize-1]
		at, _ := slices.BinarySearch(t.low[:], key)
		copy(t.low[at+1:], t.low[at:tailSize-1])
		t.low[at] = key
		return out
	}
	out := t.high[0]
	at, _ := slices.BinarySearch(t.high[:], key)
	copy(t.high[:at-1], t.high[1:at])
	t.high[at-1] = key
	return out
}
