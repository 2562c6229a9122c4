// Memory of a child, and profiles of goroutines that wait.
//
// Invariant: memory is what the collector finds alive, over many children, divided by them.

package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/summary"
)

// showBlocking lets 64 goroutines observe one summary and look it up, and prints how many events profiles have.
func showBlocking() {
	runtime.GOMAXPROCS(2)
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	ours := summary.NewFastVec(options(), labelNames)
	theirs := prometheus.NewSummaryVec(options(), labelNames)
	for _, each := range []struct {
		name string
		vec  prometheus.ObserverVec
	}{{"ours", ours}, {"client_golang", theirs}} {
		before := waits()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 {
				each.vec.WithLabelValues(method, path, code).(prometheus.Summary).Write(&dto.Metric{})
			}
		}()
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range 200_000 {
					each.vec.WithLabelValues(method, path, code).Observe(float64(i))
				}
			}()
		}
		for range 64 {
			_ = stop
		}
		wg.Wait()
		<-done
		after := waits()
		fmt.Printf("%-14s mutex profile: %d stacks in observing, block profile: %d stacks in observing\n",
			each.name, after[0]-before[0], after[1]-before[1])
	}
	for _, name := range []string{"mutex", "block"} {
		f, err := os.CreateTemp("", "compare-"+name+"-*.pprof")
		if err == nil {
			_ = pprof.Lookup(name).WriteTo(f, 0)
			f.Close()
			fmt.Println(name, "profile:", f.Name())
		}
	}
}

// waits counts stacks in both profiles.
func waits() [2]int {
	return [2]int{pprof.Lookup("mutex").Count(), pprof.Lookup("block").Count()}
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

func alive() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
