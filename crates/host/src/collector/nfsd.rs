//! Calls of the NFS server.
//!
//! Invariant: a procedure's place in the kernel's line is its number; procedures that do nothing are not exported.

use std::path::PathBuf;

use crate::board::{Decode, Describe, OnBoard, Plan};
use crate::collector::nfs::{Cell, VERSION_2, VERSION_3};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sink::Desc;

const REQUESTS: Desc<'static> = Desc::counter(
    "node_nfsd_requests_total",
    "Total number NFSd Requests by method and protocol.",
);

const CELLS: [Cell; 17] = [
    (
        "rc",
        0,
        Desc::counter(
            "node_nfsd_reply_cache_hits_total",
            "Total number of NFSd Reply Cache hits (client lost server response).",
        ),
        &[],
    ),
    (
        "rc",
        1,
        Desc::counter(
            "node_nfsd_reply_cache_misses_total",
            "Total number of NFSd Reply Cache an operation that requires caching (idempotent).",
        ),
        &[],
    ),
    (
        "rc",
        2,
        Desc::counter(
            "node_nfsd_reply_cache_nocache_total",
            "Total number of NFSd Reply Cache non-idempotent operations (rename/delete/…).",
        ),
        &[],
    ),
    (
        "fh",
        0,
        Desc::counter(
            "node_nfsd_file_handles_stale_total",
            "Total number of NFSd stale file handles",
        ),
        &[],
    ),
    (
        "io",
        0,
        Desc::counter("node_nfsd_disk_bytes_read_total", "Total NFSd bytes read."),
        &[],
    ),
    (
        "io",
        1,
        Desc::counter(
            "node_nfsd_disk_bytes_written_total",
            "Total NFSd bytes written.",
        ),
        &[],
    ),
    (
        "th",
        0,
        Desc::gauge(
            "node_nfsd_server_threads",
            "Total number of NFSd kernel threads that are running.",
        ),
        &[],
    ),
    (
        "ra",
        0,
        Desc::gauge(
            "node_nfsd_read_ahead_cache_size_blocks",
            "How large the read ahead cache is in blocks.",
        ),
        &[],
    ),
    (
        "ra",
        11,
        Desc::counter(
            "node_nfsd_read_ahead_cache_not_found_total",
            "Total number of NFSd read ahead cache not found.",
        ),
        &[],
    ),
    (
        "net",
        1,
        Desc::counter(
            "node_nfsd_packets_total",
            "Total NFSd network packets (sent+received) by protocol type.",
        ),
        &[("proto", "udp")],
    ),
    (
        "net",
        2,
        Desc::counter(
            "node_nfsd_packets_total",
            "Total NFSd network packets (sent+received) by protocol type.",
        ),
        &[("proto", "tcp")],
    ),
    (
        "net",
        3,
        Desc::counter(
            "node_nfsd_connections_total",
            "Total number of NFSd TCP connections.",
        ),
        &[],
    ),
    (
        "rpc",
        0,
        Desc::counter("node_nfsd_server_rpcs_total", "Total number of NFSd RPCs."),
        &[],
    ),
    (
        "rpc",
        2,
        Desc::counter(
            "node_nfsd_rpc_errors_total",
            "Total number of NFSd RPC errors by error type.",
        ),
        &[("error", "fmt")],
    ),
    (
        "rpc",
        3,
        Desc::counter(
            "node_nfsd_rpc_errors_total",
            "Total number of NFSd RPC errors by error type.",
        ),
        &[("error", "auth")],
    ),
    (
        "rpc",
        4,
        Desc::counter(
            "node_nfsd_rpc_errors_total",
            "Total number of NFSd RPC errors by error type.",
        ),
        &[("error", "cInt")],
    ),
    (
        "wdeleg_getattr",
        0,
        REQUESTS,
        &[("proto", "4"), ("method", "WdelegGetattr")],
    ),
];

/// Exported operations of NFS 4 and their numbers.
const VERSION_4: [(&str, usize); 35] = [
    ("Access", 3),
    ("Close", 4),
    ("Commit", 5),
    ("Create", 6),
    ("DelegPurge", 7),
    ("DelegReturn", 8),
    ("GetAttr", 9),
    ("GetFH", 10),
    ("Link", 11),
    ("Lock", 12),
    ("Lockt", 13),
    ("Locku", 14),
    ("Lookup", 15),
    ("LookupRoot", 16),
    ("Nverify", 17),
    ("Open", 18),
    ("OpenAttr", 19),
    ("OpenConfirm", 20),
    ("OpenDgrd", 21),
    ("PutFH", 22),
    ("Read", 25),
    ("ReadDir", 26),
    ("ReadLink", 27),
    ("Remove", 28),
    ("Rename", 29),
    ("Renew", 30),
    ("RestoreFH", 31),
    ("SaveFH", 32),
    ("SecInfo", 33),
    ("SetAttr", 34),
    ("SetClientID", 35),
    ("SetClientIDConfirm", 36),
    ("Verify", 37),
    ("Write", 38),
    ("RelLockOwner", 39),
];

pub(crate) struct Nfsd {
    path: PathBuf,
}

impl Nfsd {
    pub(crate) fn new(config: &HostConfig) -> OnBoard<Self> {
        OnBoard::new(Self {
            path: config.procfs.join("net/rpc/nfsd"),
        })
    }
}

impl Describe for Nfsd {
    const KIND: CollectorKind = CollectorKind::Nfsd;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        if !self.path.exists() {
            let path = self.path.clone();
            return Err(HostError::NoData { path });
        }
        for (line, place, desc, labels) in &CELLS {
            plan.file(desc, labels, &self.path, Decode::Cell(line, *place));
        }
        let numbered = |names: &'static [&'static str]| {
            let names = names.iter().enumerate().skip(1);
            names.map(|(number, name)| (*name, number)).collect()
        };
        let versions: [(_, _, Vec<_>); 3] = [
            ("proc2", "2", numbered(&VERSION_2)),
            ("proc3", "3", numbered(&VERSION_3)),
            ("proc4ops", "4", VERSION_4.to_vec()),
        ];
        for (line, version, procedures) in versions {
            for (procedure, number) in procedures {
                let labels = [("proto", version), ("method", procedure)];
                // The first number is how many follow.
                let decode = Decode::Cell(line, number + 1);
                plan.file(&REQUESTS, &labels, &self.path, decode);
            }
        }
        Ok(())
    }
}
