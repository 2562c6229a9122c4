// Switched vectors. Each contains a vector of client_golang's own type, whose children are switched.
//
// Invariant: a child is created once for each set of label values, wrapped, and found by client_golang's own look-up.

package switches

import "github.com/prometheus/client_golang/prometheus"

// CounterVec is a vector of switched counters.
type CounterVec struct {
	*prometheus.CounterVec
	s *Switch
}

// WrapCounterVec puts a vector behind a switch. The vector must not be curried or used on its own afterwards; children
// it has already are not taken over.
func WrapCounterVec(s *Switch, v *prometheus.CounterVec) *CounterVec {
	return &CounterVec{&prometheus.CounterVec{MetricVec: rewrap(v.MetricVec, s, WrapCounter)}, s}
}

// Inc adds one to the child with the values; one load while off.
func (v *CounterVec) Inc(values ...string) {
	if v.s.State() != Off {
		v.CounterVec.WithLabelValues(values...).Inc()
	}
}

// Add adds to the child with the label values; one load while off.
func (v *CounterVec) Add(x float64, values ...string) {
	if v.s.State() != Off {
		v.CounterVec.WithLabelValues(values...).Add(x)
	}
}

// WithLabelValues works as on prometheus.CounterVec; see NoKeptHandles.
func (v *CounterVec) WithLabelValues(values ...string) prometheus.Counter {
	if v.s.discards() {
		return discardedCounter
	}
	return v.CounterVec.WithLabelValues(values...)
}

// With works as on prometheus.CounterVec; see NoKeptHandles.
func (v *CounterVec) With(labels prometheus.Labels) prometheus.Counter {
	if v.s.discards() {
		return discardedCounter
	}
	return v.CounterVec.With(labels)
}

// Collect implements prometheus.Collector.
func (v *CounterVec) Collect(ch chan<- prometheus.Metric) { collect(v.s, v.MetricVec, ch) }

// GaugeVec is a vector of switched gauges.
type GaugeVec struct {
	*prometheus.GaugeVec
	s *Switch
}

// WrapGaugeVec puts a vector behind a switch; see WrapCounterVec.
func WrapGaugeVec(s *Switch, v *prometheus.GaugeVec) *GaugeVec {
	return &GaugeVec{&prometheus.GaugeVec{MetricVec: rewrap(v.MetricVec, s, WrapGauge)}, s}
}

// Set sets the child with the label values; one load while off.
func (v *GaugeVec) Set(x float64, values ...string) {
	if v.s.State() != Off {
		v.GaugeVec.WithLabelValues(values...).Set(x)
	}
}

// Add adds to the child with the label values; one load while off, unless the switch keeps deltas.
func (v *GaugeVec) Add(x float64, values ...string) {
	if v.s.State() != Off || v.s.keepDeltas {
		v.GaugeVec.WithLabelValues(values...).Add(x)
	}
}

// WithLabelValues works as on prometheus.GaugeVec; see NoKeptHandles.
func (v *GaugeVec) WithLabelValues(values ...string) prometheus.Gauge {
	if v.s.discards() && !v.s.keepDeltas {
		return discardedGauge
	}
	return v.GaugeVec.WithLabelValues(values...)
}

// With works as on prometheus.GaugeVec; see NoKeptHandles.
func (v *GaugeVec) With(labels prometheus.Labels) prometheus.Gauge {
	if v.s.discards() && !v.s.keepDeltas {
		return discardedGauge
	}
	return v.GaugeVec.With(labels)
}

// Collect implements prometheus.Collector.
func (v *GaugeVec) Collect(ch chan<- prometheus.Metric) { collect(v.s, v.MetricVec, ch) }

// HistogramVec is a vector of switched histograms.
type HistogramVec struct {
	*prometheus.HistogramVec
	s *Switch
}

// WrapHistogramVec puts a vector behind a switch; see WrapCounterVec.
func WrapHistogramVec(s *Switch, v *prometheus.HistogramVec) *HistogramVec {
	return &HistogramVec{&prometheus.HistogramVec{MetricVec: rewrap(v.MetricVec, s, WrapHistogram)}, s}
}

