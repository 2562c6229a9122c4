// Coarse buckets: where numbers go, and that counts never fall.

package sketch

import (
	"math"
	"math/rand"
	"testing"
)

func TestNumbersAreInTheirCoarseBuckets(t *testing.T) {
	first := math.Ldexp(1, CoarseFirst)
	for v, want := range map[float64]int{
		first / 2: 0, first: 1, -3: 0, 0: 0, math.Inf(-1): 0,
		1: 1 + 24*16, 1.0625: 2 + 24*16, 1.999: 16 + 24*16,
		math.Ldexp(1, 40) - 1: 64 * 16, math.Ldexp(1, 40): 1025, math.Inf(1): 1025, math.MaxFloat64: 1025,
	} {
		if got := coarsePlace(v); got != want {
			t.Errorf("%v: bucket %d, want %d", v, got, want)
		}
	}
}

func TestCoarseCountsOnlyGrow(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var c Coarse
	var s Sketch
	var last [CoarseBuckets]uint64
	n := uint64(0)
	for round := range 400 {
		batch := make([]float64, 50)
		for i := range batch {
			// Wider and wider, so that the cells widen beyond the buckets.
			batch[i] = math.Exp(r.NormFloat64() * float64(round))
		}
		s.Add(batch)
		n += uint64(len(batch))
		total := uint64(0)
		for i, count := range c.Show([]Chunk{s.Freeze()}) {
			if count < last[i] {
				t.Fatalf("round %d: bucket %d fell from %d to %d", round, i, last[i], count)
			}
			last[i] = count
			total += count
		}
		if total != n {
			t.Fatalf("round %d: %d of %d", round, total, n)
		}
		if round%100 == 99 {
			c.Close(s.Freeze())
			s.Reset()
		}
	}
}
