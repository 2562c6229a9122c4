//! Tests against zlib's reader.

use std::io::Read;

use flate2::read::GzDecoder;
use narthex_testkit::rng::SplitMix64;

use super::*;

const NOWHERE: u64 = u64::MAX;

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // Fails on a wrong checksum or length.
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// Compresses pieces, each with a hint, taking what is ready now and then.
fn compressed<'a>(pieces: impl Iterator<Item = (&'a [u8], u64)>) -> Vec<u8> {
    let mut stream = GzipStream::new();
    let mut out = Vec::new();
    for (at, (text, before)) in pieces.enumerate() {
        if before == NOWHERE {
            stream.append_with(|window| window.extend_from_slice(text));
        } else {
            stream.append_like(text, before);
        }
        if at % 7 == 0 {
            let ready = stream.ready_bytes();
            let taken = stream.take_output();
            assert_eq!(taken.len(), ready);
            out.extend(taken);
        }
    }
    out.extend(stream.finish());
    out
}

/// Returns a page of sources, in pieces with the place of the same piece of the source before, and the page.
fn sources(count: usize, lines: usize) -> (Vec<(String, u64)>, String) {
    let (mut pieces, mut page) = (Vec::new(), String::new());
    let mut places = vec![NOWHERE; 2 * lines];
    for source in 0..count {
        for line in 0..lines {
            let labels = format!("host=\"h{source:04}\",instance=\"\",job=\"game\"");
            let value = (source * 7919 + line * 104_729) % 1_000_003;
            let parts = [
                format!("game_events_total{{event=\"e{line:02}\","),
                labels,
                format!(",realm=\"eu-west-{:02}\"}} ", line % 7),
                format!("{value}\n"),
            ];
            for (at, part) in parts.into_iter().enumerate() {
                let mut before = NOWHERE;
                if at % 2 == 0 {
                    let place = &mut places[2 * line + at / 2];
                    before = std::mem::replace(place, page.len() as u64);
                }
                page += &part;
                pieces.push((part, before));
            }
        }
    }
    (pieces, page)
}

#[test]
fn a_page_of_many_sources_comes_back_and_is_short() {
    let (pieces, page) = sources(600, 20);
    let pieces = pieces.iter();
    let packed = compressed(pieces.map(|(text, before)| (text.as_bytes(), *before)));
    assert_eq!(inflate(&packed), page.as_bytes());
    let searched = crate::respond::gzip(page.as_bytes()).unwrap();
    assert!(
        packed.len() < searched.len(),
        "{} of {}, {} by searching",
        packed.len(),
        page.len(),
        searched.len()
    );
}

#[test]
fn short_and_odd_texts_come_back() {
    let long = "ab".repeat(3000);
    let many = "x\n".repeat(200_000);
    let bytes: Vec<u8> = (0..=255).collect();
    let cases: [&[(&[u8], u64)]; 7] = [
        &[],
        &[(b"", 0), (b"a", NOWHERE - 1)],
        &[(b"abc", NOWHERE), (b"abc", 0)],
        &[(b"abcd", NOWHERE), (b"abcdabcdabcd", 0), (b"abcde", 4)],
        &[
            (long.as_bytes(), NOWHERE),
            (long.as_bytes(), 0),
            (long.as_bytes(), 2),
        ],
        &[
            (many.as_bytes(), NOWHERE),
            (many.as_bytes(), 399_998),
            (many.as_bytes(), 0),
        ],
        &[
            (&bytes, NOWHERE),
            (&bytes, 255),
            (&bytes, 256),
            (&bytes, 1 << 40),
        ],
    ];
    for pieces in cases {
        let text: Vec<u8> = pieces.iter().flat_map(|(text, _)| *text).copied().collect();
        let packed = compressed(pieces.iter().copied());
        assert!(inflate(&packed) == text, "{pieces:?}");
    }
}

/// Any text and any hints: places that are right, wrong, too far, not yet written, or in the middle of a repetition.
#[test]
fn wrong_hints_do_no_harm() {
    for seed in 0..200 {
        let mut rng = SplitMix64::new(seed);
        let mut below = move |most: u64| rng.below(most);
        let letters = 1 + below(30);
        let mut text = Vec::new();
        let mut pieces: Vec<(std::ops::Range<usize>, u64)> = Vec::new();
        for _ in 0..below(3000) {
            let start = text.len();
            let most = if below(20) == 0 { 2000 } else { 40 };
            let length = below(most) as usize;
            let source = below(start as u64 + 1) as usize;
            if below(3) > 0 && source + length <= start {
                text.extend_from_within(source..source + length);
            } else {
                text.extend((0..length).map(|_| b'a' + below(letters) as u8));
            }
            let before = match below(4) {
                0 => NOWHERE,
                1 => below(start as u64 + 100),
                2 if below(2) == 0 => NOWHERE - 1 - below(3),
                _ => source as u64,
            };
            pieces.push((start..text.len(), before));
        }
        let hinted = pieces.iter();
        let packed = compressed(hinted.map(|(range, before)| (&text[range.clone()], *before)));
        assert!(inflate(&packed) == text, "seed {seed}");
    }
}
