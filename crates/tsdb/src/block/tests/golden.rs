//! Committed block files must always open and read the same.
//!
//! `NARTHEX_UPDATE_GOLDEN=1` rewrites those of the newest version; only right while no release has written it.

use super::super::format::VERSION;
use super::*;
use crate::io::Io;
use narthex_model::storage::{Context, Hints, Tile, TimeRange};
use narthex_testkit::workspace_root;
use std::path::PathBuf;

fn committed(version: u32, name: &str) -> PathBuf {
    let formats = workspace_root().join("testdata/formats");
    formats.join(format!("v{version}")).join(name)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("committed file")
}

/// Returns the file of the version that is written.
fn newest(name: &str, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = committed(VERSION, name);
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, write()).expect("testdata can be written");
    }
    read(&path)
}

fn written(strips: &[Plain]) -> Vec<u8> {
    let io = disk();
    let meta = write(&io, 0x018b_cfe5_6800_0000_0000_0000_0000_002a, strips).unwrap();
    io.bytes(&Path::new(DIR).join(meta.file_name())).unwrap()
}

fn open_bytes(bytes: Vec<u8>) -> Result<Arc<Block>, crate::TsdbError> {
    let io = disk();
    let path = Path::new(DIR).join("committed.block");
    io.put_file(&path, bytes);
    Block::open(&*io as &dyn Io, &path, &Arc::new(BlockCache::new(1 << 20))).map(Arc::new)
}

#[test]
fn the_committed_block_reads_as_written() {
    let strips = strips(42);
    let bytes = newest("block_small.block", || written(&strips));
    assert!(
        bytes == written(&strips),
        "the same bytes are written today"
    );
    reads_as(&strips, bytes);
}

#[test]
fn blocks_of_earlier_versions_read_as_written() {
    for version in 1..VERSION {
        reads_as(&strips(42), read(&committed(version, "block_small.block")));
    }
}

fn reads_as(strips: &[Plain], bytes: Vec<u8>) {
    let block = open_bytes(bytes).unwrap();
    assert_eq!(block.meta().id.to_string(), "01HF7YAT00000000000000001A");
    assert_eq!(block.verify().unwrap(), []);
    let ctx = Context::unlimited();
    let selection = block.select(&[], TimeRange::ALL, &ctx).unwrap();
    let batches = selection.batches(&Hints::default());
    assert_eq!(batches.len(), strips.len());
    for (batch, strip) in batches.iter().zip(strips) {
        let columns: Vec<&PlainColumn> = strip
            .columns
            .iter()
            .filter(|c| !c.cells.iter().all(|v| cell::is_absent(*v)))
            .collect();
        assert_eq!(batch.len(), columns.len());
        for (at, column) in columns.iter().enumerate() {
            assert_eq!(batch.labels(at), strip.common.union(&column.set));
            let mut tile = Tile::default();
            batch
                .read(
                    &[at as u32],
                    TimeRange::ALL,
                    Layout::SeriesMajor,
                    &mut tile,
                    &ctx,
                )
                .unwrap();
            assert_eq!(tile.times_ms, strip.times_ms);
            for (got, want) in tile.cells.iter().zip(&column.cells) {
                let both_histograms =
                    got.to_bits() >> 32 == want.to_bits() >> 32 && !cell::is_float(*want);
                assert!(
                    got.to_bits() == want.to_bits() || both_histograms,
                    "{got:?} for {want:?}"
                );
            }
        }
    }
}

#[test]
fn the_committed_damaged_block_is_refused_where_it_is_damaged() {
    let damaged = newest("block_damaged.block", || {
        let mut bytes = written(&strips(42));
        // Inside the first page.
        bytes[100] ^= 0xff;
        bytes
    });
    let earlier = (1..VERSION).map(|version| read(&committed(version, "block_damaged.block")));
    for bytes in earlier.chain([damaged]) {
        let block = open_bytes(bytes).unwrap();
        let damage = block.verify().unwrap();
        assert_eq!(damage.len(), 1);
        assert_eq!(damage[0].offset, 16);
        assert!(
            damage[0].detail.starts_with("checksum of page is "),
            "{}",
            damage[0]
        );
    }
}
