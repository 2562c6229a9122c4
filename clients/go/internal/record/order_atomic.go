//go:build !amd64 || race

// Publishing a buffer's length where stores may be reordered, or where the race detector wants to see it.
//
// Invariant: only the buffer's owner stores.

package record

import "sync/atomic"

func loadLen(n *uint32) uint32 { return atomic.LoadUint32(n) }

func storeLen(n *uint32, to uint32) { atomic.StoreUint32(n, to) }
