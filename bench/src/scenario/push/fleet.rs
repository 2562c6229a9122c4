//! Who pushes what, where and when: hosts, their processes, the groups they push and when each push is due.
//!
//! **Invariant:** a due time depends on the group, the round and the seed alone, never on a gateway's answers.

use super::body::{Body, Catalogue, Format, process_name};
use libdeflater::{CompressionLvl, Compressor};
use narthex_testkit::rng::SplitMix64;
use std::{io::Write, time::Duration};

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Gzip,
    Snappy,
}

/// What one push carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batch {
    /// The series of one process.
    Process,
    /// Those of all processes of a host, merged into one body.
    Host,
}

/// How many gateways there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gateways {
    One,
    /// One for each host.
    Host,
}

/// How the fleet pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) batch: Batch,
    pub(crate) encoding: Encoding,
    pub(crate) gateways: Gateways,
}

impl Way {
    /// Returns what a report calls it.
    pub(crate) fn name(self) -> String {
        let batch = match self.batch {
            Batch::Process => "a push a process",
            Batch::Host => "a push a host",
        };
        let encoding = match self.encoding {
            Encoding::Plain => "",
            Encoding::Gzip => ", gzip",
            Encoding::Snappy => ", snappy",
        };
        let gateways = match self.gateways {
            Gateways::One => "",
            Gateways::Host => ", a gateway a host",
        };
        format!("{batch}{encoding}{gateways}")
    }
}

/// The fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) hosts: u32,
    /// Of each host.
    pub(crate) processes: u32,
    pub(crate) interval: Duration,
    pub(crate) format: Format,
    pub(crate) method: &'static str,
    pub(crate) way: Way,
    pub(crate) catalogue: Catalogue,
    /// When in the interval each group pushes, ascending, and which group it is.
    phases: Vec<(Duration, u32)>,
}

/// What a fleet is made of.
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
    /// Returns the fleet of these settings when it pushes that way.
    pub(crate) fn new(settings: &Settings, way: Way) -> Self {
        let mut fleet = Self {
            hosts: settings.hosts,
            processes: settings.processes,
            interval: settings.interval,
            format: settings.format,
            method: settings.method,
            way,
            catalogue: Catalogue::new(settings.series),
            phases: Vec::new(),
        };
        // Processes start when they start: their pushes are spread, but not evenly.
        let mut rng = SplitMix64::new(settings.seed);
        let mut phase = |group| (settings.interval.mul_f64(rng.unit_f64()), group);
        fleet.phases = (0..fleet.groups()).map(&mut phase).collect();
        fleet.phases.sort_unstable();
        fleet
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> u32 {
        match self.way.batch {
            Batch::Process => self.hosts * self.processes,
            Batch::Host => self.hosts,
        }
    }

    /// Returns the number of processes of all hosts.
    pub(crate) fn all_processes(&self) -> u32 {
        self.hosts * self.processes
    }

    /// Returns the number of series of all processes.
    pub(crate) fn all_series(&self) -> u64 {
        u64::from(self.all_processes()) * self.catalogue.len() as u64
    }

    /// Returns the number of gateways.
    pub(crate) fn gateways(&self) -> usize {
        match self.way.gateways {
            Gateways::One => 1,
            Gateways::Host => self.hosts as usize,
        }
    }

    /// Returns pushes a second.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.groups()) / self.interval.as_secs_f64()
    }

    /// Returns when push `number` is due after the start, which group pushes and in which round, from 0.
    pub(crate) fn due(&self, number: u64) -> (Duration, u32, u64) {
        let groups = u64::from(self.groups());
        let (round, place) = (number / groups, number % groups);
        let (phase, group) = self.phases[place as usize];
        let rounds = u32::try_from(round).unwrap_or(u32::MAX);
        (self.interval * rounds + phase, group, round)
    }

    /// Returns the number of pushes due within `time` after the start.
    pub(crate) fn pushes_within(&self, time: Duration) -> u64 {
        let rounds = (time.as_nanos() / self.interval.as_nanos()) as u64;
        let rest = time.saturating_sub(self.interval * u32::try_from(rounds).unwrap_or(u32::MAX));
        let begun = self.phases.partition_point(|(phase, _)| *phase < rest);
        rounds * u64::from(self.groups()) + begun as u64
    }

    /// Returns the host of a group.
    pub(crate) fn host_of(&self, group: u32) -> u32 {
        self.first_process(group) / self.processes
    }

    /// Returns which of the gateways takes a group.
    pub(crate) fn gateway_of(&self, group: u32) -> usize {
        match self.way.gateways {
            Gateways::One => 0,
            Gateways::Host => self.host_of(group) as usize,
        }
    }

    /// Returns the number, among all hosts' processes, of a group's first process.
    pub(crate) fn first_process(&self, group: u32) -> u32 {
        match self.way.batch {
            Batch::Process => group,
            Batch::Host => group * self.processes,
        }
    }

    /// Returns the path a group is pushed to.
    pub(crate) fn path(&self, group: u32) -> String {
        let host = host_name(self.host_of(group));
        match self.way.batch {
            Batch::Process => {
                let process = process_name(group % self.processes);
                format!("/metrics/job/{JOB}/host/{host}/process/{process}")
            }
            Batch::Host => format!("/metrics/job/{JOB}/host/{host}"),
        }
    }

    /// Returns a body to be filled for any group.
    pub(crate) fn body(&self) -> Body {
        let processes = match self.way.batch {
            Batch::Process => None,
            Batch::Host => Some(self.processes),
        };
        Body::new(&self.catalogue, self.format, processes)
    }
}

