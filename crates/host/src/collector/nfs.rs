//! Calls of the NFS client.
//!
//! Invariant: a procedure's place in the kernel's line is its place in the list of names; older kernels know fewer.

use std::path::PathBuf;

use crate::board::{Decode, Describe, OnBoard, Plan};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sink::Desc;

const PACKETS: Desc<'static> = Desc::counter(
    "node_nfs_packets_total",
    "Total NFSd network packets (sent+received) by protocol type.",
);
const REQUESTS: Desc<'static> = Desc::counter(
    "node_nfs_requests_total",
    "Number of NFS procedures invoked.",
);

/// A line, a place in it, the family and labels.
pub(crate) type Cell = (
    &'static str,
    usize,
    Desc<'static>,
    &'static [(&'static str, &'static str)],
);

const CELLS: [Cell; 6] = [
    ("net", 1, PACKETS, &[("protocol", "udp")]),
    ("net", 2, PACKETS, &[("protocol", "tcp")]),
    (
        "net",
        3,
        Desc::counter(
            "node_nfs_connections_total",
            "Total number of NFSd TCP connections.",
        ),
        &[],
    ),
    (
        "rpc",
        0,
        Desc::counter("node_nfs_rpcs_total", "Total number of RPCs performed."),
        &[],
    ),
    (
        "rpc",
        1,
        Desc::counter(
            "node_nfs_rpc_retransmissions_total",
            "Number of RPC transmissions performed.",
        ),
        &[],
    ),
    (
        "rpc",
        2,
        Desc::counter(
            "node_nfs_rpc_authentication_refreshes_total",
            "Number of RPC authentication refreshes performed.",
        ),
        &[],
    ),
];

/// Procedures of NFS 2, in the order of their numbers.
pub(crate) const VERSION_2: [&str; 18] = [
    "Null", "GetAttr", "SetAttr", "Root", "Lookup", "ReadLink", "Read", "WrCache", "Write",
    "Create", "Remove", "Rename", "Link", "SymLink", "MkDir", "RmDir", "ReadDir", "FsStat",
];

/// Procedures of NFS 3.
pub(crate) const VERSION_3: [&str; 22] = [
    "Null",
    "GetAttr",
    "SetAttr",
    "Lookup",
    "Access",
    "ReadLink",
    "Read",
    "Write",
    "Create",
    "MkDir",
    "SymLink",
    "MkNod",
    "Remove",
    "RmDir",
    "Rename",
    "Link",
    "ReadDir",
    "ReadDirPlus",
    "FsStat",
    "FsInfo",
    "PathConf",
    "Commit",
];

/// The client's procedures of NFS 4.
const VERSION_4: [&str; 59] = [
    "Null",
    "Read",
    "Write",
    "Commit",
    "Open",
    "OpenConfirm",
    "OpenNoattr",
    "OpenDowngrade",
    "Close",
    "Setattr",
    "FsInfo",
    "Renew",
    "SetClientID",
    "SetClientIDConfirm",
    "Lock",
    "Lockt",
    "Locku",
    "Access",
    "Getattr",
    "Lookup",
    "LookupRoot",
    "Remove",
    "Rename",
    "Link",
    "Symlink",
    "Create",
    "Pathconf",
    "StatFs",
    "ReadLink",
    "ReadDir",
    "ServerCaps",
    "DelegReturn",
    "GetACL",
    "SetACL",
    "FsLocations",
    "ReleaseLockowner",
    "Secinfo",
    "FsidPresent",
    "ExchangeID",
    "CreateSession",
    "DestroySession",
    "Sequence",
    "GetLeaseTime",
    "ReclaimComplete",
    "GetDeviceInfo",
    "LayoutGet",
    "LayoutCommit",
    "LayoutReturn",
    "SecinfoNoName",
    "TestStateID",
    "FreeStateID",
    "GetDeviceList",
    "BindConnToSession",
    "DestroyClientID",
    "Seek",
    "Allocate",
    "DeAllocate",
    "LayoutStats",
    "Clone",
];

pub(crate) struct Nfs {
    path: PathBuf,
}

impl Nfs {
    pub(crate) fn new(config: &HostConfig) -> OnBoard<Self> {
        OnBoard::new(Self {
            path: config.procfs.join("net/rpc/nfs"),
        })
    }
}

impl Describe for Nfs {
    const KIND: CollectorKind = CollectorKind::Nfs;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        if !self.path.exists() {
            let path = self.path.clone();
            return Err(HostError::NoData { path });
        }
        for (line, place, desc, labels) in &CELLS {
            plan.file(desc, labels, &self.path, Decode::Cell(line, *place));
        }
        let versions = [
            ("proc2", "2", &VERSION_2[..]),
            ("proc3", "3", &VERSION_3),
            ("proc4", "4", &VERSION_4),
        ];
        for (line, version, procedures) in versions {
            for (at, procedure) in procedures.iter().enumerate() {
                let labels = [("proto", version), ("method", *procedure)];
                // The first number is how many follow.
                plan.file(&REQUESTS, &labels, &self.path, Decode::Cell(line, at + 1));
            }
        }
        Ok(())
    }
}
