//! Calls of the NFS client.
//!
//! Invariant: a procedure's index in the kernel's line is its index in the list of names; older kernels know fewer.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const REQUESTS: Desc<'static> = Desc::counter(
    "node_nfs_requests_total",
    "Number of NFS procedures invoked.",
);

/// Procedures of NFS 2, in the order of their numbers.
pub(crate) const VERSION_2: &str = "\
    Null GetAttr SetAttr Root Lookup ReadLink Read WrCache Write Create Remove Rename Link SymLink MkDir RmDir \
    ReadDir FsStat";

/// Procedures of NFS 3.
pub(crate) const VERSION_3: &str = "\
    Null GetAttr SetAttr Lookup Access ReadLink Read Write Create MkDir SymLink MkNod Remove RmDir Rename Link \
    ReadDir ReadDirPlus FsStat FsInfo PathConf Commit";

/// The client's procedures of NFS 4.
const VERSION_4: &str = "\
    Null Read Write Commit Open OpenConfirm OpenNoattr OpenDowngrade Close Setattr FsInfo Renew SetClientID \
    SetClientIDConfirm Lock Lockt Locku Access Getattr Lookup LookupRoot Remove Rename Link Symlink Create \
    Pathconf StatFs ReadLink ReadDir ServerCaps DelegReturn GetACL SetACL FsLocations ReleaseLockowner Secinfo \
    FsidPresent ExchangeID CreateSession DestroySession Sequence GetLeaseTime ReclaimComplete GetDeviceInfo \
    LayoutGet LayoutCommit LayoutReturn SecinfoNoName TestStateID FreeStateID GetDeviceList BindConnToSession \
    DestroyClientID Seek Allocate DeAllocate LayoutStats Clone";

/// Describes a table of lines, indices in them, and labels.
pub(crate) fn describe_cells(cells: &'static str, path: &Path, plan: &mut Plan<'_>) {
    for ([line, place, labels], desc) in table::rows(cells) {
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let labels: Vec<_> = labels.collect();
        plan.file(
            &desc,
            &labels,
            path,
            Decode::Cell(line, table::number(place)),
        );
    }
}

pub(crate) fn describe(path: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    if !path.exists() {
        return Err(HostError::no_data(path));
    }
    describe_cells(include_str!("nfs.txt"), path, plan);
    let versions = [
        ("proc2", "2", VERSION_2),
        ("proc3", "3", VERSION_3),
        ("proc4", "4", VERSION_4),
    ];
    for (line, version, procedures) in versions {
        for (at, procedure) in procedures.split(' ').enumerate() {
            let labels = [("proto", version), ("method", procedure)];
            // The first number is the count of the following ones.
            plan.file(&REQUESTS, &labels, path, Decode::Cell(line, at + 1));
        }
    }
    Ok(())
}
