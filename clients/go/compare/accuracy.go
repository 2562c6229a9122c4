// Rank and value errors of both libraries on the same values.
//
// Invariant: both get the same values in the same order; errors are against the sorted values, the worst of all seeds.

package main

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/summary"
)

var distributions = []struct {
	name string
	next func(*rand.Rand) float64
}{
	{"uniform", func(r *rand.Rand) float64 { return r.Float64() }},
	{"exponential", func(r *rand.Rand) float64 { return r.ExpFloat64() * 0.02 }},
	{"lognormal", func(r *rand.Rand) float64 { return 0.05 * math.Exp(r.NormFloat64()) }},
	{"N(100, 1)", func(r *rand.Rand) float64 { return 100 + r.NormFloat64() }},
	{"constant", func(*rand.Rand) float64 { return 0.1 }},
	{"whole milliseconds", func(r *rand.Rand) float64 { return math.Round(50*math.Exp(r.NormFloat64())) / 1000 }},
	{"bimodal", func(r *rand.Rand) float64 {
		if r.Intn(10) < 7 {
			return 0.001 * (1 + 0.05*r.NormFloat64())
		}
		return 0.1 * (1 + 0.05*r.NormFloat64())
	}},
	{"heavy tail", func(r *rand.Rand) float64 { return 0.001 * math.Pow(1-r.Float64(), -1/1.1) }},
}

var objectiveSets = []map[float64]float64{
	{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
	{0.98: 0.001},
	{0.01: 0.001, 0.25: 0.01, 0.75: 0.01, 0.95: 0.005},
	{0.5: 0.01, 0.999: 0.0005},
}

// errors are the worst ones seen.
type errors struct {
	// share is the rank error as a share of what is allowed: the objective's, or one observation.
	share, rank, value float64
	outside            int
}

// showAccuracy prints worst errors for each distribution, over sizes, objective sets and seeds: with one goroutine, and
// with four and windows that turn meanwhile.
func showAccuracy() {
	const seeds = 3
	fmt.Printf("%-20s %-14s %12s %10s %10s %9s\n", "distribution", "library", "rank error", "/ allowed", "value", "outside")
	for _, d := range distributions {
		var ours, busy, theirs errors
		for _, n := range []int{300, 2_000, 20_000, 200_000} {
			for _, objectives := range objectiveSets {
				for seed := range int64(seeds) {
					r := rand.New(rand.NewSource(seed))
					values := make([]float64, n)
					for i := range values {
						values[i] = d.next(r)
					}
					sorted := slices.Sorted(slices.Values(values))
					o := prometheus.SummaryOpts{Name: "s", Help: "s", Objectives: objectives}
					ours.add(sorted, objectives, observe(summary.New(o), values))
					theirs.add(sorted, objectives, observe(prometheus.NewSummary(o), values))
					busy.add(sorted, objectives, observeBusily(o, values))
				}
			}
		}
		for _, line := range []struct {
			name string
			e    errors
		}{{"ours", ours}, {"ours, busy", busy}, {"client_golang", theirs}} {
			fmt.Printf("%-20s %-14s %12.5f %10.2f %9.2f%% %9d\n",
				d.name, line.name, line.e.rank, line.e.share, line.e.value*100, line.e.outside)
		}
	}
}

func observe(s prometheus.Summary, values []float64) *dto.Summary {
	for _, v := range values {
		s.Observe(v)
	}
	var m dto.Metric
	_ = s.Write(&m)
	return m.Summary
}

// observeBusily observes from four goroutines while the summary is read and its windows turn.
func observeBusily(o prometheus.SummaryOpts, values []float64) *dto.Summary {
	o.MaxAge, o.AgeBuckets = time.Hour, 60
	var mutex sync.Mutex
	now := time.Unix(0, 0)
	s := summary.NewWithOptions(summary.Options{SummaryOpts: o, Now: func() time.Time {
		mutex.Lock()
		defer mutex.Unlock()
		now = now.Add(61 * time.Second)
		return now
	}})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i, v := range values[len(values)*g/4 : len(values)*(g+1)/4] {
				s.Observe(v)
				if i%(len(values)/40+1) == 0 {
					_ = s.Write(&dto.Metric{})
				}
			}
		})
	}
	wg.Wait()
	var m dto.Metric
	_ = s.Write(&m)
	return m.Summary
}

func (e *errors) add(sorted []float64, objectives map[float64]float64, s *dto.Summary) {
	n := float64(len(sorted))
	for _, each := range s.Quantile {
		q, got := each.GetQuantile(), each.GetValue()
		low := float64(sort.SearchFloat64s(sorted, got)) / n
		high := float64(sort.Search(len(sorted), func(i int) bool { return sorted[i] > got })) / n
		miss := max(low-q, q-high, 0)
		exact := sorted[max(int(math.Ceil(q*n)), 1)-1]
		allowed := max(objectives[q], 1/n) + 1e-9
		e.rank = max(e.rank, miss)
		e.share = max(e.share, miss/allowed)
		e.value = max(e.value, math.Abs(got-exact)/exact)
		if miss > allowed {
			e.outside++
		}
	}
}
