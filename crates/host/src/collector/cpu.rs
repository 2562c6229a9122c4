//! Time per CPU and mode, throttling, isolation and online state.
//!
//! Invariant: a CPU's counters never fall, except together: an idle time that falls by three seconds or more means that
//! the CPU was replaced (hotplug, migration), and all of its counters start again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::collector::cpuinfo::CpuInfo;
use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf, read_once};
use crate::pool::lock;
use crate::procstat::{SharedStat, Ticks, USER_HZ};
use crate::scan::{number, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;

const SECONDS: Desc<'static> = Desc::counter(
    "node_cpu_seconds_total",
    "Seconds the CPUs spent in each mode.",
);
const GUEST_SECONDS: Desc<'static> = Desc::counter(
    "node_cpu_guest_seconds_total",
    "Seconds the CPUs spent in guests (VMs) for each mode.",
);
const CORE_THROTTLES: Desc<'static> = Desc::counter(
    "node_cpu_core_throttles_total",
    "Number of times this CPU core has been throttled.",
);
const PACKAGE_THROTTLES: Desc<'static> = Desc::counter(
    "node_cpu_package_throttles_total",
    "Number of times this CPU package has been throttled.",
);
const ISOLATED: Desc<'static> = Desc::gauge(
    "node_cpu_isolated",
    "Whether each core is isolated, information from /sys/devices/system/cpu/isolated.",
);
const ONLINE: Desc<'static> = Desc::gauge(
    "node_cpu_online",
    "CPUs that are online and being scheduled.",
);
const MODES: [&str; 8] = [
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
];
const GUEST_MODES: [&str; 2] = ["user", "nice"];
const IDLE: usize = 3;
const JUMP_BACK_TICKS: u64 = 3 * USER_HZ;

pub(crate) struct Cpu {
    stat: Arc<Mutex<SharedStat>>,
    guest: bool,
    sys_cpu: PathBuf,
    cpus: Vec<CpuTimes>,
    topology: Topology,
    info: Option<CpuInfo>,
    isolated: Option<Vec<Slot>>,
}

struct CpuTimes {
    id: u32,
    ticks: Ticks,
    modes: [Slot; MODES.len()],
    guest_modes: Option<[Slot; GUEST_MODES.len()]>,
}

/// Sysfs files per CPU directory. Rebuilt when the set of CPUs changes.
#[derive(Default)]
struct Topology {
    directories: Vec<u32>,
    throttles: Vec<(OpenFile, Slot)>,
    online: Option<Online>,
}

struct Online {
    /// The list of all online CPUs: one read instead of one per CPU.
    list: OpenFile,
    cpus: Vec<(u32, OpenFile, Slot)>,
}

impl Cpu {
    pub(crate) fn new(
        config: &HostConfig,
        stat: Arc<Mutex<SharedStat>>,
    ) -> Result<Self, HostError> {
        Ok(Self {
            stat,
            guest: config.cpu.guest,
            sys_cpu: config.sysfs.join("devices/system/cpu"),
            cpus: Vec::new(),
            topology: Topology::default(),
            info: CpuInfo::new(config)?,
            isolated: None,
        })
    }

    /// Updates the list of CPUs to the kernel's.
    fn reconcile(&mut self, seen: &[(u32, Ticks)], out: &mut Sink) {
        let mut old = std::mem::take(&mut self.cpus).into_iter().peekable();
        for (id, _) in seen {
            while let Some(gone) = old.next_if(|cpu| cpu.id < *id) {
                gone.retire(out);
            }
            let known = old.next_if(|cpu| cpu.id == *id);
            self.cpus
                .push(known.unwrap_or_else(|| CpuTimes::new(*id, self.guest, out)));
        }
        old.for_each(|gone| gone.retire(out));
    }

    fn set_isolated(&mut self, buf: &mut ReadBuf, out: &mut Sink) {
        let slots = self.isolated.get_or_insert_with(|| {
            let ids = read_once(&self.sys_cpu.join("isolated"), buf)
                .map(parse_ranges)
                .unwrap_or_default();
            ids.into_iter()
                .map(|id| out.add(&ISOLATED, &[("cpu", &id.to_string())]))
                .collect()
        });
        slots.iter().for_each(|slot| out.set(*slot, 1.0));
    }
}

impl Collector for Cpu {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let shared = self.stat.clone();
        let mut shared = lock(&shared);
        let stat = shared.get(ctx.round, ctx.buf)?;
        let same = self
            .cpus
            .iter()
            .map(|cpu| cpu.id)
            .eq(stat.cpus.iter().map(|cpu| cpu.0));
        if !same {
            self.reconcile(&stat.cpus, out);
        }
        for (cpu, (_, ticks)) in self.cpus.iter_mut().zip(&stat.cpus) {
            cpu.advance(ticks);
            cpu.set(out);
        }
        if ctx.refresh || !same {
            self.topology.refresh(&self.sys_cpu, !same, ctx.buf, out);
        }
        self.topology.set(ctx.buf, out);
        self.set_isolated(ctx.buf, out);
        if let Some(info) = &mut self.info {
            info.collect(ctx.refresh || !same, ctx.buf, out)?;
        }
        Ok(())
    }
}

