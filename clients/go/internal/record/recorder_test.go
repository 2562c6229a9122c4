// Counting under concurrency, windows by an injected clock, and the timer's turns.

package record

import (
	"math"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"narthex.dev/go/internal/sketch"
)

// clock is moved by hand.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func newRecorder(windows int, c *clock) *Recorder {
	r := new(Recorder)
	Init(r, &Config{Windows: windows, Step: time.Minute, Now: c.now})
	return r
}

func quantile(r *Recorder, q float64) float64 {
	var out [1]float64
	Read(r, []float64{q}, out[:])
	return out[0]
}

func TestEveryObservationIsReadOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	const goroutines, each = 16, 20_000
	r := newRecorder(5, &clock{})
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	readers.Go(func() {
		last := uint64(0)
		for !done.Load() {
			var out [1]float64
			totals := Read(r, []float64{0.5}, out[:])
			if totals.Count < last {
				t.Errorf("the count went from %d to %d", last, totals.Count)
			}
			last = totals.Count
		}
	})
	for range goroutines {
		writers.Go(func() {
			for i := range each {
				r.Observe(float64(i))
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	totals := Read(r, nil, nil)
	if totals.Count != goroutines*each || totals.Sum != goroutines*each*(each-1)/2 {
		t.Errorf("%+v", totals)
	}
	if got := quantile(r, 0.5); math.Abs(got-each/2) > each/500 {
		t.Errorf("median %v", got)
	}
}

func TestAnObservationIsReadAsSoonAsItReturned(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	r := newRecorder(1, &clock{})
	var returned atomic.Uint64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2_000 {
				r.Observe(1)
				returned.Add(1)
			}
		})
	}
	for range 300 {
		atLeast := returned.Load()
		if got := Read(r, nil, nil).Count; got < atLeast {
			t.Fatalf("read %d after %d returned", got, atLeast)
		}
		runtime.Gosched()
	}
	wg.Wait()
}

func TestProcessorsMayBeAdded(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	r := newRecorder(5, &clock{})
	n := uint64(0)
	for _, procs := range []int{1, 8, 2, 16, 1} {
		runtime.GOMAXPROCS(procs)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 1000 {
					r.Observe(1)
				}
			})
		}
		wg.Wait()
		n += 32_000
		if got := Read(r, nil, nil); got.Count != n || got.Sum != float64(n) {
			t.Fatalf("%d processors: %+v, want %d", procs, got, n)
		}
	}
}

func TestTheFirstObservationsAreCountedOneAtATime(t *testing.T) {
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	const goroutines, each = 4, 2 * firstBuffer
	for range 3_000 {
		r := newRecorder(1, &clock{})
		var start, end sync.WaitGroup
		start.Add(goroutines)
		for range goroutines {
			end.Go(func() {
				start.Done()
				start.Wait()
				for i := range each {
					r.Observe(float64(i))
				}
			})
		}
		end.Wait()
		totals := Read(r, nil, nil)
		if totals.Count != goroutines*each || totals.Sum != goroutines*each*(each-1)/2 {
			t.Fatalf("%+v", totals)
		}
	}
}

func TestWindowsEnd(t *testing.T) {
	c := &clock{}
	r := newRecorder(3, c)
	r.Observe(1)
	quantile(r, 1) // counted in the first window
	for minute := 1; minute <= 6; minute++ {
		c.advance(time.Minute)
		c.advance(time.Nanosecond)
		want := []float64{1, 1, 1, math.NaN(), math.NaN(), math.NaN(), math.NaN()}[minute]
		if got := quantile(r, 1); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("after %d minutes: %v, want %v", minute, got, want)
		}
	}
	if totals := Read(r, nil, nil); totals.Count != 1 || totals.Sum != 1 {
		t.Errorf("totals age: %+v", totals)
	}
}

func TestAWindowEndsAfterItsLastInstant(t *testing.T) {
	c := &clock{}
	r := newRecorder(1, c)
	r.Observe(1)
	quantile(r, 1) // counted in the first window
	c.advance(time.Minute)
	if got := quantile(r, 1); got != 1 {
		t.Errorf("%v at the window's last instant", got)
	}
	c.advance(time.Nanosecond)
	if got := quantile(r, 1); !math.IsNaN(got) {
		t.Errorf("%v afterwards", got)
	}
}

func TestALongPauseForgetsEverything(t *testing.T) {
	c := &clock{}
	r := newRecorder(5, c)
	r.Observe(1)
	quantile(r, 1)
	c.advance(1000 * time.Hour)
	if got := quantile(r, 1); !math.IsNaN(got) {
		t.Errorf("%v after a pause", got)
	}
	// What nobody read or turned yet counts as observed now.
	r.Observe(2)
	c.advance(1000 * time.Hour)
	if got := quantile(r, 1); got != 2 {
		t.Errorf("%v, want the pending observation", got)
	}
}

func TestTurnsWithoutReaders(t *testing.T) {
	c := &clock{}
	r := newRecorder(3, c)
	r.Observe(1)
	for range 4 {
		c.advance(time.Minute + 1)
		Turn(r)
	}
	r.Observe(2)
	if got := quantile(r, 0); got != 2 {
		t.Errorf("the smallest young value is %v", got)
	}
	if len(r.closed) >= 3 {
		t.Errorf("%d closed windows", len(r.closed))
	}
}

