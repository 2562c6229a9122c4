// What is compared. Names begin with the library.
//
// Invariant: every candidate observes through the interface or type that its users hold.

package main

import (
	vm "github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/summary"
	"narthex.dev/go/switches"
)

var objectives = map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}

func options() prometheus.SummaryOpts {
	return prometheus.SummaryOpts{Name: "latency", Help: "Latency.", Objectives: objectives}
}

var (
	labelNames = []string{"method", "path", "code"}
	method     = "GET"
	path       = "/api/v1/query_range"
	code       = "200"
	sink       float64
)

// nothing is what a call through an interface costs.
type nothing struct{}

//go:noinline
func (nothing) Observe(float64) {}

// held observes through a handle.
func held(o func() prometheus.Observer) func() func([]float64, int) {
	return func() func([]float64, int) {
		observer := o()
		return func(values []float64, n int) {
			for i := range n {
				observer.Observe(values[i%len16(values)])
			}
		}
	}
}

// len16 tells the compiler that there is a power of two of values.
func len16([]float64) int { return 1 << 14 }

func candidates() []candidate {
	list := []candidate{
		{"empty loop", func() func([]float64, int) {
			return func(values []float64, n int) {
				sum := 0.0
				for i := range n {
					sum += values[i%len16(values)]
				}
				if sum < 0 {
					sink = sum
				}
			}
		}},
		{"empty call through an interface", held(func() prometheus.Observer { return nothing{} })},
		{"ours: Summary, held", held(func() prometheus.Observer { return summary.New(options()) })},
		{"client_golang: Summary, held", held(func() prometheus.Observer { return prometheus.NewSummary(options()) })},
		{"client_golang: Histogram, 11 bounds", held(func() prometheus.Observer {
			return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h"})
		})},
		{"client_golang: Histogram, native", held(func() prometheus.Observer {
			return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h", NativeHistogramBucketFactor: 1.1})
		})},
		{"VictoriaMetrics: Summary", func() func([]float64, int) {
			s := vm.NewSet().NewSummaryExt("latency", prometheus.DefMaxAge, []float64{0.5, 0.9, 0.99})
			return func(values []float64, n int) {
				for i := range n {
					s.Update(values[i%len16(values)])
				}
			}
		}},
		{"ours: Summary, no objectives", held(func() prometheus.Observer {
			return summary.New(prometheus.SummaryOpts{Name: "s", Help: "s"})
		})},
		{"client_golang: Summary, no objectives", held(func() prometheus.Observer {
			return prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Help: "s"})
		})},
	}
	return append(append(list, vectors()...), switched()...)
}

// Vectors are held by their own type, as their users do: through an interface the label values would be allocated.

func vectors() []candidate {
	single := labelNames[2:]
	return []candidate{
		{"ours: FastVec, 1 label", func() func([]float64, int) {
			v := summary.NewFastVec(options(), single)
			return func(values []float64, n int) {
				for i := range n {
					v.WithLabelValues(code).Observe(values[i%len16(values)])
				}
			}
		}},
		{"ours: genuine SummaryVec, 1 label", one(func() *prometheus.SummaryVec { return summary.NewVec(options(), single) })},
		{"client_golang: SummaryVec, 1 label", one(func() *prometheus.SummaryVec { return prometheus.NewSummaryVec(options(), single) })},
		{"ours: FastVec, 3 labels", func() func([]float64, int) {
			v := summary.NewFastVec(options(), labelNames)
			return func(values []float64, n int) {
				for i := range n {
					v.WithLabelValues(method, path, code).Observe(values[i%len16(values)])
				}
			}
		}},
		{"ours: genuine SummaryVec, 3 labels", three(func() *prometheus.SummaryVec { return summary.NewVec(options(), labelNames) })},
		{"client_golang: SummaryVec, 3 labels", three(func() *prometheus.SummaryVec { return prometheus.NewSummaryVec(options(), labelNames) })},
		{"client_golang: HistogramVec, 3 labels", func() func([]float64, int) {
			v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Help: "h"}, labelNames)
			return func(values []float64, n int) {
				for i := range n {
					v.WithLabelValues(method, path, code).Observe(values[i%len16(values)])
				}
			}
		}},
	}
}

func one(make func() *prometheus.SummaryVec) func() func([]float64, int) {
	return func() func([]float64, int) {
		v := make()
		return func(values []float64, n int) {
			for i := range n {
				v.WithLabelValues(code).Observe(values[i%len16(values)])
			}
		}
	}
}

func three(make func() *prometheus.SummaryVec) func() func([]float64, int) {
	return func() func([]float64, int) {
		v := make()
		return func(values []float64, n int) {
			for i := range n {
				v.WithLabelValues(method, path, code).Observe(values[i%len16(values)])
			}
		}
	}
}

func switched() []candidate {
	off := func() *switches.Switch {
		s := switches.New("x")
		s.Set(switches.Off)
		return s
	}
	counter := func(s *switches.Switch) func() func([]float64, int) {
		return func() func([]float64, int) {
			c := switches.WrapCounter(s, prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "c"}))
			return func(_ []float64, n int) {
				for range n {
					c.Inc()
				}
			}
		}
	}
	return []candidate{
		{"ours: Summary switched off", held(func() prometheus.Observer {
			return switches.WrapSummary(off(), summary.New(options()))
		})},
		{"ours: Summary switched off, own type", func() func([]float64, int) {
			m := switches.WrapSummary(off(), summary.New(options()))
			return func(values []float64, n int) {
				for i := range n {
					m.Observe(values[i%len16(values)])
				}
			}
		}},
		{"ours: Summary switched on", held(func() prometheus.Observer {
			return switches.WrapSummary(switches.New("x"), summary.New(options()))
		})},
		{"ours: Summary switched to 1/10", held(func() prometheus.Observer {
			s := switches.New("x")
			s.Set(switches.OneIn(10))
			return switches.WrapSummary(s, summary.New(options()))
		})},
		{"ours: Counter switched off", counter(off())},
		{"ours: Counter switched on", counter(switches.New("x"))},
		{"client_golang: Counter", func() func([]float64, int) {
			c := prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "c"})
			return func(_ []float64, n int) {
				for range n {
					c.Inc()
				}
			}
		}},
		{"ours: SummaryVec switched off, 3 labels", func() func([]float64, int) {
			v := switches.WrapSummaryVec(off(), summary.NewVec(options(), labelNames))
			return func(values []float64, n int) {
				for i := range n {
					v.Observe(values[i%len16(values)], method, path, code)
				}
			}
		}},
	}
}
