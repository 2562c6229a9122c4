//go:build !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || mips64le))

// Where there are no segments, creating one fails.
//
// Invariant: there is never a file, so its methods are never called.

package segment

import (
	"errors"
	"sync/atomic"
)

type file struct{}

func create(Options) (*file, error) { return nil, errors.ErrUnsupported }

func (*file) end() error { return nil }

func (*file) cell(int) *atomic.Uint64 { return nil }

func (*file) refuse() {}

func (*file) refused() uint64 { return 0 }

func (*file) push([]byte, int, int) (uint32, int, error) { return 0, 0, errors.ErrUnsupported }
