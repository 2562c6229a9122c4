//! Counters of the CPUs and of the kernel by CPU, from `perf_event_open(2)`.
//!
//! Counters of the kernel and tracepoints of a CPU are read by one call; those of the CPU itself by one each, because it
//! can't count all at once.
//!
//! Invariant: a CPU's counters are opened when it appears, and closed in the round in which it is gone.

use std::borrow::Cow;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::collector::cpu::parse_ranges;
use crate::collector::{Collector, Ctx};
use crate::config::{HostConfig, PerfConfig, ProfilersConfig};
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf, read_once};
use crate::perf_event::{Event, Group};
use crate::scan::{number, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::table;

const FAMILIES: &str = include_str!("perf.txt");
const CPUS_FLAG: &str = "collector.perf.cpus";
/// More than any machine has.
const MAX_CPUS: usize = 1 << 16;

pub(crate) struct Perf {
    /// As given; without it, those that are online.
    cpus: Option<Vec<u32>>,
    online: OpenFile,
    tracing: [PathBuf; 2],
    counters: Vec<Counter>,
    /// Those whose number is not known yet, the last one first.
    tracepoints: Vec<Tracepoint>,
    groups: Vec<CpuGroup>,
    opened: Vec<u32>,
    buf: Vec<u8>,
}

/// What is counted on every CPU.
struct Counter {
    event: Event,
    name: Cow<'static, str>,
    help: Cow<'static, str>,
    /// Whether it needs no register of the CPU, so that it may share a group.
    is_shared: bool,
}

struct Tracepoint {
    subsystem: String,
    name: String,
}

struct CpuGroup {
    cpu: u32,
    group: Group,
    slots: Vec<Slot>,
}

impl Perf {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let perf = &config.perf;
        let cpus = Some(&perf.cpus).filter(|list| !list.is_empty());
        let tracepoints = perf.tracepoints.iter().rev().map(|point| tracepoint(point));
        Ok(Self {
            cpus: cpus.map(|list| cpu_list(list)).transpose()?,
            online: OpenFile::new(config.sysfs.join("devices/system/cpu/online")),
            tracing: ["kernel/tracing", "kernel/debug/tracing"].map(|dir| config.sysfs.join(dir)),
            counters: counters(perf),
            tracepoints: tracepoints.collect::<Result<_, _>>()?,
            groups: Vec::new(),
            opened: Vec::new(),
            buf: Vec::new(),
        })
    }

    /// Opens the counters of CPUs that appeared and closes those of CPUs that are gone.
    fn follow(&mut self, buf: &mut ReadBuf, out: &mut Sink) -> Result<(), HostError> {
        let cpus = match &self.cpus {
            Some(cpus) if self.opened == *cpus => return Ok(()),
            Some(cpus) => cpus.clone(),
            None => {
                let online = self.online.read(buf, End::Short);
                parse_ranges(online.map_err(HostError::or_no_data)?)
            }
        };
        if self.opened == cpus {
            return Ok(());
        }
        self.find_tracepoints(buf)?;
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.groups)
            .into_iter()
            .partition(|one| cpus.contains(&one.cpu));
        self.groups = kept;
        let retired = gone.iter().flat_map(|one| &one.slots);
        retired.for_each(|slot| out.retire(*slot));
        self.opened.retain(|cpu| cpus.contains(cpu));
        for cpu in &cpus {
            if !self.opened.contains(cpu) {
                let opened = open(*cpu, &self.counters)?;
                self.groups.extend(named(*cpu, opened, out));
                self.opened.push(*cpu);
            }
        }
        self.opened = cpus;
        Ok(())
    }

    /// Looks up the kernel's numbers of the tracepoints.
    fn find_tracepoints(&mut self, buf: &mut ReadBuf) -> Result<(), HostError> {
        const KIND: u32 = 2;
        while let Some(Tracepoint { subsystem, name }) = self.tracepoints.last() {
            let file = format!("events/{subsystem}/{name}/id");
            let mut ids = self.tracing.iter().map(|dir| dir.join(&file));
            let found = ids.find_map(|path| read_once(&path, buf).and_then(|id| number(trim(id))));
            let config = found.ok_or_else(|| HostError::Service {
                name: "perf",
                problem: format!(
                    "there is no tracepoint {subsystem}:{name}, or tracefs may not be read"
                ),
            })?;
            self.counters.push(Counter {
                event: Event { kind: KIND, config },
                name: format!("node_perf_{subsystem}_{name}").into(),
                help: format!("Perf tracepoint {subsystem}:{name}").into(),
                is_shared: true,
            });
            self.tracepoints.pop();
        }
        Ok(())
    }
}

