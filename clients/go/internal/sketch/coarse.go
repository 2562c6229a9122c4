// Fewer and wider buckets, which every process has alike, so that they can be added up: those of segments.
//
// A cell's observations go to the bucket of its middle, as in a native histogram. Which cell an observation is in may
// change while its window lasts, so the buckets shown follow those computed without ever falling.
//
// Invariant: counts only grow, and their total is the number of observations that are not NaN and were added.

package sketch

import "math"

const (
	// CoarseFirst is the power of two at which the second bucket begins; the first has everything below.
	CoarseFirst = -24
	// CoarseOctaves is the number of powers of two; the last bucket has everything above.
	CoarseOctaves = 64
	// CoarseBits says into how many buckets, as a power of two, each is divided.
	CoarseBits = 4
	// CoarseBuckets is the number of buckets.
	CoarseBuckets = 2 + CoarseOctaves<<CoarseBits
)

// Coarse counts in such buckets.
type Coarse struct {
	// closed has the windows that are over, shown what was published last.
	closed, shown [CoarseBuckets]uint64
}

// Close adds a window that is over.
func (c *Coarse) Close(window Chunk) { addCoarse(&c.closed, window) }

// Show brings the counts up to date with a present window, and returns them. They must not be changed.
func (c *Coarse) Show(present []Chunk) *[CoarseBuckets]uint64 {
	target := c.closed
	for _, chunk := range present {
		addCoarse(&target, chunk)
	}
	missing := uint64(0)
	for i := range target {
		missing += target[i] - c.shown[i]
	}
	// Buckets that have too many keep them; as many are missing in those that have too few.
	for i := range target {
		if target[i] > c.shown[i] {
			n := min(target[i]-c.shown[i], missing)
			c.shown[i] += n
			missing -= n
		}
	}
	return &c.shown
}

func addCoarse(to *[CoarseBuckets]uint64, chunk Chunk) {
	chunk.middles(func(v float64, n uint64) { to[coarsePlace(v)] += n })
}

// coarsePlace returns a number's bucket.
func coarsePlace(v float64) int {
	if !(v >= 1.0/(1<<-CoarseFirst)) {
		return 0
	}
	// Exponent and leading bits of the mantissa, counted from the first bucket's.
	place := int(math.Float64bits(v)>>(mantissaBits-CoarseBits)) - (1023+CoarseFirst)<<CoarseBits
	return min(place+1, CoarseBuckets-1)
}
