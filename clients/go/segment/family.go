// Metrics and series in the segment: what their records say, and how gathered numbers become cells.
//
// Invariant: only records that every reader accepts are written; what has none counts as refused, once.

package segment

import (
	"math"
	"slices"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"narthex.dev/go/internal/exposed"
	"narthex.dev/go/internal/sketch"
)

// Types of metrics in the format.
const (
	kindCounter   = 1
	kindGauge     = 3
	kindHistogram = 4
	kindSummary   = 5
)

const (
	maxHelp      = 1 << 12
	maxBounds    = 1024
	maxQuantiles = 64
	maxLabels    = 64
)

// family is a metric of the segment.
type family struct {
	shape shape
	// isKept is false if there was no room for it, or it cannot be described.
	isKept bool
	place  uint32
	// toggle is the cell of its switch, isOff what that said last.
	toggle int
	isOff  bool
	// series by their labels; nil for one that was refused.
	series map[string]*series
}

// shape is what a metric's record says about its cells.
type shape struct {
	kind byte
	// numbers are a histogram's bounds, or a summary's quantiles.
	numbers []float64
	merge   byte
	// Of a summary: its buckets, and how its observations age.
	first         int16
	octaves       uint16
	bits          byte
	steps         uint16
	age           uint64
	hasOwnBuckets bool
}

// series is a series of the segment.
type series struct {
	shape *shape
	// first is its first cell.
	first int
	// count is how much it had counted when it was last published, before the cells of the series that had its labels
	// earlier, which is added.
	count  float64
	before []uint64
	// created is when the series began, as client_golang says.
	created time.Time
	round   uint64
}

// family returns the metric that a gathered one belongs to, and describes it when it is the first.
func (p *Publisher) family(gathered *dto.MetricFamily, metric *dto.Metric, notes *exposed.Notes) *family {
	name := gathered.GetName()
	if found := p.families[name]; found != nil {
		return found
	}
	made := &family{shape: p.shapeOf(gathered, metric, notes), series: map[string]*series{}}
	p.families[name] = made
	if !isMetricName(name) || !made.shape.isValid() {
		return made
	}
	place, toggle, err := p.file.push(made.shape.record(name, gathered.GetHelp()), 12, 1)
	if err == nil {
		made.isKept, made.place, made.toggle = true, place, toggle
	}
	return made
}

func (p *Publisher) shapeOf(gathered *dto.MetricFamily, metric *dto.Metric, notes *exposed.Notes) shape {
	switch gathered.GetType() {
	case dto.MetricType_COUNTER:
		return shape{kind: kindCounter}
	case dto.MetricType_GAUGE_HISTOGRAM:
		// Its counts fall, which the format has no type for.
		return shape{}
	case dto.MetricType_HISTOGRAM:
		s := shape{kind: kindHistogram}
		for _, bucket := range finite(metric.Histogram.GetBucket()) {
			s.numbers = append(s.numbers, bucket.GetUpperBound())
		}
		return s
	case dto.MetricType_SUMMARY:
		source := notes.Source(metric.Summary)
		if source == nil {
			// One that says nothing about its distribution: everything counts, and nothing has a rank.
			return shape{kind: kindSummary, octaves: 1}
		}
		age, steps := source.Window()
		return shape{
			kind: kindSummary, numbers: source.Objectives(), hasOwnBuckets: true,
			first: sketch.CoarseFirst, octaves: sketch.CoarseOctaves, bits: sketch.CoarseBits,
			steps: uint16(min(steps, math.MaxUint16)), age: uint64(age.Milliseconds()),
		}
	default:
		merge, _ := p.options.Gauges[gathered.GetName()].code()
		return shape{kind: kindGauge, merge: merge}
	}
}

func (s *shape) isValid() bool {
	ascends := slices.IsSortedFunc(s.numbers, func(a, b float64) int {
		if a < b {
			return -1
		}
		return 1
	})
	switch s.kind {
	case 0:
		return false
	case kindHistogram:
		isFinite := func(bound float64) bool { return !math.IsInf(bound, 0) && !math.IsNaN(bound) }
		return ascends && len(s.numbers) <= maxBounds && all(s.numbers, isFinite)
	case kindSummary:
		return ascends && len(s.numbers) <= maxQuantiles &&
			all(s.numbers, func(q float64) bool { return 0 <= q && q <= 1 })
	}
	return true
}

func all(numbers []float64, is func(float64) bool) bool {
	return !slices.ContainsFunc(numbers, func(n float64) bool { return !is(n) })
}

// cells returns the number of cells of a series.
func (s *shape) cells() int {
	switch s.kind {
	case kindGauge:
		return 2
	case kindHistogram:
		return len(s.numbers) + 2
	case kindSummary:
		return 2 + 2 + int(s.octaves)<<s.bits
	}
	return 1
}

// record returns the metric's record, but for length, checksum and the switch's cell.
func (s *shape) record(name, help string) []byte {
	if len(help) > maxHelp {
		help = help[:maxHelp]
		for !utf8.ValidString(help) {
			help = help[:len(help)-1]
		}
	}
	record := make([]byte, 40, 48+8*len(s.numbers)+len(name)+len(help))
	record[8], record[9], record[10], record[11] = 1, s.kind, s.merge, s.bits
	littleEnd.PutUint16(record[16:], uint16(len(name)))
	littleEnd.PutUint16(record[20:], uint16(len(help)))
	littleEnd.PutUint16(record[22:], uint16(len(s.numbers)))
	littleEnd.PutUint16(record[24:], uint16(s.first))
	littleEnd.PutUint16(record[26:], s.octaves)
	littleEnd.PutUint16(record[28:], s.steps)
	littleEnd.PutUint64(record[32:], s.age)
	for _, number := range s.numbers {
		record = littleEnd.AppendUint64(record, math.Float64bits(number))
	}
	return append(append(record, name...), help...)
}

