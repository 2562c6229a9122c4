// Keys, stores, freezing and joining, compared with sorted values.

package sketch

import (
	"math"
	"math/rand"
	"slices"
	"testing"
)

func addAll(s *Sketch, values []float64) {
	for batch := range slices.Chunk(values, 100) {
		s.Add(batch)
	}
}

func quantilesOf(chunks []Chunk, qs ...float64) []float64 {
	var m Merge
	for _, c := range chunks {
		m.Add(c)
	}
	out := make([]float64, len(qs))
	m.Quantiles(qs, out)
	return out
}

func TestKeysOrderLikeValues(t *testing.T) {
	values := []float64{math.Inf(-1), -math.MaxFloat64, -2, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 1, math.Nextafter(1, 2), 2, math.MaxFloat64, math.Inf(1)}
	for i, v := range values {
		if valueOf(keyOf(v)) != v {
			t.Errorf("%v comes back as %v", v, valueOf(keyOf(v)))
		}
		if i > 0 && keyOf(values[i-1]) >= keyOf(v) {
			t.Errorf("%v is not after %v", v, values[i-1])
		}
	}
	if keyOf(math.Copysign(0, -1)) != keyOf(0) {
		t.Error("two zeros")
	}
}

func TestFewValuesAreExact(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	values := make([]float64, RawMax)
	for i := range values {
		values[i] = r.NormFloat64()
	}
	var s Sketch
	addAll(&s, values)
	slices.Sort(values)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 1} {
		want := values[max(int(math.Ceil(q*RawMax)), 1)-1]
		if got := quantilesOf([]Chunk{s.Freeze()}, q)[0]; got != want {
			t.Errorf("q %v: %v, want %v", q, got, want)
		}
	}
}

func TestSpecialValuesHaveTheirPlace(t *testing.T) {
	for _, n := range []int{0, 10_000} { // values as they are, and cells
		var s Sketch
		for i := range n {
			s.Add([]float64{float64(i%500) * 1.001})
		}
		for range 2*n + 10 {
			s.Add([]float64{math.Inf(-1), math.NaN(), math.Inf(1), math.MaxFloat64})
		}
		got := quantilesOf([]Chunk{s.Freeze()}, 0, 1, math.NaN())
		if !math.IsInf(got[0], -1) || !math.IsInf(got[1], 1) || !math.IsNaN(got[2]) {
			t.Errorf("n %d: %v", n, got)
		}
		if want := uint64(n + 3*(2*n+10)); s.Count() != want {
			t.Errorf("n %d: %d values, want %d without NaNs", n, s.Count(), want)
		}
	}
	if got := quantilesOf(nil, 0.5)[0]; !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

// hostile values: all floats, so that cells must be as wide as they get.
func hostile(r *rand.Rand) float64 {
	for {
		if v := math.Float64frombits(r.Uint64()); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
}

func TestMemoryIsBoundedWhateverComes(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for name, next := range map[string]func(i int) float64{
		"any float":  func(int) float64 { return hostile(r) },
		"ascending":  func(i int) float64 { return float64(i) },
		"descending": func(i int) float64 { return -float64(i) },
		"pairs":      func(i int) float64 { return hostilePair(r, i) },
	} {
		var s Sketch
		for i := range 50_000 {
			s.Add([]float64{next(i)})
		}
		c := s.Freeze()
		if s.cells.index.used > maxPages || len(s.cells.counts) > maxPages*pageCells {
			t.Errorf("%s: %d pages", name, s.cells.index.used)
		}
		if bytes := cap(c.cells) + cap(c.atoms); bytes > 16<<10 {
			t.Errorf("%s: a frozen window of %d bytes", name, bytes)
		}
		if total(c) != 50_000 || s.Count() != 50_000 {
			t.Errorf("%s: %d values frozen, %d counted", name, total(c), s.Count())
		}
	}
}

// hostilePair repeats values just often enough to look like ties.
func hostilePair(r *rand.Rand, i int) float64 {
	if i%2 == 0 {
		return hostile(r)
	}
	return float64(i / 4 % 1000)
}

func total(c Chunk) uint64 {
	var m Merge
	m.Add(c)
	n := uint64(0)
	m.Each(func(low, high float64, count uint64) {
		if low > high || count == 0 {
			panic("an empty entry")
		}
		n += count
	})
	return n
}

func TestWindowsOfDifferentWidthsMerge(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	var all []float64
	var chunks []Chunk
	for _, spread := range []float64{1e-6, 1, 3, 0} {
		var s Sketch
		values := make([]float64, 5000)
		for i := range values {
			values[i] = 10 * math.Exp(spread*r.NormFloat64())
		}
		addAll(&s, values)
		chunks = append(chunks, s.Freeze())
		all = append(all, values...)
	}
	slices.Sort(all)
	qs := []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99}
	check := func(what string, chunks []Chunk) {
		for i, got := range quantilesOf(chunks, qs...) {
			if e := rankError(all, qs[i], got); e > 0.003 {
				t.Errorf("%s, q %v: %v misses by %v", what, qs[i], got, e)
			}
		}
	}
	check("merged", chunks)
	if kept := Join(chunks); len(kept) != len(chunks) {
		t.Errorf("windows of very different widths are joined to %d", len(kept))
	}
}

func TestShardsOfAWindowJoin(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	var all []float64
	var chunks []Chunk
	for _, n := range []int{50_000, 40_000, 100} {
		var s Sketch
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(r.NormFloat64())
		}
		addAll(&s, values)
		s.Add([]float64{math.Inf(1)})
		chunks = append(chunks, s.Freeze())
		all = append(all, append(values, math.Inf(1))...)
	}
	joined := Join(chunks)
	if len(joined) != 1 || joined[0].count != uint64(len(all)) || total(joined[0]) != uint64(len(all)) {
		t.Fatalf("%d chunks of %d values", len(joined), joined[0].count)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
		if e := rankError(all, q, quantilesOf(joined, q)[0]); e > 0.001 {
			t.Errorf("q %v misses by %v", q, e)
		}
	}
}

