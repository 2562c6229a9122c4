// Settings of a publisher.

package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"narthex.dev/go/switches"
)

// DefDir is where servers look for segments by default.
const DefDir = "/dev/shm/narthex"

// Merge says how the gauges of several processes become one.
type Merge uint8

const (
	// Each keeps them apart: each has its worker's name as a label.
	Each Merge = iota
	// Sum adds them up.
	Sum
	// Least takes the least.
	Least
	// Greatest takes the greatest.
	Greatest
	// Last takes that of the process that published last.
	Last
)

// code returns the merge as the format has it.
func (m Merge) code() (byte, bool) {
	codes := [...]byte{Each: 4, Sum: 0, Least: 1, Greatest: 2, Last: 3}
	if int(m) >= len(codes) {
		return 0, false
	}
	return codes[m], true
}

// Options say what to publish, where and as whom. App is required.
type Options struct {
	// Dir is the directory of the segments, on a memory file system; DefDir by default. One that does not exist is
	// created with mode 2770.
	Dir string
	// App is the application's name: letters, digits, "_", "-" and ".", at most 64.
	App string
	// Worker is the name of this process among those of its application; its number by default. A process that takes
	// another's place takes its name.
	Worker string
	// Mode are the permissions of the file; 0640 by default.
	Mode fs.FileMode
	// Gatherer is what is published; prometheus.DefaultGatherer by default.
	Gatherer prometheus.Gatherer
	// Interval is the time between publications; a second by default. A negative one leaves them to calls of Publish.
	Interval time.Duration
	// Gauges are the names of those that are merged; others are not.
	Gauges map[string]Merge
	// Switches, when not nil, obeys the segment's switches: the switch that has a metric's name is off while that metric
	// is switched off in the segment. Metrics without a switch go on counting, and are not shown.
	Switches *switches.Set
	// MaxCells is the largest number of numbers; a million by default, 2^23 at most. Memory is taken when it is used.
	MaxCells int
	// MaxLabelBytes is the most bytes that labels and descriptions may take; 32 MiB by default, 2^28 at most.
	MaxLabelBytes int
	// OnError is told what gathering complains about, at every publication; nil for nobody. What could be gathered is
	// published.
	OnError func(error)
}

const (
	maxName  = 64
	maxCells = 1 << 23
	maxBytes = 1 << 28
)

// completed returns the options with defaults for what is missing.
func (o Options) completed() (Options, error) {
	if o.Dir == "" {
		o.Dir = DefDir
	}
	if o.Worker == "" {
		o.Worker = strconv.Itoa(os.Getpid())
	}
	if o.Mode == 0 {
		o.Mode = 0o640
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.DefaultGatherer
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.MaxCells == 0 {
		o.MaxCells = 1 << 20
	}
	if o.MaxLabelBytes == 0 {
		o.MaxLabelBytes = 1 << 25
	}
	if o.App == "" {
		return o, errors.New("an application needs a name")
	}
	for _, name := range []string{o.App, o.Worker} {
		if !isFileName(name) {
			return o, fmt.Errorf("%q is not a name of an application or a worker", name)
		}
	}
	for name, merge := range o.Gauges {
		if _, ok := merge.code(); !ok {
			return o, fmt.Errorf("gauge %s: unknown merge %d", name, merge)
		}
	}
	if o.MaxCells < 0 || o.MaxCells > maxCells || o.MaxLabelBytes < 0 || o.MaxLabelBytes > maxBytes {
		return o, fmt.Errorf("a segment has at most %d cells and %d bytes of labels", maxCells, maxBytes)
	}
	return o, nil
}

// isFileName reports whether a name may be part of a file's.
func isFileName(name string) bool {
	if len(name) > maxName || strings.HasPrefix(name, ".") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
