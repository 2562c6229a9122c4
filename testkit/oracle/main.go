// Command oracle answers what the newest released Prometheus thinks of a PromQL expression.
//
// It reads one JSON request a line from standard input and writes one JSON answer a line to standard output:
//
//	{"expr": "sum(up) by (job)"}
//	    -> {"ok": true, "string": "sum by (job) (up)", "type": "vector"} or {"ok": false, "error": "1:5: parse error: …"}
//	{"expr": "…", "load": "load 30s\n  up 1 1", "time_ms": 30000}
//	{"expr": "…", "load": "…", "start_ms": 0, "end_ms": 60000, "step_ms": 15000}
//	    -> {"ok": true, "type": "…", "result": …, "warnings": […], "infos": […]} or {"ok": false, "error": "…"}
//
//	{"numbers": {"function": "exp", "args": ["3ff0000000000000"]}}
//	    -> {"ok": true, "result": ["4005bf0a8b145769"]}
//	{"regexp": {"pattern": "a(.*)", "form": "anchored", "texts": ["ab"], "template": "$1"}}
//	{"relabel": {"rules": "- action: …", "labels": {"a": "b"}}}
//	{"config": {"path": "prometheus.yml"}}
//	{"rules": {"text": "groups: …"}}
//	{"template": {"alert": "A", "text": "{{ $value }}", "labels": {"a": "b"}, "value": 1.5, "elements": […]}}
//	{"evaluations": {"load": "load 15s\n  up 1 1", "phases": [{"rules": "groups: …", "times_ms": [15000]}], …}}
//	{"notifications": {"config": "alerting: …", "alerts": [{"labels": {"alertname": "A"}, …}], "posts": 1}}
//	{"exposition": {"content_type": "text/plain", "body": "base64", "native": true}}
//	    -> {"ok": true, "result": …} or {"ok": false, "error": "…"}
//
//	{"scrape": {"path": "prometheus.yml", "rounds": 3}} and {"expr": "…", "scraped": true, …}
//	    scrape the static targets of a file, and ask about what that brought
//
//	{"expr": "…", "written": "base64 of a prometheus.WriteRequest", …} is about that request's samples instead
//
//	{"receive": true}
//	    receive remote write from the first such request on; each tells the URL and all that came so far
//
// "load" are load commands of the .test files of Prometheus, the last ones again when it is empty; the result has the shape of the HTTP API's, and with
// "exact" one that keeps all there is. "features" are feature flags of the engine.
// The answer carries the request's "id" when there is one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// parserOptions are those of the .test files, except that names of other scripts need quotes, as in a server.
var parserOptions = parser.Options{
	EnableExperimentalFunctions: true,
	EnableBinopFillModifiers:    true,
}

// maxLine is the longest request, in bytes.
const maxLine = 16 << 20

type request struct {
	ID      json.RawMessage `json:"id"`
	Expr    string          `json:"expr"`
	Load    *string         `json:"load"`
	Written *string         `json:"written"`
	TimeMs  int64           `json:"time_ms"`
	StartMs int64           `json:"start_ms"`
	EndMs   int64           `json:"end_ms"`
	StepMs  int64           `json:"step_ms"`
	// Exact asks for all digits and all of histograms.
	Exact    bool     `json:"exact"`
	Features features `json:"features"`

	Regexp  *regexpRequest  `json:"regexp"`
	Relabel *relabelRequest `json:"relabel"`
	Config  *configRequest  `json:"config"`
	Rules   *rulesRequest   `json:"rules"`

	Numbers *numbersRequest `json:"numbers"`

	Template *templateRequest `json:"template"`

	Evaluations *evaluationsRequest `json:"evaluations"`

	Exposition *expositionRequest `json:"exposition"`

	Notifications *notificationsRequest `json:"notifications"`

	Receive bool           `json:"receive"`
	Scrape  *scrapeRequest `json:"scrape"`
	Scraped bool           `json:"scraped"`
}

// features are those of a server that change answers.
type features struct {
	DelayedNameRemoval bool `json:"delayed_name_removal"`
	TypeAndUnitLabels  bool `json:"type_and_unit_labels"`
	UseStartTimestamps bool `json:"use_start_timestamps"`
}

type answer struct {
	ID       json.RawMessage `json:"id,omitempty"`
	OK       bool            `json:"ok"`
	String   string          `json:"string,omitempty"`
	Type     string          `json:"type,omitempty"`
	Result   any             `json:"result,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Infos    []string        `json:"infos,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers until the input ends.
func serve(in io.Reader, out io.Writer) error {
	o := newOracle()
	defer o.close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		var req request
		var ans answer
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			ans = answer{Error: fmt.Sprintf("bad request: %v", err)}
		} else {
			ans = o.answer(req)
		}
		ans.ID = req.ID
		if err := encoder.Encode(ans); err != nil {
			return err
		}
	}
	return lines.Err()
}

// oracle keeps the last loaded series: requests usually come in runs over one load.
type oracle struct {
	parser  parser.Parser
	engines map[features]*promql.Engine
	loaded  *loaded
	// written holds what a remote write request brought instead, scraped what scraping did.
	written written
	scraped scraped
	// receiver takes remote write.
	receiver receiver
}

