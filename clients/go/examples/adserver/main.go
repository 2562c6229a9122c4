// Command adserver shows what metrics cost a service that has many of them.
//
// A request goes through ten stages; each does about a microsecond of work and records three summaries and two
// histograms, as an ad server's pipeline did whose profile was mostly metrics. The same pipeline runs with different
// metrics under the same load, in turns:
//
//	go run ./examples/adserver -rate 4000
//
// Latencies are counted from when a request should have started, so a stall delays all requests behind it.
//
// Invariant: between variants nothing differs but what records.
package main

import (
	"flag"
	"fmt"
	"hash/fnv"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	stages  = 10
	workers = 64
)

func main() {
	rate := flag.Int("rate", 4000, "requests a second under constant load")
	length := flag.Duration("time", 4*time.Second, "how long each measurement takes")
	rounds := flag.Int("rounds", 3, "how often the variants take turns")
	scrape := flag.Duration("scrape", time.Second, "interval between scrapes")
	flag.Parse()
	list := variants()
	results := make([][]outcome, len(list))
	for range *rounds {
		for i, v := range list {
			p := newPipeline(v)
			results[i] = append(results[i], p.measure(*rate, *length, *scrape))
		}
	}
	fmt.Printf("GOMAXPROCS %d, %d requests/s, medians of %d rounds of %v\n",
		runtime.GOMAXPROCS(0), *rate, *rounds, *length)
	fmt.Printf("%-34s %14s %12s %9s %9s %9s\n", "metrics", "CPU us/request", "max rate/s", "p50 us", "p99 us", "p99.9 us")
	for i, v := range list {
		m := medians(results[i])
		fmt.Printf("%-34s %14.1f %12.0f %9.0f %9.0f %9.0f\n", v.name, m.cpu, m.maxRate, m.p50, m.p99, m.p999)
	}
}

// outcome is one variant's measurement; times are in microseconds.
type outcome struct{ cpu, maxRate, p50, p99, p999 float64 }

func medians(list []outcome) outcome {
	of := func(get func(outcome) float64) float64 {
		values := make([]float64, len(list))
		for i, o := range list {
			values[i] = get(o)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return outcome{
		of(func(o outcome) float64 { return o.cpu }),
		of(func(o outcome) float64 { return o.maxRate }),
		of(func(o outcome) float64 { return o.p50 }),
		of(func(o outcome) float64 { return o.p99 }),
		of(func(o outcome) float64 { return o.p999 }),
	}
}

// pipeline is the service.
type pipeline struct {
	registry *prometheus.Registry
	record   recorder
	payload  []byte
	sink     atomic.Uint64
}

func newPipeline(v variant) *pipeline {
	p := &pipeline{registry: prometheus.NewRegistry(), payload: make([]byte, 1024)}
	p.record = v.make(p.registry)
	return p
}

// serve answers one request.
func (p *pipeline) serve() {
	began := time.Now()
	for stage := range stages {
		h := fnv.New64a()
		h.Write(p.payload)
		p.sink.Store(h.Sum64())
		now := time.Now()
		p.record(stageNames[stage], now.Sub(began).Seconds(), len(p.payload)*(stage+1))
		began = now
	}
}

// measure puts the pipeline under constant load, then under as much as it takes.
func (p *pipeline) measure(rate int, length, scrape time.Duration) outcome {
	for range 2000 { // children, buffers, code
		p.serve()
	}
	runtime.GC()
	stop := p.scrapeEvery(scrape)
	defer stop()
	used := cpuTime()
	latencies := p.constantLoad(rate, length)
	cpu := float64((cpuTime() - used).Microseconds()) / float64(len(latencies))
	slices.Sort(latencies)
	at := func(q float64) float64 { return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) }
	return outcome{cpu: cpu, p50: at(0.5), p99: at(0.99), p999: at(0.999), maxRate: p.fullLoad(length / 2)}
}

// constantLoad starts requests on schedule and returns how long after their intended start they ended.
func (p *pipeline) constantLoad(rate int, length time.Duration) []time.Duration {
	total := int(length.Seconds() * float64(rate))
	latencies := make([]time.Duration, total)
	due := make(chan int, total)
	start := time.Now()
	intended := func(i int) time.Duration { return time.Duration(i) * time.Second / time.Duration(rate) }
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range due {
				p.serve()
				latencies[i] = time.Since(start) - intended(i)
			}
		})
	}
	for i := 0; i < total; {
		for ; i < total && intended(i) <= time.Since(start); i++ {
			due <- i
		}
		time.Sleep(200 * time.Microsecond)
	}
	close(due)
	wg.Wait()
	return latencies
}

// fullLoad returns how many requests a second all workers together finish.
func (p *pipeline) fullLoad(length time.Duration) float64 {
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range workers {
		wg.Go(func() {
			n := int64(0)
			for time.Since(start) < length {
				p.serve()
				n++
			}
			done.Add(n)
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// scrapeEvery renders the exposition again and again, as a Prometheus server would make it.
func (p *pipeline) scrapeEvery(interval time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	handler := promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
