package main

import (
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// exactSeries is a series of a result with all that its samples have; scalars and strings have no labels.
type exactSeries struct {
	Labels labels.Labels `json:"labels"`
	// Points have the time in milliseconds, and a float with all its digits or a histogram as .test files write it.
	Points []exactPoint `json:"points"`
}

type exactPoint struct {
	Ms   int64  `json:"ms"`
	Text string `json:"text"`
}

func exactOf(value parser.Value) []exactSeries {
	all := []exactSeries{}
	switch value := value.(type) {
	case promql.Matrix:
		for _, series := range value {
			one := exactSeries{Labels: series.Metric}
			for _, point := range series.Floats {
				one.Points = append(one.Points, exactPoint{point.T, floatText(point.F)})
			}
			for _, point := range series.Histograms {
				one.Points = append(one.Points, exactPoint{point.T, histogramText(point.H)})
			}
			all = append(all, one)
		}
	case promql.Vector:
		for _, sample := range value {
			text := floatText(sample.F)
			if sample.H != nil {
				text = histogramText(sample.H)
			}
			all = append(all, exactSeries{sample.Metric, []exactPoint{{sample.T, text}}})
		}
	case promql.Scalar:
		all = append(all, exactSeries{Points: []exactPoint{{value.T, floatText(value.V)}}})
	case promql.String:
		all = append(all, exactSeries{Points: []exactPoint{{value.T, value.V}}})
	}
	return all
}

func floatText(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// histogramText leaves out nothing but where spans were cut.
func histogramText(h *histogram.FloatHistogram) string { return h.TestExpression() }
