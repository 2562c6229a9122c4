// The container's limits and the runtime's settings as metrics.
//
// Invariant: a limit that does not exist has no sample.

package runtimecpu

import (
	"io/fs"
	"math"
	"os"
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	descQuota = prometheus.NewDesc("runtimecpu_quota_cpus",
		"CPUs that the container may use.", nil, nil)
	descPeriods = prometheus.NewDesc("runtimecpu_periods_total",
		"Periods of the CPU quota in which the container ran.", nil, nil)
	descThrottled = prometheus.NewDesc("runtimecpu_throttled_periods_total",
		"Periods in which the container used up its CPU quota.", nil, nil)
	descThrottledSeconds = prometheus.NewDesc("runtimecpu_throttled_seconds_total",
		"Time that threads waited for the next period of the CPU quota, added up.", nil, nil)
	descMemory = prometheus.NewDesc("runtimecpu_memory_limit_bytes",
		"Memory that the container may use.", nil, nil)
	descProcs = prometheus.NewDesc("runtimecpu_gomaxprocs",
		"GOMAXPROCS in effect.", nil, nil)
	descGOGC = prometheus.NewDesc("runtimecpu_gogc_percent",
		"GOGC in effect; +Inf when the collector is off.", nil, nil)
	descMemLimit = prometheus.NewDesc("runtimecpu_gomemlimit_bytes",
		"GOMEMLIMIT in effect.", nil, nil)
)

type collector struct{ root fs.FS }

// NewCollector returns a collector of the container's limits, its throttling, and the runtime's settings in effect.
func NewCollector() prometheus.Collector { return collector{os.DirFS("/")} }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descQuota, descPeriods, descThrottled, descThrottledSeconds, descMemory,
		descProcs, descGOGC, descMemLimit} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(desc, kind, v)
	}
	limits, err := ReadLimits(c.root)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descQuota, err)
	}
	if limits.CPUs > 0 {
		put(descQuota, prometheus.GaugeValue, limits.CPUs)
		put(descPeriods, prometheus.CounterValue, float64(limits.Throttling.Periods))
		put(descThrottled, prometheus.CounterValue, float64(limits.Throttling.Throttled))
		put(descThrottledSeconds, prometheus.CounterValue, limits.Throttling.Seconds)
	}
	if limits.MemoryBytes > 0 {
		put(descMemory, prometheus.GaugeValue, float64(limits.MemoryBytes))
	}
	settings := []metrics.Sample{
		{Name: "/sched/gomaxprocs:threads"}, {Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"},
	}
	metrics.Read(settings)
	put(descProcs, prometheus.GaugeValue, number(settings[0]))
	gogc := number(settings[1])
	if gogc == math.MaxUint64 {
		gogc = math.Inf(1)
	}
	put(descGOGC, prometheus.GaugeValue, gogc)
	if limit := number(settings[2]); limit < math.MaxInt64 {
		put(descMemLimit, prometheus.GaugeValue, limit)
	}
}

func number(s metrics.Sample) float64 {
	if s.Value.Kind() != metrics.KindUint64 {
		return math.NaN()
	}
	return float64(s.Value.Uint64())
}
