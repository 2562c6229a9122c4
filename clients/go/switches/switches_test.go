// States, their sources and precedence, and what switched metrics do.

package switches

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func newSet(t *testing.T, env string) *Set {
	t.Helper()
	s, err := NewSetFromEnv(env)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStates(t *testing.T) {
	for text, want := range map[string]State{"on": On, "off": Off, "1/1": On, "1/10": 10, "1/1000000": MaxSample} {
		got, err := ParseState(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if back, err := ParseState(got.String()); err != nil || back != want {
			t.Errorf("%q prints as %q", text, got)
		}
	}
	for _, text := range []string{"", "On", "1/0", "1/-1", "1/1000001", "2/3", "1/2/3", "0", "1", "1/+5"} {
		if got, err := ParseState(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	if OneIn(0) != On || OneIn(-3) != On || OneIn(7) != 7 || OneIn(1<<40) != MaxSample {
		t.Error("OneIn does not clamp")
	}
}

func TestRules(t *testing.T) {
	rules, err := ParseRules("# all off\n*=off # here\n\n db_* = 1/5 , http=on\r\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{{"*", Off}, {"db_*", 5}, {"http", On}}
	for i, r := range want {
		if rules[i] != r {
			t.Errorf("rule %d is %v, want %v", i, rules[i], r)
		}
	}
	for text, part := range map[string]string{"a = on\nb": "line 2", "= on": "form", "a b = on": "space", "a = maybe": "maybe"} {
		if _, err := ParseRules(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "x", true}, {"a*", "ab", true}, {"*b", "ab", true},
		{"a*c", "abbc", true}, {"a*c", "abbd", false}, {"*ab*", "xxaabyy", true}, {"a**", "a", true}, {"", "", true},
		{"", "x", false}, {"*a*b*c", "aXbXcXbc", true}, {"ab", "a", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	s := newSet(t, "a=off,b=off")
	a := s.Switch("a")
	expect := func(what string, want State) {
		t.Helper()
		if a.State() != want {
			t.Errorf("%s: %v, want %v", what, a.State(), want)
		}
	}
	expect("environment", Off)
	f, err := s.File(path)
	if err != nil {
		t.Fatalf("a missing file: %v", err)
	}
	expect("no file", Off)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("* = 1/7\n")
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("file", 7)
	a.Set(On)
	expect("code", On)
	s.Override(Rule{"a*", 9})
	expect("request", 9)
	write("broken\n")
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a broken file: %v", err)
	}
	a.Clear()
	expect("the file's last good rules", 7)
	if got := s.Switch("later").State(); got != 7 {
		t.Errorf("a switch made after the rules: %v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("no file any more", Off)
	if s.Switch("later").State() != On {
		t.Error("the default is not on")
	}
	want := `# HELP metric_switch_file_last_reload_successful Whether the file of switches could be read the last time.
# TYPE metric_switch_file_last_reload_successful gauge
metric_switch_file_last_reload_successful{file="` + path + `"} 1
# HELP metric_switch_file_reload_errors_total How often the file of switches could not be read.
# TYPE metric_switch_file_reload_errors_total counter
metric_switch_file_reload_errors_total{file="` + path + `"} 1
# HELP metric_switch_state What a metric lets through: 0 nothing, 1 everything, n one observation in n.
# TYPE metric_switch_state gauge
metric_switch_state{metric="a"} 0
metric_switch_state{metric="later"} 1
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestOverridesHoldForSwitchesToCome(t *testing.T) {
	s := newSet(t, "")
	s.Override(Rule{"x_*", Off}, Rule{"x_1", On})
	if s.Switch("x_1").State() != On || s.Switch("x_2").State() != Off {
		t.Error("the last rule that matches does not win")
	}
	s.ClearOverride("x_*")
	if s.Switch("x_2").State() != On || s.Switch("x_3").State() != On {
		t.Error("overrides stay")
	}
}

func TestHandler(t *testing.T) {
	s := newSet(t, "")
	s.Switch("b")
	a := s.Switch("a")
	allow := func(*http.Request) error { return nil }
	deny := func(*http.Request) error { return errors.New("who are you") }
	for _, c := range []struct {
		authorize            func(*http.Request) error
		method, target, body string
		status               int
		text                 string
		state                State
	}{
		{nil, "GET", "/", "", 200, "a = on\nb = on\n", On},
		{nil, "POST", "/", "a=off", 403, "read-only", On},
		{deny, "GET", "/", "", 403, "who are you", On},
		{deny, "PUT", "/", "a=off", 403, "who are you", On},
		{allow, "PUT", "/", "a = off", 200, "a = off\nb = on\n", Off},
		{allow, "POST", "/", "a = 1/4\nb = nonsense", 400, "line 2", Off},
		{allow, "POST", "/", "* = 1/4", 200, "a = 1/4\nb = 1/4\n", 4},
		{allow, "DELETE", "/", "", 400, "missing", 4},
		{allow, "DELETE", "/?metric=*", "", 200, "a = on\nb = on\n", On},
		{allow, "PATCH", "/", "", 405, "not allowed", On},
		{allow, "PUT", "/", strings.Repeat("#", maxBody+1), 413, "large", On},
	} {
		w := httptest.NewRecorder()
		s.Handler(c.authorize).ServeHTTP(w, httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || a.State() != c.state {
			t.Errorf("%s %s %.20q: %d %q, state %v", c.method, c.target, c.body, w.Code, w.Body, a.State())
		}
	}
}

func TestMetricsFollowTheirSwitch(t *testing.T) {
	s := New("x")
	c := WrapCounter(s, prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "h"}))
	g := WrapGauge(s, prometheus.NewGauge(prometheus.GaugeOpts{Name: "g", Help: "h"}))
	h := WrapHistogram(s, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h"}))
	m := WrapSummary(s, prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Help: "h"}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c, g, h, m)
	use := func() {
		c.Inc()
		c.Add(2)
		c.AddWithExemplar(3, prometheus.Labels{"trace": "1"})
		g.Set(5)
		g.Inc()
		g.Dec()
		g.Add(4)
		g.Sub(1)
		h.Observe(1)
		h.ObserveWithExemplar(1, prometheus.Labels{"trace": "1"})
		m.Observe(1)
	}
	families := func() int {
		t.Helper()
		list, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	use()
	if testutil.ToFloat64(c) != 6 || testutil.ToFloat64(g) != 8 || families() != 4 {
		t.Errorf("on: counter %v, gauge %v, %d families", testutil.ToFloat64(c), testutil.ToFloat64(g), families())
	}
	s.Set(Off)
	use()
	g.SetToCurrentTime()
	if families() != 0 {
		t.Errorf("off: %d families", families())
	}
	s.Set(On)
	if testutil.ToFloat64(c) != 6 || testutil.ToFloat64(g) != 8 || families() != 4 {
		t.Errorf("on again: counter %v, gauge %v", testutil.ToFloat64(c), testutil.ToFloat64(g))
	}
}

func TestFrozenMetricsStayExposed(t *testing.T) {
	s := New("x", Freeze(), KeepDeltas())
	c := WrapCounter(s, prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "h"}))
	g := WrapGauge(s, prometheus.NewGauge(prometheus.GaugeOpts{Name: "g", Help: "h"}))
	c.Inc()
	s.Set(Off)
	c.Inc()
	g.Inc()
	g.Set(9)
	if testutil.ToFloat64(c) != 1 || testutil.ToFloat64(g) != 1 {
		t.Errorf("counter %v, gauge %v", testutil.ToFloat64(c), testutil.ToFloat64(g))
	}
}

func TestSamplingKeepsRates(t *testing.T) {
	s := New("x")
	s.Set(OneIn(4))
	c := WrapCounter(s, prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "h"}))
	const n = 100_000
	for range n {
		c.Inc()
	}
	// Ten standard deviations.
	if got := testutil.ToFloat64(c); math.Abs(got-n) > 10*4*math.Sqrt(n*0.25*0.75) {
		t.Errorf("%v of %d", got, n)
	}
}

func TestVectors(t *testing.T) {
	s := New("x")
	c := WrapCounterVec(s, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c", Help: "h"}, []string{"a"}))
	g := WrapGaugeVec(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g", Help: "h"}, []string{"a"}))
	h := WrapHistogramVec(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Help: "h"}, []string{"a"}))
	m := WrapSummaryVec(s, prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "s", Help: "h"}, []string{"a"}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c, g, h, m)
	kept := c.WithLabelValues("kept")
	use := func() {
		kept.Inc()
		c.Inc("1")
		c.Add(1, "1")
		c.With(prometheus.Labels{"a": "1"}).Inc()
		c.MustCurryWith(prometheus.Labels{"a": "1"}).WithLabelValues().Inc()
		g.Set(2, "1")
		g.Add(1, "1")
		g.With(prometheus.Labels{"a": "1"}).Inc()
		h.Observe(1, "1")
		h.With(prometheus.Labels{"a": "1"}).Observe(1)
		m.Observe(1, "1")
		m.With(prometheus.Labels{"a": "1"}).Observe(1)
	}
	check := func(what string, families int) {
		t.Helper()
		list, err := reg.Gather()
		if err != nil || len(list) != families {
			t.Errorf("%s: %d families, %v", what, len(list), err)
		}
		if families == 0 {
			return
		}
		if got := testutil.ToFloat64(c.WithLabelValues("1")); got != 4 {
			t.Errorf("%s: counter %v", what, got)
		}
		if got := testutil.ToFloat64(g.WithLabelValues("1")); got != 4 {
			t.Errorf("%s: gauge %v", what, got)
		}
	}
	use()
	check("on", 4)
	s.Set(Off)
	use()
	check("off", 0)
	s.Set(On)
	check("on again", 4)
	kept.Inc()
	if got := testutil.ToFloat64(kept); got != 2 {
		t.Errorf("a kept handle does not come back: %v", got)
	}
	c.DeleteLabelValues("1")
	if got := testutil.ToFloat64(c.WithLabelValues("1")); got != 0 {
		t.Errorf("a deleted child comes back with %v", got)
	}
}

func TestNobodyKeepsHandles(t *testing.T) {
	s := New("x", NoKeptHandles())
	s.Set(Off)
	l := prometheus.Labels{"a": "1"}
	c := WrapCounterVec(s, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c", Help: "h"}, []string{"a"}))
	g := WrapGaugeVec(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "g", Help: "h"}, []string{"a"}))
	h := WrapHistogramVec(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Help: "h"}, []string{"a"}))
	m := WrapSummaryVec(s, prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "s", Help: "h"}, []string{"a"}))
	c.WithLabelValues("1").Inc()
	c.With(l).Inc()
	g.WithLabelValues("1").Set(1)
	g.With(l).Inc()
	h.WithLabelValues("1").Observe(1)
	h.With(l).Observe(1)
	m.WithLabelValues("1").Observe(1)
	m.With(l).Observe(1)
	s.Set(On)
	for _, v := range []prometheus.Collector{c, g, h, m} {
		if n := testutil.CollectAndCount(v); n != 0 {
			t.Errorf("%T made %d children while off", v, n)
		}
	}
}

func TestAFileIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	s := newSet(t, "")
	f, err := s.File(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reported := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Watch(ctx, time.Millisecond, func(err error) {
			select {
			case reported <- err:
			default:
			}
		})
	}()
	if err := os.WriteFile(path, []byte("a = off"), 0o600); err != nil {
		t.Fatal(err)
	}
	for s.Switch("a").State() != Off {
		runtime.Gosched()
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-reported; err == nil {
		t.Error("no error for nonsense")
	}
	cancel()
	<-ended
}

func TestSwitchingBesideUse(t *testing.T) {
	s := newSet(t, "")
	c := WrapCounter(s.Switch("c", Freeze()), prometheus.NewCounter(prometheus.CounterOpts{Name: "c", Help: "h"}))
	v := WrapSummaryVec(s.Switch("v", NoKeptHandles()), prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "v", Help: "h"}, []string{"a"}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				c.Inc()
				v.WithLabelValues("1").Observe(1)
				v.Observe(1, "2")
			}
		})
	}
	for i := range 500 {
		s.Override(Rule{"*", State(i % 3)})
		testutil.CollectAndCount(s)
		testutil.CollectAndCount(v)
	}
	wg.Wait()
	s.Switch("c").Set(On)
	before := testutil.ToFloat64(c)
	c.Inc()
	if testutil.ToFloat64(c) != before+1 {
		t.Error("does not count")
	}
}

func FuzzRules(f *testing.F) {
	f.Add("a = on\n# b\n*_c = 1/10, d=off", "x_c")
	f.Add("=\x00", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		rules, err := ParseRules(text)
		if err != nil {
			if rules != nil {
				t.Error("rules beside an error")
			}
			return
		}
		var again strings.Builder
		for _, r := range rules {
			again.WriteString(r.String() + "\n")
		}
		back, err := ParseRules(again.String())
		if err != nil || len(back) != len(rules) {
			t.Fatalf("%q does not come back: %v", again.String(), err)
		}
		for i := range back {
			if back[i] != rules[i] {
				t.Errorf("%v comes back as %v", rules[i], back[i])
			}
		}
		s := &Set{switches: map[string]*Switch{}}
		s.setLayer(layerFile, rules)
		want := On
		if state := lastMatch(rules, name); state != nil {
			want = *state
		}
		if got := s.Switch(name).State(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func FuzzHandler(f *testing.F) {
	f.Add("PUT", "metric=a", []byte("a = off"))
	f.Add("DELETE", "metric=*", []byte(""))
	f.Fuzz(func(t *testing.T, method, query string, body []byte) {
		s := &Set{switches: map[string]*Switch{}}
		s.Switch("a")
		r := httptest.NewRequest("GET", "/", strings.NewReader(string(body)))
		r.Method, r.URL.RawQuery = method, query
		w := httptest.NewRecorder()
		s.Handler(func(*http.Request) error { return nil }).ServeHTTP(w, r)
		if w.Code != 200 && s.Switch("a").State() != On {
			t.Errorf("%d, and yet the state changed", w.Code)
		}
		s.Switch("a").Set(On)
		w = httptest.NewRecorder()
		s.Handler(func(*http.Request) error { return errors.New("no") }).ServeHTTP(w, r)
		if w.Code != 403 || s.Switch("a").State() != On {
			t.Errorf("%d without permission", w.Code)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("a = off"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "rules")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Set{switches: map[string]*Switch{}}
		_, err := s.File(path)
		rules, want := ParseRules(string(text))
		if (err == nil) != (want == nil) {
			t.Errorf("%v, but %v", err, want)
		}
		if err == nil && len(s.rules[layerFile]) != len(rules) {
			t.Errorf("%d rules, want %d", len(s.rules[layerFile]), len(rules))
		}
	})
}
