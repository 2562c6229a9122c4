package main

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// rulesRequest asks for all errors in the text of a rule file.
type rulesRequest struct {
	Text   string `json:"text"`
	Legacy bool   `json:"legacy"`
}

func (req rulesRequest) answer() (any, error) {
	scheme := model.UTF8Validation
	if req.Legacy {
		scheme = model.LegacyValidation
	}
	p := parser.NewParser(parserOptions)
	_, errs := rulefmt.Parse([]byte(req.Text), false, scheme, p, promslog.NewNopLogger())
	texts := []string{}
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts, nil
}
