// A file of rules that is read again when it changes.
//
// It is looked at, not subscribed to: a file that is replaced by renaming, or a mounted ConfigMap, needs no further
// care.
//
// Invariant: a file that cannot be read or understood changes nothing; a file that is gone has no rules.

package switches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// maxFile is how large a file of rules may be, in bytes.
const maxFile = 1 << 20

// File is a file of rules that a Set follows. There should be one.
type File struct {
	set  *Set
	path string

	mutex  sync.Mutex
	last   string
	failed bool
	errors uint64
}

// File lets the set follow a file, which is read at once. The error says why it could not be; the set follows it
// nevertheless from the next Reload or Watch on.
func (s *Set) File(path string) (*File, error) {
	f := &File{set: s, path: path}
	s.mutex.Lock()
	s.files = append(s.files, f)
	s.mutex.Unlock()
	return f, f.Reload()
}

// Watch reads the file at every interval until the context ends. Errors are counted in a metric and passed to report,
// which may be nil.
func (f *File) Watch(ctx context.Context, interval time.Duration, report func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := f.Reload(); err != nil && report != nil {
				report(err)
			}
		}
	}
}

// Reload reads the file and follows it if it has changed.
func (f *File) Reload() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	err := f.reload()
	f.failed = err != nil
	if err != nil {
		f.errors++
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

func (f *File) reload() error {
	text, err := readFile(f.path)
	if err != nil {
		return err
	}
	if text == f.last {
		return nil
	}
	rules, err := ParseRules(text)
	if err != nil {
		return err
	}
	f.last = text
	f.set.setLayer(layerFile, rules)
	return nil
}

func (f *File) status() (ok float64, errors uint64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !f.failed {
		ok = 1
	}
	return ok, f.errors
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("more than %d bytes", maxFile)
	}
	return string(text), nil
}
