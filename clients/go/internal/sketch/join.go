// Frozen parts of one window put together, as shards freeze on their own.
//
// Invariant: the joined chunks have the same count, and quantiles as coarse as the coarsest of them.

package sketch

import (
	"math"
	"math/bits"
	"slices"
)

// Join returns chunks of the same observations: one, or the given ones when a cell of it could not count them all or
// much resolution would be lost.
func Join(chunks []Chunk) []Chunk {
	var m Merge
	finest := uint8(255)
	for _, c := range chunks {
		m.Add(c)
		if len(c.cells) > 0 {
			finest = min(finest, c.cellShift)
		}
	}
	if m.count > math.MaxUint32 || int(m.widest) > int(finest)+1 {
		return chunks
	}
	m.sort()
	joined := Chunk{count: m.count, negInf: m.negInf, posInf: m.posInf, cellShift: m.widest, first: 1<<64 - 1}
	for _, c := range chunks {
		joined.first, joined.last = min(joined.first, c.first), max(joined.last, c.last)
	}
	var union uint64 = signBit
	for _, e := range m.entries {
		if e.first == e.last {
			union |= e.first
		}
	}
	joined.atomShift = uint8(bits.TrailingZeros64(union))
	var cells, atoms adder
	for _, e := range m.entries {
		if e.first == e.last {
			atoms.add(e.first>>joined.atomShift, e.n)
		} else {
			cells.add(e.first>>m.widest, e.n)
		}
	}
	joined.cells, joined.atoms = cells.bytes(), atoms.bytes()
	return []Chunk{joined}
}

// adder writes ascending numbers and adds up the counts of equal ones.
type adder struct {
	w      writer
	number uint64
	n      uint32
}

func (a *adder) add(number uint64, n uint32) {
	if a.n > 0 && number != a.number {
		a.w.put(a.number, a.n)
		a.n = 0
	}
	a.number = number
	a.n += n
}

func (a *adder) bytes() []byte {
	if a.n > 0 {
		a.w.put(a.number, a.n)
	}
	return slices.Clip(slices.Clone(a.w.out))
}
