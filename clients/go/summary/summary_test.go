// client_golang's documented behaviour of Summaries, ours beside client_golang's where both can be asked.

package summary

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/switches"
)

func opts(objectives map[float64]float64) prometheus.SummaryOpts {
	return prometheus.SummaryOpts{Name: "test_seconds", Help: "Help.", Objectives: objectives}
}

var usual = map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}

func write(t *testing.T, m any) *dto.Summary {
	t.Helper()
	var out dto.Metric
	if err := m.(prometheus.Metric).Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Summary
}

// panicOf returns what f panics with, as text.
func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func TestNoObjectivesNoQuantiles(t *testing.T) {
	for _, objectives := range []map[float64]float64{nil, {}} {
		s := New(opts(objectives))
		s.Observe(3)
		s.Observe(0.14)
		out := write(t, s)
		if out.GetSampleCount() != 2 || out.GetSampleSum() != 3.14 || len(out.Quantile) != 0 {
			t.Errorf("%v", out)
		}
	}
}

func TestMisuseIsTheSame(t *testing.T) {
	bad := func(change func(*prometheus.SummaryOpts)) prometheus.SummaryOpts {
		o := opts(usual)
		change(&o)
		return o
	}
	quantile := bad(func(o *prometheus.SummaryOpts) { o.ConstLabels = prometheus.Labels{"quantile": "x"} })
	negative := bad(func(o *prometheus.SummaryOpts) { o.MaxAge = -1 })
	for name, pair := range map[string][2]func(){
		"label quantile": {func() { New(quantile) }, func() { prometheus.NewSummary(quantile) }},
		"variable label quantile": {
			func() { NewVec(opts(nil), []string{"quantile"}) },
			func() { prometheus.NewSummaryVec(opts(nil), []string{"quantile"}) },
		},
		"fast vector": {
			func() { NewFastVec(opts(nil), []string{"a", "quantile"}) },
			func() { prometheus.NewSummaryVec(opts(nil), []string{"a", "quantile"}) },
		},
		"negative age": {func() { New(negative) }, func() { prometheus.NewSummary(negative) }},
		"negative age in a vector": {
			func() { NewVec(negative, []string{"a"}).WithLabelValues("1") },
			func() { prometheus.NewSummaryVec(negative, []string{"a"}).WithLabelValues("1") },
		},
		"negative age in a fast vector": {
			func() { NewFastVec(negative, []string{"a"}).WithLabelValues("1") },
			func() { prometheus.NewSummaryVec(negative, []string{"a"}).WithLabelValues("1") },
		},
		"too few values": {
			func() { NewFastVec(opts(nil), []string{"a", "b"}).WithLabelValues("1") },
			func() { prometheus.NewSummaryVec(opts(nil), []string{"a", "b"}).WithLabelValues("1") },
		},
	} {
		ours, theirs := panicOf(pair[0]), panicOf(pair[1])
		if ours == "" || ours != theirs {
			t.Errorf("%s: we say %q, client_golang says %q", name, ours, theirs)
		}
	}
}

func TestBadNamesErrWhenRegistered(t *testing.T) {
	o := opts(nil)
	o.Name = "\xff"
	for _, c := range []prometheus.Collector{New(o), NewVec(o, []string{"a"}), NewFastVec(o, []string{"a"})} {
		if err := prometheus.NewRegistry().Register(c); err == nil {
			t.Errorf("%T is registered", c)
		}
	}
}

func TestDecay(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	o := opts(map[float64]float64{0.1: 0.001})
	o.MaxAge = 100 * time.Millisecond
	o.AgeBuckets = 10
	s := NewSummary(Options{SummaryOpts: o, Now: func() time.Time { return now }})
	for i := 1; i <= 1000; i++ {
		now = now.Add(time.Millisecond)
		s.Observe(float64(i))
		if i%10 != 0 {
			continue
		}
		got := write(t, s).Quantile[0].GetValue()
		if want := max(float64(i)/10, float64(i-90)); math.Abs(got-want) > 10 {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	now = now.Add(100*time.Millisecond + 1)
	out := write(t, s)
	if !math.IsNaN(out.Quantile[0].GetValue()) || out.GetSampleCount() != 1000 || out.GetSampleSum() != 500500 {
		t.Errorf("after MaxAge: %v", out)
	}
}

func TestOneAgeBucketForgetsAllAtOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	o := opts(usual)
	o.MaxAge, o.AgeBuckets = time.Minute, 1
	s := NewSummary(Options{SummaryOpts: o, Now: func() time.Time { return now }})
	s.Observe(1)
	now = now.Add(time.Minute)
	if got := s.Quantile(0.5); got != 1 {
		t.Errorf("%v after a minute", got)
	}
	now = now.Add(time.Nanosecond)
	if got := s.Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("%v afterwards", got)
	}
}

