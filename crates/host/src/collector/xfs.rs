//! XFS counters, per device.
//!
//! Invariant: counters that wrap at 32 bits are exported as the kernel prints them.

use std::path::PathBuf;

use crate::board::{Decode, Describe, OnBoard, Plan};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sink::Desc;
use crate::sysdir;

/// A line of `stats`, the place of a number in it, and the family.
type Cell = (&'static str, usize, Desc<'static>);

const CELLS: [Cell; 39] = [
    (
        "extent_alloc",
        0,
        Desc::counter(
            "node_xfs_extent_allocation_extents_allocated_total",
            "Number of extents allocated for a filesystem.",
        ),
    ),
    (
        "extent_alloc",
        1,
        Desc::counter(
            "node_xfs_extent_allocation_blocks_allocated_total",
            "Number of blocks allocated for a filesystem.",
        ),
    ),
    (
        "extent_alloc",
        2,
        Desc::counter(
            "node_xfs_extent_allocation_extents_freed_total",
            "Number of extents freed for a filesystem.",
        ),
    ),
    (
        "extent_alloc",
        3,
        Desc::counter(
            "node_xfs_extent_allocation_blocks_freed_total",
            "Number of blocks freed for a filesystem.",
        ),
    ),
    (
        "abt",
        0,
        Desc::counter(
            "node_xfs_allocation_btree_lookups_total",
            "Number of allocation B-tree lookups for a filesystem.",
        ),
    ),
    (
        "abt",
        1,
        Desc::counter(
            "node_xfs_allocation_btree_compares_total",
            "Number of allocation B-tree compares for a filesystem.",
        ),
    ),
    (
        "abt",
        2,
        Desc::counter(
            "node_xfs_allocation_btree_records_inserted_total",
            "Number of allocation B-tree records inserted for a filesystem.",
        ),
    ),
    (
        "abt",
        3,
        Desc::counter(
            "node_xfs_allocation_btree_records_deleted_total",
            "Number of allocation B-tree records deleted for a filesystem.",
        ),
    ),
    (
        "blk_map",
        0,
        Desc::counter(
            "node_xfs_block_mapping_reads_total",
            "Number of block map for read operations for a filesystem.",
        ),
    ),
    (
        "blk_map",
        1,
        Desc::counter(
            "node_xfs_block_mapping_writes_total",
            "Number of block map for write operations for a filesystem.",
        ),
    ),
    (
        "blk_map",
        2,
        Desc::counter(
            "node_xfs_block_mapping_unmaps_total",
            "Number of block unmaps (deletes) for a filesystem.",
        ),
    ),
    (
        "blk_map",
        3,
        Desc::counter(
            "node_xfs_block_mapping_extent_list_insertions_total",
            "Number of extent list insertions for a filesystem.",
        ),
    ),
    (
        "blk_map",
        4,
        Desc::counter(
            "node_xfs_block_mapping_extent_list_deletions_total",
            "Number of extent list deletions for a filesystem.",
        ),
    ),
    (
        "blk_map",
        5,
        Desc::counter(
            "node_xfs_block_mapping_extent_list_lookups_total",
            "Number of extent list lookups for a filesystem.",
        ),
    ),
    (
        "blk_map",
        6,
        Desc::counter(
            "node_xfs_block_mapping_extent_list_compares_total",
            "Number of extent list compares for a filesystem.",
        ),
    ),
    (
        "bmbt",
        0,
        Desc::counter(
            "node_xfs_block_map_btree_lookups_total",
            "Number of block map B-tree lookups for a filesystem.",
        ),
    ),
    (
        "bmbt",
        1,
        Desc::counter(
            "node_xfs_block_map_btree_compares_total",
            "Number of block map B-tree compares for a filesystem.",
        ),
    ),
    (
        "bmbt",
        2,
        Desc::counter(
            "node_xfs_block_map_btree_records_inserted_total",
            "Number of block map B-tree records inserted for a filesystem.",
        ),
    ),
    (
        "bmbt",
        3,
        Desc::counter(
            "node_xfs_block_map_btree_records_deleted_total",
            "Number of block map B-tree records deleted for a filesystem.",
        ),
    ),
    (
        "dir",
        0,
        Desc::counter(
            "node_xfs_directory_operation_lookup_total",
            "Number of file name directory lookups which miss the operating systems directory name lookup cache.",
        ),
    ),
    (
        "dir",
        1,
        Desc::counter(
            "node_xfs_directory_operation_create_total",
            "Number of times a new directory entry was created for a filesystem.",
        ),
    ),
    (
        "dir",
        2,
        Desc::counter(
            "node_xfs_directory_operation_remove_total",
            "Number of times an existing directory entry was created for a filesystem.",
        ),
    ),
    (
        "dir",
        3,
        Desc::counter(
            "node_xfs_directory_operation_getdents_total",
            "Number of times the directory getdents operation was performed for a filesystem.",
        ),
    ),
    (
        "ig",
        0,
        Desc::counter(
            "node_xfs_inode_operation_attempts_total",
            "Number of times the OS looked for an XFS inode in the inode cache.",
        ),
    ),
    (
        "ig",
        1,
        Desc::counter(
            "node_xfs_inode_operation_found_total",
            "Number of times the OS looked for and found an XFS inode in the inode cache.",
        ),
    ),
    (
        "ig",
        2,
        Desc::counter(
            "node_xfs_inode_operation_recycled_total",
            "Number of times the OS found an XFS inode in the cache, but could not use it as it was being recycled.",
        ),
    ),
    (
        "ig",
        3,
        Desc::counter(
            "node_xfs_inode_operation_missed_total",
            "Number of times the OS looked for an XFS inode in the cache, but did not find it.",
        ),
    ),
    (
        "ig",
        4,
        Desc::counter(
            "node_xfs_inode_operation_duplicates_total",
            "Number of times the OS tried to add a missing XFS inode to the inode cache, but found it had already \
             been added by another process.",
        ),
    ),
    (
        "ig",
        5,
        Desc::counter(
            "node_xfs_inode_operation_reclaims_total",
            "Number of times the OS reclaimed an XFS inode from the inode cache to free memory for another purpose.",
        ),
    ),
    (
        "ig",
        6,
        Desc::counter(
            "node_xfs_inode_operation_attribute_changes_total",
            "Number of times the OS explicitly changed the attributes of an XFS inode.",
        ),
    ),
    (
        "rw",
        1,
        Desc::counter(
            "node_xfs_read_calls_total",
            "Number of read(2) system calls made to files in a filesystem.",
        ),
    ),
    (
        "rw",
        0,
        Desc::counter(
            "node_xfs_write_calls_total",
            "Number of write(2) system calls made to files in a filesystem.",
        ),
    ),
    (
        "vnodes",
        0,
        Desc::counter(
            "node_xfs_vnode_active_total",
            "Number of vnodes not on free lists for a filesystem.",
        ),
    ),
    (
        "vnodes",
        1,
        Desc::counter(
            "node_xfs_vnode_allocate_total",
            "Number of times vn_alloc called for a filesystem.",
        ),
    ),
    (
        "vnodes",
        2,
        Desc::counter(
            "node_xfs_vnode_get_total",
            "Number of times vn_get called for a filesystem.",
        ),
    ),
    (
        "vnodes",
        3,
        Desc::counter(
            "node_xfs_vnode_hold_total",
            "Number of times vn_hold called for a filesystem.",
        ),
    ),
    (
        "vnodes",
        4,
        Desc::counter(
            "node_xfs_vnode_release_total",
            "Number of times vn_rele called for a filesystem.",
        ),
    ),
    (
        "vnodes",
        5,
        Desc::counter(
            "node_xfs_vnode_reclaim_total",
            "Number of times vn_reclaim called for a filesystem.",
        ),
    ),
    (
        "vnodes",
        6,
        Desc::counter(
            "node_xfs_vnode_remove_total",
            "Number of times vn_remove called for a filesystem.",
        ),
    ),
];

pub(crate) struct Xfs {
    directory: PathBuf,
}

impl Xfs {
    pub(crate) fn new(config: &HostConfig) -> OnBoard<Self> {
        OnBoard::new(Self {
            directory: config.sysfs.join("fs/xfs"),
        })
    }
}

impl Describe for Xfs {
    const KIND: CollectorKind = CollectorKind::Xfs;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        // No file system of the kind is no lack of data.
        for device in sysdir::list_if_there(&self.directory)? {
            let path = self.directory.join(&device).join("stats/stats");
            // The sum over all devices stands beside them, one directory higher.
            if !path.exists() {
                continue;
            }
            for (line, place, desc) in &CELLS {
                plan.file(
                    desc,
                    &[("device", &device)],
                    &path,
                    Decode::Cell(line, *place),
                );
            }
        }
        Ok(())
    }
}
