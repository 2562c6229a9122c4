// A single Summary, and vectors of client_golang's own type filled with them.
//
// Invariant: what is written is a well-formed Summary of client_golang's data model, quantiles in ascending order.

package summary

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"narthex.dev/go/internal/exposed"
	"narthex.dev/go/internal/record"
	"narthex.dev/go/internal/sketch"
	"narthex.dev/go/switches"
)

// recorder keeps the name of the embedded field to this package.
type recorder = record.Recorder

// Summary is a prometheus.Summary. Make it with New or NewSummary.
type Summary struct {
	// The recorder comes first, so that its Observe through an interface needs no adjustment.
	recorder
	settings *settings
	labels   []*dto.LabelPair
	// created is in nanoseconds since 1970.
	created int64
}

var _ prometheus.Summary = (*Summary)(nil)

// New creates a Summary as prometheus.NewSummary does, with the same panics.
func New(opts prometheus.SummaryOpts) prometheus.Summary {
	return NewWithOptions(Options{SummaryOpts: opts})
}

// NewWithOptions creates a Summary with options of ours. With a Switch it is wrapped as switches.WrapSummary does.
func NewWithOptions(opts Options) prometheus.Summary {
	s := NewSummary(opts)
	if opts.Switch != nil {
		return switches.WrapSummary(opts.Switch, s)
	}
	return s
}

// NewSummary creates a Summary whose type has NativeHistogram; it leaves opts.Switch to the caller.
func NewSummary(opts Options) *Summary {
	desc, native := describe(opts, prometheus.UnconstrainedLabels(nil))
	shared := prepare(desc, opts)
	shared.native = native
	return newChild(shared, nil)
}

// NewVec creates a vector of client_golang's type, as prometheus.NewSummaryVec does, with the same panics.
func NewVec(opts prometheus.SummaryOpts, labelNames []string) *prometheus.SummaryVec {
	return V2.NewVec(prometheus.SummaryVecOpts{
		SummaryOpts:    opts,
		VariableLabels: prometheus.UnconstrainedLabels(labelNames),
	})
}

type v2 struct{}

// V2 has constructors that take labels with constraints, like prometheus.V2.
var V2 = v2{}

// NewVec creates a vector of client_golang's type, as prometheus.V2.NewSummaryVec does.
func (v2) NewVec(opts prometheus.SummaryVecOpts) *prometheus.SummaryVec {
	return NewVecWithOptions(Options{SummaryOpts: opts.SummaryOpts}, opts.VariableLabels)
}

// NewVecWithOptions creates a vector of client_golang's type with options of ours. It panics when they have a Switch
// or a native histogram, for which client_golang's type has no place: use switches.WrapSummaryVec or NewFastVec.
func NewVecWithOptions(opts Options, variable prometheus.ConstrainableLabels) *prometheus.SummaryVec {
	if opts.Switch != nil || opts.NativeHistogramName != "" {
		panic(errors.New("a vector of client_golang's type has neither Switch nor NativeHistogramName"))
	}
	names, _ := labelsOf(variable)
	refuseQuantile(names)
	desc, _ := describe(opts, variable)
	// Options are checked when the first child is made, as client_golang does.
	lazy := lazily(func() *settings { return prepare(desc, opts) })
	return &prometheus.SummaryVec{
		MetricVec: prometheus.NewMetricVec(desc, func(values ...string) prometheus.Metric {
			return newChild(lazy(), values)
		}),
	}
}

// lazily makes a value at its first use and again as long as that panics. The caller's lock protects it.
func lazily(make func() *settings) func() *settings {
	var made *settings
	return func() *settings {
		if made == nil {
			made = make()
		}
		return made
	}
}

func refuseQuantile(names []string) {
	if slices.Contains(names, quantileLabel) {
		panic(errQuantileLabel)
	}
}

func newChild(shared *settings, values []string) *Summary {
	s := &Summary{settings: shared, labels: prometheus.MakeLabelPairs(shared.desc, values)}
	s.created = shared.now().UnixNano()
	record.Init(&s.recorder, &shared.record)
	return s
}

// Desc returns the summary's descriptor.
func (s *Summary) Desc() *prometheus.Desc { return s.settings.desc }

// Describe implements prometheus.Collector.
func (s *Summary) Describe(ch chan<- *prometheus.Desc) { ch <- s.settings.desc }

// Collect implements prometheus.Collector.
func (s *Summary) Collect(ch chan<- prometheus.Metric) { ch <- s }

// Write implements prometheus.Metric.
func (s *Summary) Write(out *dto.Metric) error {
	qs := s.settings.objectives
	values := make([]float64, len(qs))
	totals := record.Read(&s.recorder, qs, values)
	quantiles := make([]*dto.Quantile, len(qs))
	for i := range qs {
		quantiles[i] = &dto.Quantile{Quantile: &qs[i], Value: &values[i]}
	}
	out.Summary = &dto.Summary{
		SampleCount:      &totals.Count,
		SampleSum:        &totals.Sum,
		Quantile:         quantiles,
		CreatedTimestamp: s.createdTimestamp(),
	}
	out.Label = s.labels
	if s.settings.record.Windows > 0 {
		exposed.Note(out.Summary, source{s})
	}
	return nil
}

// source shows a Summary's buckets to who publishes a segment.
type source struct{ *Summary }

// Counts implements exposed.Source.
func (s source) Counts(f func(counts *[sketch.CoarseBuckets]uint64)) (count uint64, sum float64) {
	totals := record.ReadCoarse(&s.recorder, f)
	return totals.Count, totals.Sum
}

// Window implements exposed.Source.
func (s source) Window() (age time.Duration, steps int) {
	config := &s.settings.record
	return config.Step * time.Duration(config.Windows), config.Windows
}

// Objectives implements exposed.Source.
func (s source) Objectives() []float64 { return s.settings.objectives }

// Quantile returns the q-quantile of the observations that are young enough, whatever the objectives; NaN without
// any, or when the summary was made without objectives.
func (s *Summary) Quantile(q float64) float64 {
	if s.settings.record.Windows == 0 {
		return math.NaN()
	}
	var out [1]float64
	record.Read(&s.recorder, []float64{q}, out[:])
	return out[0]
}

func (s *Summary) createdTimestamp() *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, s.created))
}
