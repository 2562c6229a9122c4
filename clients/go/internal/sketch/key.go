// Package sketch counts the observations of one window so that any quantile can be read back.
//
// It begins with the values themselves, goes over to log-linear cells whose width follows the data when there are
// many, and keeps values that repeat apart from them. A finished window is frozen into a few bytes per used cell.
//
// Invariant: a sketch's memory is bounded whatever it is given, and freezing loses no observation.
package sketch

import "math"

// Keys order like the floats they stand for; the cells of a sketch are ranges of keys that share their leading bits.
// Within one power of two a key grows linearly with its value.

const (
	signBit      = 1 << 63
	mantissaBits = 52
)

// keyOf returns the key of a number; -0 has the key of 0.
func keyOf(v float64) uint64 {
	b := math.Float64bits(v + 0)
	return b ^ (uint64(int64(b)>>63) | signBit)
}

// valueOf returns the number that has the key.
func valueOf(key uint64) float64 {
	if key&signBit != 0 {
		return math.Float64frombits(key ^ signBit)
	}
	return math.Float64frombits(^key)
}
