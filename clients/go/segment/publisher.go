// Publishing: gathering, and storing what was gathered.
//
// Invariant: a number that only grows in the program only grows in the segment, also when its series was deleted and
// began anew.

package segment

import (
	"errors"
	"math"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"narthex.dev/go/internal/exposed"
)

// Publisher keeps what a registry gathers in a segment. Make it with Start. A nil one, which comes with an error, does
// nothing.
type Publisher struct {
	options Options
	mutex   sync.Mutex
	// file is nil once the publisher is closed.
	file     *file
	families map[string]*family
	labels   []byte
	round    uint64
	off      []string
	// isEnding is true once Close was called.
	isEnding bool
	stop     chan struct{}
	stopped  chan struct{}
}

// ErrClosed is returned by a publisher that was closed.
var ErrClosed = errors.New("the publisher is closed")

// Start creates the segment of this process, publishes, and goes on doing so from a goroutine.
func Start(options Options) (*Publisher, error) {
	options, err := options.completed()
	if err != nil {
		return nil, err
	}
	f, err := create(options)
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		options:  options,
		file:     f,
		families: map[string]*family{},
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	p.report(p.Publish())
	if options.Interval < 0 {
		close(p.stopped)
	} else {
		go p.run()
	}
	return p, nil
}

func (p *Publisher) run() {
	defer close(p.stopped)
	ticker := time.NewTicker(p.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.report(p.Publish())
		}
	}
}

func (p *Publisher) report(err error) {
	if err != nil && p.options.OnError != nil {
		p.options.OnError(err)
	}
}

// Close publishes for the last time and ends the segment; the reader keeps its counts.
func (p *Publisher) Close() error {
	if p == nil {
		return nil
	}
	p.mutex.Lock()
	wasEnding := p.isEnding
	p.isEnding = true
	p.mutex.Unlock()
	if wasEnding {
		return ErrClosed
	}
	close(p.stop)
	<-p.stopped
	gathered := p.Publish()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	err := p.file.end()
	p.file = nil
	return errors.Join(gathered, err)
}

// Publish obeys the segment's switches, gathers and stores what was gathered. The error is the gatherer's: whatever
// could be gathered is published.
func (p *Publisher) Publish() error {
	if p == nil {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.file == nil {
		return ErrClosed
	}
	p.obey()
	notes := exposed.Take()
	gathered, err := p.options.Gatherer.Gather()
	p.store(gathered, notes)
	notes.End()
	return err
}

// Refused returns how many metrics and series the segment has no room for, or readers would not take; 0 once closed.
func (p *Publisher) Refused() uint64 {
	if p == nil {
		return 0
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.file == nil {
		return 0
	}
	return p.file.refused()
}

// obey tells the switches which metrics are off in the segment, if that changed.
func (p *Publisher) obey() {
	if p.options.Switches == nil {
		return
	}
	changed := false
	for _, family := range p.families {
		isOff := family.isKept && p.file.cell(family.toggle).Load() != 0
		changed = changed || isOff != family.isOff
		family.isOff = isOff
	}
	if !changed {
		return
	}
	p.off = p.off[:0]
	for name, family := range p.families {
		if family.isOff {
			p.off = append(p.off, name)
		}
	}
	p.options.Switches.FollowSegment(p.off)
}

func (p *Publisher) store(gathered []*dto.MetricFamily, notes *exposed.Notes) {
	p.round++
	now := uint64(time.Now().UnixMilli())
	for _, each := range gathered {
		for _, metric := range each.Metric {
			family := p.family(each, metric, notes)
			if s := p.series(family, metric); s != nil {
				s.round = p.round
				s.store(p.file, metric, notes, now)
			}
		}
	}
	for _, family := range p.families {
		if family.shape.kind == kindGauge {
			p.hide(family)
		}
	}
}

// hide hides the gauges that are gone.
func (p *Publisher) hide(family *family) {
	for _, s := range family.series {
		if s != nil && s.round != p.round {
			p.file.cell(s.first + 1).Store(math.MaxUint64)
		}
	}
}
