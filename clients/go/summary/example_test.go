// Examples that run.

package summary_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"narthex.dev/go/summary"
	"narthex.dev/go/switches"
)

func show(reg *prometheus.Registry) {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	fmt.Print(w.Body)
}

// A changed constructor is all.
func ExampleNew() {
	latency := summary.New(prometheus.SummaryOpts{
		Name:       "request_seconds",
		Help:       "Time to answer.",
		Objectives: map[float64]float64{0.5: 0.05, 0.99: 0.001},
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(latency)

	for i := range 200 {
		latency.Observe(float64(i+1) / 4)
	}
	show(reg)
	// Output:
	// # HELP request_seconds Time to answer.
	// # TYPE request_seconds summary
	// request_seconds{quantile="0.5"} 25
	// request_seconds{quantile="0.99"} 49.5
	// request_seconds_sum 5025
	// request_seconds_count 200
}

// Struct fields of type *prometheus.SummaryVec stay as they are.
func ExampleNewVec() {
	var latency *prometheus.SummaryVec = summary.NewVec(
		prometheus.SummaryOpts{Name: "request_seconds", Help: "Time to answer."}, []string{"code"})
	reg := prometheus.NewRegistry()
	reg.MustRegister(latency)

	latency.WithLabelValues("200").Observe(0.5)
	show(reg)
	// Output:
	// # HELP request_seconds Time to answer.
	// # TYPE request_seconds summary
	// request_seconds_sum{code="200"} 0.5
	// request_seconds_count{code="200"} 1
}

// A FastVec's look-ups take no lock.
func ExampleNewFastVec() {
	latency := summary.NewFastVec(prometheus.SummaryOpts{
		Name:       "request_seconds",
		Help:       "Time to answer.",
		Objectives: map[float64]float64{0.9: 0.01},
	}, []string{"method", "code"})
	reg := prometheus.NewRegistry()
	reg.MustRegister(latency)

	for i := range 10 {
		latency.WithLabelValues("GET", "200").Observe(float64(i))
	}
	show(reg)
	// Output:
	// # HELP request_seconds Time to answer.
	// # TYPE request_seconds summary
	// request_seconds{code="200",method="GET",quantile="0.9"} 8
	// request_seconds_sum{code="200",method="GET"} 45
	// request_seconds_count{code="200",method="GET"} 10
}

// A factory registers what it makes, as promauto does.
func ExampleWith() {
	reg := prometheus.NewRegistry()
	latency := summary.With(reg).New(prometheus.SummaryOpts{Name: "job_seconds", Help: "Time of a job."})
	latency.Observe(2)
	show(reg)
	// Output:
	// # HELP job_seconds Time of a job.
	// # TYPE job_seconds summary
	// job_seconds_sum 2
	// job_seconds_count 1
}

// A summary behind a switch counts nothing while it is off, and disappears.
func ExampleOptions_switch() {
	set := switches.NewSet()
	latency := summary.NewWithOptions(summary.Options{
		SummaryOpts: prometheus.SummaryOpts{Name: "job_seconds", Help: "Time of a job."},
		Switch:      set.Switch("job_seconds"),
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(latency, set)

	set.Switch("job_seconds").Set(switches.Off)
	latency.Observe(1)
	show(reg)
	// Output:
	// # HELP metric_switch_state What a metric lets through: 0 nothing, 1 everything, n one observation in n.
	// # TYPE metric_switch_state gauge
	// metric_switch_state{metric="job_seconds"} 0
}
