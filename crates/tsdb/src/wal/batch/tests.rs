//! Framing: intact batches are found, damage is reported with its place.

use super::*;
use crate::io::{FaultyIo, Io};

fn batch(body: &[u8], counter: u16) -> Vec<u8> {
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    bytes.extend_from_slice(body);
    seal(&mut bytes, counter);
    bytes
}

fn file(batches: &[&[u8]]) -> Vec<u8> {
    let mut bytes = file_header(1).to_vec();
    for (counter, body) in (0u16..).zip(batches) {
        bytes.extend(batch(body, counter));
    }
    bytes
}

#[derive(Debug, PartialEq)]
enum Seen {
    Body(Vec<u8>, u32),
    Damage(u64, u64),
    Torn(u64),
}

fn scan(bytes: Vec<u8>) -> Vec<Seen> {
    let disk = FaultyIo::new();
    let path = Path::new("/wal/00000001");
    disk.put_file(path, bytes);
    let file = disk.open(path).unwrap();
    let mut scanner = Scanner::open(&*file, path).unwrap();
    let mut seen = Vec::new();
    loop {
        match scanner.next().unwrap() {
            Scanned::Batch(batch) => seen.push(Seen::Body(batch.body.to_vec(), batch.lost)),
            Scanned::Damage { offset, end, .. } => seen.push(Seen::Damage(offset, end)),
            Scanned::Torn { offset } => seen.push(Seen::Torn(offset)),
            Scanned::End => return seen,
        }
    }
}

fn body(text: &str, lost: u32) -> Seen {
    Seen::Body(text.as_bytes().to_vec(), lost)
}

#[test]
fn intact_batches_come_back_in_order() {
    let big = vec![7u8; 3 << 20];
    let seen = scan(file(&[b"one", b"", &big, b"four"]));
    assert_eq!(seen[0], body("one", 0));
    assert_eq!(seen[2], Seen::Body(big, 0));
    assert_eq!(seen[3], body("four", 0));
    assert!(scan(file_header(1).to_vec()).is_empty());
    assert!(scan(Vec::new()).is_empty());
}

#[test]
fn every_cut_keeps_the_batches_before_it() {
    let whole = file(&[b"one", b"two", b"three"]);
    let ends = [0, 20, 35, 50, whole.len()];
    for cut in 0..whole.len() {
        let complete = ends.iter().filter(|end| **end <= cut).count() - 1;
        let seen = scan(whole[..cut].to_vec());
        let torn = usize::from(!ends.contains(&cut));
        let bodies = complete.saturating_sub(1);
        assert_eq!(seen.len(), bodies + torn, "cut at {cut}: {seen:?}");
        if torn == 1 {
            assert_eq!(seen.last(), Some(&Seen::Torn(ends[complete] as u64)));
        }
    }
}

#[test]
fn zeros_at_the_end_are_a_quiet_end() {
    let mut bytes = file(&[b"one"]);
    bytes.resize(bytes.len() + 4096, 0);
    assert_eq!(scan(bytes), [body("one", 0), Seen::Torn(35)]);
}

#[test]
fn every_flipped_byte_loses_its_batch_alone() {
    let whole = file(&[b"one", b"two", b"three"]);
    for at in 20..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let seen = scan(bytes);
        let lost = [35, 50, whole.len()]
            .iter()
            .position(|end| at < *end)
            .unwrap();
        let start = [20u64, 35, 50][lost];
        let kept = seen
            .iter()
            .filter(|seen| matches!(seen, Seen::Body(..)))
            .count();
        assert_eq!(kept, 2, "flip at {at}: {seen:?}");
        let reported = seen.iter().any(|seen| match seen {
            Seen::Damage(offset, _) => *offset == start,
            // The last batch's length may point beyond the end: that looks like a torn write.
            Seen::Torn(offset) => *offset == start && lost == 2,
            Seen::Body(..) => false,
        });
        assert!(reported, "flip at {at}: {seen:?}");
        if lost < 2 {
            assert!(
                seen.iter().any(|seen| matches!(seen, Seen::Body(_, 1))),
                "one is missing: {seen:?}"
            );
        }
    }
}

/// A flip in the version used to look like a file of a later release, and to prevent the start.
#[test]
fn a_flipped_byte_of_the_header_costs_the_header() {
    let whole = file(&[b"one", b"two"]);
    for at in 0..20 {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let expected = [Seen::Damage(0, 20), body("one", 0), body("two", 0)];
            assert_eq!(scan(bytes), expected, "bit {bit} of byte {at}");
        }
    }
    let mut bytes = whole;
    bytes[9] ^= 0x10;
    bytes[25] ^= 0x10;
    assert_eq!(scan(bytes), [Seen::Damage(0, 35), body("two", 1)]);
}

#[test]
fn a_file_of_version_1_is_read_whether_its_header_is_damaged_or_not() {
    let mut old = file(&[b"one", b"two"]);
    old.drain(16..20);
    old[8] = 1;
    let bodies = || [body("one", 0), body("two", 0)];
    assert_eq!(scan(old.clone()), bodies());
    assert!(scan(old[..16].to_vec()).is_empty());
    for at in 0..12 {
        let mut bytes = old.clone();
        bytes[at] ^= 0x10;
        let seen = scan(bytes);
        assert_eq!(seen[0], Seen::Damage(0, 16), "flip at {at}");
        assert_eq!(seen[1..], bodies(), "flip at {at}");
    }
}

#[test]
fn newer_versions_are_refused_and_other_files_are_damage() {
    let foreign = b"something else altogether".to_vec();
    let len = foreign.len() as u64;
    assert_eq!(scan(foreign), [Seen::Damage(0, len)]);
    let mut newer = file_header(1);
    newer[8] = 9;
    let crc = crc32c(&newer[..16]);
    newer[16..].copy_from_slice(&crc.to_le_bytes());
    let disk = FaultyIo::new();
    let path = Path::new("/wal/00000001");
    disk.put_file(path, newer.to_vec());
    let file = disk.open(path).unwrap();
    assert!(matches!(
        Scanner::open(&*file, path),
        Err(TsdbError::Version {
            got: 9,
            expected: VERSION,
            ..
        })
    ));
}
