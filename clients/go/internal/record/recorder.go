// Package record takes observations from any number of goroutines and hands out sums and quantiles.
//
// Each processor has a small buffer that its goroutines append to: no lock, no clock, no shared cache line. A full
// buffer is counted in one of a few shards; one that is busy is passed by, not waited for. A reader takes all shards,
// empties the buffers and closes windows whose time is over.
//
// Invariant: an observation that returned is in what a later Read returns.
// Invariant: a shard's content and the slots change only under that shard's lock, or all of them.
package record

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"narthex.dev/go/internal/sketch"
)

const (
	// firstBuffer and maxBuffer are how many observations a processor keeps before they are counted. A metric that
	// sees few stays with the small one.
	firstBuffer = 16
	maxBuffer   = 256
	// growAfter is how often a buffer must fill between two reads before it is doubled.
	growAfter = 4
	maxShards = 8
	// hotAfter is how often a buffer must fill between two reads before its processor gets a shard of its own, given
	// that others use the first one too. Below that, one shard saves memory; above, cache lines travelling between
	// processors cost more than the counting.
	hotAfter = 64
	// maxPerChunk keeps the counts of a sketch below 2^32.
	maxPerChunk = 1<<32 - 1 - maxBuffer
	// spins before an observer that finds all shards busy lets others run.
	spinsBeforeYield = 100
)

// Config says what a Recorder keeps. It is shared by all children of a vector.
type Config struct {
	// Windows is how many windows quantiles cover at most, the present one included; 0 for count and sum only.
	Windows int
	// Step is how long a window is.
	Step time.Duration
	// Now is the clock of windows, nil for the system's.
	Now func() time.Time
	// NativeSchema is the resolution of the native histogram, HasNative whether there is one; it needs a window.
	NativeSchema int8
	HasNative    bool
}

// Recorder collects the observations of one metric. Use Init before anything else. Observe is its only exported method,
// since types that embed it show that one.
type Recorder struct {
	// slots holds the buffers, one for each processor.
	slots atomic.Pointer[[]slot]
	// exclusive is held by who takes all shards, and by who makes them.
	exclusive atomic.Uint32
	shards    []shard

	config *Config
	// reading is held by readers, so that they do not wait for each other in turns.
	reading sync.Mutex
	// closed are the windows before the present one, youngest last; each is a list because a shard freezes alone.
	closed [][]sketch.Chunk
	// turnAt is when the present window ends.
	turnAt time.Time
	native *sketch.Native
	// coarse has buckets for segments once they were asked for.
	coarse *sketch.Coarse
}

// shard is counted in by one goroutine at a time. Padded: neighbours belong to other processors.
type shard struct {
	// lock is 1 while somebody counts here.
	lock   atomic.Uint32
	sketch sketch.Sketch
	count  uint64
	sum    float64
	// frozen are earlier parts of the present window, after more observations than a cell can count.
	frozen []sketch.Chunk
	// last is the processor that was here last, plus one.
	last int
	_    [64]byte
}

// buffer is appended to by the goroutines of one processor. It fills two cache lines of its own.
type buffer struct {
	// n values are in use. Those before taken have been counted by a reader.
	n     uint32
	taken uint32
	// values never becomes another array: a larger buffer takes the place of this one.
	values []float64
	// fills counts since the last read how often the buffer was full.
	fills uint32
	// prefer is the shard to try first.
	prefer atomic.Uint32
	// busy is used by the portable build, where a buffer has no processor that owns it.
	busy atomic.Uint32
	_    [128 - 56]byte
}

// slot holds a processor's buffer.
type slot = atomic.Pointer[buffer]

// emptySlots and fullBuffer spare the hot path two comparisons with nil.
var (
	emptySlots = new([]slot)
	fullBuffer = new(buffer)
)

