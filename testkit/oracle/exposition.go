package main

import (
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// expositionRequest asks what a scraped body holds.
type expositionRequest struct {
	ContentType string `json:"content_type"`
	// Body is base64 in JSON.
	Body []byte `json:"body"`
	// Native reads native histograms, Classic keeps classic ones beside them, Convert makes classic ones native.
	Native  bool `json:"native"`
	Classic bool `json:"classic"`
	Convert bool `json:"convert"`
	// Starts takes start times, which are then no series.
	Starts bool `json:"starts"`
}

// exposition is what a body holds. Floats are bits in hexadecimal.
type exposition struct {
	Samples  []expositionSample          `json:"samples"`
	Families map[string]expositionFamily `json:"families"`
}

type expositionSample struct {
	Labels    map[string]string    `json:"labels"`
	TimeMs    *int64               `json:"time_ms,omitempty"`
	StartMs   int64                `json:"start_ms,omitempty"`
	Value     string               `json:"value,omitempty"`
	Histogram *expositionHistogram `json:"histogram,omitempty"`
	Exemplars []expositionExemplar `json:"exemplars,omitempty"`
}

type expositionExemplar struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
	TimeMs *int64            `json:"time_ms,omitempty"`
}

type expositionHistogram struct {
	Schema        int32       `json:"schema"`
	Integer       bool        `json:"integer"`
	Gauge         bool        `json:"gauge"`
	ZeroThreshold string      `json:"zero_threshold"`
	ZeroCount     string      `json:"zero_count"`
	Count         string      `json:"count"`
	Sum           string      `json:"sum"`
	Positive      [][2]string `json:"positive"`
	Negative      [][2]string `json:"negative"`
	Bounds        []string    `json:"bounds"`
}

type expositionFamily struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

func bits(v float64) string {
	return strconv.FormatUint(math.Float64bits(v), 16)
}

func (r *expositionRequest) answer() (any, error) {
	parser, err := textparse.New(r.Body, r.ContentType, labels.NewSymbolTable(), textparse.ParserOptions{
		IgnoreNativeHistograms:                  !r.Native,
		KeepClassicOnClassicAndNativeHistograms: r.Classic,
		ConvertClassicHistogramsToNHCB:          r.Convert,
		OpenMetricsSkipSTSeries:                 r.Starts,
	})
	if err != nil {
		return nil, err
	}
	found := exposition{Samples: []expositionSample{}, Families: map[string]expositionFamily{}}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		switch entry {
		case textparse.EntryType:
			name, kind := parser.Type()
			family := found.Families[string(name)]
			family.Type = string(kind)
			found.Families[string(name)] = family
		case textparse.EntryHelp:
			name, help := parser.Help()
			family := found.Families[string(name)]
			family.Help = string(help)
			found.Families[string(name)] = family
		case textparse.EntryUnit:
			name, unit := parser.Unit()
			family := found.Families[string(name)]
			family.Unit = string(unit)
			found.Families[string(name)] = family
		case textparse.EntrySeries, textparse.EntryHistogram:
			sample, err := r.sample(parser, entry)
			if err != nil {
				return nil, err
			}
			found.Samples = append(found.Samples, sample)
		}
	}
}

func (r *expositionRequest) sample(parser textparse.Parser, entry textparse.Entry) (expositionSample, error) {
	var sample expositionSample
	var lset labels.Labels
	if entry == textparse.EntrySeries {
		_, ts, value := parser.Series()
		sample.TimeMs = copied(ts)
		sample.Value = bits(value)
	} else {
		_, ts, h, fh := parser.Histogram()
		sample.TimeMs = copied(ts)
		if h != nil {
			if err := h.Validate(); err != nil {
				return sample, err
			}
			fh = h.ToFloat(nil)
		} else if err := fh.Validate(); err != nil {
			return sample, err
		}
		sample.Histogram = shown(fh, h != nil)
	}
	parser.Labels(&lset)
	if name, twice := lset.HasDuplicateLabelNames(); twice {
		return sample, errors.New("duplicate label " + name)
	}
	sample.Labels = lset.Map()
	if r.Starts {
		sample.StartMs = parser.StartTimestamp()
	}
	for e := (exemplar.Exemplar{}); parser.Exemplar(&e); e = (exemplar.Exemplar{}) {
		if !e.HasTs && entry == textparse.EntryHistogram {
			continue
		}
		one := expositionExemplar{Labels: e.Labels.Map(), Value: bits(e.Value)}
		if e.HasTs {
			one.TimeMs = &e.Ts
		}
		sample.Exemplars = append(sample.Exemplars, one)
	}
	return sample, nil
}

func copied(ts *int64) *int64 {
	if ts == nil {
		return nil
	}
	at := *ts
	return &at
}

func shown(h *histogram.FloatHistogram, integer bool) *expositionHistogram {
	buckets := func(it histogram.BucketIterator[float64]) [][2]string {
		all := [][2]string{}
		for it.Next() {
			bucket := it.At()
			if bucket.Count != 0 {
				all = append(all, [2]string{strconv.Itoa(int(bucket.Index)), bits(bucket.Count)})
			}
		}
		return all
	}
	bounds := []string{}
	for _, bound := range h.CustomValues {
		bounds = append(bounds, bits(bound))
	}
	return &expositionHistogram{
		Schema:        h.Schema,
		Integer:       integer,
		Gauge:         h.CounterResetHint == histogram.GaugeType,
		ZeroThreshold: bits(h.ZeroThreshold),
		ZeroCount:     bits(h.ZeroCount),
		Count:         bits(h.Count),
		Sum:           bits(h.Sum),
		Positive:      buckets(h.PositiveBucketIterator()),
		Negative:      buckets(h.NegativeBucketIterator()),
		Bounds:        bounds,
	}
}
