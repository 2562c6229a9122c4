// Reading: totals, windows and their turns.
//
// Invariant: windows turn when they are read or by the timer, never in an observation; a turn loses nothing that is
// younger than the oldest window.

package record

import (
	"slices"
	"sync"
	"time"

	"narthex.dev/go/internal/sketch"
)

// Totals are what a recorder counted since it was created.
type Totals struct {
	Count uint64
	Sum   float64
}

// merges are kept between reads; one serves any recorder.
var merges = sync.Pool{New: func() any { return new(sketch.Merge) }}

// Read returns the totals and sets out[i] to the quantile qs[i] over the windows; qs must ascend.
func Read(r *Recorder, qs, out []float64) Totals {
	r.reading.Lock()
	defer r.reading.Unlock()
	totals, present := r.collect(len(qs) > 0)
	if len(qs) == 0 {
		return totals
	}
	merge := merges.Get().(*sketch.Merge)
	merge.Reset()
	for _, window := range r.closed {
		for _, chunk := range window {
			merge.Add(chunk)
		}
	}
	for _, chunk := range present {
		merge.Add(chunk)
	}
	merge.Quantiles(qs, out)
	merges.Put(merge)
	return totals
}

// ReadNative returns the totals and calls f with the native histogram of everything counted so far.
func ReadNative(r *Recorder, f func(*sketch.Native)) Totals {
	r.reading.Lock()
	defer r.reading.Unlock()
	totals, present := r.collect(true)
	all := r.native.Clone()
	for _, chunk := range present {
		all.Add(chunk)
	}
	f(all)
	return totals
}

// ReadCoarse returns the totals and calls f with the counts in coarse buckets. What had left all windows before the
// first call is in the totals alone. The recorder must have windows.
func ReadCoarse(r *Recorder, f func(counts *[sketch.CoarseBuckets]uint64)) Totals {
	r.reading.Lock()
	defer r.reading.Unlock()
	totals, present := r.collect(true)
	if r.coarse == nil {
		r.coarse = new(sketch.Coarse)
		for _, window := range r.closed {
			for _, chunk := range window {
				r.coarse.Close(chunk)
			}
		}
	}
	f(r.coarse.Show(present))
	return totals
}

// Turn closes windows whose time is over. It does nothing while somebody reads, who does the same.
func Turn(r *Recorder) {
	if !r.reading.TryLock() {
		return
	}
	defer r.reading.Unlock()
	if r.now().After(r.turnAt) {
		r.collect(false)
	}
}

// collect empties the buffers, turns windows, and returns the present window's chunks when asked to.
func (r *Recorder) collect(freeze bool) (Totals, []sketch.Chunk) {
	now := r.now()
	r.lockAll()
	defer r.unlockAll()
	if r.config.Windows > 0 {
		// What is still in a buffer counts as observed just now.
		r.turn(now)
	}
	slots := *r.slots.Load()
	for i := range slots {
		if b := slots[i].Load(); b != fullBuffer {
			r.drain(b)
		}
	}
	var totals Totals
	var present []sketch.Chunk
	for i := range r.shards {
		totals.Count += r.shards[i].count
		totals.Sum += r.shards[i].sum
		if !freeze {
			continue
		}
		present = append(present, r.shards[i].frozen...)
		if s := &r.shards[i].sketch; s.Count() > 0 {
			present = append(present, s.Freeze())
		}
	}
	return totals, present
}

// drain counts what a buffer has, and leaves it to its processor. The caller holds all shards.
func (r *Recorder) drain(b *buffer) {
	// Its processor appends meanwhile: only the values below n are there for certain.
	n := loadLen(&b.n)
	seen := buffer{n: n, taken: b.taken, values: b.values}
	r.count(&r.shards[0], &seen)
	b.taken = n
	b.fills = 0
}

// turn closes the present window, and further empty ones, until now is in the present one.
func (r *Recorder) turn(now time.Time) {
	if !now.After(r.turnAt) {
		return
	}
	step := max(r.config.Step, 1)
	// A window ends with its last instant, not before it.
	steps := (now.Sub(r.turnAt) + step - 1) / step
	r.turnAt = r.turnAt.Add(steps * step)
	var window []sketch.Chunk
	for i := range r.shards {
		window = append(window, r.shards[i].end()...)
	}
	for _, chunk := range window {
		if r.native != nil {
			r.native.Add(chunk)
		}
		if r.coarse != nil {
			r.coarse.Close(chunk)
		}
	}
	if len(window) > 1 {
		// Shards have much the same cells: one list of them is shorter.
		window = sketch.Join(window)
	}
	r.push(window)
	for range min(int64(steps)-1, int64(r.config.Windows)) {
		r.push(nil)
	}
}

// push makes a window the youngest of the closed ones and forgets the oldest when there are too many.
func (r *Recorder) push(window []sketch.Chunk) {
	r.closed = append(r.closed, window)
	for len(r.closed) >= r.config.Windows && len(r.closed) > 0 {
		r.closed = slices.Delete(r.closed, 0, 1)
	}
}

// end freezes the shard's part of the present window and begins the next one.
func (l *shard) end() []sketch.Chunk {
	chunks := l.frozen
	l.frozen = nil
	if l.sketch.Count() == 0 {
		// Who saw nothing for a whole window gives the memory of its cells back.
		l.sketch = sketch.Sketch{}
		return chunks
	}
	chunks = append(chunks, l.sketch.Freeze())
	l.sketch.Reset()
	return chunks
}
