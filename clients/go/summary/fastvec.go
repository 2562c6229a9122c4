// A vector of Summaries whose look-up takes no lock and writes nothing that processors share.
//
// Invariant: look-ups, deletions and currying behave as on prometheus.SummaryVec, errors included.

package summary

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/internal/labels"
	"narthex.dev/go/switches"
)

// FastVec is a vector of Summaries. It implements prometheus.ObserverVec and has the other methods of
// prometheus.SummaryVec too.
type FastVec struct {
	*shared
	// curry are values set beforehand, nil where a label is free.
	curry []*string
	// free is how many labels are not curried.
	free int
}

// shared is what a vector and the vectors curried from it have in common.
type shared struct {
	table       *labels.Table[child]
	names       []string
	constraints []prometheus.LabelConstraint
	settings    func() *settings
	desc        *prometheus.Desc
	native      *prometheus.Desc
	toggle      *switches.Switch
}

type child struct {
	// observer is the summary, or a switched wrapper of it.
	observer prometheus.Observer
	summary  *Summary
}

var (
	_ prometheus.ObserverVec = (*FastVec)(nil)

	errCardinality = errors.New("inconsistent label cardinality")
)

// NewFastVec creates a vector; it panics where prometheus.NewSummaryVec does.
func NewFastVec(opts prometheus.SummaryOpts, labelNames []string) *FastVec {
	return NewFastVecWithOptions(Options{SummaryOpts: opts}, prometheus.UnconstrainedLabels(labelNames))
}

// NewFastVecWithOptions creates a vector with options of ours and labels that may have constraints.
func NewFastVecWithOptions(opts Options, variable prometheus.ConstrainableLabels) *FastVec {
	names, constraints := labelsOf(variable)
	refuseQuantile(names)
	desc, native := describe(opts, variable)
	make := lazily(func() *settings {
		s := prepare(desc, opts)
		s.native = native
		return s
	})
	return &FastVec{
		shared: &shared{
			table:       labels.New[child](),
			names:       names,
			constraints: constraints,
			settings:    make,
			desc:        desc,
			native:      native,
			toggle:      opts.Switch,
		},
		free: len(names),
	}
}

// labelsOf returns names and constraints; both of client_golang's kinds can be read.
func labelsOf(variable prometheus.ConstrainableLabels) ([]string, []prometheus.LabelConstraint) {
	switch list := variable.(type) {
	case nil:
		return nil, nil
	case prometheus.UnconstrainedLabels:
		return slices.Clone(list), nil
	case prometheus.ConstrainedLabels:
		names := make([]string, len(list))
		constraints := make([]prometheus.LabelConstraint, len(list))
		constrained := false
		for i, label := range list {
			names[i], constraints[i] = label.Name, label.Constraint
			constrained = constrained || label.Constraint != nil
		}
		if !constrained {
			constraints = nil
		}
		return names, constraints
	default:
		panic(fmt.Errorf("labels of type %T: neither UnconstrainedLabels nor ConstrainedLabels", variable))
	}
}

// WithLabelValues returns the child with the values, created at its first use; it panics where
// GetMetricWithLabelValues returns an error.
func (v *FastVec) WithLabelValues(values ...string) prometheus.Observer {
	if v.plain() && len(values) == v.free {
		hash := labels.Begin()
		for _, value := range values {
			hash = labels.Mix(hash, value)
		}
		if c := v.table.Find(hash, values); c != nil {
			return c.Value.observer
		}
	}
	o, err := v.getSlow(slices.Clone(values))
	if err != nil {
		panic(err)
	}
	return o
}

// Observe adds an observation to the child with the values. Switched off it costs one load.
func (v *FastVec) Observe(value float64, values ...string) {
	if v.toggle != nil && v.toggle.State() == switches.Off {
		return
	}
	v.WithLabelValues(values...).Observe(value)
}

// GetMetricWithLabelValues returns the child with the values in the order of the labels that are not curried.
func (v *FastVec) GetMetricWithLabelValues(values ...string) (prometheus.Observer, error) {
	if v.plain() && len(values) == v.free {
		hash := labels.Begin()
		for _, value := range values {
			hash = labels.Mix(hash, value)
		}
		if c := v.table.Find(hash, values); c != nil {
			return c.Value.observer, nil
		}
	}
	return v.getSlow(slices.Clone(values))
}

// With returns the child with the labels; it panics where GetMetricWith returns an error.
func (v *FastVec) With(l prometheus.Labels) prometheus.Observer {
	o, err := v.GetMetricWith(l)
	if err != nil {
		panic(err)
	}
	return o
}

// GetMetricWith returns the child with the labels.
func (v *FastVec) GetMetricWith(l prometheus.Labels) (prometheus.Observer, error) {
	var room [8]string
	values, err := v.fromMap(room[:0], l)
	if err != nil {
		return nil, err
	}
	hash := hashOf(values)
	if c := v.table.Find(hash, values); c != nil {
		return c.Value.observer, nil
	}
	return v.create(hash, slices.Clone(values)), nil
}

