// Control groups of both versions as files, and what is made of them.

package runtimecpu

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func files(pairs ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fs[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fs
}

const mountV2 = "24 18 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		fs   fstest.MapFS
		want Limits
	}{
		{"no control groups", files(), Limits{}},
		{"version 2, container's own namespace", files(
			"proc/self/cgroup", "0::/\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/cpu.max", "150000 100000\n", "sys/fs/cgroup/memory.max", "1073741824\n",
			"sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 2500000\n",
		), Limits{1.5, 1 << 30, Throttling{10, 3, 2.5}}},
		{"version 2, the smallest of all groups counts", files(
			"proc/self/cgroup", "0::/pods/one\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/pods/one/cpu.max", "max 100000\n", "sys/fs/cgroup/pods/one/memory.max", "4096\n",
			"sys/fs/cgroup/pods/cpu.max", "50000 100000\n", "sys/fs/cgroup/pods/memory.max", "max\n",
		), Limits{CPUs: 0.5, MemoryBytes: 4096}},
		{"version 2, the group's own is the smallest", files(
			"proc/self/cgroup", "0::/pods/one\n", "proc/self/mountinfo", mountV2,
			"sys/fs/cgroup/pods/one/cpu.max", "50000 100000\n", "sys/fs/cgroup/pods/one/memory.max", "4096\n",
			"sys/fs/cgroup/pods/cpu.max", "200000 100000\n", "sys/fs/cgroup/pods/memory.max", "8192\n",
		), Limits{CPUs: 0.5, MemoryBytes: 4096}},
		{"version 1, host's path in a container", files(
			"proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n",
			"proc/self/mountinfo", "30 25 0:26 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"+
				"31 25 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 7\nnr_throttled 1\nthrottled_time 500000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n",
		), Limits{CPUs: 2, Throttling: Throttling{7, 1, 0.5}}},
		{"version 1 without quota", files(
			"proc/self/cgroup", "3:cpu:/\n",
			"proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n",
		), Limits{}},
		{"nonsense", files("proc/self/cgroup", "0::/../..\n:::\nx", "proc/self/mountinfo", mountV2+"- - -\n",
			"sys/fs/cgroup/cpu.max", "a b c", "sys/fs/cgroup/memory.max", "-5"), Limits{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadLimits(c.fs)
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestThisMachineCanBeRead(t *testing.T) {
	if _, err := ReadLimits(os.DirFS("/")); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(NewCollector()); n < 2 {
		t.Errorf("%d samples", n)
	}
	if problems, err := testutil.CollectAndLint(NewCollector()); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestRounding(t *testing.T) {
	for _, c := range []struct {
		cpus float64
		host int
		want int
	}{{0, 8, 0}, {0.5, 8, 2}, {1.5, 8, 2}, {2.1, 8, 3}, {8, 8, 0}, {16, 8, 0}, {0.5, 1, 1}} {
		if got := procsFor(c.cpus, c.host); got != c.want {
			t.Errorf("%v CPUs of %d: %d, want %d", c.cpus, c.host, got, c.want)
		}
	}
}

func TestSettingsAreAppliedAndUndone(t *testing.T) {
	before := runtime.GOMAXPROCS(64)
	defer runtime.GOMAXPROCS(before)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(limit)
	none := func(string) string { return "" }
	// As on a host with many CPUs.
	limits := Limits{CPUs: float64(runtime.NumCPU()) - 0.5, MemoryBytes: 1 << 40}

	a := apply(Options{}, limits, none)
	if want := procsFor(limits.CPUs, runtime.NumCPU()); runtime.GOMAXPROCS(0) != want || a.Procs != want {
		t.Errorf("GOMAXPROCS %d, said %d, want %d", runtime.GOMAXPROCS(0), a.Procs, want)
	}
	if want := int64(DefMemoryShare * float64(limits.MemoryBytes)); debug.SetMemoryLimit(-1) != want || a.MemoryLimit != want {
		t.Errorf("GOMEMLIMIT %d, said %d, want %d", debug.SetMemoryLimit(-1), a.MemoryLimit, want)
	}
	if again := apply(Options{}, limits, none); again.Procs != 0 || again.MemoryLimit != 0 {
		t.Errorf("a second time did %+v", again)
	}
	a.Undo()
	if runtime.GOMAXPROCS(0) != 64 || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Error("not undone")
	}
	set := func(string) string { return "7" }
	if a := apply(Options{}, limits, set); a.Procs != 0 || a.MemoryLimit != 0 {
		t.Errorf("the environment's settings were changed: %+v", a)
	}
	if a := apply(Options{KeepProcs: true, MemoryShare: -1}, limits, none); a.Procs != 0 || a.MemoryLimit != 0 {
		t.Errorf("did %+v although told not to", a)
	}
}

func FuzzControlGroups(f *testing.F) {
	f.Add("0::/a/b\n", mountV2, "150000 100000", "max", "nr_periods 3\nthrottled_usec 8")
	f.Add("3:cpu,cpuacct:/x\n", "30 25 0:26 /x /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n", "1", "2", "x 1")
	f.Add("0::/..\n", "1 2 3 / /\\040\\777 - cgroup2 c r\n", "-1 -1", "99999999999999999999", "")
	f.Fuzz(func(t *testing.T, own, mounts, cpu, memory, stat string) {
		fs := files("proc/self/cgroup", own, "proc/self/mountinfo", mounts)
		for _, dir := range []string{"sys/fs/cgroup/", "sys/fs/cgroup/a/", "sys/fs/cgroup/a/b/", "sys/fs/cgroup/cpu/"} {
			for name, text := range map[string]string{"cpu.max": cpu, "memory.max": memory, "cpu.stat": stat,
				"cpu.cfs_quota_us": cpu, "cpu.cfs_period_us": memory, "memory.limit_in_bytes": memory} {
				fs[dir+name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		l, err := ReadLimits(fs)
		if err != nil {
			t.Fatalf("%v for readable files", err)
		}
		if l.CPUs < 0 || math.IsNaN(l.CPUs) || math.IsInf(l.CPUs, 0) || l.MemoryBytes >= noLimitV1 || l.Throttling.Seconds < 0 {
			t.Errorf("%+v", l)
		}
	})
}
