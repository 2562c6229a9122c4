//! The pushing fleet: hosts, their processes, the groups they push, and when each push is due.
//!
//! **Invariant:** a due time depends only on the group, the round and the seed, never on a gateway's responses.

use super::body::{Body, Catalogue, Format, Layout, process_name};
use crate::harness::choices;
use crate::load::gzip::Gzip;
use narthex_testkit::rng::SplitMix64;
use std::{io::Write, time::Duration};

choices! {
    /// Compression of a body.
    pub(crate) enum Encoding {
        Plain = "plain",
        Gzip = "gzip",
        Snappy = "snappy",
    }
}

/// How the fleet pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PushMode {
    /// Whether the series of a host's processes are merged into one push.
    pub(crate) merges_hosts: bool,
    pub(crate) encoding: Encoding,
    /// Whether every host has a gateway of its own.
    pub(crate) gateway_a_host: bool,
}

impl PushMode {
    /// Returns its name in reports.
    pub(crate) fn name(self) -> String {
        let unit = if self.merges_hosts { "host" } else { "process" };
        let encoding = match self.encoding {
            Encoding::Plain => "",
            Encoding::Gzip => ", gzip",
            Encoding::Snappy => ", snappy",
        };
        let gateways = if self.gateway_a_host {
            ", a gateway a host"
        } else {
            ""
        };
        format!("a push a {unit}{encoding}{gateways}")
    }
}

/// The fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) settings: Settings,
    pub(crate) mode: PushMode,
    pub(crate) catalogue: Catalogue,
    layout: Layout,
    /// Offset within the interval at which each group pushes, ascending, with the group.
    phases: Vec<(Duration, u32)>,
}

/// Parameters of a fleet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) hosts: u32,
    pub(crate) processes: u32,
    pub(crate) series: usize,
    pub(crate) interval: Duration,
    pub(crate) format: Format,
    pub(crate) method: &'static str,
    pub(crate) seed: u64,
}

impl Fleet {
    /// Returns the fleet of these settings with this push mode.
    pub(crate) fn new(settings: &Settings, mode: PushMode) -> Self {
        let catalogue = Catalogue::new(settings.series);
        let merged = mode.merges_hosts.then_some(settings.processes);
        let mut fleet = Self {
            settings: *settings,
            mode,
            layout: Layout::new(&catalogue, settings.format, merged),
            catalogue,
            phases: Vec::new(),
        };
        // Processes start at arbitrary times: their pushes are spread, but not evenly.
        let mut rng = SplitMix64::new(settings.seed);
        let mut phase = |group| (settings.interval.mul_f64(rng.unit_f64()), group);
        fleet.phases = (0..fleet.groups()).map(&mut phase).collect();
        fleet.phases.sort_unstable();
        fleet
    }

    pub(crate) fn groups(&self) -> u32 {
        self.all_processes() / self.group_processes()
    }

    pub(crate) fn group_processes(&self) -> u32 {
        if self.mode.merges_hosts {
            self.settings.processes
        } else {
            1
        }
    }

    /// Returns the number of processes of all hosts.
    pub(crate) fn all_processes(&self) -> u32 {
        self.settings.hosts * self.settings.processes
    }

    pub(crate) fn push_samples(&self) -> usize {
        self.layout.samples()
    }

    pub(crate) fn gateways(&self) -> usize {
        if self.mode.gateway_a_host {
            self.settings.hosts as usize
        } else {
            1
        }
    }

    /// Returns the number of pushes per second.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.groups()) / self.settings.interval.as_secs_f64()
    }

    /// Returns when push `number` is due after the start, its group, and its round, from 0.
    pub(crate) fn due(&self, number: u64) -> (Duration, u32, u64) {
        let groups = u64::from(self.groups());
        let (round, place) = (number / groups, number % groups);
        let (phase, group) = self.phases[place as usize];
        let rounds = u32::try_from(round).unwrap_or(u32::MAX);
        (self.settings.interval * rounds + phase, group, round)
    }

    /// Returns the number of pushes due within `time` after the start.
    pub(crate) fn pushes_within(&self, time: Duration) -> u64 {
        let interval = self.settings.interval;
        let rounds = (time.as_nanos() / interval.as_nanos()) as u64;
        let rest = time.saturating_sub(interval * u32::try_from(rounds).unwrap_or(u32::MAX));
        let begun = self.phases.partition_point(|(phase, _)| *phase < rest);
        rounds * u64::from(self.groups()) + begun as u64
    }

    /// Returns the index of a group's gateway.
    pub(crate) fn gateway_of(&self, group: u32) -> usize {
        let host = self.first_process(group) / self.settings.processes;
        if self.mode.gateway_a_host {
            host as usize
        } else {
            0
        }
    }

    /// Returns the index, among all hosts' processes, of a group's first process.
    pub(crate) fn first_process(&self, group: u32) -> u32 {
        group * self.group_processes()
    }

    /// Returns the path a group is pushed to.
    pub(crate) fn path(&self, group: u32) -> String {
        let processes = self.settings.processes;
        let host = host_name(self.first_process(group) / processes);
        let path = format!("/metrics/job/{JOB}/host/{host}");
        match self.mode.merges_hosts {
            true => path,
            false => format!("{path}/process/{}", process_name(group % processes)),
        }
    }

    /// Returns a group's body in a round.
    pub(crate) fn body<'a>(&self, group: u32, round: u64, body: &'a mut Body) -> &'a [u8] {
        body.write(
            &self.catalogue,
            &self.layout,
            self.first_process(group),
            round,
        )
    }
}

/// The job of all groups.
pub(crate) const JOB: &str = "game";

pub(crate) fn host_name(host: u32) -> String {
    format!("h{host:03}")
}

/// Compresses bodies into reused memory.
pub(crate) struct Packer {
    encoding: Encoding,
    gzip: Gzip,
    packed: Vec<u8>,
}

impl Packer {
    /// Returns a packer for bodies of about the same length.
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            // The level of a script's `gzip -1`: the load's own cost stays low.
            gzip: Gzip::new(1),
            packed: Vec::new(),
        }
    }

    /// Returns the value of `Content-Encoding`.
    pub(crate) fn content_encoding(&self) -> &'static str {
        match self.encoding {
            Encoding::Plain => "identity",
            Encoding::Gzip => "gzip",
            Encoding::Snappy => "snappy",
        }
    }

    /// Returns the body as it is sent.
    pub(crate) fn pack<'a>(&'a mut self, body: &'a [u8]) -> &'a [u8] {
        match self.encoding {
            Encoding::Plain => body,
            Encoding::Gzip => self.gzip.pack(body),
            Encoding::Snappy => {
                self.packed.clear();
                let mut encoder = snap::write::FrameEncoder::new(&mut self.packed);
                encoder.write_all(body).expect("memory takes everything");
                encoder.flush().expect("memory takes everything");
                drop(encoder);
                &self.packed
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
