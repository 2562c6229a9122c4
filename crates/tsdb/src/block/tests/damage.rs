//! Damaged files, failing disks, truncated files: never wrong data, never a panic, and the rest is served.

use super::super::format::{Footer, HEADER_LEN, SectionKind, TAIL_LEN, VERSION};
use super::super::fuzz::fuzz_block;
use super::*;
use crate::TsdbError;
use crate::io::PowerLoss;
use narthex_model::storage::{Context, Hints, Tile, TimeRange};
use narthex_testkit::mutate::Mutator;
use std::collections::BTreeMap;

type Read = BTreeMap<LabelSet, Result<Vec<u64>, String>>;

/// Reads every series separately, with the warning for those left out; fails when the index cannot be read.
fn read_all(block: &Arc<Block>) -> Result<Read, String> {
    let ctx = Context::unlimited();
    let selection = block
        .select(&[], TimeRange::ALL, &ctx)
        .map_err(|e| e.to_string())?;
    let mut out = Read::new();
    for batch in selection.batches(&Hints::default()) {
        for series in 0..batch.len() {
            let mut tile = Tile::default();
            let read = batch.read(
                &[series as u32],
                TimeRange::ALL,
                Layout::SeriesMajor,
                &mut tile,
                &ctx,
            );
            let bits = read.map(|()| tile.cells.iter().map(|c| c.to_bits()).collect());
            let warnings = ctx.warnings.drain().join("\n");
            let read = bits.map_err(|e| e.to_string()).and_then(|bits| {
                if warnings.is_empty() {
                    return Ok(bits);
                }
                assert!(tile.cells.iter().all(|c| cell::is_absent(*c)), "{warnings}");
                Err(warnings)
            });
            out.insert(batch.labels(series), read);
        }
    }
    Ok(out)
}

fn with_file(io: &FaultyIo, meta: &BlockMeta, bytes: Vec<u8>) -> Arc<FaultyIo> {
    let copy = disk();
    copy.put_file(&Path::new(DIR).join(meta.file_name()), bytes);
    let _ = io;
    copy
}

#[test]
fn a_flipped_byte_fails_what_it_touches_and_nothing_else() {
    let io = disk();
    let meta = write(&io, 1, &strips(5)).unwrap();
    let path = Path::new(DIR).join(meta.file_name());
    let good = io.bytes(&path).unwrap();
    let want = read_all(&open(&io, &meta).unwrap()).unwrap();
    assert!(want.values().all(Result::is_ok));
    let footer_at = footer_at(&good);
    let footer = Footer::decode(&good[footer_at..good.len() - TAIL_LEN], VERSION).unwrap();
    let index_at = footer.sections[0].offset as usize;
    // Every byte of the small parts, some of the pages and of the long sections.
    let small = |at: &usize| *at < HEADER_LEN + 20 || *at >= footer_at || at.is_multiple_of(29);
    for at in (0..good.len()).filter(small) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let damaged = with_file(&io, &meta, bytes);
        let block = match open(&damaged, &meta) {
            Ok(block) => block,
            Err(TsdbError::Corrupt { .. }) => {
                assert!(at >= footer_at, "byte {at} is not in the footer");
                continue;
            }
            Err(other) => panic!("byte {at}: {other}"),
        };
        assert!(at < footer_at, "byte {at} was not missed");
        let damage = block.verify().unwrap();
        assert_eq!(damage.len(), 1, "byte {at}: {damage:?}");
        assert!(
            damage[0].offset as usize <= at && (at < 8 || damage[0].detail.contains("expected")),
            "{damage:?}"
        );
        if at < HEADER_LEN {
            assert_eq!(block.damage().all(), damage, "told when it was opened");
            assert!(read_all(&block).unwrap() == want, "byte {at}");
            continue;
        }
        if at >= index_at {
            // Queries without matchers do not need postings, and none need families.
            if let Ok(all) = read_all(&block) {
                assert!(all == want, "byte {at}");
            }
            continue;
        }
        // One page: its series fail with the page's place, all others are served.
        let got = read_all(&block).expect("the index is whole");
        let failed: Vec<&String> = got.values().filter_map(|r| r.as_ref().err()).collect();
        assert!(
            !failed.is_empty() && failed.len() < got.len(),
            "byte {at}: {} failed",
            failed.len()
        );
        assert!(
            failed
                .iter()
                .all(|e| e.contains(&format!("damaged at byte {}", damage[0].offset)))
        );
        assert_eq!(block.damage().all(), damage, "told once");
        assert!(
            got.iter()
                .all(|(labels, read)| read.is_err() || read == &want[labels])
        );
    }
}