/// The job of all groups.
pub(crate) const JOB: &str = "game";

/// Returns a host's name.
pub(crate) fn host_name(host: u32) -> String {
    format!("h{host:03}")
}

/// Compresses bodies into memory it keeps.
pub(crate) struct Packer {
    encoding: Encoding,
    gzip: Compressor,
    packed: Vec<u8>,
}

impl Packer {
    /// Returns one for bodies of about the same length.
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            // What a script's `gzip -1` does: the load's own cost is kept low.
            gzip: Compressor::new(CompressionLvl::fastest()),
            packed: Vec::new(),
        }
    }

    /// Returns the header line that goes with its bodies, with its line end.
    pub(crate) fn header(&self) -> &'static str {
        match self.encoding {
            Encoding::Plain => "",
            Encoding::Gzip => "Content-Encoding: gzip\r\n",
            Encoding::Snappy => "Content-Encoding: snappy\r\n",
        }
    }

    /// Returns the body as it is sent.
    pub(crate) fn pack<'a>(&'a mut self, body: &'a [u8]) -> &'a [u8] {
        match self.encoding {
            Encoding::Plain => return body,
            Encoding::Gzip => {
                self.packed
                    .resize(self.gzip.gzip_compress_bound(body.len()), 0);
                let length = self.gzip.gzip_compress(body, &mut self.packed);
                self.packed
                    .truncate(length.expect("the buffer has the longest length"));
            }
            Encoding::Snappy => {
                self.packed.clear();
                let mut encoder = snap::write::FrameEncoder::new(&mut self.packed);
                encoder.write_all(body).expect("memory takes everything");
                encoder.flush().expect("memory takes everything");
            }
        }
        &self.packed
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Read;

    pub(crate) fn fleet(hosts: u32, processes: u32, series: usize, way: Way) -> Fleet {
        every(Duration::from_secs(5), hosts, processes, series, way)
    }

    pub(crate) fn every(
        interval: Duration,
        hosts: u32,
        processes: u32,
        series: usize,
        way: Way,
    ) -> Fleet {
        let settings = Settings {
            hosts,
            processes,
            series,
            interval,
            format: Format::Text,
            method: "PUT",
            seed: 1,
        };
        Fleet::new(&settings, way)
    }

    pub(crate) const PLAIN: Way = Way {
        batch: Batch::Process,
        encoding: Encoding::Plain,
        gateways: Gateways::One,
    };

    #[test]
    fn every_group_pushes_once_an_interval_at_its_time() {
        let fleet = fleet(5, 8, 10, PLAIN);
        assert_eq!((fleet.groups(), fleet.all_series()), (40, 400));
        assert!((fleet.rate() - 8.0).abs() < 1e-9);
        let mut before = Duration::ZERO;
        let mut seen = [0_u32; 40];
        for number in 0..120 {
            let (due, group, round) = fleet.due(number);
            assert!(due >= before);
            assert_eq!(round, number / 40);
            let first = fleet.due(number % 40);
            assert_eq!(due, first.0 + Duration::from_secs(5 * round));
            seen[group as usize] += 1;
            before = due;
        }
        assert_eq!(seen, [3; 40]);
        assert_eq!(fleet.pushes_within(Duration::from_secs(10)), 80);
        let within = fleet.pushes_within(Duration::from_secs(12));
        assert!(fleet.due(within - 1).0 < Duration::from_secs(12));
        assert!(fleet.due(within).0 >= Duration::from_secs(12));
    }

    #[test]
    fn groups_have_their_path_host_and_gateway() {
        let way = |batch, gateways| Way {
            batch,
            encoding: Encoding::Gzip,
            gateways,
        };
        let one = fleet(3, 4, 10, way(Batch::Process, Gateways::Host));
        assert_eq!(one.path(6), "/metrics/job/game/host/h001/process/p002");
        assert_eq!(
            (one.gateways(), one.gateway_of(6), one.first_process(6)),
            (3, 1, 6)
        );
        let merged = fleet(3, 4, 10, way(Batch::Host, Gateways::One));
        assert_eq!(merged.path(2), "/metrics/job/game/host/h002");
        assert_eq!(
            (
                merged.groups(),
                merged.gateway_of(2),
                merged.first_process(2)
            ),
            (3, 0, 8)
        );
        assert_eq!(merged.body().samples(), 40);
        assert_eq!(merged.way.name(), "a push a host, gzip");
    }

    #[test]
    fn packed_bodies_are_what_their_encoding_says() {
        let fleet = fleet(1, 1, 200, PLAIN);
        let body = fleet.body();
        for (encoding, header) in [
            (Encoding::Plain, ""),
            (Encoding::Gzip, "Content-Encoding: gzip\r\n"),
            (Encoding::Snappy, "Content-Encoding: snappy\r\n"),
        ] {
            let mut packer = Packer::new(encoding);
            assert_eq!(packer.header(), header);
            for _ in 0..2 {
                let packed = packer.pack(body.bytes()).to_vec();
                let mut plain = vec![0; body.bytes().len()];
                match encoding {
                    Encoding::Plain => plain = packed,
                    Encoding::Gzip => {
                        let mut gunzip = libdeflater::Decompressor::new();
                        gunzip.gzip_decompress(&packed, &mut plain).unwrap();
                    }
                    Encoding::Snappy => {
                        let mut decoder = snap::read::FrameDecoder::new(&packed[..]);
                        plain.clear();
                        decoder.read_to_end(&mut plain).unwrap();
                    }
                }
                assert!(plain == body.bytes(), "{encoding:?}");
            }
        }
    }
}
