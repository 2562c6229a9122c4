//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || mips64le)

// The file: its birth, its areas, and the records that are appended to it.
//
// Bytes: docs/format/segment.md
//
// Invariant: nothing outside what is allocated is touched, so a full file system is an error and never a signal.

package segment

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	headerBytes = 4096
	fixedBytes  = 256
	// stepBytes is how much an area grows by.
	stepBytes   = 1 << 16
	maxRecord   = 1 << 20
	atState     = 256
	atRecords   = 264
	atCells     = 272
	atRefused   = 280
	stateLive   = 1
	stateClosed = 2
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	littleEnd  = binary.LittleEndian
	errFull    = errors.New("the segment is full")
)

// file is a segment that this process writes.
type file struct {
	// held keeps the lock, which the kernel gives back when the process ends.
	held    *os.File
	bytes   []byte
	cells   area
	records area
}

// area is a part of the file, in bytes: what is used of it, allocated and reserved.
type area struct{ offset, used, allocated, reserved int }

// create makes a segment in a directory. It has its final name once it is complete.
func create(o Options) (*file, error) {
	if err := makeDir(o.Dir); err != nil {
		return nil, err
	}
	var id [8]byte
	// Never fails, as its documentation says.
	_, _ = rand.Read(id[:])
	name := fmt.Sprintf("%s-%d-%s.segment", o.App, os.Getpid(), hex.EncodeToString(id[:]))
	path := filepath.Join(o.Dir, name)
	temporary := path + ".new"
	held, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, o.Mode)
	if err != nil {
		return nil, err
	}
	f := &file{held: held}
	if err = f.fill(o, id); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		f.unmap()
		// The first reason matters more; a reader removes what is left.
		_ = os.Remove(temporary)
		return nil, fmt.Errorf("%s: %w", o.Dir, err)
	}
	return f, nil
}

func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o770); err != nil {
		return err
	}
	// With its group's, so that a server of that group can remove segments.
	return os.Chmod(dir, 0o770|os.ModeSetgid)
}

func (f *file) fill(o Options, id [8]byte) error {
	fd := int(f.held.Fd())
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	f.cells = area{offset: headerBytes, reserved: roundUp(8*o.MaxCells, stepBytes)}
	f.records = area{offset: headerBytes + f.cells.reserved, reserved: roundUp(o.MaxLabelBytes, stepBytes)}
	length := f.records.offset + f.records.reserved
	if err := f.held.Truncate(int64(length)); err != nil {
		return err
	}
	if err := allocate(fd, 0, headerBytes); err != nil {
		return err
	}
	for _, area := range []*area{&f.cells, &f.records} {
		if err := f.grow(area, 8); err != nil {
			return err
		}
	}
	var err error
	f.bytes, err = syscall.Mmap(fd, 0, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	return f.writeHeader(o, id)
}

func (f *file) writeHeader(o Options, id [8]byte) error {
	start, err := startOfProcess()
	if err != nil {
		return err
	}
	namespace, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	out := f.bytes[:fixedBytes]
	copy(out, "NRTHXSEG")
	littleEnd.PutUint32(out[8:], 1)
	littleEnd.PutUint32(out[12:], 0x01020304)
	littleEnd.PutUint32(out[20:], uint32(os.Getpid()))
	littleEnd.PutUint64(out[24:], uint64(f.cells.offset))
	littleEnd.PutUint64(out[32:], uint64(f.cells.reserved/8))
	littleEnd.PutUint64(out[40:], uint64(f.records.offset))
	littleEnd.PutUint64(out[48:], uint64(f.records.reserved))
	copy(out[56:], id[:])
	littleEnd.PutUint64(out[64:], uint64(time.Now().UnixMilli()))
	littleEnd.PutUint64(out[72:], start)
	littleEnd.PutUint64(out[80:], namespace.Sys().(*syscall.Stat_t).Ino)
	copy(out[88:], boot)
	littleEnd.PutUint16(out[108:], uint16(len(o.App)))
	littleEnd.PutUint16(out[110:], uint16(len(o.Worker)))
	copy(out[128:], o.App)
	copy(out[192:], o.Worker)
	littleEnd.PutUint32(out[16:], checksum(out[:16], out[20:]))
	f.word(atState).Store(stateLive)
	return nil
}

// end marks the segment as complete and gives it up.
func (f *file) end() error {
	f.word(atState).Store(stateClosed)
	return f.unmap()
}

func (f *file) unmap() error {
	var err error
	if f.bytes != nil {
		err = syscall.Munmap(f.bytes)
		f.bytes = nil
	}
	return errors.Join(err, f.held.Close())
}

// word returns the 8 bytes at an offset, which is a multiple of 8.
func (f *file) word(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&f.bytes[at]))
}

// cell returns a cell by its number.
func (f *file) cell(at int) *atomic.Uint64 { return f.word(f.cells.offset + 8*at) }

// refuse counts a series that is not published.
func (f *file) refuse() { f.word(atRefused).Add(1) }

// refused returns how many there are of those.
func (f *file) refused() uint64 { return f.word(atRefused).Load() }

// grow makes room for n more bytes.
func (f *file) grow(a *area, n int) error {
	needed := a.used + n
	if needed > a.reserved {
		return errFull
	}
	if needed <= a.allocated {
		return nil
	}
	target := min(roundUp(needed, stepBytes), a.reserved)
	if err := allocate(int(f.held.Fd()), a.offset+a.allocated, target-a.allocated); err != nil {
		return err
	}
	a.allocated = target
	return nil
}

// push appends a record with n cells, the first of which is written at cellAt; it returns the record's place and the
// first cell.
func (f *file) push(record []byte, cellAt, n int) (place uint32, first int, err error) {
	for len(record)%8 != 0 {
		record = append(record, 0)
	}
	if len(record) > maxRecord {
		return 0, 0, errFull
	}
	if err := errors.Join(f.grow(&f.cells, 8*n), f.grow(&f.records, len(record))); err != nil {
		return 0, 0, err
	}
	place, first = uint32(f.records.used/8), f.cells.used/8
	littleEnd.PutUint32(record, uint32(len(record)))
	littleEnd.PutUint32(record[cellAt:], uint32(first))
	littleEnd.PutUint32(record[4:], checksum(record[:4], record[8:]))
	copy(f.bytes[f.records.offset+f.records.used:], record)
	f.cells.used += 8 * n
	f.records.used += len(record)
	// The watermark comes last: whoever sees it sees everything below it.
	f.word(atCells).Store(uint64(f.cells.used / 8))
	f.word(atRecords).Store(uint64(f.records.used))
	return place, first, nil
}

func allocate(fd, at, n int) error {
	for {
		if err := syscall.Fallocate(fd, 0, int64(at), int64(n)); err != syscall.EINTR {
			return err
		}
	}
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }

func checksum(parts ...[]byte) uint32 {
	sum := uint32(0)
	for _, part := range parts {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}

// startOfProcess returns when this process started, in clock ticks since boot.
func startOfProcess() (uint64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain anything; the start is the 22nd field.
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, errors.New("/proc/self/stat has too few fields")
	}
	var start uint64
	_, err = fmt.Sscan(fields[19], &start)
	return start, err
}

func bootID() ([]byte, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err == nil && len(id) != 16 {
		err = errors.New("/proc/sys/kernel/random/boot_id is not a UUID")
	}
	return id, err
}
