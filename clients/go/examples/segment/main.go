// A process whose metrics are published in a segment.
//
//	go run ./examples/segment /dev/shm/narthex              counts once a millisecond, until it is interrupted
//	go run ./examples/segment DIR vector                    writes the series of clients/vectors/segment.txt, and waits
//	                                                        for the end of its input; then it shows its own pages
//	go run ./examples/segment DIR count LOG [SERIES]        counts and publishes, and says so in a file; before that it
//	                                                        makes so many more series and says how many were refused
//
// Invariant: a byte of the log stands for something that was published before, if there was room for it.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"narthex.dev/go/segment"
	"narthex.dev/go/summary"
	"narthex.dev/go/switches"
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
		err = count(arguments[0], arguments[2], "0")
	case len(arguments) == 4 && arguments[1] == "count":
		err = count(arguments[0], arguments[2], arguments[3])
	default:
		log.Fatal("usage: segment DIR [vector | count LOG [SERIES]]")
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
		prometheus.CounterOpts{Name: "requests_total", Help: "Requests: \"quoted\", \\ and\ngröße."}, []string{"code", "path"})
	size := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "size", Help: "Sizes.", Buckets: []float64{0.5, 1.5}}, []string{"kind"})
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "Open."})
	free := prometheus.NewGauge(prometheus.GaugeOpts{Name: "free", Help: "Free."})
	registry.MustRegister(requests, size, open, free)
	requests.WithLabelValues("200", "/a\"\\\n").(prometheus.ExemplarAdder).AddWithExemplar(
		2.5, prometheus.Labels{"trace_id": "a\"\\\nß"})
	requests.WithLabelValues("größe", "日本/🦀").Inc()
	requests.WithLabelValues("", `\n`).Add(3)
	requests.WithLabelValues("\t", `a,b}={"c\"=1`).Add(4)
	sizes := size.WithLabelValues("b")
	for _, value := range []float64{0.5, 9, -1} {
		sizes.Observe(value)
	}
	sizes.(prometheus.ExemplarObserver).ObserveWithExemplar(0.75, prometheus.Labels{"trace_id": "日本"})
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
	options := promhttp.HandlerOpts{EnableOpenMetrics: true}
	for _, accept := range []string{"text/plain", "application/openmetrics-text"} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept", accept)
		page := httptest.NewRecorder()
		promhttp.HandlerFor(registry, options).ServeHTTP(page, request)
		fmt.Printf("%s\n---\n", page.Body)
	}
	return publisher.Close()
}

func count(dir, path, series string) error {
	written, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	more, err := strconv.Atoi(series)
	if err != nil {
		return err
	}
	registry, set := prometheus.NewRegistry(), switches.NewSet()
	counted := switches.WrapCounterVec(set.Switch("pool_requests_total"), prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "pool_requests_total", Help: "Requests."}, []string{"path"}))
	seconds := prometheus.NewHistogram(
		prometheus.HistogramOpts{Name: "pool_seconds", Help: "Times.", Buckets: []float64{0.5, 1.5}})
	filler := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "filler_total", Help: "Takes room."}, []string{"number"})
	failures := prometheus.NewCounter(
		prometheus.CounterOpts{Name: "segment_failures_total", Help: "Segments that could not be created."})
	registry.MustRegister(counted, seconds, filler, failures)
	for path := range 7 {
		counted.Add(0, fmt.Sprint(path))
	}
	// Without a segment the program goes on: its registry is as good as before.
	publisher, err := segment.Start(
		segment.Options{Dir: dir, App: "go", Gatherer: registry, Interval: -1, Switches: set})
	if err != nil {
		log.Print(err)
		failures.Inc()
	}
	for number := range more {
		filler.WithLabelValues(fmt.Sprint(number)).Inc()
	}
	if err := publisher.Publish(); err != nil {
		return err
	}
	refused := publisher.Refused()
	if publisher == nil {
		refused = 1
	}
	fmt.Println("refused", refused)
	for round := 0; ; round++ {
		counted.Inc(fmt.Sprint(round % 7))
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