// Observe adds an observation to the child with the label values; one load while off.
func (v *HistogramVec) Observe(x float64, values ...string) {
	if v.s.State() != Off {
		v.HistogramVec.WithLabelValues(values...).Observe(x)
	}
}

// WithLabelValues works as on prometheus.HistogramVec; see NoKeptHandles.
func (v *HistogramVec) WithLabelValues(values ...string) prometheus.Observer {
	if v.s.discards() {
		return discardedObserver
	}
	return v.HistogramVec.WithLabelValues(values...)
}

// With works as on prometheus.HistogramVec; see NoKeptHandles.
func (v *HistogramVec) With(labels prometheus.Labels) prometheus.Observer {
	if v.s.discards() {
		return discardedObserver
	}
	return v.HistogramVec.With(labels)
}

// Collect implements prometheus.Collector.
func (v *HistogramVec) Collect(ch chan<- prometheus.Metric) { collect(v.s, v.MetricVec, ch) }

// SummaryVec is a vector of switched summaries.
type SummaryVec struct {
	*prometheus.SummaryVec
	s *Switch
}

// WrapSummaryVec puts a vector, of client_golang's or of summary.NewVec, behind a switch; see WrapCounterVec.
// summary.FastVec has an option for its switch instead.
func WrapSummaryVec(s *Switch, v *prometheus.SummaryVec) *SummaryVec {
	return &SummaryVec{&prometheus.SummaryVec{MetricVec: rewrap(v.MetricVec, s, WrapSummary)}, s}
}

// Observe adds an observation to the child with the label values; one load while off.
func (v *SummaryVec) Observe(x float64, values ...string) {
	if v.s.State() != Off {
		v.SummaryVec.WithLabelValues(values...).Observe(x)
	}
}

// WithLabelValues works as on prometheus.SummaryVec; see NoKeptHandles.
func (v *SummaryVec) WithLabelValues(values ...string) prometheus.Observer {
	if v.s.discards() {
		return discardedObserver
	}
	return v.SummaryVec.WithLabelValues(values...)
}

// With works as on prometheus.SummaryVec; see NoKeptHandles.
func (v *SummaryVec) With(labels prometheus.Labels) prometheus.Observer {
	if v.s.discards() {
		return discardedObserver
	}
	return v.SummaryVec.With(labels)
}

// Collect implements prometheus.Collector.
func (v *SummaryVec) Collect(ch chan<- prometheus.Metric) { collect(v.s, v.MetricVec, ch) }

// rewrap returns a vector whose children are the inner vector's, wrapped. The inner vector only makes them.
func rewrap[M, W prometheus.Metric](inner *prometheus.MetricVec, s *Switch, wrap func(*Switch, M) W) *prometheus.MetricVec {
	return prometheus.NewMetricVec(descOf(inner), func(values ...string) prometheus.Metric {
		m, err := inner.GetMetricWithLabelValues(values...)
		if err != nil {
			panic(err) // the outer vector has checked the values; this one is curried
		}
		inner.DeleteLabelValues(values...)
		return wrap(s, m.(M))
	})
}

func descOf(c prometheus.Collector) *prometheus.Desc {
	ch := make(chan *prometheus.Desc, 1)
	c.Describe(ch)
	return <-ch
}

func collect(s *Switch, v *prometheus.MetricVec, ch chan<- prometheus.Metric) {
	if s.Exposed() {
		v.Collect(ch)
	}
}

// discards reports whether look-ups may return a metric that counts nothing.
func (s *Switch) discards() bool { return s.State() == Off && s.inert }

var (
	never             = func() *Switch { s := New("discarded"); s.Set(Off); return s }()
	discardedCounter  = WrapCounter(never, prometheus.NewCounter(prometheus.CounterOpts{Name: "discarded"}))
	discardedGauge    = WrapGauge(never, prometheus.NewGauge(prometheus.GaugeOpts{Name: "discarded"}))
	discardedObserver = prometheus.ObserverFunc(func(float64) {})
)
