//! Decides which mounts can be queried for their size without a thread: those that answer from memory.
//!
//! Invariant: a mount is local only if this process's own mount table lists the very same mount, its type keeps its
//! counters in memory, and every mount on the path to it has a disk or memory type, so that neither finding the mount
//! point nor querying it can wait for a network, a FUSE process or an automounter.

use crate::mountinfo::{self, MountLine};

/// Types whose `statfs` sums counters: no disk access, no lock held during I/O.
const COUNTERS_IN_MEMORY: [&[u8]; 6] = [b"ext2", b"ext3", b"ext4", b"xfs", b"tmpfs", b"ramfs"];
/// Types where looking up a directory that is a mount point, and therefore in memory, needs no I/O.
const LOOKUP_IN_MEMORY: [&[u8]; 9] = [
    b"btrfs",
    b"f2fs",
    b"vfat",
    b"squashfs",
    b"erofs",
    b"devtmpfs",
    b"rootfs",
    b"sysfs",
    b"proc",
];

/// This process's mounts.
#[derive(Debug, Default)]
pub(crate) struct OwnMounts {
    mounts: Vec<OwnMount>,
}

#[derive(Debug, PartialEq, Eq)]
struct OwnMount {
    mount_point: Box<[u8]>,
    fs_type: Box<[u8]>,
    number: (u32, u32),
}

impl OwnMounts {
    /// Parses a mount table; a malformed one has no mounts.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut mounts = Vec::new();
        let parsed = mountinfo::parse(text, |line| {
            mounts.push(OwnMount {
                mount_point: line.mount_point.into(),
                fs_type: line.fs_type.into(),
                number: (line.major, line.minor),
            });
        });
        if parsed.is_err() {
            mounts.clear();
        }
        Self { mounts }
    }

    /// Reports whether `line`, of the exported table, is a local mount.
    pub(crate) fn is_local(&self, line: &MountLine<'_>) -> bool {
        // With project quotas, the result may require reading the quota file.
        let quota = |options: &[u8]| {
            options
                .split(|b| *b == b',')
                .any(|option| matches!(option, b"prjquota" | b"pquota" | b"pqnoenforce"))
        };
        let listed = |mount: &&OwnMount| {
            *mount.mount_point == *line.mount_point
                && *mount.fs_type == *line.fs_type
                && mount.number == (line.major, line.minor)
        };
        COUNTERS_IN_MEMORY.contains(&line.fs_type)
            && !quota(line.super_options)
            && self.mounts.iter().find(listed).is_some()
            && self
                .mounts
                .iter()
                .filter(|mount| covers(&mount.mount_point, line.mount_point))
                .all(|mount| {
                    let fs_type = &*mount.fs_type;
                    COUNTERS_IN_MEMORY.contains(&fs_type) || LOOKUP_IN_MEMORY.contains(&fs_type)
                })
    }
}

/// Reports whether `path` is `mount_point` or below it.
fn covers(mount_point: &[u8], path: &[u8]) -> bool {
    match path.strip_prefix(mount_point) {
        Some(rest) => mount_point.ends_with(b"/") || rest.is_empty() || rest.first() == Some(&b'/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"1 0 8:1 / / rw - ext4 /dev/a rw\n\
        2 1 8:2 / /boot rw - ext4 /dev/b rw\n\
        3 1 0:9 / /nfs rw - nfs4 s:/x rw\n\
        4 3 8:3 / /nfs/disk rw - ext4 /dev/c rw\n\
        5 1 0:8 / /tmp rw - tmpfs tmpfs rw\n\
        6 1 8:4 / /quota rw - xfs /dev/d rw,prjquota\n\
        7 1 0:7 / /over rw - overlay overlay rw\n\
        8 1 8:5 / /nfsdisk rw - xfs /dev/e rw\n";

    fn local(own: &[u8]) -> Vec<String> {
        let own = OwnMounts::parse(own);
        let mut local = Vec::new();
        mountinfo::parse(TABLE, |line| {
            if own.is_local(line) {
                local.push(String::from_utf8_lossy(line.mount_point).into_owned());
            }
        })
        .expect("well formed");
        local
    }

    #[test]
    fn only_disks_and_memory_reached_over_disks_and_memory() {
        assert_eq!(local(TABLE), ["/", "/boot", "/tmp", "/nfsdisk"]);
    }

    #[test]
    fn another_namespace_has_no_local_mounts() {
        assert_eq!(local(b"1 0 8:9 / / rw - ext4 /dev/z rw\n"), [] as [&str; 0]);
        assert_eq!(
            local(b"1 0 8:1 / / rw - overlay x rw\n2 1 8:2 / /boot rw - ext4 /dev/b rw\n"),
            [] as [&str; 0]
        );
        assert_eq!(local(b"garbage"), [] as [&str; 0]);
    }
}