// TestRanks observes from several goroutines while windows turn, and compares with all values.
func TestRanksUnderConcurrencyAndRotation(t *testing.T) {
	for _, goroutines := range []int{1, 4} {
		var mutex sync.Mutex
		now := time.Unix(1_000_000, 0)
		o := opts(usual)
		o.MaxAge, o.AgeBuckets = time.Hour, 60
		s := NewSummary(Options{SummaryOpts: o, Now: func() time.Time {
			mutex.Lock()
			defer mutex.Unlock()
			now = now.Add(7 * time.Second) // every reading is later
			return now
		}})
		const n = 40_000
		all := make([]float64, n*goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			values := all[g*n : (g+1)*n]
			wg.Go(func() {
				r := rand.New(rand.NewSource(int64(g)))
				for i := range values {
					values[i] = 0.05 * math.Exp(r.NormFloat64())
					s.Observe(values[i])
					if i%1000 == 0 {
						s.Quantile(0.5)
					}
				}
			})
		}
		wg.Wait()
		out := write(t, s)
		if out.GetSampleCount() != uint64(len(all)) {
			t.Fatalf("%d of %d", out.GetSampleCount(), len(all))
		}
		slices.Sort(all)
		for _, q := range out.Quantile {
			rank := float64(sort.SearchFloat64s(all, q.GetValue())) / float64(len(all))
			if math.Abs(rank-q.GetQuantile()) > usual[q.GetQuantile()] {
				t.Errorf("%d goroutines: %v for %v has rank %v", goroutines, q.GetValue(), q.GetQuantile(), rank)
			}
		}
	}
}

func TestOddNumbersAreAbsorbed(t *testing.T) {
	s := New(opts(usual))
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), -5, 5} {
		s.Observe(v)
	}
	out := write(t, s)
	if out.GetSampleCount() != 7 || !math.IsNaN(out.GetSampleSum()) || out.Quantile[0].GetValue() != 0 {
		t.Errorf("%v", out)
	}
}

