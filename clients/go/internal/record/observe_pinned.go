//go:build (amd64 || arm64) && !narthex_portable

// The usual way in: a goroutine that is pinned to its processor owns that processor's buffer, so plain instructions
// do. procPin is what sync.Pool uses; the runtime promises to keep it for packages that link to it.
//
// Invariant: nothing blocks or waits between procPin and procUnpin.

package record

import _ "unsafe" // for go:linkname

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Sharding names how buffers are chosen.
const Sharding = "processor"

// Observe adds one observation.
func (r *Recorder) Observe(v float64) {
	p := procPin()
	if slots := *r.slots.Load(); uint(p) < uint(len(slots)) {
		b := slots[p].Load()
		n := loadLen(&b.n)
		if values := b.values; uint(n) < uint(len(values)) {
			values[n] = v
			storeLen(&b.n, n+1)
			procUnpin()
			return
		}
	}
	procUnpin()
	r.observeSlow(v)
}

// observeSlow makes room in the processor's buffer, or the buffer itself, and appends.
//
//go:noinline
func (r *Recorder) observeSlow(v float64) {
	for spins := 0; ; spins++ {
		p := procPin()
		slots := *r.slots.Load()
		if p >= len(slots) {
			procUnpin()
			r.prepare(p)
			continue
		}
		b := slots[p].Load()
		n := loadLen(&b.n)
		if int(n) == len(b.values) {
			shard := r.shard(b.prefer.Load())
			if shard < 0 {
				procUnpin()
				relax(spins)
				continue
			}
			// Slots move only while no shard is held.
			b = r.refill(p, &(*r.slots.Load())[p], shard)
			r.release(shard)
			n = 0
		}
		b.values[n] = v
		storeLen(&b.n, n+1)
		procUnpin()
		return
	}
}