func TestAWindowBeginsExactlyAgain(t *testing.T) {
	var s Sketch
	for i := range 10_000 {
		s.Add([]float64{float64(i) * 1.1})
	}
	s.Reset()
	s.Add([]float64{3, 1, 2})
	if got := quantilesOf([]Chunk{s.Freeze()}, 0.5)[0]; got != 2 || s.Count() != 3 {
		t.Errorf("median %v of %d", got, s.Count())
	}
}

func TestTiesThatEndGoToCells(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	var s Sketch
	for range RawMax / 4 {
		s.Add([]float64{1, 1, 1, 1})
	}
	if s.Add([]float64{1}); s.atoms == nil {
		t.Fatal("a constant is not kept exactly")
	}
	const further = 1_200_000
	batch := make([]float64, 200)
	for range further / len(batch) {
		for i := range batch {
			batch[i] = r.Float64()
		}
		s.Add(batch)
	}
	if s.atoms != nil {
		t.Error("values that do not repeat are still looked for")
	}
	if n := total(s.Freeze()); n != further+RawMax+1 {
		t.Errorf("%d values", n)
	}
}

func TestNativeBuckets(t *testing.T) {
	for schema := int8(-4); schema <= 6; schema++ {
		h := NewNative(schema)
		for _, v := range []float64{1e-30, 0.001, 0.5, 1, 1.0001, 2, 3, 1000, 1e30} {
			i := h.index(v)
			if schema >= 0 && (v > h.bound(i) || v <= h.bound(i-1)) {
				t.Errorf("schema %d: %v in bucket %d, (%v, %v]", schema, v, i, h.bound(i-1), h.bound(i))
			}
			base := math.Exp2(math.Exp2(-float64(schema)))
			if lower, upper := math.Pow(base, float64(i-1)), math.Pow(base, float64(i)); v > upper*(1+1e-9) || v < lower*(1-1e-9) {
				t.Errorf("schema %d: %v in bucket %d, (%v, %v]", schema, v, i, lower, upper)
			}
		}
	}
	h := NewNative(3)
	var s Sketch
	s.Add([]float64{0, 1e-40, -1, 2, math.Inf(1), math.Inf(-1), math.NaN()})
	h.Add(s.Freeze())
	if h.Zero != 2 || h.Negative[h.index(1)] != 1 || h.Positive[h.index(2)] != 1 || len(h.Positive) != 2 || len(h.Negative) != 2 {
		t.Errorf("%+v", h)
	}
}