// series returns the series that a gathered metric belongs to, or nil if it is refused.
func (p *Publisher) series(family *family, metric *dto.Metric) *series {
	p.labels = appendLabels(p.labels[:0], metric.Label)
	if found, ok := family.series[string(p.labels)]; ok {
		return found
	}
	made := p.newSeries(family, metric)
	if made == nil {
		p.file.refuse()
	}
	family.series[string(p.labels)] = made
	return made
}

func (p *Publisher) newSeries(family *family, metric *dto.Metric) *series {
	if !family.isKept || len(metric.Label) > maxLabels {
		return nil
	}
	for _, label := range metric.Label {
		if !isLabelName(label.GetName()) {
			return nil
		}
	}
	record := make([]byte, 24, 32+len(p.labels))
	record[8] = 2
	littleEnd.PutUint32(record[12:], family.place)
	littleEnd.PutUint32(record[20:], uint32(len(p.labels)))
	_, first, err := p.file.push(append(record, p.labels...), 16, family.shape.cells())
	if err != nil {
		return nil
	}
	return &series{shape: &family.shape, first: first}
}

// store stores a gathered metric's numbers.
func (s *series) store(f *file, metric *dto.Metric, notes *exposed.Notes, now uint64) {
	switch s.shape.kind {
	case kindCounter:
		value := metric.Counter.GetValue()
		s.counted(f, value, metric.Counter.GetCreatedTimestamp())
		s.set(f, 0, value)
	case kindGauge:
		value := metric.Gauge.GetValue()
		if metric.Untyped != nil {
			value = metric.Untyped.GetValue()
		}
		f.cell(s.first).Store(math.Float64bits(value))
		f.cell(s.first + 1).Store(now)
	case kindHistogram:
		s.storeHistogram(f, metric.Histogram)
	case kindSummary:
		s.storeSummary(f, metric.Summary, notes.Source(metric.Summary))
	}
}

func (s *series) storeHistogram(f *file, h *dto.Histogram) {
	buckets := finite(h.GetBucket())
	if len(buckets) != len(s.shape.numbers) {
		// Its bounds changed, which the segment cannot show.
		return
	}
	s.counted(f, float64(h.GetSampleCount()), h.GetCreatedTimestamp())
	below := uint64(0)
	for i, bucket := range buckets {
		s.add(f, 1+i, bucket.GetCumulativeCount()-below)
		below = bucket.GetCumulativeCount()
	}
	s.add(f, 1+len(buckets), h.GetSampleCount()-below)
	s.set(f, 0, h.GetSampleSum())
}

func (s *series) storeSummary(f *file, gathered *dto.Summary, source exposed.Source) {
	if source == nil || !s.shape.hasOwnBuckets {
		s.counted(f, float64(gathered.GetSampleCount()), gathered.GetCreatedTimestamp())
		s.add(f, 1, gathered.GetSampleCount())
		s.set(f, 0, gathered.GetSampleSum())
		return
	}
	var counts [sketch.CoarseBuckets]uint64
	count, sum := source.Counts(func(shown *[sketch.CoarseBuckets]uint64) { counts = *shown })
	s.counted(f, float64(count), gathered.GetCreatedTimestamp())
	ranked := uint64(0)
	for i, n := range counts {
		ranked += n
		if n > 0 {
			s.add(f, 2+i, n)
		}
	}
	s.add(f, 1, count-ranked)
	s.set(f, 0, sum)
}

// counted takes note of how much was counted. If the series has begun anew since then, it goes on from the numbers it
// had. Without a created timestamp that shows only in a count that fell.
func (s *series) counted(f *file, count float64, created *timestamppb.Timestamp) {
	began := created.AsTime()
	if count < s.count || s.count > 0 && !began.Equal(s.created) {
		s.before = s.before[:0]
		for i := range s.shape.cells() {
			s.before = append(s.before, f.cell(s.first+i).Load())
		}
	}
	s.count, s.created = count, began
}

// set stores a float, and add a whole number, together with what the series had before it began anew.
func (s *series) set(f *file, at int, value float64) {
	if s.before != nil {
		value += math.Float64frombits(s.before[at])
	}
	f.cell(s.first + at).Store(math.Float64bits(value))
}

func (s *series) add(f *file, at int, count uint64) {
	if s.before != nil {
		count += s.before[at]
	}
	f.cell(s.first + at).Store(count)
}

// finite returns buckets without that of +Inf, which is implied.
func finite(buckets []*dto.Bucket) []*dto.Bucket {
	if n := len(buckets); n > 0 && math.IsInf(buckets[n-1].GetUpperBound(), 1) {
		return buckets[:n-1]
	}
	return buckets
}

// appendLabels appends labels as in the text format, without braces.
func appendLabels(to []byte, labels []*dto.LabelPair) []byte {
	for i, label := range labels {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, label.GetName()...), '=', '"')
		value := label.GetValue()
		for j := range len(value) {
			switch c := value[j]; c {
			case '\\', '"':
				to = append(to, '\\', c)
			case '\n':
				to = append(to, '\\', 'n')
			default:
				to = append(to, c)
			}
		}
		to = append(to, '"')
	}
	return to
}

// isMetricName reports whether readers accept the name of a metric: [a-zA-Z_:][a-zA-Z0-9_:]*.
func isMetricName(name string) bool {
	if name == "" || len(name) > math.MaxUint16 || '0' <= name[0] && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '_' && c != ':' {
			return false
		}
	}
	return true
}

// isLabelName reports whether readers accept the name of a label, which has no colon.
func isLabelName(name string) bool { return isMetricName(name) && !slices.Contains([]byte(name), ':') }