func TestExpositionIsTheSame(t *testing.T) {
	text := func(makeOne func(prometheus.SummaryOpts) prometheus.Summary, vec func(prometheus.SummaryOpts, []string) prometheus.ObserverVec) string {
		reg := prometheus.NewPedanticRegistry()
		o := opts(usual)
		o.Unit = "seconds"
		o.ConstLabels = prometheus.Labels{"zone": "a"}
		s := makeOne(o)
		o.Name = "vec_seconds"
		v := vec(o, []string{"method", "code"})
		reg.MustRegister(s, v)
		for i := range 100 {
			s.Observe(float64(i % 10))
			v.WithLabelValues("GET", "200").Observe(float64(i % 4))
			v.With(prometheus.Labels{"code": "500", "method": "PUT"}).Observe(1)
		}
		w := httptest.NewRecorder()
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	theirs := text(prometheus.NewSummary, func(o prometheus.SummaryOpts, l []string) prometheus.ObserverVec {
		return prometheus.NewSummaryVec(o, l)
	})
	for name, vec := range map[string]func(prometheus.SummaryOpts, []string) prometheus.ObserverVec{
		"genuine": func(o prometheus.SummaryOpts, l []string) prometheus.ObserverVec { return NewVec(o, l) },
		"fast":    func(o prometheus.SummaryOpts, l []string) prometheus.ObserverVec { return NewFastVec(o, l) },
	} {
		if ours := text(New, vec); ours != theirs || !strings.Contains(ours, `quantile="0.99"`) {
			t.Errorf("%s:\n%s\nclient_golang:\n%s", name, ours, theirs)
		}
	}
}

func TestCreatedTimestamps(t *testing.T) {
	now := time.Unix(1_700_000_000, 5)
	o := Options{SummaryOpts: opts(usual), Now: func() time.Time { return now }}
	v := NewFastVecWithOptions(o, prometheus.UnconstrainedLabels{"a"})
	created := func(label string) time.Time {
		return write(t, v.WithLabelValues(label)).CreatedTimestamp.AsTime()
	}
	first := created("1")
	now = now.Add(time.Hour)
	if !created("2").Equal(now) || !created("1").Equal(first) || !first.Equal(time.Unix(1_700_000_000, 5)) {
		t.Error("a child has not the time of its creation")
	}
	v.DeleteLabelValues("1")
	if !created("1").Equal(now) {
		t.Error("a child that was deleted has its old time")
	}
	before := time.Now()
	if got := write(t, New(opts(nil))).CreatedTimestamp.AsTime(); got.Before(before) {
		t.Errorf("created %v, before %v", got, before)
	}
}

// vectors are used in the same way.
type vector interface {
	prometheus.ObserverVec
	Delete(prometheus.Labels) bool
	DeleteLabelValues(...string) bool
	DeletePartialMatch(prometheus.Labels) int
	Reset()
}

func eachVector(t *testing.T, constrained prometheus.ConstrainableLabels, test func(t *testing.T, v vector)) {
	t.Helper()
	o := prometheus.SummaryVecOpts{SummaryOpts: opts(usual), VariableLabels: constrained}
	for name, v := range map[string]vector{
		"client_golang": prometheus.V2.NewSummaryVec(o),
		"genuine":       V2.NewVec(o),
		"fast":          NewFastVecWithOptions(Options{SummaryOpts: o.SummaryOpts}, constrained),
	} {
		t.Run(name, func(t *testing.T) { test(t, v) })
	}
}

func TestVectorsDelete(t *testing.T) {
	labels := func(a, b string) prometheus.Labels { return prometheus.Labels{"a": a, "b": b} }
	eachVector(t, prometheus.UnconstrainedLabels{"a", "b"}, func(t *testing.T, v vector) {
		kept := v.WithLabelValues("1", "1")
		for _, b := range []string{"1", "2", "3"} {
			v.WithLabelValues("1", b)
			v.With(labels("2", b)).Observe(1)
		}
		expect := func(what string, n int) {
			t.Helper()
			if got := testutil.CollectAndCount(v); got != n {
				t.Errorf("%s: %d children, want %d", what, got, n)
			}
		}
		expect("made", 6)
		if !v.DeleteLabelValues("1", "1") || v.DeleteLabelValues("1", "1") || v.DeleteLabelValues("1") {
			t.Error("DeleteLabelValues")
		}
		if !v.Delete(labels("2", "1")) || v.Delete(labels("2", "1")) || v.Delete(prometheus.Labels{"a": "2"}) {
			t.Error("Delete")
		}
		expect("two deleted", 4)
		kept.Observe(1)
		expect("a deleted child is used", 4)
		if n := v.DeletePartialMatch(prometheus.Labels{"b": "2"}); n != 2 {
			t.Errorf("%d matched", n)
		}
		if n := v.DeletePartialMatch(prometheus.Labels{"c": "2"}); n != 0 {
			t.Errorf("%d matched an unknown label", n)
		}
		expect("matches deleted", 2)
		if got := write(t, v.WithLabelValues("1", "1")).GetSampleCount(); got != 0 {
			t.Errorf("a child that was deleted comes back with %d", got)
		}
		v.Reset()
		expect("reset", 0)
	})
}

func TestVectorsCurry(t *testing.T) {
	eachVector(t, prometheus.UnconstrainedLabels{"a", "b", "c"}, func(t *testing.T, v vector) {
		ab := v.MustCurryWith(prometheus.Labels{"b": "y"}).MustCurryWith(prometheus.Labels{"a": "x"})
		ab.WithLabelValues("z").Observe(1)
		ab.With(prometheus.Labels{"c": "z"}).Observe(1)
		v.WithLabelValues("x", "y", "z").Observe(1)
		if got := write(t, v.WithLabelValues("x", "y", "z")).GetSampleCount(); got != 3 {
			t.Errorf("%d observations in one child", got)
		}
		for what, err := range map[string]error{
			"curried twice":  second(ab.CurryWith(prometheus.Labels{"a": "1"})),
			"unknown label":  second(v.CurryWith(prometheus.Labels{"d": "1"})),
			"curried in map": second2(ab.GetMetricWith(prometheus.Labels{"a": "1"})),
			"missing in map": second2(ab.GetMetricWith(prometheus.Labels{"d": "1"})),
			"too many":       second2(ab.GetMetricWithLabelValues("1", "2")),
			"map too large":  second2(ab.GetMetricWith(prometheus.Labels{"c": "1", "d": "2"})),
			"not UTF-8":      second2(ab.GetMetricWithLabelValues("\xff")),
			"map not UTF-8":  second2(ab.GetMetricWith(prometheus.Labels{"c": "\xff"})),
		} {
			if err == nil {
				t.Errorf("%s: no error", what)
			} else if want := errorTexts[what]; err.Error() != want {
				t.Errorf("%s: %q, want %q", what, err, want)
			}
		}
		if n := ab.(vector).DeletePartialMatch(prometheus.Labels{"a": "x"}); n != 0 {
			t.Errorf("%d match a curried label", n)
		}
		if !ab.(vector).DeleteLabelValues("z") {
			t.Error("not deleted through the curried vector")
		}
	})
}

// errorTexts are client_golang's; the test runs on its vector too.
var errorTexts = map[string]string{
	"curried twice":  `label name "a" is already curried`,
	"unknown label":  `1 unknown label(s) found during currying`,
	"curried in map": `label name "a" is already curried`,
	"missing in map": `label name "c" missing in label map`,
	"too many":       `inconsistent label cardinality: expected 1 label values but got 2 in []string{"1", "2"}`,
	"map too large":  `inconsistent label cardinality: expected 1 label values but got 2 in prometheus.Labels{"c":"1", "d":"2"}`,
	"not UTF-8":      `label value "\xff" is not valid UTF-8`,
	"map not UTF-8":  `label c: value "\xff" is not valid UTF-8`,
}

func second(_ prometheus.ObserverVec, err error) error { return err }

func second2(_ prometheus.Observer, err error) error { return err }

func TestVectorsConstrainValues(t *testing.T) {
	lower := prometheus.ConstrainedLabels{{Name: "a", Constraint: strings.ToLower}, {Name: "b"}}
	eachVector(t, lower, func(t *testing.T, v vector) {
		v.WithLabelValues("GET", "X").Observe(1)
		v.WithLabelValues("get", "X").Observe(1)
		v.With(prometheus.Labels{"a": "Get", "b": "X"}).Observe(1)
		v.MustCurryWith(prometheus.Labels{"a": "GEt"}).WithLabelValues("X").Observe(1)
		if n := testutil.CollectAndCount(v); n != 1 {
			t.Errorf("%d children", n)
		}
		if got := write(t, v.WithLabelValues("get", "X")).GetSampleCount(); got != 4 {
			t.Errorf("%d observations", got)
		}
		if !v.DeleteLabelValues("GET", "X") {
			t.Error("not deleted")
		}
		v.WithLabelValues("get", "X")
		if n := v.DeletePartialMatch(prometheus.Labels{"a": "GET"}); n != 1 {
			t.Errorf("%d matched", n)
		}
	})
}

func TestInstrumentedHandlers(t *testing.T) {
	v := NewFastVec(opts(usual), []string{"code", "method"})
	h := promhttp.InstrumentHandlerDuration(v, promhttp.InstrumentHandlerResponseSize(
		NewFastVec(opts(nil), nil), http.NotFoundHandler()))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if got := write(t, v.WithLabelValues("404", "get")).GetSampleCount(); got != 1 {
		t.Errorf("%d observations", got)
	}
	timer := prometheus.NewTimer(v.WithLabelValues("x", "y"))
	if d := timer.ObserveDuration(); d < 0 {
		t.Error(d)
	}
}

func TestConcurrentLookups(t *testing.T) {
	v := NewFastVec(opts(usual), []string{"a"})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				v.WithLabelValues(fmt.Sprint(i % 50)).Observe(1)
				if g == 0 && i%100 == 0 {
					testutil.CollectAndCount(v)
				}
			}
		})
	}
	wg.Wait()
	n := uint64(0)
	for i := range 50 {
		n += write(t, v.WithLabelValues(fmt.Sprint(i))).GetSampleCount()
	}
	if n != 8*3000 {
		t.Errorf("%d observations", n)
	}
}

