// Frozen windows: used cells and repeated values as differences to their neighbours, two to three bytes each.
//
// Invariant: a chunk is immutable and in the order of its values; decoding gives what was frozen.

package sketch

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Chunk is a frozen window.
type Chunk struct {
	// count is how many values it had, NaNs excepted.
	count, negInf, posInf uint64
	// cells are pairs of varints, difference of cell number and count, atoms the same of exact keys.
	cells, atoms []byte
	// Values in cells are from first to last, keys that clip the outermost cells.
	first, last uint64
	// Cell numbers are keys without shift bits, atoms' keys without the zeros that all of them end with.
	cellShift, atomShift uint8
}

// atom is a value that was seen n times.
type atom struct {
	key uint64
	n   uint32
}

// Freeze returns the window so far; the sketch stays as it is.
func (s *Sketch) Freeze() Chunk {
	chunk := Chunk{count: s.count, negInf: s.negInf, posInf: s.posInf, cellShift: s.cells.shift}
	first, span := s.tails.between()
	chunk.first, chunk.last = first, first+span
	var scratch [2048]byte
	w := writer{out: scratch[:0]}
	s.cells.each(func(cell uint64, n uint32) { w.put(cell, n) })
	chunk.cells = slices.Clone(w.out)
	list := s.exact()
	var union uint64
	for _, a := range list {
		union |= a.key
	}
	chunk.atomShift = uint8(bits.TrailingZeros64(union | signBit))
	w = writer{out: scratch[:0]}
	for _, a := range list {
		w.put(a.key>>chunk.atomShift, a.n)
	}
	chunk.atoms = slices.Clone(w.out)
	return chunk
}

// exact returns the values that are kept exactly, in order, each once.
func (s *Sketch) exact() []atom {
	if s.atoms != nil {
		list := make([]atom, 0, s.atoms.used)
		for h, key := range s.atoms.keys {
			if key != 0 {
				list = append(list, atom{key, s.atoms.counts[h]})
			}
		}
		slices.SortFunc(list, func(a, b atom) int { return cmp.Compare(a.key, b.key) })
		return list
	}
	var keys []uint64
	if s.tails != nil {
		keys = append(append(keys, s.tails.low[:]...), s.tails.high[:]...)
	}
	for _, v := range s.raw {
		keys = append(keys, keyOf(v))
	}
	slices.Sort(keys)
	var list []atom
	for _, key := range keys {
		if last := len(list) - 1; last >= 0 && list[last].key == key {
			list[last].n++
			continue
		}
		if list == nil {
			list = make([]atom, 0, len(keys))
		}
		list = append(list, atom{key, 1})
	}
	return list
}

// writer appends ascending numbers with counts.
type writer struct {
	out  []byte
	last uint64
}

func (w *writer) put(number uint64, n uint32) {
	w.out = binary.AppendUvarint(w.out, number-w.last)
	w.out = binary.AppendUvarint(w.out, uint64(n))
	w.last = number
}

// middles calls f for all values, n of them at a time, which stand in the middle of their cell unless they are exact.
func (c Chunk) middles(f func(v float64, n uint64)) {
	var m Merge
	m.Add(c)
	m.Each(func(low, high float64, n uint64) {
		if low != high {
			low += (high - low) / 2
		}
		f(low, n)
	})
}

// entry is n values somewhere in the keys from first to last.
type entry struct {
	first, last uint64
	n           uint32
}

// appendCells decodes the cells.
func (c *Chunk) appendCells(to []entry) []entry {
	var number uint64
	for from := c.cells; len(from) > 0; {
		delta, a := binary.Uvarint(from)
		n, b := binary.Uvarint(from[a:])
		from = from[a+b:]
		number += delta
		first := number << c.cellShift
		last := first | (1<<c.cellShift - 1)
		to = append(to, entry{max(first, c.first), min(last, c.last), uint32(n)})
	}
	return to
}

// appendAtoms decodes the values that are exact.
func (c *Chunk) appendAtoms(to []entry) []entry {
	var number uint64
	for from := c.atoms; len(from) > 0; {
		delta, a := binary.Uvarint(from)
		n, b := binary.Uvarint(from[a:])
		from = from[a+b:]
		number += delta
		to = append(to, entry{number << c.atomShift, number << c.atomShift, uint32(n)})
	}
	return to
}
