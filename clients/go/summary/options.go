// Options and what follows from them once for all children of a vector.
//
// Invariant: misuse panics or errs exactly where client_golang does.

package summary

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/internal/record"
	"narthex.dev/go/switches"
)

// quantileLabel is the label that a Summary's own samples carry.
const quantileLabel = "quantile"

// DefNativeHistogramSchema has 8 buckets in each power of two: neighbouring bounds differ by 9 %.
const DefNativeHistogramSchema = 3

// Options are client_golang's and a few of ours.
type Options struct {
	prometheus.SummaryOpts

	// NativeHistogramName, when not empty, lets the same observations be exported as a native histogram of that name
	// too: register what NativeHistogram returns.
	NativeHistogramName string
	// NativeHistogramSchema is its resolution, -4 to 6; bounds differ by a factor of 2^(2^-schema).
	// 0 means DefNativeHistogramSchema.
	NativeHistogramSchema int8

	// Switch, when not nil, lets the metric be switched off and sampled while it runs.
	Switch *switches.Switch

	// Now is the clock, nil for the system's. With a clock of one's own, windows turn only when they are read.
	Now func() time.Time
}

// settings are options made ready for use.
type settings struct {
	record     record.Config
	desc       *prometheus.Desc
	native     *prometheus.Desc
	objectives []float64
	now        func() time.Time
}

// prepare checks options as client_golang does when it creates a Summary, and computes what all children share.
func prepare(desc *prometheus.Desc, o Options) *settings {
	if _, ok := o.ConstLabels[quantileLabel]; ok {
		panic(errQuantileLabel)
	}
	if o.MaxAge < 0 {
		panic(fmt.Errorf("illegal max age MaxAge=%v", o.MaxAge))
	}
	if o.NativeHistogramSchema < -4 || o.NativeHistogramSchema > 6 {
		panic(fmt.Errorf("illegal NativeHistogramSchema=%d", o.NativeHistogramSchema))
	}
	s := &settings{desc: desc, now: o.Now, objectives: slices.Sorted(maps.Keys(o.Objectives))}
	if s.now == nil {
		s.now = time.Now
	}
	hasNative := o.NativeHistogramName != ""
	if len(s.objectives) == 0 && !hasNative {
		return s
	}
	maxAge, ageBuckets := o.MaxAge, o.AgeBuckets
	if maxAge == 0 {
		maxAge = prometheus.DefMaxAge
	}
	if ageBuckets == 0 {
		ageBuckets = prometheus.DefAgeBuckets
	}
	s.record = record.Config{
		Windows:      int(ageBuckets),
		Step:         max(maxAge/time.Duration(ageBuckets), 1),
		Now:          o.Now,
		HasNative:    hasNative,
		NativeSchema: o.NativeHistogramSchema,
	}
	if o.NativeHistogramSchema == 0 {
		s.record.NativeSchema = DefNativeHistogramSchema
	}
	return s
}

var errQuantileLabel = fmt.Errorf("%q is not allowed as label name in summaries", quantileLabel)

// describe returns the descriptors of the summary and of its native histogram, if it has one.
func describe(o Options, labels prometheus.ConstrainableLabels) (desc, native *prometheus.Desc) {
	unit := prometheus.WithUnit(o.Unit)
	name := prometheus.BuildFQName(o.Namespace, o.Subsystem, o.Name)
	desc = prometheus.V2.NewDesc(name, o.Help, labels, o.ConstLabels, unit)
	if o.NativeHistogramName != "" {
		native = prometheus.V2.NewDesc(o.NativeHistogramName, o.Help, labels, o.ConstLabels, unit)
	}
	return desc, native
}