impl CpuTimes {
    fn new(id: u32, guest: bool, out: &mut Sink) -> Self {
        let cpu = id.to_string();
        let mut add = |desc, mode| out.add(desc, &[("cpu", &cpu), ("mode", mode)]);
        let modes = MODES.map(|mode| add(&SECONDS, mode));
        let guest_modes = guest.then(|| GUEST_MODES.map(|mode| add(&GUEST_SECONDS, mode)));
        Self {
            id,
            ticks: Ticks::default(),
            modes,
            guest_modes,
        }
    }

    fn advance(&mut self, read: &Ticks) {
        if self.ticks[IDLE].saturating_sub(read[IDLE]) >= JUMP_BACK_TICKS {
            self.ticks = Ticks::default();
        }
        for (known, read) in self.ticks.iter_mut().zip(read) {
            *known = (*known).max(*read);
        }
    }

    fn set(&self, out: &mut Sink) {
        let slots = self.modes.iter().chain(self.guest_modes.iter().flatten());
        for (slot, ticks) in slots.zip(self.ticks) {
            out.set(*slot, ticks as f64 / USER_HZ as f64);
        }
    }

    fn retire(self, out: &mut Sink) {
        out.retire_all(self.modes);
        out.retire_all(self.guest_modes.into_iter().flatten());
    }
}

impl Topology {
    /// Lists the CPUs' directories; rebuilds everything if they changed, or if `force` (a CPU that goes offline loses
    /// files, not its directory).
    fn refresh(&mut self, sys_cpu: &Path, force: bool, buf: &mut ReadBuf, out: &mut Sink) {
        let directories = cpu_directories(sys_cpu);
        if !force && directories == self.directories {
            return;
        }
        let mut old = std::mem::take(self);
        self.find_throttles(&directories, sys_cpu, &mut old, buf, out);
        self.find_online(&directories, sys_cpu, &mut old, out);
        old.retire(out);
        self.directories = directories;
    }

    fn find_throttles(
        &mut self,
        ids: &[u32],
        sys_cpu: &Path,
        old: &mut Self,
        buf: &mut ReadBuf,
        out: &mut Sink,
    ) {
        let mut packages = Vec::new();
        let mut cores = Vec::new();
        for id in ids {
            let directory = sys_cpu.join(format!("cpu{id}"));
            let mut topology = |name: &str| {
                read_once(&directory.join("topology").join(name), buf)
                    .and_then(|text| number(trim(text)))
            };
            let Some(package) = topology("physical_package_id") else {
                continue;
            };
            let Some(core) = topology("core_id") else {
                continue;
            };
            // Siblings count the same events: the first one with the file counts for all.
            if !cores.contains(&(package, core)) {
                let path = directory.join("thermal_throttle/core_throttle_count");
                if let Some(throttle) = old.throttle(path, buf, || core_series(package, core, out))
                {
                    self.throttles.push(throttle);
                    cores.push((package, core));
                }
            }
            if !packages.contains(&package) {
                let path = directory.join("thermal_throttle/package_throttle_count");
                if let Some(throttle) = old.throttle(path, buf, || package_series(package, out)) {
                    self.throttles.push(throttle);
                    packages.push(package);
                }
            }
        }
    }

    /// Moves the file at `path` over, or opens it if it contains a number.
    fn throttle(
        &mut self,
        path: PathBuf,
        buf: &mut ReadBuf,
        new_slot: impl FnOnce() -> Slot,
    ) -> Option<(OpenFile, Slot)> {
        if let Some(at) = self
            .throttles
            .iter()
            .position(|(file, _)| file.path() == path)
        {
            return Some(self.throttles.swap_remove(at));
        }
        let mut file = OpenFile::new(path);
        number(trim(file.read(buf, End::Short).ok()?))?;
        Some((file, new_slot()))
    }

