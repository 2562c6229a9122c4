// A process whose metrics are published in a segment.
//
//	go run ./examples/segment /dev/shm/narthex              counts once a millisecond, until it is interrupted
//	go run ./examples/segment DIR vector                    writes the series of clients/vectors/segment.txt, and waits
//	                                                        for the end of its input
//	go run ./examples/segment DIR count LOG                 counts and publishes, and says so in a file
//
// Invariant: a byte of the log stands for something that was published before.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/segment"
	"narthex.dev/go/summary"
)

func main() {
	log.SetFlags(0)
	arguments := os.Args[1:]
	var err error
	switch {
	case len(arguments) == 1:
		err = run(arguments[0])
	case len(arguments) == 2 && arguments[1] == "vector":
		err = vector(arguments[0])
	case len(arguments) == 3 && arguments[1] == "count":
		err = count(arguments[0], arguments[2])
	default:
		log.Fatal("usage: segment DIR [vector | count LOG]")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	requests := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "example_requests_total", Help: "Requests."}, []string{"code"})
	seconds := summary.New(prometheus.SummaryOpts{
		Name: "example_seconds", Help: "Time to answer.",
		Objectives: map[float64]float64{0.5: 0.05, 0.99: 0.001},
	})
	prometheus.MustRegister(requests, seconds)
	publisher, err := segment.Start(segment.Options{Dir: dir, App: "example"})
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	for {
		select {
		case <-interrupted:
			return publisher.Close()
		case <-time.After(time.Millisecond):
			requests.WithLabelValues("200").Inc()
			seconds.Observe(0.001)
		}
	}
}

func vector(dir string) error {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "requests_total", Help: "R."}, []string{"code", "path"})
	size := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "size", Help: "S.", Buckets: []float64{0.5, 1.5}}, []string{"kind"})
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "O."})
	free := prometheus.NewGauge(prometheus.GaugeOpts{Name: "free", Help: "F."})
	registry.MustRegister(requests, size, open, free)
	requests.WithLabelValues("200", "/a\"\\\n").Add(2.5)
	for _, value := range []float64{0.5, 0.75, 9, -1} {
		size.WithLabelValues("b").Observe(value)
	}
	open.Set(-3)
	free.Set(7)
	publisher, err := segment.Start(segment.Options{
		Dir: dir, App: "vector", Worker: "0", Gatherer: registry, Interval: -1,
		Gauges: map[string]segment.Merge{"open": segment.Sum},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return publisher.Close()
}

func count(dir, path string) error {
	written, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	counted := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "pool_requests_total", Help: "Requests."}, []string{"path"})
	seconds := prometheus.NewHistogram(
		prometheus.HistogramOpts{Name: "pool_seconds", Help: "Times.", Buckets: []float64{0.5, 1.5}})
	registry.MustRegister(counted, seconds)
	publisher, err := segment.Start(segment.Options{Dir: dir, App: "go", Gatherer: registry, Interval: -1})
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		counted.WithLabelValues(fmt.Sprint(round % 7)).Inc()
		seconds.Observe(1)
		if err := publisher.Publish(); err != nil {
			return err
		}
		if _, err := written.WriteString("."); err != nil {
			return err
		}
		time.Sleep(500 * time.Microsecond)
	}
}
