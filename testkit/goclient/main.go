// Command goclient calls a Prometheus HTTP API the way client_golang does and says which calls work.
//
// It prints one line a call, "ok <call> <detail>" or "fail <call> <error>", and exits 1 when any failed.
//
//	goclient http://127.0.0.1:9090 [metric]
//	goclient serve
//	goclient push <base URL>
//
// The metric (default "up") must exist with at least one sample in the last minutes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "push" {
		if err := pushAll(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: goclient serve | push <base URL> | <base URL> [metric]")
		os.Exit(2)
	}
	metric := "up"
	if len(os.Args) == 3 {
		metric = os.Args[2]
	}
	client, err := api.NewClient(api.Config{Address: os.Args[1]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if failed := run(v1.NewAPI(client), metric); failed > 0 {
		os.Exit(1)
	}
}

// call is one API call with what must hold for its answer.
type call struct {
	name string
	do   func(context.Context) (string, error)
}

// run makes every call and returns how many failed.
func run(prom v1.API, metric string) int {
	failed := 0
	for _, c := range calls(prom, metric) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		detail, err := c.do(ctx)
		cancel()
		if err != nil {
			failed++
			fmt.Printf("fail %s %v\n", c.name, err)
			continue
		}
		fmt.Printf("ok %s %s\n", c.name, detail)
	}
	return failed
}

func calls(prom v1.API, metric string) []call {
	now := time.Now()
	start := now.Add(-5 * time.Minute)
	return []call{
		{"buildinfo", func(ctx context.Context) (string, error) {
			info, err := prom.Buildinfo(ctx)
			return expect(err, info.Version != "", "version %q", info.Version)
		}},
		{"query", func(ctx context.Context) (string, error) {
			value, warnings, infos, err := prom.Query(ctx, metric, time.Now())
			vector, _ := value.(model.Vector)
			return expect(err, len(vector) > 0 && len(warnings)+len(infos) == 0, "%d samples, warnings %v %v", len(vector), warnings, infos)
		}},
		{"query scalar", func(ctx context.Context) (string, error) {
			value, _, _, err := prom.Query(ctx, "1 + 2", now)
			scalar, ok := value.(*model.Scalar)
			return expect(err, ok && scalar.Value == 3, "%v", value)
		}},
		{"query error", func(ctx context.Context) (string, error) {
			_, _, _, err := prom.Query(ctx, "sum(", now)
			var apiErr *v1.Error
			ok := errors.As(err, &apiErr) && apiErr.Type == v1.ErrBadData
			return expect(nil, ok, "%v", err)
		}},
		{"query_range", func(ctx context.Context) (string, error) {
			r := v1.Range{Start: start, End: time.Now(), Step: time.Second}
			value, _, _, err := prom.QueryRange(ctx, metric, r)
			matrix, _ := value.(model.Matrix)
			return expect(err, len(matrix) > 0 && len(matrix[0].Values) > 0, "%d series", len(matrix))
		}},
		{"series", func(ctx context.Context) (string, error) {
			series, _, _, err := prom.Series(ctx, []string{metric}, start, time.Now())
			ok := len(series) > 0 && series[0][model.MetricNameLabel] == model.LabelValue(metric)
			return expect(err, ok, "%d series", len(series))
		}},
		{"labels", func(ctx context.Context) (string, error) {
			names, _, _, err := prom.LabelNames(ctx, nil, start, time.Now())
			return expect(err, slices.Contains(names, model.MetricNameLabel), "%d names", len(names))
		}},
		{"label values", func(ctx context.Context) (string, error) {
			values, _, _, err := prom.LabelValues(ctx, model.MetricNameLabel, nil, start, time.Now())
			return expect(err, slices.Contains(values, model.LabelValue(metric)), "%d values", len(values))
		}},
		{"metadata", func(ctx context.Context) (string, error) {
			metadata, err := prom.Metadata(ctx, "", "")
			return expect(err, len(metadata) > 0, "%d families", len(metadata))
		}},
		{"targets", func(ctx context.Context) (string, error) {
			targets, err := prom.Targets(ctx)
			return expect(err, len(targets.Active) > 0, "%d active", len(targets.Active))
		}},
	}
}

// expect turns an answer that is not what it should be into an error that shows it.
func expect(err error, ok bool, format string, args ...any) (string, error) {
	if err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	detail := fmt.Sprintf(format, args...)
	if !ok {
		return "", fmt.Errorf("unexpected answer: %s", detail)
	}
	return detail, nil
}
