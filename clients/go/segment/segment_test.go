//go:build linux

// What is in the file: numbers, switches, series that begin anew, and what there is no room for.

package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/internal/sketch"
	"narthex.dev/go/summary"
	"narthex.dev/go/switches"
)

// line is a series as a reader finds it.
type line struct {
	name, labels string
	kind         byte
	cells        []uint64
	toggle       int
}

func (l line) float(at int) float64 { return math.Float64frombits(l.cells[at]) }

// read returns the series of the only segment in a directory, by name and labels.
func read(t *testing.T, dir string) map[string]line {
	t.Helper()
	bytes, err := os.ReadFile(onlySegment(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if string(bytes[:8]) != "NRTHXSEG" || littleEnd.Uint32(bytes[16:]) != checksum(bytes[:16], bytes[20:256]) {
		t.Fatal("the header is malformed")
	}
	records := bytes[littleEnd.Uint64(bytes[40:]):]
	records = records[:littleEnd.Uint64(bytes[atRecords:])]
	cells := func(first uint32, n int) []uint64 {
		list := make([]uint64, n)
		for i := range list {
			list[i] = littleEnd.Uint64(bytes[headerBytes+8*(int(first)+i):])
		}
		return list
	}
	type metric struct {
		name  string
		shape shape
		cell  uint32
	}
	metrics, found := map[int]metric{}, map[string]line{}
	for at := 0; at < len(records); {
		r := records[at:]
		r = r[:littleEnd.Uint32(r)]
		if littleEnd.Uint32(r[4:]) != checksum(r[:4], r[8:]) {
			t.Fatalf("the record at %d is malformed", at)
		}
		if r[8] == 1 {
			numbers := make([]float64, littleEnd.Uint16(r[22:]))
			name := r[40+8*len(numbers):][:littleEnd.Uint16(r[16:])]
			s := shape{kind: r[9], numbers: numbers, bits: r[11], octaves: littleEnd.Uint16(r[26:])}
			metrics[at/8] = metric{string(name), s, littleEnd.Uint32(r[12:])}
		} else {
			m := metrics[int(littleEnd.Uint32(r[12:]))]
			labels := string(r[24:][:littleEnd.Uint32(r[20:])])
			series := cells(littleEnd.Uint32(r[16:]), m.shape.cells())
			found[m.name+"{"+labels+"}"] = line{m.name, labels, m.shape.kind, series, int(m.cell)}
		}
		at += len(r)
	}
	return found
}

func onlySegment(t *testing.T, dir string) string {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.segment"))
	if len(paths) != 1 {
		t.Fatalf("segments: %v", paths)
	}
	return paths[0]
}

// start publishes a registry into a directory of the test's, when it is told to.
func start(t *testing.T, registry prometheus.Gatherer, change func(*Options)) (*Publisher, string) {
	t.Helper()
	options := Options{Dir: filepath.Join(t.TempDir(), "segments"), App: "shop", Gatherer: registry, Interval: -1}
	if change != nil {
		change(&options)
	}
	p, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	return p, options.Dir
}

func publish(t *testing.T, p *Publisher) {
	t.Helper()
	if err := p.Publish(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsGatheredIsPublished(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "C."}, []string{"path"})
	open := prometheus.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "O."})
	size := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "size", Help: "S.", Buckets: []float64{1, 2, math.Inf(1)}})
	foreign := prometheus.NewSummary(prometheus.SummaryOpts{Name: "foreign", Help: "F."})
	registry.MustRegister(calls, open, size, foreign)
	calls.WithLabelValues("/\"\\\n").Add(2.5)
	open.Set(-1)
	for _, v := range []float64{0.5, 1.5, 1.5, 7} {
		size.Observe(v)
		foreign.Observe(v)
	}
	p, dir := start(t, registry, nil)
	lines := read(t, dir)
	if got := lines[`calls_total{path="/\"\\\n"}`]; got.kind != kindCounter || got.float(0) != 2.5 {
		t.Errorf("counter: %+v of %v", got, lines)
	}
	if got := lines["open{}"]; got.float(0) != -1 || got.cells[1] == 0 {
		t.Errorf("gauge: %+v", got)
	}
	if got := lines["size{}"]; got.float(0) != 10.5 || !slices.Equal(got.cells[1:], []uint64{1, 2, 1}) {
		t.Errorf("histogram: %+v", got)
	}
	if got := lines["foreign{}"]; got.float(0) != 10.5 || !slices.Equal(got.cells[1:], []uint64{4, 0, 0, 0}) {
		t.Errorf("a Summary without buckets: %+v", got)
	}
	calls.WithLabelValues("/\"\\\n").Inc()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir)[`calls_total{path="/\"\\\n"}`]; got.float(0) != 3.5 {
		t.Errorf("closing did not publish: %+v", got)
	}
	bytes, _ := os.ReadFile(onlySegment(t, dir))
	if state := littleEnd.Uint64(bytes[atState:]); state != stateClosed {
		t.Errorf("state %d", state)
	}
	if p.Close() != ErrClosed || p.Publish() != ErrClosed {
		t.Error("a closed publisher works")
	}
}