/// Opens a CPU's counters, grouped. Those that the machine does not have are left out.
fn open(cpu: u32, counters: &[Counter]) -> Result<Vec<(Group, Vec<&Counter>)>, HostError> {
    let mut groups: Vec<(Group, Vec<&Counter>)> = Vec::new();
    let mut shared = None;
    for counter in counters {
        let group = shared.filter(|_| counter.is_shared);
        let opened = match group.and_then(|at: usize| groups.get_mut(at)) {
            Some((group, members)) => {
                let joined = group.join(counter.event, cpu);
                joined.map(|()| members.push(counter))
            }
            None => Group::open(counter.event, cpu).map(|group| {
                shared = shared.or(counter.is_shared.then_some(groups.len()));
                groups.push((group, vec![counter]));
            }),
        };
        opened.or_else(or_missing)?;
    }
    Ok(groups)
}

/// Gives a CPU's counters their series.
fn named(
    cpu: u32,
    opened: Vec<(Group, Vec<&Counter>)>,
    out: &mut Sink,
) -> impl Iterator<Item = CpuGroup> {
    let label = cpu.to_string();
    opened.into_iter().map(move |(group, counters)| {
        let slots = counters.into_iter().map(|counter| {
            let desc = Desc::counter(&counter.name, &counter.help);
            out.add(&desc, &[("cpu", &label)])
        });
        let slots = slots.collect();
        CpuGroup { cpu, group, slots }
    })
}

impl Collector for Perf {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        self.follow(ctx.buf, out)?;
        for one in &self.groups {
            let counts = one.group.counts(&mut self.buf);
            let counts = counts.map_err(|source| HostError::Read {
                path: "perf_event".into(),
                source,
            })?;
            for (slot, count) in one.slots.iter().zip(counts) {
                out.set(*slot, count as f64);
            }
        }
        Ok(())
    }
}

/// Passes over what this machine can't count.
fn or_missing(errno: Errno) -> Result<(), HostError> {
    match errno {
        Errno::ACCESS | Errno::PERM => Err(HostError::Service {
            name: "perf",
            problem: "counting all processes is not permitted: it needs CAP_PERFMON, or kernel.perf_event_paranoid \
                      at 0 or less, and in a container a seccomp profile that allows perf_event_open"
                .to_owned(),
        }),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Err(HostError::Read {
            path: "perf_event_open".into(),
            source: errno,
        }),
        _ => Ok(()),
    }
}

/// Lists the counters of the CPUs and of the kernel that the flags select.
fn counters(config: &PerfConfig) -> Vec<Counter> {
    let kinds = [
        ("hardware", 0, &config.hardware),
        ("software", 1, &config.software),
        ("cache", 3, &config.cache),
    ];
    for (name, _, profilers) in &kinds {
        let unknown = profilers
            .only
            .iter()
            .filter(|given| !is_profiler(name, given));
        unknown.for_each(|given| tracing::error!("Unknown {name} profiler: {given}"));
    }
    let rows = table::rows(FAMILIES);
    let counters = rows.filter_map(|([group, config, profiler], desc)| {
        let (_, kind, profilers) = kinds.iter().find(|(name, ..)| *name == group)?;
        takes(profilers, group, profiler).then(|| Counter {
            event: Event {
                kind: *kind,
                config: table::number(config),
            },
            name: desc.name.into(),
            help: desc.help.into(),
            is_shared: group == "software",
        })
    });
    counters.collect()
}

fn is_profiler(group: &str, profiler: &str) -> bool {
    let mut rows = table::rows(FAMILIES);
    rows.any(|([of, _, name], _)| (of, name) == (group, profiler))
}

/// Reports whether the flags select a profiler. As in node_exporter, names none of which is known select all.
fn takes(profilers: &ProfilersConfig, group: &str, profiler: &str) -> bool {
    let mut known = profilers
        .only
        .iter()
        .filter(|name| is_profiler(group, name));
    let is_named = known.clone().any(|name| name == profiler);
    !profilers.disabled && (is_named || known.next().is_none())
}

fn tracepoint(text: &str) -> Result<Tracepoint, HostError> {
    let invalid = || HostError::Flag {
        flag: "collector.perf.tracepoint".into(),
        problem: format!("not SUBSYSTEM:EVENT: {text:?}"),
    };
    let (subsystem, name) = text.split_once(':').ok_or_else(invalid)?;
    // They become parts of a path and of a metric's name.
    let is_name = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !text.is_empty() && text.chars().all(is_part)
    };
    if !is_name(subsystem) || !is_name(name) {
        return Err(invalid());
    }
    Ok(Tracepoint {
        subsystem: subsystem.to_owned(),
        name: name.to_owned(),
    })
}

/// Parses `0,4-6,8-16:4`: numbers, ranges, and ranges with a stride.
fn cpu_list(list: &str) -> Result<Vec<u32>, HostError> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (range, stride) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let parsed = (first.parse(), last.parse(), stride.parse::<usize>());
        let (Ok(first), Ok(last), Ok(stride @ 1..)) = parsed else {
            return Err(HostError::Flag {
                flag: CPUS_FLAG.into(),
                problem: format!("not a list of CPUs: {list:?}"),
            });
        };
        let range: std::ops::RangeInclusive<u32> = first..=last;
        cpus.extend(range.step_by(stride).take(MAX_CPUS));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests;
