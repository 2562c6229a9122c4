package main

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve exposes metrics of every type, in every format the client has, until it is killed.
//
// Values are the same in every process. It prints "Listening on 127.0.0.1:port".
func serve() error {
	registry := prometheus.NewRegistry()
	register(registry)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics:                   true,
		EnableOpenMetricsTextCreatedSamples: true,
	})
	http.Handle("/metrics", handler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("Listening on %s\n", listener.Addr())
	return http.Serve(listener, nil)
}

func register(registry *prometheus.Registry) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "demo_requests_total", Help: "Requests, by \"code\".",
	}, []string{"code"})
	temperature := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "demo_temperature_celsius", Help: "Temperature.",
	}, []string{"room"})
	native := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "demo_native_seconds", Help: "Native and classic.",
		Buckets: []float64{0.1, 1, 10}, NativeHistogramBucketFactor: 1.1,
		NativeHistogramMaxExemplars: 4,
	}, []string{"path"})
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "demo_classic_seconds", Help: "Classic only.", Buckets: []float64{0.1, 1, 10},
	})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{
		Name: "demo_rpc_seconds", Help: "Summary.", Objectives: map[float64]float64{0.5: 0.01, 0.99: 0.001},
		MaxAge: 24 * time.Hour,
	})
	utf8 := prometheus.NewGauge(prometheus.GaugeOpts{Name: "demo.utf8.gauge", Help: "A name with dots."})
	registry.MustRegister(requests, temperature, native, classic, summary, utf8)
	for i := range 3 {
		counter := requests.WithLabelValues(strconv.Itoa(200 + 100*i))
		counter.(prometheus.ExemplarAdder).AddWithExemplar(float64(17*i)+0.5, prometheus.Labels{"trace_id": fmt.Sprintf("trace-%d", i)})
		temperature.WithLabelValues(fmt.Sprintf("room \"%d\"\n", i)).Set(-3.25 * float64(i))
	}
	for i := range 200 {
		value := float64(i*i) / 1500
		for _, path := range []string{"/", "/a"} {
			observer := native.WithLabelValues(path).(prometheus.ExemplarObserver)
			observer.ObserveWithExemplar(value-1, prometheus.Labels{"trace_id": strconv.Itoa(i)})
		}
		classic.Observe(value)
		summary.Observe(value)
	}
	utf8.Set(42)
}
