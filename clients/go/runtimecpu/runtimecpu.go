// Package runtimecpu fits the Go runtime to the container it runs in, and reports what the container does to it.
//
// A runtime that takes all of a host's processors for its own is throttled by the container's quota: latencies get
// steps of up to 100 ms that no profile shows. From Go 1.25 on the runtime reads the quota itself; [Apply] then
// changes nothing. No version sets the memory limit of the collector; Apply does.
//
//	runtimecpu.Apply(runtimecpu.Options{})
//	registry.MustRegister(runtimecpu.NewCollector())
//
// On systems other than Linux, and where there is no quota, both do nothing.
//
// Invariant: a setting that its user made, by environment variable or call, is never changed.
package runtimecpu

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// DefMemoryShare is the part of the container's memory that the runtime may use. The rest is for what it does not
// count: the binary, cgo, mapped files, the page cache.
const DefMemoryShare = 0.9

// Options of Apply. The zero value is a good start.
type Options struct {
	// MemoryShare is the part of the container's memory limit that becomes GOMEMLIMIT, DefMemoryShare if 0. A
	// negative one leaves GOMEMLIMIT alone.
	MemoryShare float64
	// KeepProcs leaves GOMAXPROCS alone.
	KeepProcs bool
}

// Applied says what Apply found and did.
type Applied struct {
	// Limits are the container's.
	Limits Limits
	// Procs and MemoryLimit are what was set, 0 where nothing was.
	Procs       int
	MemoryLimit int64
	undo        []func()
}

// Undo restores what was set before.
func (a *Applied) Undo() {
	for _, f := range a.undo {
		f()
	}
	a.undo = nil
}

// Apply sets GOMAXPROCS and GOMEMLIMIT after the container's limits, unless they were set already. Call it first in
// main. The error says why limits could not be read; nothing is changed then.
func Apply(o Options) (*Applied, error) {
	limits, err := ReadLimits(os.DirFS("/"))
	if err != nil {
		return &Applied{}, err
	}
	return apply(o, limits, os.Getenv), nil
}

func apply(o Options, limits Limits, getenv func(string) string) *Applied {
	a := &Applied{Limits: limits}
	if procs := procsFor(limits.CPUs, runtime.NumCPU()); !o.KeepProcs && getenv("GOMAXPROCS") == "" &&
		procs > 0 && procs < runtime.GOMAXPROCS(0) {
		before := runtime.GOMAXPROCS(procs)
		a.Procs = procs
		a.undo = append(a.undo, func() { runtime.GOMAXPROCS(before) })
	}
	share := o.MemoryShare
	if share == 0 {
		share = DefMemoryShare
	}
	if limit := memoryFor(limits.MemoryBytes, share); getenv("GOMEMLIMIT") == "" && limit > 0 &&
		debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
		a.MemoryLimit = limit
		a.undo = append(a.undo, func() { debug.SetMemoryLimit(math.MaxInt64) })
	}
	return a
}

// procsFor rounds as the runtime does: a part of a CPU counts as one, and below two there is no parallel collection.
// 0 means no limit.
func procsFor(cpus float64, host int) int {
	if cpus <= 0 || cpus >= float64(host) {
		return 0
	}
	return min(max(int(math.Ceil(cpus)), 2), host)
}

func memoryFor(bytes uint64, share float64) int64 {
	if bytes == 0 || share <= 0 || share > 1 {
		return 0
	}
	return int64(float64(bytes) * share)
}

// Limits are what a container may use, 0 where there is no limit, and how its quota has worked.
type Limits struct {
	CPUs        float64
	MemoryBytes uint64
	Throttling  Throttling
}

// Throttling counts since the container started.
type Throttling struct {
	// Periods are the quota's periods in which the container ran, Throttled those in which it used up its quota.
	Periods, Throttled uint64
	// Seconds are how long its threads waited for the next period, added up.
	Seconds float64
}

// ReadLimits reads the limits of this process from its control groups, version 1 and 2, below the root of a file
// system. No control groups are no error and no limits.
func ReadLimits(root fs.FS) (Limits, error) {
	groups, err := findGroups(root)
	if err != nil {
		return Limits{}, err
	}
	var l Limits
	for _, g := range groups {
		g.read(root, &l)
	}
	return l, nil
}
