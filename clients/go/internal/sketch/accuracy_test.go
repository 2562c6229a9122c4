// Rank errors on distributions that are hard in different ways, within every objective's tolerance.

package sketch

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"sort"
	"testing"
)

// distributions make one value each. Units are seconds, unless said otherwise.
var distributions = []struct {
	name string
	next func(*rand.Rand) float64
}{
	{"uniform", func(r *rand.Rand) float64 { return r.Float64() }},
	{"exponential", func(r *rand.Rand) float64 { return r.ExpFloat64() * 0.02 }},
	{"lognormal", func(r *rand.Rand) float64 { return 0.05 * math.Exp(r.NormFloat64()) }},
	{"narrow normal", func(r *rand.Rand) float64 { return 100 + r.NormFloat64() }},
	{"normal around zero", func(r *rand.Rand) float64 { return r.NormFloat64() }},
	{"constant", func(*rand.Rand) float64 { return 0.1 }},
	{"whole milliseconds", func(r *rand.Rand) float64 { return math.Round(50*math.Exp(r.NormFloat64())) / 1000 }},
	{"bimodal", func(r *rand.Rand) float64 {
		if r.Intn(10) < 7 {
			return 0.001 * (1 + 0.05*r.NormFloat64())
		}
		return 0.1 * (1 + 0.05*r.NormFloat64())
	}},
	{"heavy tail", func(r *rand.Rand) float64 { return 0.001 * math.Pow(1-r.Float64(), -1/1.1) }},
	{"timeouts", func(r *rand.Rand) float64 {
		return min(0.2*math.Exp(r.NormFloat64()), 1)
	}},
	{"mostly zeros", func(r *rand.Rand) float64 {
		if r.Intn(10) < 9 {
			return 0
		}
		return r.ExpFloat64()
	}},
}

var objectiveSets = []map[float64]float64{
	{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
	{0.98: 0.001},
	{0.01: 0.001, 0.25: 0.01, 0.75: 0.01, 0.95: 0.005},
	{0: 0.001, 0.5: 0.01, 0.999: 0.0001, 1: 0.001},
}

// rankError returns by how much of all values a quantile misses.
func rankError(sorted []float64, q, got float64) float64 {
	n := float64(len(sorted))
	low := float64(sort.SearchFloat64s(sorted, got)) / n
	high := float64(sort.Search(len(sorted), func(i int) bool { return sorted[i] > got })) / n
	switch {
	case q < low:
		return low - q
	case q > high:
		return q - high
	default:
		return 0
	}
}

func TestRankErrorsAreWithinObjectives(t *testing.T) {
	sizes := []int{300, 2_000, 20_000, 200_000}
	if testing.Short() {
		sizes = sizes[:3]
	}
	for _, d := range distributions {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s/%d", d.name, n), func(t *testing.T) {
				for seed := range int64(5) {
					checkRanks(t, d.next, n, seed)
				}
			})
		}
	}
}

func checkRanks(t *testing.T, next func(*rand.Rand) float64, n int, seed int64) {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	values := make([]float64, n)
	for i := range values {
		values[i] = next(r)
	}
	var s Sketch
	for batch := range slices.Chunk(values, 256) {
		s.Add(batch)
	}
	var m Merge
	m.Add(s.Freeze())
	sorted := slices.Sorted(slices.Values(values))
	for _, objectives := range objectiveSets {
		for q, tolerance := range objectives {
			var got [1]float64
			m.Quantiles([]float64{q}, got[:])
			// No answer can be nearer than one observation.
			if e := rankError(sorted, q, got[0]); e > max(tolerance, 1/float64(n))+1e-9 {
				t.Errorf("seed %d, q %v: %v misses by %.5f, tolerated %v", seed, q, got[0], e, tolerance)
			}
		}
	}
}
