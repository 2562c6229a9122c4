// Memory of a child, and profiles of goroutines that wait.
//
// Invariant: memory is what the collector finds alive, over many children, divided by them.

package main

import (
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/summary"
)

// showBlocking lets 64 goroutines observe one summary that is read meanwhile, and prints how often and how long they
// waited for each other, by the runtime's mutex and block profiles.
func showBlocking() {
	runtime.GOMAXPROCS(2)
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	ours := summary.NewFastVec(options(), labelNames)
	theirs := prometheus.NewSummaryVec(options(), labelNames)
	// Creating a child takes a lock in both, once.
	ours.WithLabelValues(method, path, code)
	theirs.WithLabelValues(method, path, code)
	for _, each := range []struct {
		name    string
		observe func(float64)
	}{
		{"ours", func(v float64) { ours.WithLabelValues(method, path, code).Observe(v) }},
		{"client_golang", func(v float64) { theirs.WithLabelValues(method, path, code).Observe(v) }},
	} {
		// Waiting for goroutines would itself be in the profiles: they are counted and looked at now and then.
		var running atomic.Int64
		running.Add(64)
		for range 64 {
			go func() {
				defer running.Add(-1)
				for i := range 200_000 {
					each.observe(float64(i))
				}
			}()
		}
		for running.Load() > 0 {
			time.Sleep(time.Millisecond)
			_ = ours.WithLabelValues(method, path, code).(prometheus.Metric).Write(&dto.Metric{})
			_ = theirs.WithLabelValues(method, path, code).(prometheus.Metric).Write(&dto.Metric{})
		}
	}
	for _, library := range []string{"narthex.dev/go/", "client_golang/"} {
		for name, profile := range map[string]func([]runtime.BlockProfileRecord) (int, bool){
			"mutex": runtime.MutexProfile, "block": runtime.BlockProfile} {
			n, cycles := waits(profile, library)
			fmt.Printf("%-16s %s profile: %d waits in Observe or a look-up, %d million cycles\n", library, name, n, cycles/1e6)
		}
	}
}

// waits adds up the profile's records whose stack goes through the library while observing.
func waits(profile func([]runtime.BlockProfileRecord) (int, bool), library string) (count, cycles int64) {
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, _ := profile(records)
	for _, r := range records[:min(n, len(records))] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if strings.Contains(f.Function, library) && !strings.Contains(f.Function, "/compare") &&
				(strings.Contains(f.Function, "Observe") || strings.Contains(f.Function, "WithLabelValues") ||
					strings.Contains(f.Function, "observe")) {
				count += r.Count
				cycles += r.Cycles
				break
			}
			if !more {
				break
			}
		}
	}
	return count, cycles
}

// showMemory prints what a child takes when it is new, with few observations, and in steady state.
func showMemory() {
	clock := time.Unix(0, 0)
	for _, each := range []struct {
		name string
		make func() prometheus.Summary
	}{
		{"ours", func() prometheus.Summary {
			return summary.NewWithOptions(summary.Options{SummaryOpts: options(), Now: func() time.Time { return clock }})
		}},
		{"client_golang", func() prometheus.Summary { return prometheus.NewSummary(options()) }},
	} {
		const children = 400
		before := alive()
		list := make([]prometheus.Summary, children)
		for i := range list {
			list[i] = each.make()
		}
		idle := alive()
		fill := func(n, windows int) {
			for range windows {
				clock = clock.Add(2 * time.Minute)
				for i, s := range list {
					r := rand.New(rand.NewSource(int64(i)))
					for range n {
						s.Observe(r.ExpFloat64() * 0.02)
					}
					_ = s.Write(&dto.Metric{})
				}
			}
		}
		fill(10, 1)
		few := alive()
		fill(20_000, 6)
		steady := alive()
		kb := func(bytes uint64) float64 { return float64(bytes-before) / children / 1024 }
		fmt.Printf("%-14s KB a child: %.2f idle, %.2f after 10 observations, %.2f in steady state\n",
			each.name, kb(idle), kb(few), kb(steady))
		runtime.KeepAlive(list)
	}
}

// showReading prints what writing a child into an exposition costs.
func showReading() {
	fill := func(s prometheus.Summary, n int) {
		r := rand.New(rand.NewSource(1))
		for range n {
			s.Observe(0.05 * math.Exp(r.NormFloat64()))
		}
	}
	for _, windows := range []struct {
		name      string
		n, filled int
	}{{"five windows of 20,000 observations", 20_000, 5}, {"200 observations", 200, 1}, {"idle", 0, 1}} {
		clock := time.Unix(0, 0)
		ours := summary.NewWithOptions(summary.Options{SummaryOpts: options(), Now: func() time.Time { return clock }})
		theirs := prometheus.NewSummary(options())
		for range windows.filled {
			clock = clock.Add(121 * time.Second)
			_ = ours.Write(&dto.Metric{})
			fill(ours, windows.n)
			fill(theirs, windows.n)
		}
		cost := func(s prometheus.Summary) float64 {
			_ = s.Write(&dto.Metric{})
			const times = 3000
			runtime.GC()
			used := usage()
			for range times {
				_ = s.Write(&dto.Metric{})
			}
			return float64(usage()-used) / times / 1000
		}
		fmt.Printf("%-36s CPU us a Write: %.1f ours, %.1f client_golang\n", windows.name, cost(ours), cost(theirs))
	}
}

func alive() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
