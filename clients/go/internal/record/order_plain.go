//go:build amd64 && !race

// Publishing a buffer's length on amd64, where stores become visible in the order they are made: a plain store does,
// while an atomic one would cost as much as everything else together.
//
// Invariant: only the buffer's owner stores.

package record

import "sync/atomic"

func loadLen(n *uint32) uint32 { return atomic.LoadUint32(n) }

func storeLen(n *uint32, to uint32) { *n = to }
