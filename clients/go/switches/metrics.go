// Switched single metrics.
//
// Invariant: a metric that is off is asked for nothing but its descriptor, and one load tells.

package switches

import "github.com/prometheus/client_golang/prometheus"

// Counter is a switched counter. It implements prometheus.Counter and prometheus.ExemplarAdder; calls through this type
// rather than an interface are inlined as far as the switch.
type Counter struct {
	prometheus.Counter
	s *Switch
}

// WrapCounter returns the counter behind a switch. Register what is returned, not the counter.
func WrapCounter(s *Switch, c prometheus.Counter) *Counter { return &Counter{c, s} }

// Inc adds one.
func (c *Counter) Inc() {
	if c.s.State() != Off {
		c.add(1)
	}
}

// Add adds a number that is not negative.
func (c *Counter) Add(v float64) {
	if c.s.State() != Off {
		c.add(v)
	}
}

// AddWithExemplar adds with an exemplar; a counter without exemplars drops it.
func (c *Counter) AddWithExemplar(v float64, exemplar prometheus.Labels) {
	n := c.s.weight()
	if n == 0 {
		return
	}
	if adder, ok := c.Counter.(prometheus.ExemplarAdder); ok {
		adder.AddWithExemplar(v*float64(n), exemplar)
		return
	}
	c.Counter.Add(v * float64(n))
}

func (c *Counter) add(v float64) {
	if n := c.s.weight(); n != 0 {
		c.Counter.Add(v * float64(n))
	}
}

// Collect implements prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	if c.s.Exposed() {
		c.Counter.Collect(ch)
	}
}

// Gauge is a switched gauge. It implements prometheus.Gauge.
type Gauge struct {
	prometheus.Gauge
	s *Switch
}

// WrapGauge returns the gauge behind a switch.
func WrapGauge(s *Switch, g prometheus.Gauge) *Gauge { return &Gauge{g, s} }

// Set sets the gauge.
func (g *Gauge) Set(v float64) {
	if g.s.State() != Off {
		g.Gauge.Set(v)
	}
}

// SetToCurrentTime sets the gauge to the seconds since 1970.
func (g *Gauge) SetToCurrentTime() {
	if g.s.State() != Off {
		g.Gauge.SetToCurrentTime()
	}
}

// Inc adds one.
func (g *Gauge) Inc() { g.Add(1) }

// Dec subtracts one.
func (g *Gauge) Dec() { g.Add(-1) }

// Sub subtracts.
func (g *Gauge) Sub(v float64) { g.Add(-v) }

// Add adds.
func (g *Gauge) Add(v float64) {
	if g.s.State() != Off || g.s.keepDeltas {
		g.Gauge.Add(v)
	}
}

// Collect implements prometheus.Collector.
func (g *Gauge) Collect(ch chan<- prometheus.Metric) {
	if g.s.Exposed() {
		g.Gauge.Collect(ch)
	}
}

// Histogram is a switched histogram. It implements prometheus.Histogram and prometheus.ExemplarObserver.
type Histogram struct {
	prometheus.Histogram
	s *Switch
}

// WrapHistogram returns the histogram behind a switch.
func WrapHistogram(s *Switch, h prometheus.Histogram) *Histogram { return &Histogram{h, s} }

// Observe adds an observation.
func (h *Histogram) Observe(v float64) {
	if h.s.State() != Off {
		h.observe(v)
	}
}

// ObserveWithExemplar adds an observation with an exemplar; a histogram without exemplars drops it.
func (h *Histogram) ObserveWithExemplar(v float64, exemplar prometheus.Labels) {
	if h.s.weight() == 0 {
		return
	}
	if observer, ok := h.Histogram.(prometheus.ExemplarObserver); ok {
		observer.ObserveWithExemplar(v, exemplar)
		return
	}
	h.Histogram.Observe(v)
}

func (h *Histogram) observe(v float64) {
	if h.s.weight() != 0 {
		h.Histogram.Observe(v)
	}
}

// Collect implements prometheus.Collector.
func (h *Histogram) Collect(ch chan<- prometheus.Metric) {
	if h.s.Exposed() {
		h.Histogram.Collect(ch)
	}
}

// Summary is a switched summary. It implements prometheus.Summary.
type Summary struct {
	prometheus.Summary
	s *Switch
}

// WrapSummary returns the summary behind a switch.
func WrapSummary(s *Switch, inner prometheus.Summary) *Summary { return &Summary{inner, s} }

// Observe adds an observation.
func (m *Summary) Observe(v float64) {
	if m.s.State() != Off {
		m.observe(v)
	}
}

func (m *Summary) observe(v float64) {
	if m.s.weight() != 0 {
		m.Summary.Observe(v)
	}
}

// Collect implements prometheus.Collector.
func (m *Summary) Collect(ch chan<- prometheus.Metric) {
	if m.s.Exposed() {
		m.Summary.Collect(ch)
	}
}