fn footer_at(file: &[u8]) -> usize {
    let tail = &file[file.len() - TAIL_LEN..];
    let len = u32::from_le_bytes(tail[..4].try_into().unwrap()) as usize;
    file.len() - TAIL_LEN - len
}

#[test]
fn cut_off_files_do_not_open() {
    let io = disk();
    let meta = write(&io, 1, &strips(6)[4..]).unwrap();
    let good = io.bytes(&Path::new(DIR).join(meta.file_name())).unwrap();
    for len in 0..good.len() {
        let cut = with_file(&io, &meta, good[..len].to_vec());
        assert!(
            matches!(open(&cut, &meta), Err(TsdbError::Corrupt { .. })),
            "{len} of {} bytes",
            good.len()
        );
    }
}

#[test]
fn a_block_appears_whole_or_not_at_all() {
    let strips = strips(7);
    let io = disk();
    write(&io, 1, &strips).unwrap();
    let operations = io.operations();
    assert!(operations >= 9, "{operations}");
    // The last round is without a fault: what was acknowledged survives the loss of power.
    for at in 0..=operations {
        for torn in [false, true] {
            let io = disk();
            if torn {
                io.tear_operation(at, 100);
            } else {
                io.fail_operation(at);
            }
            let outcome = write(&io, 1, &strips);
            io.power_loss(PowerLoss::DropUnsynced);
            let name = BlockMeta {
                id: BlockId(1),
                ..BlockMeta::default()
            };
            match (outcome, open(&io, &name)) {
                (Ok(_), Ok(block)) => assert_eq!(block.verify().unwrap(), []),
                (Err(_), Err(_)) => {}
                (Ok(_), Err(lost)) => {
                    panic!("acknowledged and lost with a failure at {at}: {lost}")
                }
                // The last step failed after the name was durable: complete, though the caller got an error.
                (Err(_), Ok(block)) => assert_eq!(block.verify().unwrap(), []),
            }
        }
    }
}

#[test]
fn a_full_disk_is_an_error_with_the_path() {
    let io = disk();
    io.set_capacity(500);
    let error = write(&io, 1, &strips(7)).unwrap_err();
    assert!(
        error.to_string().starts_with("write /data/blocks/"),
        "{error}"
    );
}

#[test]
fn damaged_blocks_never_panic() {
    let io = disk();
    let mut corpus = vec![];
    for (id, range) in [(1, 0..7), (2, 3..5), (3, 4..6)] {
        let meta = write(&io, id, &strips(8)[range]).unwrap();
        corpus.push(io.bytes(&Path::new(DIR).join(meta.file_name())).unwrap());
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    Mutator::new(11).run(&corpus[1..], 1200, fuzz_block);
}

#[test]
fn damage_inside_each_section_is_refused_even_with_good_checksums() {
    let io = disk();
    let meta = write(&io, 2, &strips(8)[3..5]).unwrap();
    let good = io.bytes(&Path::new(DIR).join(meta.file_name())).unwrap();
    let footer = Footer::decode(&good[footer_at(&good)..good.len() - TAIL_LEN], VERSION).unwrap();
    // It has no exemplars.
    assert_eq!(footer.sections.len(), SectionKind::ALL.len() - 1);
    let mut rng = SplitMix64::new(3);
    for place in &footer.sections {
        for _ in 0..150 {
            let mut bytes = good.clone();
            let at = place.offset as usize + rng.index(place.len as usize);
            bytes[at] = rng.next_u64() as u8;
            fuzz_block(&bytes);
        }
    }
}
