// Package switches turns metrics off, on, or down to a sample while the process runs.
//
// A [Switch] is a word that a metric reads before anything else: switched off, an observation costs that one load. A
// [Set] holds a process' switches and decides their states from five sources, in this order: code and HTTP requests,
// a segment's switches, a file, the environment, and on. The states are a metric themselves.
//
//	set := switches.NewSet()
//	latency := switches.WrapSummary(set.Switch("latency"), summary.New(opts))
//	registry.MustRegister(latency, set)
//	set.Switch("latency").Set(switches.Off)
//
// # What a state means
//
//   - [Off]: nothing is counted. The metric disappears from exposition, or stays at its last values with [Freeze].
//   - [OneIn](n): counters add n for one in n calls, so that their rates stay right. Histograms and summaries take one
//     in n observations: quantiles stay right, counts and sums are those of the sample. Gauges are set always.
//   - A gauge that goes up and down by Inc and Dec is wrong for ever when it is switched between the two; wrap such
//     gauges with [KeepDeltas], which lets changes through and only hides the metric.
//
// Invariant: a state changes at once for every user of a switch; nothing needs a restart.
package switches

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// State says what a switch lets through: nothing, everything, or one in n.
type State uint32

const (
	// Off lets nothing through.
	Off State = 0
	// On lets everything through.
	On State = 1
	// MaxSample is the largest n of OneIn.
	MaxSample = 1_000_000
)

// OneIn returns the state that lets one in n through, chosen at random. n below 1 counts as 1, which is On.
func OneIn(n int) State { return State(min(max(n, 1), MaxSample)) }

// ParseState reads "on", "off" or "1/n" with n from 1 to MaxSample.
func ParseState(s string) (State, error) {
	switch s {
	case "on":
		return On, nil
	case "off":
		return Off, nil
	}
	if of, ok := strings.CutPrefix(s, "1/"); ok {
		n, err := strconv.ParseUint(of, 10, 32)
		if err == nil && n >= 1 && n <= MaxSample {
			return State(n), nil
		}
	}
	return Off, fmt.Errorf("state %q is none of on, off and 1/n with n from 1 to %d", s, MaxSample)
}

// String returns what ParseState reads.
func (s State) String() string {
	switch s {
	case Off:
		return "off"
	case On:
		return "on"
	default:
		return "1/" + strconv.FormatUint(uint64(s), 10)
	}
}

// Switch decides whether a metric counts. Make it with New or Set.Switch. It is safe for concurrent use.
type Switch struct {
	state      atomic.Uint32
	name       string
	freeze     bool
	keepDeltas bool
	inert      bool
	// set is nil for a switch on its own.
	set    *Set
	layers [layerCount]*State
}

// Option changes what a switch does when it is off.
type Option func(*Switch)

// Freeze keeps the metric in the exposition at its last values while it is off.
func Freeze() Option { return func(s *Switch) { s.freeze = true } }

// KeepDeltas lets gauges go on with Inc, Dec, Add and Sub while off, so that they are right when they come back.
func KeepDeltas() Option { return func(s *Switch) { s.keepDeltas = true } }

// NoKeptHandles promises that nobody keeps what a vector's WithLabelValues and With return. While off they return a
// metric that counts nothing, for one load instead of a look-up; who keeps it never counts again.
func NoKeptHandles() Option { return func(s *Switch) { s.inert = true } }

// New returns a switch that belongs to no Set and is on.
func New(name string, options ...Option) *Switch {
	s := &Switch{name: name}
	s.state.Store(uint32(On))
	for _, option := range options {
		option(s)
	}
	return s
}

// Name returns the switch's name.
func (s *Switch) Name() string { return s.name }

// State returns what the switch lets through.
func (s *Switch) State() State { return State(s.state.Load()) }

// Set sets the state from code, which has precedence over file and environment.
func (s *Switch) Set(state State) {
	if s.set == nil {
		s.state.Store(uint32(state))
		return
	}
	s.set.override(s, &state)
}

// Clear forgets what code or an HTTP request set, so that file and environment decide again.
func (s *Switch) Clear() {
	if s.set == nil {
		s.state.Store(uint32(On))
		return
	}
	s.set.override(s, nil)
}

// Exposed reports whether the metric belongs into the exposition.
func (s *Switch) Exposed() bool { return s.freeze || s.State() != Off }

// weight returns 0 when a call is not let through, and otherwise how many calls it stands for.
func (s *Switch) weight() uint32 {
	n := s.state.Load()
	if n > 1 {
		return sample(n)
	}
	return n
}

//go:noinline
func sample(n uint32) uint32 {
	if rand.Uint32N(n) != 0 {
		return 0
	}
	return n
}
