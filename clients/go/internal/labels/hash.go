// Package labels finds the child of a vector by its label values without a lock.
//
// Invariant: a child that was stored is found by every look-up that begins afterwards, until it is removed.
package labels

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

// seed makes the table's collisions different in every process: label values often come from outside.
var seed = rand.Uint64() | 1

const (
	mixA = 0xa0761d6478bd642f
	mixB = 0xe7037ed1a0b428db
)

// Begin returns the hash of no values.
func Begin() uint64 { return seed }

// Mix adds a value to a hash. Lengths go in too, so ("ab","c") and ("a","bc") differ.
func Mix(h uint64, s string) uint64 {
	n := len(s)
	p := unsafe.StringData(s)
	var a, b uint64
	switch {
	case n > 16:
		return mixLong(h, s)
	case n >= 8:
		a, b = load64(p, 0), load64(p, n-8)
	case n >= 4:
		a, b = load32(p, 0), load32(p, n-4)
	case n > 0:
		a = uint64(at(p, 0))<<16 | uint64(at(p, n/2))<<8 | uint64(at(p, n-1))
	}
	return fold(a^mixA, b^h^uint64(n)<<32)
}

// mixLong is for values of more than 16 bytes.
func mixLong(h uint64, s string) uint64 {
	n, p := len(s), unsafe.StringData(s)
	for i := 0; i+16 < n; i += 16 {
		h = fold(load64(p, i)^mixB, load64(p, i+8)^h)
	}
	return fold(load64(p, n-16)^mixA, load64(p, n-8)^h^uint64(n)<<32)
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// The callers keep i and the bytes read within the string.

func at(p *byte, i int) byte { return *(*byte)(unsafe.Add(unsafe.Pointer(p), i)) }

func load64(p *byte, i int) uint64 { return *(*uint64)(unsafe.Add(unsafe.Pointer(p), i)) }

func load32(p *byte, i int) uint64 { return uint64(*(*uint32)(unsafe.Add(unsafe.Pointer(p), i))) }
