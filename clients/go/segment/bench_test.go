//go:build linux

// What publishing costs, and what counting would cost in cells that goroutines share instead.

package segment

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/internal/record"
)

func BenchmarkPublish(b *testing.B) {
	for _, series := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(series), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total"}, []string{"path", "code"})
			registry.MustRegister(calls)
			for i := range series {
				calls.WithLabelValues(fmt.Sprintf("/path/%d", i), "200").Inc()
			}
			p, err := Start(Options{Dir: filepath.Join(b.TempDir(), "s"), App: "b", Gatherer: registry, Interval: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			b.Run("gather", func(b *testing.B) {
				for b.Loop() {
					_, _ = registry.Gather()
				}
			})
			b.Run("publish", func(b *testing.B) {
				for b.Loop() {
					_ = p.Publish()
				}
			})
		})
	}
}

func BenchmarkCount(b *testing.B) {
	p, err := Start(Options{Dir: filepath.Join(b.TempDir(), "s"), App: "b", Gatherer: prometheus.NewRegistry(), Interval: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	_, first, err := p.file.push(make([]byte, 24), 16, 8)
	if err != nil {
		b.Fatal(err)
	}
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total"})
	b.Run("client_golang's counter", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				counter.Inc()
			}
		})
	})
	b.Run("a cell that goroutines share", func(b *testing.B) {
		cell := p.file.cell(first)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				cell.Add(1)
			}
		})
	})
	b.Run("a buffer for each processor", func(b *testing.B) {
		recorder := new(record.Recorder)
		record.Init(recorder, &record.Config{})
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				recorder.Observe(1)
			}
		})
	})
}
