package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// evaluationsRequest asks what the groups of a rule file make of series.
type evaluationsRequest struct {
	// Load is one load command of the .test files.
	Load string `json:"load"`
	// Phases follow each other over the same storage.
	Phases     []evaluationPhase `json:"phases"`
	IntervalMs int64             `json:"interval_ms"`
	GraceMs    int64             `json:"grace_ms"`
	External   map[string]string `json:"external_labels"`
	URL        string            `json:"external_url"`
	// Only series whose names match are answered.
	Names string `json:"names"`
}

// evaluationPhase is one configuration, evaluated at some times.
type evaluationPhase struct {
	Rules string `json:"rules"`
	// How it begins: "start", "restart" (restores after two evaluations) or "reload" (copies state).
	Begin   string  `json:"begin"`
	TimesMs []int64 `json:"times_ms"`
}

type evaluationsResult struct {
	Series map[string][]string `json:"series"`
	// Sent has the alerts of each evaluation that sent any.
	Sent map[string][]string `json:"sent"`
	// Errors has the rules' last errors after each evaluation that left any.
	Errors map[string][]string `json:"errors"`
	// Alerts has all alerts in memory after the last evaluation of each phase.
	Alerts [][]string `json:"alerts"`

	// now is the time of the evaluation: a group that is kept notifies as its first manager told it to.
	now time.Time
}

// textLoader makes every file the same text.
type textLoader struct {
	text   string
	parser parser.Parser
}

func (l textLoader) Load(string, bool, model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	return rulefmt.Parse([]byte(l.text), false, model.UTF8Validation, l.parser, promslog.NewNopLogger())
}

func (l textLoader) Parse(query string) (parser.Expr, error) { return l.parser.ParseExpr(query) }

func (req evaluationsRequest) answer() (any, error) {
	loader, err := promqltest.NewLazyLoader(req.Load, promqltest.LazyLoaderOpts{
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
	})
	if err != nil {
		return nil, err
	}
	defer loader.Close()
	result := evaluationsResult{
		Sent:   map[string][]string{},
		Errors: map[string][]string{},
	}
	var old map[string]*rules.Group
	for _, phase := range req.Phases {
		if old, err = req.run(loader, phase, old, &result); err != nil {
			return nil, err
		}
	}
	result.Series, err = dump(loader.Storage(), req.Names)
	return result, err
}

// run evaluates one phase and returns its groups.
func (req evaluationsRequest) run(
	loader *promqltest.LazyLoader, phase evaluationPhase, old map[string]*rules.Group, result *evaluationsResult,
) (map[string]*rules.Group, error) {
	p := parser.NewParser(parserOptions)
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:       rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		AppendableV2:    loader.Storage(),
		Queryable:       loader.Storage(),
		Context:         context.Background(),
		Logger:          promslog.NewNopLogger(),
		OutageTolerance: time.Hour,
		ForGracePeriod:  time.Duration(req.GraceMs) * time.Millisecond,
		ResendDelay:     time.Minute,
		GroupLoader:     textLoader{phase.Rules, p},
		Parser:          p,
		NotifyFunc: func(_ context.Context, expr string, alerts ...*rules.Alert) {
			for _, alert := range alerts {
				ends := alert.ValidUntil
				if !alert.ResolvedAt.IsZero() {
					ends = alert.ResolvedAt
				}
				key := strconv.FormatInt(result.now.UnixMilli(), 10)
				result.Sent[key] = append(result.Sent[key], fmt.Sprintf("%s %s %d %d %v",
					alert.Labels, alert.Annotations, alert.FiredAt.UnixMilli(), ends.UnixMilli(), !alert.ResolvedAt.IsZero()))
			}
		},
	})
	interval := time.Duration(req.IntervalMs) * time.Millisecond
	groups, errs := manager.LoadGroups(interval, labels.FromMap(req.External), req.URL, nil, false, "rules.yml")
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	for key, group := range groups {
		before, found := old[key]
		switch {
		case phase.Begin == "reload" && found && before.Equals(group):
			groups[key] = before
		case phase.Begin == "reload" && found:
			group.CopyState(before)
		}
		if phase.Begin != "restart" {
			each(groups[key], func(rule *rules.AlertingRule) { rule.SetRestored(true) })
		}
	}
	keys := []string{}
	for key := range groups {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, ms := range phase.TimesMs {
		now := time.UnixMilli(ms).UTC()
		result.now = now
		var failed error
		loader.WithSamplesTill(now, func(err error) {
			if failed = err; err != nil {
				return
			}
			for _, key := range keys {
				groups[key].Eval(context.Background(), now)
				if phase.Begin == "restart" && i == 1 {
					groups[key].RestoreForState(now)
				}
			}
		})
		if failed != nil {
			return nil, failed
		}
		at := strconv.FormatInt(ms, 10)
		slices.Sort(result.Sent[at])
		for _, key := range keys {
			for _, rule := range groups[key].Rules() {
				// Which of two samples is refused is in the storage; the text has their values.
				if err := rule.LastError(); err != nil && !strings.Contains(err.Error(), "duplicate sample for timestamp") {
					result.Errors[at] = append(result.Errors[at], rule.Name()+": "+err.Error())
				}
			}
		}
	}
	alerts := []string{}
	for _, key := range keys {
		each(groups[key], func(rule *rules.AlertingRule) {
			for _, alert := range rule.ActiveAlerts() {
				alerts = append(alerts, fmt.Sprintf("%s %s %s %d %v",
					alert.Labels, alert.Annotations, alert.State, alert.ActiveAt.UnixMilli(), alert.Value))
			}
		})
	}
	slices.Sort(alerts)
	result.Alerts = append(result.Alerts, alerts)
	return groups, nil
}

func each(group *rules.Group, f func(*rules.AlertingRule)) {
	for _, rule := range group.Rules() {
		if alerting, ok := rule.(*rules.AlertingRule); ok {
			f(alerting)
		}
	}
}

// dump returns all samples of the series whose names match.
func dump(source storage.Queryable, names string) (map[string][]string, error) {
	querier, err := source.Querier(math.MinInt64/2, math.MaxInt64/2)
	if err != nil {
		return nil, err
	}
	defer querier.Close()
	matcher, err := labels.NewMatcher(labels.MatchRegexp, labels.MetricName, names)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	set := querier.Select(context.Background(), true, nil, matcher)
	for set.Next() {
		samples := []string{}
		it := set.At().Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			switch kind {
			case chunkenc.ValFloat:
				t, v := it.At()
				text := strconv.FormatUint(math.Float64bits(v), 16)
				if value.IsStaleNaN(v) {
					text = "stale"
				}
				samples = append(samples, fmt.Sprintf("%d %s", t, text))
			default:
				t, h := it.AtFloatHistogram(nil)
				text := "stale"
				if !value.IsStaleNaN(h.Sum) {
					text = fmt.Sprintf("histogram %v %v", h.Count, h.Sum)
				}
				samples = append(samples, fmt.Sprintf("%d %s", t, text))
			}
		}
		all[set.At().Labels().String()] = samples
	}
	return all, set.Err()
}
