// The timer that turns the windows of recorders nobody reads.
//
// Scrapes turn windows too; without them an hour's observations would be taken for the last window's. No goroutine
// waits here, and recorders are held weakly: who forgets a metric need not close it.
//
// Invariant: a window ends at most a quarter of its length, or minTick, late.

package record

import (
	"sync"
	"time"
	"weak"
)

const (
	ticksPerStep = 4
	minTick      = 20 * time.Millisecond
)

// turner holds the recorders whose windows have one length.
type turner struct {
	tick    time.Duration
	members []weak.Pointer[Recorder]
}

var turners = struct {
	sync.Mutex
	byStep map[time.Duration]*turner
}{byStep: map[time.Duration]*turner{}}

// keepTurning has the recorder's windows turned as long as it is in use.
func keepTurning(r *Recorder) {
	turners.Lock()
	defer turners.Unlock()
	step := r.config.Step
	t := turners.byStep[step]
	if t == nil {
		t = &turner{tick: max(step/ticksPerStep, minTick)}
		turners.byStep[step] = t
		time.AfterFunc(t.tick, func() { t.run(step) })
	}
	t.members = append(t.members, weak.Make(r))
}

// run turns what is due and sets the timer again, unless nobody is left.
func (t *turner) run(step time.Duration) {
	turners.Lock()
	members := t.living()
	if len(members) == 0 {
		delete(turners.byStep, step)
	}
	turners.Unlock()
	for _, r := range members {
		Turn(r)
	}
	if len(members) > 0 {
		time.AfterFunc(t.tick, func() { t.run(step) })
	}
}

// living returns the members that still exist and forgets the others.
func (t *turner) living() []*Recorder {
	var living []*Recorder
	kept := t.members[:0]
	for _, member := range t.members {
		if r := member.Value(); r != nil {
			living = append(living, r)
			kept = append(kept, member)
		}
	}
	clear(t.members[len(kept):])
	t.members = kept
	return living
}