func TestSummariesArePublishedWithTheirBuckets(t *testing.T) {
	registry := prometheus.NewRegistry()
	vec := summary.NewFastVec(prometheus.SummaryOpts{
		Name: "seconds", Help: "S.", Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01},
	}, []string{"path"})
	prometheus.WrapRegistererWithPrefix("app_", registry).MustRegister(vec)
	for i := range 1000 {
		vec.WithLabelValues("/").Observe(float64(i) + 1)
	}
	vec.WithLabelValues("/").Observe(math.NaN())
	p, dir := start(t, registry, nil)
	check := func(ranked uint64) {
		t.Helper()
		got := read(t, dir)[`app_seconds{path="/"}`]
		if len(got.cells) != 2+sketch.CoarseBuckets || got.cells[1] != 1 {
			t.Fatalf("%d cells, %d NaNs", len(got.cells), got.cells[1])
		}
		sum, below := uint64(0), uint64(0)
		for i, n := range got.cells[2:] {
			sum += n
			// 512 begins a bucket: 9 powers of two above 1, which is 24 above the first.
			if i < 1+(24+9)*16 {
				below += n
			}
		}
		if sum != ranked || below != 511 {
			t.Errorf("%d observations, %d below 512", sum, below)
		}
	}
	check(1000)
	for range 500 {
		vec.WithLabelValues("/").Observe(2000)
	}
	publish(t, p)
	check(1500)
	_ = p.Close()
}

func TestSegmentSwitchesReachTheProgram(t *testing.T) {
	set, err := switches.NewSetFromEnv("")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	calls := switches.WrapCounter(set.Switch("calls_total"),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "C."}))
	registry.MustRegister(calls)
	calls.Inc()
	p, dir := start(t, registry, func(o *Options) { o.Switches = set })
	toggle := func(word uint64) {
		t.Helper()
		publish(t, p)
		file, err := os.OpenFile(onlySegment(t, dir), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		at := int64(headerBytes + 8*read(t, dir)["calls_total{}"].toggle)
		if _, err := file.WriteAt(littleEnd.AppendUint64(nil, word), at); err != nil {
			t.Fatal(err)
		}
		publish(t, p)
	}
	toggle(1)
	calls.Inc()
	publish(t, p)
	if state := set.Switch("calls_total").State(); state != switches.Off || read(t, dir)["calls_total{}"].float(0) != 1 {
		t.Errorf("switched off in the segment it is %v", state)
	}
	set.Switch("calls_total").Set(switches.On)
	calls.Inc()
	set.Switch("calls_total").Clear()
	calls.Inc()
	toggle(0)
	calls.Inc()
	publish(t, p)
	if got := read(t, dir)["calls_total{}"].float(0); got != 3 {
		t.Errorf("%v counted, once before, once by precedence of code, once afterwards", got)
	}
}

func TestASeriesThatBeginsAnewGoesOn(t *testing.T) {
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "C."}, []string{"x"})
	size := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "size", Help: "S.", Buckets: []float64{1}}, []string{"x"})
	seconds := summary.NewVec(prometheus.SummaryOpts{
		Name: "seconds", Help: "S.", Objectives: map[float64]float64{0.5: 0.05},
	}, []string{"x"})
	registry.MustRegister(calls, size, seconds)
	p, dir := start(t, registry, nil)
	for round := 1; round <= 3; round++ {
		for range round {
			calls.WithLabelValues("a").Inc()
			size.WithLabelValues("a").Observe(2)
			seconds.WithLabelValues("a").Observe(2)
		}
		publish(t, p)
		publish(t, p)
		calls.Reset()
		size.Reset()
		seconds.Reset()
	}
	lines := read(t, dir)
	if got := lines[`calls_total{x="a"}`].float(0); got != 6 {
		t.Errorf("counter: %v", got)
	}
	if got := lines[`size{x="a"}`]; got.float(0) != 12 || got.cells[2] != 6 {
		t.Errorf("histogram: %+v", got)
	}
	if got := lines[`seconds{x="a"}`]; got.float(0) != 12 || got.cells[2+1+(24+1)*16] != 6 {
		t.Errorf("summary: %v, %d", got.float(0), got.cells[2+1+(24+1)*16])
	}
}