func TestTheTimerServesTheLiving(t *testing.T) {
	c := &clock{}
	step := 17 * time.Hour // no other test's; the timer itself never fires
	config := &Config{Windows: 2, Step: step, Now: nil}
	r := new(Recorder)
	Init(r, config)
	r.config = &Config{Windows: 2, Step: step, Now: c.now}
	turners.Lock()
	group := turners.byStep[step]
	turners.Unlock()
	if group == nil || len(group.living()) != 1 {
		t.Fatal("the recorder is not in the group of its step")
	}
	r.Observe(1)
	c.nanos.Store(int64(time.Since(time.Unix(0, 0)) + 20*time.Hour))
	r.turnAt = c.now().Add(-time.Hour)
	group.run(step)
	if !r.turnAt.After(c.now()) {
		t.Error("the window was not turned")
	}
	runtime.KeepAlive(r)
}

func TestAWindowMayHaveMoreThanACellCounts(t *testing.T) {
	c := &clock{}
	r := newRecorder(2, c)
	for range 3000 {
		r.Observe(1)
	}
	quantile(r, 0.5)
	// As if the shard had counted for a long time.
	r.shards[0].frozen = r.shards[0].end()
	for range 1000 {
		r.Observe(2)
	}
	if a, b := quantile(r, 0.7), quantile(r, 0.8); a != 1 || b != 2 {
		t.Errorf("quantiles %v, %v of both parts", a, b)
	}
	c.advance(time.Minute + 1)
	if a, b := quantile(r, 0.7), quantile(r, 0.8); a != 1 || b != 2 || len(r.closed[0]) != 1 {
		t.Errorf("quantiles %v, %v of a closed window of %d chunks", a, b, len(r.closed[0]))
	}
}

func TestNativeKeepsWhatWindowsForget(t *testing.T) {
	c := &clock{}
	r := new(Recorder)
	Init(r, &Config{Windows: 1, Step: time.Minute, Now: c.now, HasNative: true, NativeSchema: 3})
	for i := range uint64(4) {
		r.Observe(1)
		ReadNative(r, func(h *sketch.Native) {
			if h.Positive[0] != i+1 {
				t.Errorf("%d in the bucket of 1, want %d", h.Positive[0], i+1)
			}
		})
		c.advance(time.Hour)
	}
}

func TestHotProcessorsGetShards(t *testing.T) {
	r := newRecorder(1, &clock{})
	r.Observe(0)
	at := &(*r.slots.Load())[0]
	r.shards = make([]shard, 4)
	b := r.refill(2, at, 0)
	for range hotAfter + 1 {
		r.shards[0].last = 99 // somebody else was here
		b.n = uint32(len(b.values))
		b = r.refill(2, at, 0)
	}
	if len(b.values) != maxBuffer {
		t.Errorf("a hot buffer of %d", len(b.values))
	}
	if b.prefer.Load() != 2 {
		t.Errorf("prefers shard %d", b.prefer.Load())
	}
	if shard := r.shard(b.prefer.Load()); shard != 2 {
		t.Errorf("got shard %d", shard)
	}
	if shard := r.shard(b.prefer.Load()); shard != 0 {
		t.Errorf("got shard %d while the preferred one is taken", shard)
	}
}

func TestIdleRecordersGiveMemoryBack(t *testing.T) {
	c := &clock{}
	r := newRecorder(2, c)
	for i := range 10_000 {
		r.Observe(float64(i) * 1.1)
	}
	quantile(r, 0.5)
	for range 3 {
		c.advance(time.Minute + 1)
		Turn(r)
	}
	if !reflect.DeepEqual(r.shards[0].sketch, sketch.Sketch{}) {
		t.Error("the cells are kept")
	}
	for _, window := range r.closed {
		if len(window) > 0 {
			t.Error("a window is kept")
		}
	}
	r.Observe(3)
	if got := quantile(r, 0.5); got != 3 {
		t.Errorf("%v afterwards", got)
	}
}

func TestCoarseCountsKeepWhatWindowsForget(t *testing.T) {
	c := &clock{}
	r := newRecorder(3, c)
	ranked := func() (n uint64) {
		totals := ReadCoarse(r, func(counts *[sketch.CoarseBuckets]uint64) {
			for _, count := range counts {
				n += count
			}
		})
		if totals.Count < n {
			t.Errorf("%d in buckets of %d", n, totals.Count)
		}
		return n
	}
	// Forgotten before anybody asked.
	r.Observe(1)
	Read(r, nil, nil)
	c.advance(10 * time.Minute)
	// In a closed window, and in the present one.
	r.Observe(2)
	quantile(r, 0.5)
	c.advance(time.Minute + 1)
	r.Observe(3)
	if got := ranked(); got != 2 {
		t.Errorf("%d at first", got)
	}
	for range 10 {
		r.Observe(4)
		Read(r, nil, nil)
		c.advance(time.Minute + 1)
		Turn(r)
	}
	if got := ranked(); got != 12 {
		t.Errorf("%d after many windows", got)
	}
}
