package main

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// templateRequest asks what an alert's template expands to.
type templateRequest struct {
	Alert          string            `json:"alert"`
	Text           string            `json:"text"`
	Labels         map[string]string `json:"labels"`
	ExternalLabels map[string]string `json:"external_labels"`
	ExternalURL    string            `json:"external_url"`
	Value          float64           `json:"value"`
	TimeMs         int64             `json:"time_ms"`
	// IsNaN replaces the value by NaN, which JSON does not have.
	IsNaN bool `json:"is_nan"`
	// Elements are what the query "elements" finds; "none" finds nothing, any other fails unless AnyQuery is set.
	Elements []templateElement `json:"elements"`
	AnyQuery bool              `json:"any_query"`
}

type templateElement struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

func (req templateRequest) answer() (any, error) {
	external, err := url.Parse(req.ExternalURL)
	if err != nil {
		return nil, err
	}
	if req.IsNaN {
		req.Value = math.NaN()
	}
	data := template.AlertTemplateData(req.Labels, req.ExternalLabels, req.ExternalURL, promql.Sample{F: req.Value})
	// What rules.AlertingRule puts before each template.
	declarations := []string{
		"{{$labels := .Labels}}",
		"{{$externalLabels := .ExternalLabels}}",
		"{{$externalURL := .ExternalURL}}",
		"{{$value := .Value}}",
	}
	text := strings.Join(append(declarations, req.Text), "")
	expander := template.NewTemplateExpander(
		context.Background(), text, "__alert_"+req.Alert, data, model.Time(req.TimeMs), req.query, external, nil,
	)
	if err := expander.ParseTest(); err != nil {
		return nil, err
	}
	return expander.Expand()
}

func (req templateRequest) query(_ context.Context, text string, _ time.Time) (promql.Vector, error) {
	switch {
	case text == "none":
		return nil, nil
	case text == "elements" || req.AnyQuery:
		var vector promql.Vector
		for _, element := range req.Elements {
			vector = append(vector, promql.Sample{Metric: labels.FromMap(element.Labels), F: element.Value})
		}
		return vector, nil
	}
	return nil, errors.New("no such query")
}