func TestAGaugeThatIsGoneIsHidden(t *testing.T) {
	registry := prometheus.NewRegistry()
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "open", Help: "O."}, []string{"x"})
	registry.MustRegister(open)
	open.WithLabelValues("a").Set(1)
	p, dir := start(t, registry, nil)
	isHidden := func() bool {
		publish(t, p)
		return read(t, dir)[`open{x="a"}`].cells[1] == math.MaxUint64
	}
	before := isHidden()
	open.Reset()
	gone := isHidden()
	open.WithLabelValues("a").Set(2)
	if again := isHidden(); before || !gone || again {
		t.Errorf("hidden before %v, when gone %v, when set again %v", before, gone, again)
	}
}

func TestWhatReadersRefuseIsCountedAndNotWritten(t *testing.T) {
	registry := prometheus.NewRegistry()
	utf8 := prometheus.NewCounter(prometheus.CounterOpts{Name: "anzahl_ä", Help: "C."})
	labelled := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "C."}, []string{"größe"})
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many", Help: "M."}, []string{"x"})
	registry.MustRegister(utf8, labelled, many)
	labelled.WithLabelValues("1").Inc()
	for i := range 5000 {
		many.WithLabelValues(fmt.Sprint(i)).Set(1)
	}
	// An area is a multiple of 8192 cells; two switches leave room for 4095 gauges.
	p, dir := start(t, registry, func(o *Options) { o.MaxCells = 10 })
	publish(t, p)
	lines := read(t, dir)
	bytes, _ := os.ReadFile(onlySegment(t, dir))
	if refused := littleEnd.Uint64(bytes[atRefused:]); len(lines) != 4095 || refused != 905+2 {
		t.Errorf("%d series, %d refused", len(lines), refused)
	}
	for _, line := range lines {
		if line.name != "many" {
			t.Errorf("%+v", line)
		}
	}
}

func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("this test needs the right to mount a tmpfs: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestAFullFileSystemIsAnErrorAndNoSignal(t *testing.T) {
	registry := prometheus.NewRegistry()
	dir := mount(t, "100k")
	if _, err := Start(Options{Dir: dir, App: "shop", Gatherer: registry}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	larger := mount(t, "400k")
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many", Help: "M."}, []string{"x"})
	registry.MustRegister(many)
	for i := range 20_000 {
		many.WithLabelValues(fmt.Sprint(i)).Set(1)
	}
	p, dir := start(t, registry, func(o *Options) { o.Dir = larger })
	publish(t, p)
	if found := len(read(t, dir)); found < 1000 || found > 19_000 {
		t.Errorf("%d series of 20000 found room", found)
	}
}

func TestADirectoryThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "segments"), "/proc/segments"} {
		if p, err := Start(Options{Dir: dir, App: "shop"}); err == nil {
			_ = p.Close()
			t.Errorf("%s is taken", dir)
		}
	}
	for _, options := range []Options{
		{}, {App: "a/b"}, {App: ".a"}, {App: strings.Repeat("a", 65)}, {App: "a", Worker: ".."},
		{App: "a", MaxCells: maxCells + 1}, {App: "a", Gauges: map[string]Merge{"x": 9}},
	} {
		options.Dir = t.TempDir()
		if p, err := Start(options); err == nil {
			_ = p.Close()
			t.Errorf("%+v is taken", options)
		}
	}
}

func TestGoroutinesCountWhileItIsPublished(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "C."}, []string{"x"})
	seconds := summary.New(prometheus.SummaryOpts{Name: "seconds", Help: "S.", Objectives: map[float64]float64{0.5: 0.05}})
	registry.MustRegister(calls, seconds)
	p, dir := start(t, registry, nil)
	const goroutines, each = 4, 5000
	var counting, publishing sync.WaitGroup
	var isOver atomic.Bool
	publishing.Go(func() {
		last := map[string][]uint64{}
		for !isOver.Load() {
			if err := p.Publish(); err != nil {
				t.Error(err)
			}
			for name, line := range read(t, dir) {
				for i := range last[name] {
					if i > 0 && line.cells[i] < last[name][i] || i == 0 && line.float(0) < math.Float64frombits(last[name][0]) {
						t.Errorf("%s: cell %d fell", name, i)
					}
				}
				last[name] = line.cells
			}
		}
	})
	for g := range goroutines {
		counting.Go(func() {
			for i := range each {
				calls.WithLabelValues(fmt.Sprint(i % 50)).Inc()
				seconds.Observe(math.Exp(float64((i*7+g)%400) - 200))
			}
		})
	}
	counting.Wait()
	isOver.Store(true)
	publishing.Wait()
	publish(t, p)
	lines, total := read(t, dir), 0.0
	for _, line := range lines {
		if line.name == "calls_total" {
			total += line.float(0)
		}
	}
	observed := uint64(0)
	for _, n := range lines["seconds{}"].cells[1:] {
		observed += n
	}
	if total != goroutines*each || observed != goroutines*each {
		t.Errorf("%v counted, %d observed", total, observed)
	}
}
