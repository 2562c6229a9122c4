//go:build !((amd64 || arm64) && !narthex_portable)

// The portable way in, for other processors and for who builds with the tag narthex_portable: a buffer is taken with
// one atomic instruction and given back with another. Which one follows from where the goroutine's stack is, so that
// goroutines spread over the buffers.
//
// Invariant: whoever set busy owns the buffer; nobody waits for another while owning one.

package record

import "unsafe"

// Sharding names how buffers are chosen.
const Sharding = "stack"

// Observe adds one observation.
func (r *Recorder) Observe(v float64) {
	slots := *r.slots.Load()
	if len(slots) > 0 {
		i := stackHash() % uint(len(slots))
		b := slots[i].Load()
		if b.busy.CompareAndSwap(0, 1) {
			n := loadLen(&b.n)
			if uint(n) < uint(len(b.values)) {
				b.values[n] = v
				storeLen(&b.n, n+1)
				b.busy.Store(0)
				return
			}
			b.busy.Store(0)
		}
	}
	r.observeSlow(v)
}

//go:noinline
func (r *Recorder) observeSlow(v float64) {
	first := stackHash()
	for spins := 0; ; spins++ {
		slots := *r.slots.Load()
		if len(slots) == 0 {
			r.prepare(0)
			continue
		}
		if r.observeAt(slots, (first+uint(spins))%uint(len(slots)), v) {
			return
		}
		relax(spins)
	}
}

// observeAt appends to one slot's buffer; false when it is somebody else's or has no room and no shard is free.
func (r *Recorder) observeAt(slots []slot, i uint, v float64) bool {
	b := slots[i].Load()
	if b == fullBuffer {
		shard := r.shard(0)
		if shard < 0 {
			return false
		}
		defer r.release(shard)
		fresh := &buffer{values: make([]float64, firstBuffer)}
		fresh.values[0] = v
		storeLen(&fresh.n, 1)
		return (*r.slots.Load())[i].CompareAndSwap(fullBuffer, fresh)
	}
	if !b.busy.CompareAndSwap(0, 1) {
		return false
	}
	n := loadLen(&b.n)
	if int(n) == len(b.values) {
		shard := r.shard(b.prefer.Load())
		if shard < 0 {
			b.busy.Store(0)
			return false
		}
		// A buffer that was replaced stays busy: who still sees it must look again.
		b = r.refill(int(i), &(*r.slots.Load())[i], shard)
		r.release(shard)
		n = 0
	}
	b.values[n] = v
	storeLen(&b.n, n+1)
	b.busy.Store(0)
	return true
}

// stackHash returns a number that differs between goroutines.
func stackHash() uint {
	var here byte
	return uint(uint64(uintptr(unsafe.Pointer(&here))>>10) * 0x9e3779b97f4a7c15 >> 40)
}
