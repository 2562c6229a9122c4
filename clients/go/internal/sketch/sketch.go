// The sketch itself: which of its three stores a value goes to.
//
// Invariant: Count is the number of values added since the last Reset, NaNs excepted, and each is in exactly one store.

package sketch

import (
	"math"
	"slices"
)

const (
	// RawMax is how many values a window keeps as they are; up to here quantiles are exact.
	RawMax = 512
	// A sample of raw values with at least one repetition in tieShare values gets a store for repeating values.
	tieShare = 32
)

// Sketch counts one window's observations. The zero value is empty and ready. It is not safe for concurrent use.
type Sketch struct {
	// raw holds the window's values until there are RawMax of them, nil afterwards.
	raw   []float64
	cells cells
	// tails are kept beside the cells, atoms instead of them.
	tails *tails
	atoms *atoms
	// paged says that raw is over.
	paged          bool
	negInf, posInf uint64
	count          uint64
}

// Add counts values and returns their sum. NaNs have no rank and are left out of the count.
func (s *Sketch) Add(values []float64) (sum float64) {
	sum = Sum(values)
	if sum-sum != 0 {
		// Something is not finite, or the sum is not.
		s.addCarefully(values)
		return sum
	}
	s.addFinite(values)
	return sum
}

// Sum adds values up, several at a time: each addition would otherwise wait for the one before.
func Sum(values []float64) float64 {
	var a, b, c, d float64
	for len(values) >= 8 {
		a += values[0] + values[4]
		b += values[1] + values[5]
		c += values[2] + values[6]
		d += values[3] + values[7]
		values = values[8:]
	}
	sum := (a + b) + (c + d)
	for _, v := range values {
		sum += v
	}
	return sum
}

func (s *Sketch) addFinite(values []float64) {
	if !s.paged {
		values = s.addRaw(values)
	}
	switch {
	case len(values) == 0:
	case s.atoms != nil:
		s.addTied(values)
	default:
		s.addCells(values)
	}
}

// Count returns how many values the window has.
func (s *Sketch) Count() uint64 { return s.count }

// Reset begins the next window: values first, as its data may look different.
func (s *Sketch) Reset() {
	s.cells.reset()
	*s = Sketch{cells: s.cells}
}

// addRaw keeps values while there is room and returns the rest.
func (s *Sketch) addRaw(values []float64) []float64 {
	for i, v := range values {
		if len(s.raw) == RawMax {
			s.leaveRaw()
			return values[i:]
		}
		if len(s.raw) == cap(s.raw) {
			s.raw = slices.Grow(s.raw, min(max(2*len(s.raw), 8), RawMax)-len(s.raw))
		}
		s.raw = append(s.raw, v)
		s.count++
	}
	return nil
}

// leaveRaw chooses cell width and store from the values seen so far and moves them there.
func (s *Sketch) leaveRaw() {
	keys := make([]uint64, len(s.raw))
	for i, v := range s.raw {
		keys[i] = keyOf(v)
	}
	slices.Sort(keys)
	repeated := 0
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			repeated++
		}
	}
	s.cells.fit(keys)
	s.paged = true
	if repeated*tieShare >= len(keys) {
		s.atoms = &atoms{}
		s.count -= uint64(len(s.raw))
		s.addTied(s.raw)
	} else {
		s.tails, keys = newTails(keys)
		for _, key := range keys {
			s.cells.addOne(key, 1)
		}
	}
	s.raw = nil
}

// addCells counts values in cells alone.
func (s *Sketch) addCells(values []float64) {
	s.cells.addAll(values, s.tails)
	s.count += uint64(len(values))
}

// addTied counts values among the repeating ones, and in cells those that do not repeat.
func (s *Sketch) addTied(values []float64) {
	var room [64]float64
	for len(values) > 0 {
		rest := room[:0]
		batch := values[:min(len(room), len(values))]
		values = values[len(batch):]
		for _, v := range batch {
			if !s.atoms.add(keyOf(v)) {
				rest = append(rest, v)
			}
		}
		s.cells.addAll(rest, nil)
		s.count += uint64(len(batch))
		if s.atoms.used == maxAtoms && !s.atoms.sweep(&s.cells, s.count) {
			s.atoms = nil
			s.addCells(values)
			return
		}
	}
}

// addCarefully counts values of which some may be infinities or NaNs.
func (s *Sketch) addCarefully(values []float64) {
	finite := make([]float64, 0, len(values))
	for _, v := range values {
		switch {
		case math.IsInf(v, 1):
			s.posInf++
			s.count++
		case math.IsInf(v, -1):
			s.negInf++
			s.count++
		case !math.IsNaN(v):
			finite = append(finite, v)
		}
	}
	s.addFinite(finite)
}
