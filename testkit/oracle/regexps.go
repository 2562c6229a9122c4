package main

import (
	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v2"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// regexpRequest asks which texts a pattern matches, and what a template becomes for each.
//
// Form is "plain" (matches anywhere), "anchored" (as relabelling and label_replace do) or "matcher".
type regexpRequest struct {
	Pattern  string   `json:"pattern"`
	Form     string   `json:"form"`
	Texts    []string `json:"texts"`
	Template string   `json:"template"`
}

// regexpAnswer has an entry for each text; an expansion is nil where nothing matched.
type regexpAnswer struct {
	Matches  []bool    `json:"matches"`
	Expanded []*string `json:"expanded,omitempty"`
}

func (req regexpRequest) answer() (any, error) {
	var found regexpAnswer
	if req.Form == "matcher" {
		matcher, err := labels.NewMatcher(labels.MatchRegexp, "l", req.Pattern)
		if err != nil {
			return nil, err
		}
		for _, text := range req.Texts {
			found.Matches = append(found.Matches, matcher.Matches(text))
		}
		return found, nil
	}
	pattern := req.Pattern
	if req.Form == "anchored" {
		pattern = "^(?s:" + pattern + ")$"
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, text := range req.Texts {
		match := compiled.FindStringSubmatchIndex(text)
		found.Matches = append(found.Matches, match != nil)
		var expanded *string
		if match != nil {
			filled := string(compiled.ExpandString(nil, req.Template, text, match))
			expanded = &filled
		}
		found.Expanded = append(found.Expanded, expanded)
	}
	return found, nil
}

// relabelRequest asks what rules, written in YAML, make of labels.
type relabelRequest struct {
	Rules  string            `json:"rules"`
	Legacy bool              `json:"legacy"`
	Labels map[string]string `json:"labels"`
}

// relabelAnswer has no labels when the rules drop what carries them.
type relabelAnswer struct {
	Keep   bool              `json:"keep"`
	Labels map[string]string `json:"labels"`
}

func (req relabelRequest) answer() (any, error) {
	var rules []*relabel.Config
	if err := yaml.UnmarshalStrict([]byte(req.Rules), &rules); err != nil {
		return nil, err
	}
	scheme := model.UTF8Validation
	if req.Legacy {
		scheme = model.LegacyValidation
	}
	for _, rule := range rules {
		if err := rule.Validate(scheme); err != nil {
			return nil, err
		}
	}
	builder := labels.NewBuilder(labels.FromMap(req.Labels))
	if !relabel.ProcessBuilder(builder, rules...) {
		return relabelAnswer{}, nil
	}
	return relabelAnswer{Keep: true, Labels: builder.Labels().Map()}, nil
}
