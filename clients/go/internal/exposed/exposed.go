// Package exposed says from which Summary of ours a gathered one was written, so that its buckets can be published.
//
// client_golang's data model has no place for them. While somebody publishes, a Summary that is written leaves a note;
// at other times that costs one load for each Summary and scrape.
//
// Invariant: notes are found only by whoever holds what was gathered, and are gone when the publication is over.
package exposed

import (
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/internal/sketch"
)

// Source is a Summary that counts in buckets.
type Source interface {
	// Counts calls f with the counts of all buckets, and returns number and sum of all observations. NaNs are in no
	// bucket, nor is what had left all windows before the first call.
	Counts(f func(counts *[sketch.CoarseBuckets]uint64)) (count uint64, sum float64)
	// Window returns how long observations count in quantiles, and in how many steps they age.
	Window() (age time.Duration, steps int)
	// Objectives returns the quantiles, in ascending order.
	Objectives() []float64
}

// Notes are the sources of what is gathered while they are taken.
type Notes struct {
	mutex   sync.Mutex
	sources map[*dto.Summary]Source
}

var (
	// turn is held while notes are taken.
	turn    sync.Mutex
	current atomic.Pointer[Notes]
)

// Take begins to take notes; the caller has to call End.
func Take() *Notes {
	turn.Lock()
	notes := &Notes{sources: map[*dto.Summary]Source{}}
	current.Store(notes)
	return notes
}

// Source returns from what a gathered Summary was written, or nil.
func (n *Notes) Source(written *dto.Summary) Source {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.sources[written]
}

// End forgets the notes.
func (n *Notes) End() {
	current.Store(nil)
	turn.Unlock()
}

// Note says that a Summary was written from a source.
func Note(written *dto.Summary, source Source) {
	if notes := current.Load(); notes != nil {
		notes.mutex.Lock()
		notes.sources[written] = source
		notes.mutex.Unlock()
	}
}
