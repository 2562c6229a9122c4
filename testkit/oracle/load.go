package main

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
)

// loaded holds the series of load commands as Prometheus' own .test files are run over them.
type loaded struct {
	testing.TB

	text     string
	storage  *teststorage.TestStorage
	cleanups []func()
	failure  string
}

func loadAll(text string) (l *loaded, err error) {
	l = &loaded{text: text}
	defer func() {
		if cause := recover(); cause != nil {
			l.close()
			l, err = nil, fmt.Errorf("%v", cause)
		}
	}()
	l.storage = promqltest.LoadedStorage(l, text, func(options *tsdb.Options) {
		options.EnableSTStorage = true
		options.FloatChunkEncoding = chunkenc.EncXOR2
		options.EnableHistogramSTEncoding = true
	})
	return l, nil
}

// What LoadedStorage expects of a test: a failure ends the loading.

func (l *loaded) Helper()                           {}
func (l *loaded) Cleanup(f func())                  { l.cleanups = append(l.cleanups, f) }
func (l *loaded) Errorf(format string, args ...any) { l.failure = fmt.Sprintf(format, args...) }
func (l *loaded) FailNow()                          { panic(l.failure) }
func (l *loaded) Name() string                      { return "load" }

func (l *loaded) close() {
	for _, f := range l.cleanups {
		f()
	}
	l.cleanups = nil
}