// CurryWith returns a vector with the labels set beforehand, sharing all children.
func (v *FastVec) CurryWith(l prometheus.Labels) (prometheus.ObserverVec, error) {
	curry := make([]*string, len(v.names))
	copy(curry, v.curry)
	set := 0
	for i, name := range v.names {
		value, ok := l[name]
		if !ok {
			continue
		}
		if curry[i] != nil {
			return nil, fmt.Errorf("label name %q is already curried", name)
		}
		value = v.constrain(i, value)
		curry[i] = &value
		set++
	}
	if unknown := len(l) - set; unknown > 0 {
		return nil, fmt.Errorf("%d unknown label(s) found during currying", unknown)
	}
	return &FastVec{shared: v.shared, curry: curry, free: v.free - set}, nil
}

// MustCurryWith works as CurryWith but panics where that returns an error.
func (v *FastVec) MustCurryWith(l prometheus.Labels) prometheus.ObserverVec {
	curried, err := v.CurryWith(l)
	if err != nil {
		panic(err)
	}
	return curried
}

// DeleteLabelValues removes the child with the values. Whoever holds it may go on observing; it is not exported.
func (v *FastVec) DeleteLabelValues(values ...string) bool {
	full, err := v.fromValues(slices.Clone(values))
	return err == nil && v.table.RemoveOne(hashOf(full), full)
}

// Delete removes the child with the labels.
func (v *FastVec) Delete(l prometheus.Labels) bool {
	full, err := v.fromMap(nil, l)
	return err == nil && v.table.RemoveOne(hashOf(full), full)
}

// DeletePartialMatch removes all children that have the labels and returns their number. Curried labels match none.
func (v *FastVec) DeletePartialMatch(l prometheus.Labels) int {
	wanted := make([]*string, len(v.names))
	for name, value := range l {
		i := slices.Index(v.names, name)
		if i < 0 || (v.curry != nil && v.curry[i] != nil) {
			return 0
		}
		value = v.constrain(i, value)
		wanted[i] = &value
	}
	return v.table.Remove(func(values []string) bool {
		for i, value := range wanted {
			if value != nil && *value != values[i] {
				return false
			}
		}
		return true
	})
}

// Reset removes all children.
func (v *FastVec) Reset() { v.table.Remove(func([]string) bool { return true }) }

// Describe implements prometheus.Collector.
func (v *FastVec) Describe(ch chan<- *prometheus.Desc) { ch <- v.desc }

// Collect implements prometheus.Collector.
func (v *FastVec) Collect(ch chan<- prometheus.Metric) {
	if v.toggle == nil || v.toggle.Exposed() {
		v.table.Each(func(c *labels.Child[child]) { ch <- c.Value.summary })
	}
}

// plain reports whether values are looked up as they come.
func (v *FastVec) plain() bool { return v.curry == nil && v.constraints == nil }

//go:noinline
func (v *FastVec) getSlow(values []string) (prometheus.Observer, error) {
	full, err := v.fromValues(values)
	if err != nil {
		return nil, err
	}
	return v.create(hashOf(full), full), nil
}

// create returns the child with all its values, which it keeps.
func (v *FastVec) create(hash uint64, full []string) prometheus.Observer {
	return v.table.Get(hash, full, func() *labels.Child[child] {
		c := &labels.Child[child]{Values: full}
		c.Value.summary = newChild(v.settings(), full)
		c.Value.observer = c.Value.summary
		if v.toggle != nil {
			c.Value.observer = switches.WrapSummary(v.toggle, c.Value.summary)
		}
		return c
	}).Value.observer
}

func hashOf(values []string) uint64 {
	hash := labels.Begin()
	for _, value := range values {
		hash = labels.Mix(hash, value)
	}
	return hash
}

// fromValues returns the values of all labels, given those of the free ones.
func (v *FastVec) fromValues(values []string) ([]string, error) {
	if len(values) != v.free {
		return nil, fmt.Errorf("%w: expected %d label values but got %d in %#v", errCardinality, v.free, len(values), values)
	}
	for _, value := range values {
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("label value %q is not valid UTF-8", value)
		}
	}
	full := make([]string, len(v.names))
	for i := range full {
		if v.curry != nil && v.curry[i] != nil {
			full[i] = *v.curry[i]
			continue
		}
		full[i] = v.constrain(i, values[0])
		values = values[1:]
	}
	return full, nil
}

// fromMap appends the values of all labels, given the free ones by name.
func (v *FastVec) fromMap(full []string, l prometheus.Labels) ([]string, error) {
	if len(l) != v.free {
		return nil, fmt.Errorf("%w: expected %d label values but got %d in %#v", errCardinality, v.free, len(l), l)
	}
	for i, name := range v.names {
		value, ok := l[name]
		switch {
		case v.curry != nil && v.curry[i] != nil:
			if ok {
				return nil, fmt.Errorf("label name %q is already curried", name)
			}
			value = *v.curry[i]
		case !ok:
			return nil, fmt.Errorf("label name %q missing in label map", name)
		case !utf8.ValidString(value):
			return nil, fmt.Errorf("label %s: value %q is not valid UTF-8", name, value)
		default:
			value = v.constrain(i, value)
		}
		full = append(full, value)
	}
	return full, nil
}

func (v *FastVec) constrain(label int, value string) string {
	if v.constraints != nil && v.constraints[label] != nil {
		return v.constraints[label](value)
	}
	return value
}