    fn find_online(&mut self, ids: &[u32], sys_cpu: &Path, old: &mut Self, out: &mut Sink) {
        let file = |id: u32| sys_cpu.join(format!("cpu{id}/online"));
        // If CPU 0 can't be switched off, node_exporter reports nothing.
        if ids.first().is_none_or(|first| !file(*first).exists()) {
            return;
        }
        let mut known = old
            .online
            .take()
            .map(|online| online.cpus)
            .unwrap_or_default();
        let cpus = ids
            .iter()
            .map(|id| match known.iter().position(|cpu| cpu.0 == *id) {
                Some(at) => known.swap_remove(at),
                None => (
                    *id,
                    OpenFile::new(file(*id)),
                    out.add(&ONLINE, &[("cpu", &id.to_string())]),
                ),
            })
            .collect();
        out.retire_all(known.into_iter().map(|(_, _, slot)| slot));
        self.online = Some(Online {
            list: OpenFile::new(sys_cpu.join("online")),
            cpus,
        });
    }

    fn set(&mut self, buf: &mut ReadBuf, out: &mut Sink) {
        for (file, slot) in &mut self.throttles {
            let count = file
                .read(buf, End::Short)
                .ok()
                .and_then(|text| number(trim(text)));
            if let Some(count) = count {
                out.set(*slot, count as f64);
            }
        }
        let Some(online) = &mut self.online else {
            return;
        };
        if let Ok(list) = online.list.read(buf, End::Short) {
            for (id, _, slot) in &online.cpus {
                out.set(*slot, f64::from(u8::from(in_ranges(list, *id))));
            }
            return;
        }
        for (_, file, slot) in &mut online.cpus {
            let is_online = file
                .read(buf, End::Short)
                .is_ok_and(|text| trim(text) == b"1");
            out.set(*slot, f64::from(u8::from(is_online)));
        }
    }

    fn retire(self, out: &mut Sink) {
        out.retire_all(self.throttles.into_iter().map(|(_, slot)| slot));
        let online = self.online.into_iter().flat_map(|online| online.cpus);
        out.retire_all(online.map(|(_, _, slot)| slot));
    }
}

fn core_series(package: u64, core: u64, out: &mut Sink) -> Slot {
    let labels = [
        ("package", &*package.to_string()),
        ("core", &core.to_string()),
    ];
    out.add(&CORE_THROTTLES, &labels)
}

fn package_series(package: u64, out: &mut Sink) -> Slot {
    out.add(&PACKAGE_THROTTLES, &[("package", &package.to_string())])
}

/// Returns the numbers of the directories `cpu<n>`, ascending.
fn cpu_directories(sys_cpu: &Path) -> Vec<u32> {
    let found = sysdir::numbered(sys_cpu, "cpu").unwrap_or_default();
    let ids = found.into_iter().map(|(_, id)| u32::try_from(id));
    ids.filter_map(Result::ok).collect()
}

/// Expands a list such as `0-3,7`; a malformed list is empty.
pub(crate) fn parse_ranges(text: &[u8]) -> Vec<u32> {
    /// More CPUs than Linux can have: a longer list is corrupt.
    const LIMIT: u64 = 1 << 16;
    let mut ids = Vec::new();
    for (first, last) in ranges(text) {
        if last < first || last >= LIMIT {
            return Vec::new();
        }
        ids.extend((first..=last).filter_map(|id| u32::try_from(id).ok()));
        if ids.len() as u64 > LIMIT {
            return Vec::new();
        }
    }
    ids
}

fn in_ranges(text: &[u8], id: u32) -> bool {
    ranges(text).any(|(first, last)| (first..=last).contains(&u64::from(id)))
}

fn ranges(text: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    trim(text)
        .split(|b| *b == b',')
        .filter_map(|range| match memchr::memchr(b'-', range) {
            Some(at) => Some((number(&range[..at])?, number(&range[at + 1..])?)),
            None => number(range).map(|id| (id, id)),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_expand_and_damage_is_empty() {
        assert_eq!(parse_ranges(b"1,3-5,9\n"), [1, 3, 4, 5, 9]);
        assert_eq!(parse_ranges(b"\n"), [] as [u32; 0]);
        assert_eq!(parse_ranges(b"0-99999999999"), [] as [u32; 0]);
        assert!(in_ranges(b"0-3,7\n", 2) && in_ranges(b"0-3,7\n", 7) && !in_ranges(b"0-3,7\n", 5));
    }

    #[test]
    fn counters_rise_until_idle_falls_by_three_seconds() {
        let mut sink = Sink::new(narthex_model::LabelSet::empty());
        let mut cpu = CpuTimes::new(0, true, &mut sink);
        cpu.advance(&[100, 1, 1, 1000, 50, 1, 1, 1, 1, 1]);
        cpu.advance(&[90, 2, 1, 701, 40, 1, 1, 1, 1, 1]);
        assert_eq!(cpu.ticks, [100, 2, 1, 1000, 50, 1, 1, 1, 1, 1]);
        cpu.advance(&[90, 2, 1, 700, 40, 1, 1, 1, 1, 1]);
        assert_eq!(cpu.ticks, [90, 2, 1, 700, 40, 1, 1, 1, 1, 1]);
    }
}
