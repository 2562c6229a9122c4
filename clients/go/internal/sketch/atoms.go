// Exact counts of values that repeat: whole milliseconds, constants, timeouts.
//
// Invariant: at most maxAtoms values are kept; light ones move to the cells, heavy ones stay exact.

package sketch

import "slices"

const (
	atomBits  = 9
	atomSlots = 1 << atomBits
	maxAtoms  = atomSlots / 2
)

type atoms struct {
	// keys is a hash table; 0 is the key of a NaN and marks a free slot.
	keys   [atomSlots]uint64
	counts [atomSlots]uint32
	used   int
	misses uint32
	// admit is one less than a power of two: one in admit+1 values that are not here yet is taken up.
	admit uint32
}

const (
	// maxAdmit is where values that hardly repeat end up.
	maxAdmit = 31
	// lightShare: a value that is less than this part of all may as well be in a cell.
	lightShare = 2048
)

// add counts a value that is here or taken up; false when it belongs to the cells.
func (a *atoms) add(key uint64) bool {
	h := key * hashFactor >> (64 - atomBits)
	for a.keys[h] != key && a.keys[h] != 0 {
		h = (h + 1) % atomSlots
	}
	if a.keys[h] == key {
		a.counts[h]++
		return true
	}
	a.misses++
	if a.misses&a.admit != 0 || a.used == maxAtoms {
		return false
	}
	a.keys[h], a.counts[h] = key, 1
	a.used++
	return true
}

// sweep moves light values to the cells, at least half of all. It returns false when even the heaviest of count values
// is light: then the store is empty and of no use.
func (a *atoms) sweep(to *cells, count uint64) bool {
	limit := uint32(1)
	for a.lighter(limit) < a.used/2 {
		limit *= 2
	}
	heaviest := slices.Max(a.counts[:])
	useless := uint64(heaviest) <= count/lightShare
	old := *a
	*a = atoms{misses: old.misses, admit: old.admit}
	for h, key := range old.keys {
		n := old.counts[h]
		switch {
		case key == 0:
		case n <= limit || useless:
			to.addOne(key, n)
		default:
			a.put(key, n)
		}
	}
	if a.used > maxAtoms/4 {
		a.admit /= 2
	} else {
		a.admit = min(2*a.admit+1, maxAdmit)
	}
	return !useless
}

// lighter returns how many values were seen at most limit times.
func (a *atoms) lighter(limit uint32) int {
	n := 0
	for _, count := range a.counts {
		if count-1 < limit { // free slots wrap around
			n++
		}
	}
	return n
}

func (a *atoms) put(key uint64, n uint32) {
	h := key * hashFactor >> (64 - atomBits)
	for a.keys[h] != 0 {
		h = (h + 1) % atomSlots
	}
	a.keys[h], a.counts[h] = key, n
	a.used++
}
