// Constructors that register what they make, as promauto does.
//
// Invariant: a metric that cannot be registered panics.

package summary

import "github.com/prometheus/client_golang/prometheus"

// Factory creates metrics and registers them. The zero Factory registers nothing.
type Factory struct{ registerer prometheus.Registerer }

// With returns a Factory for a registerer; with nil it registers nothing.
func With(r prometheus.Registerer) Factory { return Factory{r} }

// Auto returns a Factory for the default registerer.
func Auto() Factory { return With(prometheus.DefaultRegisterer) }

// New works as the function New and registers the summary.
func (f Factory) New(opts prometheus.SummaryOpts) prometheus.Summary {
	s := New(opts)
	f.register(s)
	return s
}

// NewVec works as the function NewVec and registers the vector.
func (f Factory) NewVec(opts prometheus.SummaryOpts, labelNames []string) *prometheus.SummaryVec {
	v := NewVec(opts, labelNames)
	f.register(v)
	return v
}

// NewFastVec works as the function NewFastVec and registers the vector.
func (f Factory) NewFastVec(opts prometheus.SummaryOpts, labelNames []string) *FastVec {
	v := NewFastVec(opts, labelNames)
	f.register(v)
	return v
}

func (f Factory) register(c prometheus.Collector) {
	if f.registerer != nil {
		f.registerer.MustRegister(c)
	}
}
