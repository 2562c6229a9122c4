// The same observations as a native histogram.
//
// Bounds of a Summary's cells are not bounds of a native histogram's buckets; internal/sketch says how they are mapped
// and how far an observation may be misplaced.
//
// Invariant: buckets are cumulative over the life of the process, as Prometheus expects of a histogram.

package summary

import (
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/internal/labels"
	"narthex.dev/go/internal/record"
	"narthex.dev/go/internal/sketch"
)

// ErrNoNativeHistogram is returned for a metric made without a NativeHistogramName.
var ErrNoNativeHistogram = errors.New("the summary was made without NativeHistogramName")

// NativeHistogram returns a collector of the summary's observations as a native histogram.
func (s *Summary) NativeHistogram() (prometheus.Collector, error) {
	if s.settings.native == nil {
		return nil, ErrNoNativeHistogram
	}
	return nativeCollector{s.settings.native, func(f func(*Summary)) { f(s) }}, nil
}

// NativeHistogram returns a collector of all children's observations as native histograms.
func (v *FastVec) NativeHistogram() (prometheus.Collector, error) {
	if v.native == nil {
		return nil, ErrNoNativeHistogram
	}
	return nativeCollector{v.native, func(f func(*Summary)) {
		if v.toggle == nil || v.toggle.Exposed() {
			v.table.Each(func(c *labels.Child[child]) { f(c.Value.summary) })
		}
	}}, nil
}

type nativeCollector struct {
	desc *prometheus.Desc
	each func(func(*Summary))
}

func (c nativeCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c nativeCollector) Collect(ch chan<- prometheus.Metric) {
	c.each(func(s *Summary) { ch <- nativeMetric{s} })
}

type nativeMetric struct{ *Summary }

func (m nativeMetric) Desc() *prometheus.Desc { return m.settings.native }

// Write implements prometheus.Metric.
func (m nativeMetric) Write(out *dto.Metric) error {
	h := &dto.Histogram{CreatedTimestamp: m.createdTimestamp()}
	totals := record.ReadNative(&m.recorder, func(n *sketch.Native) {
		schema, threshold, zero := int32(n.Schema), float64(sketch.ZeroThreshold), n.Zero
		h.Schema, h.ZeroThreshold, h.ZeroCount = &schema, &threshold, &zero
		h.PositiveSpan, h.PositiveDelta = spans(n.Positive)
		h.NegativeSpan, h.NegativeDelta = spans(n.Negative)
	})
	if len(h.PositiveSpan) == 0 && len(h.NegativeSpan) == 0 && *h.ZeroCount == 0 {
		// An empty span is what tells an empty native histogram from a classic one.
		offset, length := int32(0), uint32(0)
		h.PositiveSpan = []*dto.BucketSpan{{Offset: &offset, Length: &length}}
	}
	h.SampleCount, h.SampleSum = &totals.Count, &totals.Sum
	out.Histogram, out.Label = h, m.labels
	return nil
}

// maxGap is how many empty buckets are written out rather than skipped by a further span.
const maxGap = 2

// spans returns buckets as the data model has them: stretches of neighbours, counts as differences.
func spans(buckets map[int]uint64) ([]*dto.BucketSpan, []int64) {
	var list []*dto.BucketSpan
	var deltas []int64
	var next int
	var last int64
	put := func(count uint64) {
		deltas = append(deltas, int64(count)-last)
		last = int64(count)
		*list[len(list)-1].Length++
		next++
	}
	for _, i := range slices.Sorted(maps.Keys(buckets)) {
		if gap := i - next; len(list) == 0 || gap > maxGap {
			offset, length := int32(gap), uint32(0)
			list = append(list, &dto.BucketSpan{Offset: &offset, Length: &length})
			next = i
		}
		for next < i {
			put(0)
		}
		put(buckets[i])
	}
	return list, deltas
}
