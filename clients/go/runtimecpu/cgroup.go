// Control groups: where they are mounted, which ones this process is in, and what their files say.
//
// A limit may stand in any group above the process' own; the smallest one counts.
//
// Invariant: a file that is missing or says something unexpected sets no limit.

package runtimecpu

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// noLimitV1 and above is how version 1 says that memory has no limit.
	noLimitV1 = 1 << 60
	// maxDepth bounds how many groups above the process' are looked at.
	maxDepth = 64
)

// group is one hierarchy that the process is in.
type group struct {
	v2 bool
	// controllers are the hierarchy's, for version 1.
	controllers []string
	// mount is the hierarchy's directory, dir the process' own in it; both without a leading slash.
	mount, dir string
}

// findGroups returns the hierarchies that may limit this process.
func findGroups(root fs.FS) ([]group, error) {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading control groups: %w", err)
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parseGroups(string(own), string(mounts)), nil
}

// parseGroups joins the process' groups with their mounts.
func parseGroups(own, mounts string) []group {
	var groups []group
	for line := range strings.Lines(own) {
		// 4:cpu,cpuacct:/path for version 1, 0::/path for version 2
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		g := group{v2: parts[0] == "0" && parts[1] == ""}
		if !g.v2 {
			g.controllers = strings.Split(parts[1], ",")
			if !slices.Contains(g.controllers, "cpu") && !slices.Contains(g.controllers, "memory") {
				continue
			}
		}
		if g.place(mounts, parts[2]) {
			groups = append(groups, g)
		}
	}
	return groups
}

// place finds the hierarchy's mount and the group's directory in it.
func (g *group) place(mounts, own string) bool {
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /mount options - type source options
		front, back, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		before, after := strings.Fields(front), strings.Fields(back)
		if !ok || len(before) < 5 || len(after) < 1 || !g.mountedAs(after) {
			continue
		}
		// In a container the group's path is the host's; what is mounted begins somewhere on it.
		below, ok := strings.CutPrefix(own, strings.TrimSuffix(before[3], "/"))
		if !ok || (below != "" && below[0] != '/') || strings.Contains(below, "..") {
			below = ""
		}
		g.mount = strings.Trim(path.Clean(unescape(before[4])), "/")
		g.dir = strings.Trim(path.Join(g.mount, below), "/")
		return fs.ValidPath(g.mount) && fs.ValidPath(g.dir)
	}
	return false
}

// mountedAs reports whether a mount's type and options are those of this hierarchy.
func (g *group) mountedAs(after []string) bool {
	if g.v2 {
		return after[0] == "cgroup2"
	}
	if after[0] != "cgroup" || len(after) < 3 {
		return false
	}
	options := strings.Split(after[2], ",")
	return !slices.ContainsFunc(g.controllers, func(c string) bool { return !slices.Contains(options, c) })
}

// unescape undoes the kernel's \040 for spaces and the like.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// read lowers limits by those of the group and all above it, and reads the group's own statistics.
func (g *group) read(root fs.FS, l *Limits) {
	dir := g.dir
	for range maxDepth {
		file := func(name string) string {
			text, _ := fs.ReadFile(root, path.Join(dir, name))
			return strings.TrimSpace(string(text))
		}
		if g.v2 {
			l.lower(parseCPUMax(file("cpu.max")), parseMemory(file("memory.max")))
		} else {
			l.lower(parseQuota(file("cpu.cfs_quota_us"), file("cpu.cfs_period_us")), parseMemory(file("memory.limit_in_bytes")))
		}
		if dir == g.dir {
			if t := parseCPUStat(file("cpu.stat")); t != (Throttling{}) {
				l.Throttling = t
			}
		}
		if dir == g.mount || dir == "." {
			return
		}
		dir = path.Dir(dir)
	}
}

func (l *Limits) lower(cpus float64, memory uint64) {
	if cpus > 0 && (l.CPUs == 0 || cpus < l.CPUs) {
		l.CPUs = cpus
	}
	if memory > 0 && (l.MemoryBytes == 0 || memory < l.MemoryBytes) {
		l.MemoryBytes = memory
	}
}

// parseCPUMax reads "150000 100000" or "max 100000"; 0 is no limit.
func parseCPUMax(text string) float64 {
	quota, period, _ := strings.Cut(text, " ")
	return parseQuota(quota, period)
}

// parseQuota reads microseconds of CPU time per microseconds; 0 is no limit.
func parseQuota(quota, period string) float64 {
	q, err1 := strconv.ParseInt(quota, 10, 64)
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return float64(q) / float64(p)
}

// parseMemory reads bytes or "max"; 0 is no limit.
func parseMemory(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= noLimitV1 {
		return 0
	}
	return n
}

// parseCPUStat reads lines of a name and a number: version 1 has throttled_time in nanoseconds, version 2
// throttled_usec.
func parseCPUStat(text string) Throttling {
	var t Throttling
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > math.MaxInt64 {
			continue
		}
		switch name {
		case "nr_periods":
			t.Periods = n
		case "nr_throttled":
			t.Throttled = n
		case "throttled_usec":
			t.Seconds = float64(n) / 1e6
		case "throttled_time":
			t.Seconds = float64(n) / 1e9
		}
	}
	return t
}
