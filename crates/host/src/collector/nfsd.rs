//! Calls of the NFS server.
//!
//! Invariant: a procedure's index in the kernel's line is its number; null procedures are not exported.

use std::path::Path;

use crate::collector::nfs::{VERSION_2, VERSION_3, describe_cells};
use crate::error::HostError;
use crate::sink::Desc;
use crate::sysfs_collector::{Decode, Plan};

const REQUESTS: Desc<'static> = Desc::counter(
    "node_nfsd_requests_total",
    "Total number NFSd Requests by method and protocol.",
);

/// Exported operations of NFS 4, in the order of their numbers.
const VERSION_4: &str = "\
    - - - Access Close Commit Create DelegPurge DelegReturn GetAttr GetFH Link Lock Lockt Locku Lookup LookupRoot \
    Nverify Open OpenAttr OpenConfirm OpenDgrd PutFH - - Read ReadDir ReadLink Remove Rename Renew RestoreFH \
    SaveFH SecInfo SetAttr SetClientID SetClientIDConfirm Verify Write RelLockOwner";

pub(crate) fn describe(path: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    if !path.exists() {
        return Err(HostError::no_data(path));
    }
    describe_cells(include_str!("nfsd.txt"), path, plan);
    let versions = [
        ("proc2", "2", VERSION_2),
        ("proc3", "3", VERSION_3),
        ("proc4ops", "4", VERSION_4),
    ];
    for (line, version, procedures) in versions {
        let procedures = procedures.split(' ').enumerate();
        for (number, procedure) in procedures.filter(|(_, name)| !["Null", "-"].contains(name)) {
            let labels = [("proto", version), ("method", procedure)];
            // The first number is the count of the following ones.
            let decode = Decode::Cell(line, number + 1);
            plan.file(&REQUESTS, &labels, path, decode);
        }
    }
    Ok(())
}
