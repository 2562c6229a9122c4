// Quantiles of several frozen windows together.
//
// Windows may have cells of different widths. Ranks are first found among blocks as wide as the widest cell, then
// within the block by bisection, where a cell's values are taken as evenly spread and repeated values as what they are.
//
// Invariant: as long as all windows hold exact values, the answer is the value of rank ⌈q·n⌉, bit for bit.

package sketch

import (
	"math"
	"slices"
)

// Merge is the union of frozen windows. It can be used again after Reset; its memory is kept.
type Merge struct {
	entries, spare []entry
	// runs are the ends of sorted stretches of entries.
	runs                  []int
	widest                uint8
	count, negInf, posInf uint64
}

// Reset forgets all windows.
func (m *Merge) Reset() {
	*m = Merge{entries: m.entries[:0], spare: m.spare[:0], runs: m.runs[:0]}
}

// Add adds a window.
func (m *Merge) Add(c Chunk) {
	m.count += c.count
	m.negInf += c.negInf
	m.posInf += c.posInf
	if len(c.cells) > 0 {
		m.widest = max(m.widest, c.cellShift)
		m.entries = c.appendCells(m.entries)
		m.runs = append(m.runs, len(m.entries))
	}
	if len(c.atoms) > 0 {
		m.entries = c.appendAtoms(m.entries)
		m.runs = append(m.runs, len(m.entries))
	}
}

// Quantiles sets out[i] to the qs[i]-quantile, NaN without values. qs must ascend.
func (m *Merge) Quantiles(qs, out []float64) {
	m.sort()
	at, before := 0, m.negInf
	finite := m.count - m.posInf
	for i, q := range qs {
		rank := m.rank(q)
		switch {
		case m.count == 0 || math.IsNaN(q):
			out[i] = math.NaN()
			continue
		case rank <= m.negInf:
			out[i] = math.Inf(-1)
			continue
		case rank > finite:
			out[i] = math.Inf(1)
			continue
		}
		for {
			end, n := m.block(at)
			if before+n >= rank {
				out[i] = resolve(m.entries[at:end], m.widest, float64(rank-before))
				break
			}
			at, before = end, before+n
		}
	}
}

// Each calls f for all values: n of them between low and high, which are equal for an exact value.
func (m *Merge) Each(f func(low, high float64, n uint64)) {
	if m.negInf > 0 {
		f(math.Inf(-1), math.Inf(-1), m.negInf)
	}
	for _, e := range m.entries {
		f(valueOf(e.first), valueOf(e.last), uint64(e.n))
	}
	if m.posInf > 0 {
		f(math.Inf(1), math.Inf(1), m.posInf)
	}
}

// rank returns which value in ascending order, counted from 1, is the q-quantile.
func (m *Merge) rank(q float64) uint64 {
	n := float64(m.count)
	return uint64(min(max(math.Ceil(q*n), 1), n))
}

// block returns the end of the block that begins at an entry, and how many values it has.
func (m *Merge) block(at int) (end int, n uint64) {
	number := m.entries[at].first >> m.widest
	for end = at; end < len(m.entries) && m.entries[end].first>>m.widest == number; end++ {
		n += uint64(m.entries[end].n)
	}
	return end, n
}

// resolve returns the value of a rank within one block of keys.
func resolve(block []entry, width uint8, rank float64) float64 {
	// A cell's values stand in the middle of equal parts of it, hence half a rank less.
	rank -= 0.5
	low := block[0].first >> width << width
	high := low | (1<<width - 1)
	for low < high {
		middle := low + (high-low)/2
		if below(block, middle) >= rank {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return valueOf(low)
}

// below returns how many of the block's values are at most the key's.
func below(block []entry, key uint64) float64 {
	sum := 0.0
	for _, e := range block {
		switch {
		case key >= e.last:
			sum += float64(e.n)
		case key >= e.first:
			sum += float64(e.n) * (float64(key-e.first+1) / float64(e.last-e.first+1))
		}
	}
	return sum
}

// sort merges the runs, two at a time.
func (m *Merge) sort() {
	for len(m.runs) > 1 {
		m.spare = m.spare[:0]
		runs := m.runs[:0]
		begin := 0
		for i := 0; i < len(m.runs); i += 2 {
			middle := m.runs[i]
			end := middle
			if i+1 < len(m.runs) {
				end = m.runs[i+1]
			}
			m.spare = mergeRuns(m.spare, m.entries[begin:middle], m.entries[middle:end])
			runs = append(runs, len(m.spare))
			begin = end
		}
		m.runs = runs
		m.entries, m.spare = m.spare, m.entries
	}
}

// mergeRuns appends two sorted runs as one.
func mergeRuns(to, a, b []entry) []entry {
	at := len(to)
	to = slices.Grow(to, len(a)+len(b))[:at+len(a)+len(b)]
	out := to[at:]
	for len(a) > 0 && len(b) > 0 {
		if a[0].first <= b[0].first {
			out[0], a = a[0], a[1:]
		} else {
			out[0], b = b[0], b[1:]
		}
		out = out[1:]
	}
	copy(out, a)
	copy(out, b)
	return to
}