func TestSwitchedSummaries(t *testing.T) {
	sw := switches.New("x")
	s := NewWithOptions(Options{SummaryOpts: opts(usual), Switch: sw})
	v := NewFastVecWithOptions(Options{SummaryOpts: opts(usual), Switch: sw}, prometheus.UnconstrainedLabels{"a"})
	kept := v.WithLabelValues("1")
	sw.Set(switches.Off)
	s.Observe(1)
	kept.Observe(1)
	v.Observe(1, "2")
	if testutil.CollectAndCount(s)+testutil.CollectAndCount(v) != 0 {
		t.Error("exposed while off")
	}
	sw.Set(switches.On)
	v.Observe(1, "1")
	s.Observe(1)
	if write(t, s).GetSampleCount() != 1 || write(t, kept).GetSampleCount() != 1 || testutil.CollectAndCount(v) != 1 {
		t.Error("counted while off, or not on again")
	}
}

func TestFactoriesRegister(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := With(reg)
	o := opts(usual)
	f.New(o)
	o.Name = "b"
	f.NewVec(o, []string{"a"}).WithLabelValues("1")
	o.Name = "c"
	f.NewFastVec(o, []string{"a"}).WithLabelValues("1")
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 3 {
		t.Errorf("%d series, %v", n, err)
	}
	if panicOf(func() { f.New(o) }) == "" {
		t.Error("registered twice")
	}
	if With(nil).New(o) == nil || panicOf(func() { With(nil).New(o) }) != "" {
		t.Error("without a registerer")
	}
}

