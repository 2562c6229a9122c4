//! Counters of tape drives.
//!
//! Invariant: a drive is its plain node `st<n>`; the variants that rewind or compress count the same.

use std::path::PathBuf;

use regex::bytes::Regex;

use crate::board::{Decode, Describe, OnBoard, Plan};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::kind::CollectorKind;
use crate::sink::Desc;
use crate::sysdir;

/// As node_exporter multiplies.
const NANOSECONDS: f64 = 0.000_000_001;

/// A file of a drive's statistics, the factor of its number, and the family.
type Number = (&'static str, f64, Desc<'static>);

const NUMBERS: [Number; 10] = [
    (
        "in_flight",
        1.0,
        Desc::gauge(
            "node_tape_io_now",
            "The number of I/Os currently outstanding to this device.",
        ),
    ),
    (
        "io_ns",
        NANOSECONDS,
        Desc::counter(
            "node_tape_io_time_seconds_total",
            "The amount of time spent waiting for all I/O to complete (including read and write). This includes \
             tape movement commands such as seeking between file or set marks and implicit tape movement such as \
             when rewind on close tape devices are used.",
        ),
    ),
    (
        "other_cnt",
        1.0,
        Desc::counter(
            "node_tape_io_others_total",
            "The number of I/Os issued to the tape drive other than read or write commands. The time taken to \
             complete these commands uses the following calculation \
             io_time_seconds_total-read_time_seconds_total-write_time_seconds_total",
        ),
    ),
    (
        "read_byte_cnt",
        1.0,
        Desc::counter(
            "node_tape_read_bytes_total",
            "The number of bytes read from the tape drive.",
        ),
    ),
    (
        "read_cnt",
        1.0,
        Desc::counter(
            "node_tape_reads_completed_total",
            "The number of read requests issued to the tape drive.",
        ),
    ),
    (
        "read_ns",
        NANOSECONDS,
        Desc::counter(
            "node_tape_read_time_seconds_total",
            "The amount of time spent waiting for read requests to complete.",
        ),
    ),
    (
        "resid_cnt",
        1.0,
        Desc::counter(
            "node_tape_residual_total",
            "The number of times during a read or write we found the residual amount to be non-zero. This should \
             mean that a program is issuing a read larger thean the block size on tape. For write not all data \
             made it to tape.",
        ),
    ),
    (
        "write_byte_cnt",
        1.0,
        Desc::counter(
            "node_tape_written_bytes_total",
            "The number of bytes written to the tape drive.",
        ),
    ),
    (
        "write_cnt",
        1.0,
        Desc::counter(
            "node_tape_writes_completed_total",
            "The number of write requests issued to the tape drive.",
        ),
    ),
    (
        "write_ns",
        NANOSECONDS,
        Desc::counter(
            "node_tape_write_time_seconds_total",
            "The amount of time spent waiting for write requests to complete.",
        ),
    ),
];

pub(crate) struct Tapestats {
    directory: PathBuf,
    ignored: Regex,
}

impl Tapestats {
    pub(crate) fn new(config: &HostConfig) -> Result<OnBoard<Self>, HostError> {
        let ignored = &config.tapestats_ignored;
        Ok(OnBoard::new(Self {
            directory: config.sysfs.join("class/scsi_tape"),
            ignored: filter::compile("collector.tapestats.ignored-devices", ignored)?,
        }))
    }
}

impl Describe for Tapestats {
    const KIND: CollectorKind = CollectorKind::Tapestats;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        for (name, _) in sysdir::numbered(&self.directory, "st")? {
            if self.ignored.is_match(name.as_bytes()) {
                continue;
            }
            let directory = self.directory.join(&name).join("stats");
            for (file, factor, desc) in &NUMBERS {
                let decode = Decode::Times(*factor);
                plan.file(desc, &[("device", &name)], &directory.join(file), decode);
            }
        }
        Ok(())
    }
}