func newOracle() *oracle {
	return &oracle{parser: parser.NewParser(parserOptions), engines: map[features]*promql.Engine{}}
}

// engine returns the engine with these features.
func (o *oracle) engine(with features) *promql.Engine {
	engine := o.engines[with]
	if engine == nil {
		engine = promql.NewEngine(promql.EngineOpts{
			MaxSamples:               50_000_000,
			Timeout:                  time.Minute,
			LookbackDelta:            5 * time.Minute,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			EnableAtModifier:         true,
			EnableNegativeOffset:     true,
			EnableDelayedNameRemoval: with.DelayedNameRemoval,
			EnableTypeAndUnitLabels:  with.TypeAndUnitLabels,
			UseStartTimestamps:       with.UseStartTimestamps,
			Parser:                   o.parser,
		})
		o.engines[with] = engine
	}
	return engine
}

func (o *oracle) close() {
	if o.loaded != nil {
		o.loaded.close()
	}
	o.written.close()
	o.scraped.close()
	o.receiver.close()
	for _, engine := range o.engines {
		engine.Close()
	}
}

func (o *oracle) answer(req request) answer {
	switch {
	case req.Regexp != nil:
		return direct(req.Regexp.answer())
	case req.Relabel != nil:
		return direct(req.Relabel.answer())
	case req.Config != nil:
		return direct(req.Config.answer())
	case req.Rules != nil:
		return direct(req.Rules.answer())
	case req.Numbers != nil:
		return direct(req.Numbers.answer())
	case req.Template != nil:
		return direct(req.Template.answer())
	case req.Evaluations != nil:
		return direct(req.Evaluations.answer())
	case req.Exposition != nil:
		return direct(req.Exposition.answer())
	case req.Notifications != nil:
		return direct(req.Notifications.answer())
	case req.Receive:
		return direct(o.receiver.answer())
	case req.Scrape != nil:
		return direct(o.scraped.answer(req.Scrape))
	}
	if req.Load == nil && req.Written == nil && !req.Scraped {
		return o.parse(req.Expr)
	}
	ans, err := o.query(req)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return ans
}

// direct answers with a result that needs no series.
func direct(result any, err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{OK: true, Result: result}
}

func (o *oracle) parse(text string) answer {
	expr, err := o.parser.ParseExpr(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{OK: true, String: expr.String(), Type: string(expr.Type())}
}

func (o *oracle) query(req request) (answer, error) {
	source, err := o.source(req)
	if err != nil {
		return answer{}, err
	}
	ctx, engine := context.Background(), o.engine(req.Features)
	var query promql.Query
	if req.StepMs > 0 {
		start, end := time.UnixMilli(req.StartMs), time.UnixMilli(req.EndMs)
		step := time.Duration(req.StepMs) * time.Millisecond
		query, err = engine.NewRangeQuery(ctx, source, nil, req.Expr, start, end, step)
	} else {
		query, err = engine.NewInstantQuery(ctx, source, nil, req.Expr, time.UnixMilli(req.TimeMs))
	}
	if err != nil {
		return answer{}, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return answer{}, result.Err
	}
	warnings, infos := result.Warnings.AsStrings(req.Expr, 0, 0)
	slices.Sort(warnings)
	slices.Sort(infos)
	// Encoded here: the query's memory is reused once it is closed.
	value := o.ordered(req.Expr, result.Value)
	var shown any = value
	if req.Exact {
		shown = exactOf(value)
	}
	encoded, err := json.Marshal(shown)
	if err != nil {
		return answer{}, err
	}
	kind := string(result.Value.Type())
	return answer{OK: true, Type: kind, Result: json.RawMessage(encoded), Warnings: warnings, Infos: infos}, nil
}

// ordered sorts series by labels, since those of one load come in any order. A vector whose order the query asked
// for keeps it.
func (o *oracle) ordered(text string, value parser.Value) parser.Value {
	switch value := value.(type) {
	case promql.Matrix:
		slices.SortFunc(value, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	case promql.Vector:
		if !o.asksForOrder(text) {
			slices.SortFunc(value, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
		}
	}
	return value
}

// asksForOrder tells whether the outermost part of a query is one that orders its result.
func (o *oracle) asksForOrder(text string) bool {
	expr, err := o.parser.ParseExpr(text)
	if err != nil {
		return false
	}
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
		case *parser.Call:
			return strings.HasPrefix(e.Func.Name, "sort")
		case *parser.AggregateExpr:
			return e.Op == parser.TOPK || e.Op == parser.BOTTOMK
		default:
			return false
		}
	}
}

// source returns what a request is asked about.
func (o *oracle) source(req request) (storage.Queryable, error) {
	if req.Scraped {
		return o.scraped.source()
	}
	if req.Written != nil {
		return o.written.of(*req.Written)
	}
	if err := o.load(*req.Load); err != nil {
		return nil, err
	}
	return o.loaded.storage, nil
}

func (o *oracle) load(text string) error {
	if o.loaded == nil && text == "" {
		return errors.New("nothing was loaded")
	}
	if o.loaded != nil && (text == "" || o.loaded.text == text) {
		return nil
	}
	next, err := loadAll(text)
	if err != nil {
		return err
	}
	if o.loaded != nil {
		o.loaded.close()
	}
	o.loaded = next
	return nil
}
