// Command compare measures observing with this module, client_golang and VictoriaMetrics/metrics in one run.
//
// Costs are CPU nanoseconds of the whole process (getrusage), so flushes in other goroutines and collections of
// garbage count, and other programs on the machine do not. Candidates take turns in every round, and results are the
// fastest and the median round.
//
// Invariant: within a round every candidate gets the same values in the same number.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// candidate is one way to observe. make returns a function that observes n values as one goroutine does.
type candidate struct {
	name string
	make func() func(values []float64, n int)
}

// setting is under which circumstances candidates are measured.
type setting struct {
	Procs, Goroutines int
	Values            string
}

func (s setting) String() string {
	return fmt.Sprintf("GOMAXPROCS %d, %d goroutines, %s", s.Procs, s.Goroutines, s.Values)
}

// result is one candidate's cost in one setting.
type result struct {
	Setting   setting
	Candidate string
	// CPU nanoseconds an operation, the empty loop included.
	Fastest, Median float64
	// Wall nanoseconds an operation and goroutine set, in the median round.
	Wall float64
}

func main() {
	rounds := flag.Int("rounds", 15, "how often candidates take turns")
	target := flag.Duration("time", 60*time.Millisecond, "CPU time a candidate gets in a round")
	only := flag.String("only", "", "a regular expression of candidates' names")
	out := flag.String("json", "", "a file for all results")
	profile := flag.Bool("blocking", false, "show mutex and block profiles of 64 goroutines instead")
	memory := flag.Bool("memory", false, "show memory of a child instead")
	reading := flag.Bool("reading", false, "show what reading a child costs instead")
	accuracy := flag.Bool("accuracy", false, "show errors of quantiles instead")
	flag.Parse()
	switch {
	case *accuracy:
		showAccuracy()
		return
	case *reading:
		showReading()
		return
	case *profile:
		showBlocking()
		return
	case *memory:
		showMemory()
		return
	}
	settings := []setting{
		{1, 1, "exponential"},
		{2, 2, "exponential"},
		{2, 64, "exponential"},
		{1, 1, "milliseconds"},
		{1, 1, "zeros"},
		{2, 64, "zeros"},
	}
	chosen := regexp.MustCompile(*only)
	var all []result
	for _, s := range settings {
		list := slices.DeleteFunc(candidates(), func(c candidate) bool { return !chosen.MatchString(c.name) })
		results := measure(s, list, *rounds, *target)
		show(results)
		all = append(all, results...)
	}
	if *out != "" {
		text, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile(*out, append(text, '\n'), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// valuesOf returns values in no order, a power of two of them.
func valuesOf(kind string) []float64 {
	values := make([]float64, 1<<14)
	if kind == "zeros" {
		return values
	}
	r := rand.New(rand.NewSource(1))
	for i := range values {
		values[i] = r.ExpFloat64() * 0.02
		if kind == "milliseconds" {
			values[i] = math.Ceil(values[i]*1000) / 1000
		}
	}
	return values
}

func measure(s setting, list []candidate, rounds int, target time.Duration) []result {
	runtime.GOMAXPROCS(s.Procs)
	values := valuesOf(s.Values)
	runs := make([]func([]float64, int), len(list))
	counts := make([]int, len(list))
	for i, c := range list {
		runs[i] = c.make()
		counts[i] = calibrate(runs[i], s, values, target)
	}
	cpu := make([][]float64, len(list))
	wall := make([][]float64, len(list))
	for range rounds {
		for i := range list {
			c, w := once(runs[i], s, values, counts[i])
			cpu[i] = append(cpu[i], c)
			wall[i] = append(wall[i], w)
		}
	}
	var results []result
	for i, c := range list {
		slices.Sort(cpu[i])
		slices.Sort(wall[i])
		results = append(results, result{s, c.name, cpu[i][0], cpu[i][rounds/2], wall[i][rounds/2]})
	}
	return results
}

// calibrate returns how many operations a goroutine does in the time.
func calibrate(run func([]float64, int), s setting, values []float64, target time.Duration) int {
	n := 2000
	for {
		cpu, _ := once(run, s, values, n)
		if took := cpu * float64(n*s.Goroutines); took > float64(target)/4 {
			return max(int(float64(target)/(cpu*float64(s.Goroutines))), 1000)
		}
		n *= 4
	}
}

// once runs all goroutines and returns CPU and wall nanoseconds an operation.
func once(run func([]float64, int), s setting, values []float64, n int) (cpu, wall float64) {
	runtime.GC()
	var wg sync.WaitGroup
	began, used := time.Now(), usage()
	for range s.Goroutines {
		wg.Go(func() { run(values, n) })
	}
	wg.Wait()
	ops := float64(n * s.Goroutines)
	return float64(usage()-used) / ops, float64(time.Since(began)) / ops
}

func usage() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func show(results []result) {
	if len(results) == 0 {
		return
	}
	empty := math.NaN()
	for _, r := range results {
		if r.Candidate == "empty loop" {
			empty = r.Median
		}
	}
	fmt.Printf("\n%s\n%-44s %9s %9s %9s %9s\n", results[0].Setting, "CPU ns/op", "fastest", "median", "net", "wall")
	for _, r := range results {
		fmt.Printf("%-44s %9.2f %9.2f %9.2f %9.2f\n", r.Candidate, r.Fastest, r.Median, r.Median-empty, r.Wall)
	}
	for _, pair := range [][2]string{{"client_golang: Summary", "ours: Summary"},
		{"client_golang: SummaryVec, 3 labels", "ours: FastVec, 3 labels"}} {
		at := func(name string) float64 {
			i := slices.IndexFunc(results, func(r result) bool { return strings.HasPrefix(r.Candidate, name) })
			if i < 0 {
				return math.NaN()
			}
			return results[i].Median
		}
		fmt.Printf("ratio %s / %s: %.0f\n", pair[0], pair[1], at(pair[0])/at(pair[1]))
	}
}
