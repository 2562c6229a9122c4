// The same metrics made in different ways.
//
// Invariant: every variant registers five families with one label and records each of them once a stage.

package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/summary"
	"narthex.dev/go/switches"
)

// recorder records one stage.
type recorder func(stage string, seconds float64, bytes int)

type variant struct {
	name string
	make func(prometheus.Registerer) recorder
}

var (
	stageNames = [stages]string{"parse", "user", "geo", "segments", "candidates", "budget", "score", "auction", "render", "log"}
	stageLabel = []string{"stage"}
	objectives = map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}
)

func variants() []variant {
	return []variant{
		{"none", func(prometheus.Registerer) recorder { return func(string, float64, int) {} }},
		{"client_golang", func(r prometheus.Registerer) recorder {
			return withGenuine(r, prometheus.NewSummaryVec)
		}},
		{"ours, client_golang's SummaryVec", func(r prometheus.Registerer) recorder {
			return withGenuine(r, summary.NewVec)
		}},
		{"ours, FastVec", func(r prometheus.Registerer) recorder {
			a, b, c := fast(r, "stage_seconds", nil), fast(r, "stage_wait_seconds", nil), fast(r, "stage_items", nil)
			h, i := histogram("stage_bytes"), histogram("stage_cost_seconds")
			r.MustRegister(h, i)
			return func(stage string, seconds float64, bytes int) {
				a.WithLabelValues(stage).Observe(seconds)
				b.WithLabelValues(stage).Observe(seconds / 3)
				c.WithLabelValues(stage).Observe(float64(bytes & 255))
				h.WithLabelValues(stage).Observe(float64(bytes))
				i.WithLabelValues(stage).Observe(seconds)
			}
		}},
		{"ours, FastVec, all switched off", func(r prometheus.Registerer) recorder {
			s := switches.New("stages", switches.NoKeptHandles())
			s.Set(switches.Off)
			a, b, c := fast(r, "stage_seconds", s), fast(r, "stage_wait_seconds", s), fast(r, "stage_items", s)
			h := switches.WrapHistogramVec(s, histogram("stage_bytes"))
			i := switches.WrapHistogramVec(s, histogram("stage_cost_seconds"))
			r.MustRegister(h, i)
			return func(stage string, seconds float64, bytes int) {
				a.Observe(seconds, stage)
				b.Observe(seconds/3, stage)
				c.Observe(float64(bytes&255), stage)
				h.Observe(float64(bytes), stage)
				i.Observe(seconds, stage)
			}
		}},
	}
}

// withGenuine records by vectors of client_golang's type, whoever made them.
func withGenuine(r prometheus.Registerer, newVec func(prometheus.SummaryOpts, []string) *prometheus.SummaryVec) recorder {
	a := newVec(options("stage_seconds"), stageLabel)
	b := newVec(options("stage_wait_seconds"), stageLabel)
	c := newVec(options("stage_items"), stageLabel)
	h, i := histogram("stage_bytes"), histogram("stage_cost_seconds")
	r.MustRegister(a, b, c, h, i)
	return func(stage string, seconds float64, bytes int) {
		a.WithLabelValues(stage).Observe(seconds)
		b.WithLabelValues(stage).Observe(seconds / 3)
		c.WithLabelValues(stage).Observe(float64(bytes & 255))
		h.WithLabelValues(stage).Observe(float64(bytes))
		i.WithLabelValues(stage).Observe(seconds)
	}
}

func fast(r prometheus.Registerer, name string, s *switches.Switch) *summary.FastVec {
	v := summary.NewFastVecWithOptions(summary.Options{SummaryOpts: options(name), Switch: s},
		prometheus.UnconstrainedLabels(stageLabel))
	r.MustRegister(v)
	return v
}

func options(name string) prometheus.SummaryOpts {
	return prometheus.SummaryOpts{Name: name, Help: "What a stage took.", Objectives: objectives}
}

func histogram(name string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: "What a stage took."}, stageLabel)
}