// Init prepares the recorder and begins its first window. Nothing else is allocated before the first observation.
func Init(r *Recorder, config *Config) {
	r.config = config
	r.slots.Store(emptySlots)
	if config.Windows == 0 {
		return
	}
	r.turnAt = r.now().Add(config.Step)
	if config.HasNative {
		r.native = sketch.NewNative(config.NativeSchema)
	}
	if config.Now == nil {
		keepTurning(r)
	}
}

func (r *Recorder) now() time.Time {
	if r.config.Now != nil {
		return r.config.Now()
	}
	return time.Now()
}

// count adds a buffer's values to a shard that the caller holds.
func (r *Recorder) count(to *shard, b *buffer) {
	values := b.values[b.taken:b.n]
	b.taken = b.n
	if len(values) == 0 {
		return
	}
	to.count += uint64(len(values))
	if r.config.Windows == 0 {
		to.sum += sketch.Sum(values)
		return
	}
	if to.sketch.Count() > maxPerChunk {
		// A cell could overflow: the window goes on in a further chunk.
		to.frozen = to.end()
	}
	to.sum += to.sketch.Add(values)
}

// shard takes a shard, the preferred one if it is free, never waiting; -1 when there is none.
func (r *Recorder) shard(prefer uint32) int {
	if int(prefer) < len(r.shards) && r.shards[prefer].lock.CompareAndSwap(0, 1) {
		return int(prefer)
	}
	for i := range r.shards {
		if r.shards[i].lock.CompareAndSwap(0, 1) {
			return i
		}
	}
	return -1
}

func (r *Recorder) release(shard int) { r.shards[shard].lock.Store(0) }

// lockAll waits for all shards. Those who hold one are on a processor and soon done.
func (r *Recorder) lockAll() {
	for spins := 0; !r.exclusive.CompareAndSwap(0, 1); spins++ {
		relax(spins)
	}
	for i := range r.shards {
		for spins := 0; !r.shards[i].lock.CompareAndSwap(0, 1); spins++ {
			relax(spins)
		}
	}
}

func (r *Recorder) unlockAll() {
	for i := range r.shards {
		r.shards[i].lock.Store(0)
	}
	r.exclusive.Store(0)
}

// relax passes a moment; never blocks, so that profiles of blocked goroutines stay empty.
func relax(spins int) {
	if spins >= spinsBeforeYield {
		runtime.Gosched()
	}
}

// prepare makes room for a processor: a slot, and shards when there are none.
func (r *Recorder) prepare(processor int) {
	r.lockAll()
	defer r.unlockAll()
	old := *r.slots.Load()
	if processor < len(old) {
		return
	}
	slots := make([]slot, max(processor+1, runtime.GOMAXPROCS(0)))
	for i := range slots {
		b := fullBuffer
		if i < len(old) {
			b = old[i].Load()
		}
		slots[i].Store(b)
	}
	if r.shards == nil {
		r.shards = make([]shard, min(len(slots), maxShards))
		// They are given back with all others, and who sees the slots before that must find them taken.
		for i := range r.shards {
			r.shards[i].lock.Store(1)
		}
	}
	r.slots.Store(&slots)
}

// refill counts a full buffer and leaves room in it. The caller holds the shard and owns the slot.
func (r *Recorder) refill(processor int, at *slot, shard int) *buffer {
	b := at.Load()
	if b == fullBuffer {
		b = &buffer{values: make([]float64, firstBuffer)}
		at.Store(b)
		return b
	}
	to := &r.shards[shard]
	r.count(to, b)
	b.taken = 0
	b.fills++
	if b.fills >= hotAfter && to.last != processor+1 && to.last != 0 {
		b.prefer.Store(uint32(processor % len(r.shards)))
	}
	to.last = processor + 1
	if b.fills%growAfter == 0 && len(b.values) < maxBuffer {
		larger := &buffer{values: make([]float64, 2*len(b.values)), fills: b.fills}
		larger.prefer.Store(b.prefer.Load())
		larger.busy.Store(b.busy.Load())
		at.Store(larger)
		return larger
	}
	storeLen(&b.n, 0)
	return b
}
