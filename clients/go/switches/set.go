// A process' switches and where their states come from.
//
// Invariant: a switch has the state of its highest layer that says something, also when it is created after the rules.

package switches

import (
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// EnvVar is the environment variable that NewSet reads rules from, separated by commas.
const EnvVar = "METRIC_SWITCHES"

// Layers, from the weakest.
const (
	layerEnv = iota
	layerFile
	layerSegment
	layerOverride
	layerCount
)

// Set holds switches by name. It is a prometheus.Collector of their states.
type Set struct {
	mutex    sync.Mutex
	switches map[string]*Switch
	// rules of environment and file, for switches that are yet to come; overrides are kept in the switches, and as
	// rules where a request named a pattern.
	rules [layerCount][]Rule
	files []*File
}

// NewSet returns a set that follows the rules in EnvVar. It panics when they cannot be read: a process that is told
// nonsense at its start should not run.
func NewSet() *Set {
	s, err := NewSetFromEnv(os.Getenv(EnvVar))
	if err != nil {
		panic(EnvVar + ": " + err.Error())
	}
	return s
}

// NewSetFromEnv returns a set that follows rules as they are found in an environment variable.
func NewSetFromEnv(value string) (*Set, error) {
	rules, err := ParseRules(value)
	if err != nil {
		return nil, err
	}
	s := &Set{switches: map[string]*Switch{}}
	s.rules[layerEnv] = rules
	return s, nil
}

// Switch returns the switch with the name, created at its first use. Options count only then.
func (s *Set) Switch(name string, options ...Option) *Switch {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found := s.switches[name]; found != nil {
		return found
	}
	made := New(name, options...)
	made.set = s
	for layer := range made.layers {
		made.layers[layer] = lastMatch(s.rules[layer], name)
	}
	made.settle()
	s.switches[name] = made
	return made
}

// Override gives states from code, as Switch.Set does, by rules. Switches to come follow them too.
func (s *Set) Override(rules ...Rule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, rule := range rules {
		s.rules[layerOverride] = slices.DeleteFunc(s.rules[layerOverride], func(old Rule) bool {
			return matches(rule.Pattern, old.Pattern)
		})
	}
	s.rules[layerOverride] = append(s.rules[layerOverride], rules...)
	for name, each := range s.switches {
		if state := lastMatch(rules, name); state != nil {
			each.layers[layerOverride] = state
			each.settle()
		}
	}
}

// ClearOverride forgets what code and requests said about the switches that match a pattern.
func (s *Set) ClearOverride(pattern string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.rules[layerOverride] = slices.DeleteFunc(s.rules[layerOverride], func(old Rule) bool {
		return matches(pattern, old.Pattern)
	})
	for name, each := range s.switches {
		if matches(pattern, name) {
			each.layers[layerOverride] = nil
			each.settle()
		}
	}
}

// FollowSegment makes the switches with these names off, and forgets what the call before said. It is what a
// segment.Publisher does with the switches of its segment, which an operator sets on the spot: they win over file and
// environment, but not over code.
func (s *Set) FollowSegment(off []string) {
	rules := make([]Rule, len(off))
	for i, name := range off {
		rules[i] = Rule{name, Off}
	}
	s.setLayer(layerSegment, rules)
}

// States returns the states of all switches, ordered by name.
func (s *Set) States() []Rule {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	list := make([]Rule, 0, len(s.switches))
	for _, name := range slices.Sorted(maps.Keys(s.switches)) {
		list = append(list, Rule{name, s.switches[name].State()})
	}
	return list
}

// setLayer replaces all rules of a layer.
func (s *Set) setLayer(layer int, rules []Rule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.rules[layer] = rules
	for name, each := range s.switches {
		each.layers[layer] = lastMatch(rules, name)
		each.settle()
	}
}

func (s *Set) override(which *Switch, state *State) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	which.layers[layerOverride] = state
	which.settle()
}

// settle takes the state of the highest layer that has one. The set's mutex is held.
func (s *Switch) settle() {
	state := On
	for _, layer := range s.layers {
		if layer != nil {
			state = *layer
		}
	}
	s.state.Store(uint32(state))
}

var (
	descState = prometheus.NewDesc("metric_switch_state",
		"What a metric lets through: 0 nothing, 1 everything, n one observation in n.", []string{"metric"}, nil)
	descFileOK = prometheus.NewDesc("metric_switch_file_last_reload_successful",
		"Whether the file of switches could be read the last time.", []string{"file"}, nil)
	descFileErrors = prometheus.NewDesc("metric_switch_file_reload_errors_total",
		"How often the file of switches could not be read.", []string{"file"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Set) Describe(ch chan<- *prometheus.Desc) {
	ch <- descState
	ch <- descFileOK
	ch <- descFileErrors
}

// Collect implements prometheus.Collector.
func (s *Set) Collect(ch chan<- prometheus.Metric) {
	for _, rule := range s.States() {
		ch <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, float64(rule.State), rule.Pattern)
	}
	s.mutex.Lock()
	files := slices.Clone(s.files)
	s.mutex.Unlock()
	for _, f := range files {
		ok, errors := f.status()
		ch <- prometheus.MustNewConstMetric(descFileOK, prometheus.GaugeValue, ok, f.path)
		ch <- prometheus.MustNewConstMetric(descFileErrors, prometheus.CounterValue, float64(errors), f.path)
	}
}