func TestNativeHistogram(t *testing.T) {
	o := Options{SummaryOpts: opts(usual), NativeHistogramName: "test_native_seconds"}
	s := NewSummary(o)
	c, err := s.NativeHistogram()
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(s, c)
	histogram := func() *dto.Histogram {
		t.Helper()
		list, err := reg.Gather()
		if err != nil || len(list) != 2 {
			t.Fatalf("%d families, %v", len(list), err)
		}
		return list[0].Metric[0].Histogram
	}
	if h := histogram(); len(h.PositiveSpan) != 1 || h.GetSampleCount() != 0 {
		t.Errorf("empty: %v", h)
	}
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", NativeHistogramBucketFactor: 1.1})
	for _, v := range []float64{0, 0.001, 0.5, 0.5, 1, 3, 1000, -2} {
		s.Observe(v)
		theirs.Observe(v)
	}
	var want dto.Metric
	if err := theirs.Write(&want); err != nil {
		t.Fatal(err)
	}
	h := histogram()
	h.CreatedTimestamp, want.Histogram.CreatedTimestamp = nil, nil
	if h.String() != want.Histogram.String() {
		t.Errorf("ours   %v\ntheirs %v", h, want.Histogram)
	}
	if _, err := NewSummary(Options{SummaryOpts: opts(nil)}).NativeHistogram(); !errors.Is(err, ErrNoNativeHistogram) {
		t.Error(err)
	}
	v := NewFastVecWithOptions(o, prometheus.UnconstrainedLabels{"a"})
	v.WithLabelValues("1").Observe(1)
	cv, err := v.NativeHistogram()
	if err != nil || testutil.CollectAndCount(cv) != 1 {
		t.Errorf("vector: %v", err)
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	v := NewFastVec(opts(usual), []string{"a", "b", "c"})
	l := prometheus.Labels{"a": "1", "b": "2", "c": "3"}
	if n := testing.AllocsPerRun(1000, func() {
		v.WithLabelValues("1", "2", "3").Observe(1)
		v.With(l).Observe(1)
	}); n > 0.1 {
		t.Errorf("%v allocations", n)
	}
}
