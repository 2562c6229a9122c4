//! Pages that follow one another, decompressed by a decoder of other origin.

use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;
use narthex_testkit::rng::SplitMix64;

/// Returns a page of `count` families with four series each, whose numbers come from `number`.
fn page(count: usize, mut number: impl FnMut(usize) -> String) -> Vec<u8> {
    let mut page = String::new();
    for family in 0..count {
        let _ = writeln!(
            page,
            "# HELP node_family_{family}_total Number of things that family {family} has seen.\n\
             # TYPE node_family_{family}_total counter"
        );
        for device in ["eth0", "eth1", "veth0a1b2c", "a \\\" b"] {
            let _ = writeln!(
                page,
                "node_family_{family}_total{{device=\"{device}\",mode=\"idle\"}} {}",
                number(family)
            );
        }
    }
    page.into_bytes()
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut page = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut page).expect("gzip");
    page
}

/// Asserts that a page comes back; reports whether it was filled into a template.
#[track_caller]
fn is_filled(compressor: &mut PageCompressor, page: &[u8]) -> bool {
    let packed = compressor.gzip(page).expect("shorter");
    assert!(unpacked(&packed) == page, "another page came back");
    packed != gzip(page).expect("shorter")
}

#[test]
fn a_third_page_is_filled_in_and_every_page_comes_back() {
    let mut rng = SplitMix64::new(5);
    let mut compressor = PageCompressor::new();
    for round in 0..40 {
        let page = page(120, |_| match rng.next_u64() % 5 {
            0 => "0".to_owned(),
            1 => rng.next_u64().to_string(),
            2 => "NaN".to_owned(),
            3 => format!("-{:e} 1700000000000", rng.next_u64() as f64),
            _ => "+Inf".to_owned(),
        });
        assert_eq!(is_filled(&mut compressor, &page), round > 0, "{round}");
    }
}

#[test]
fn another_text_gets_its_template_when_it_comes_twice_in_a_row() {
    let number = |family: usize| family.to_string();
    let (short, long) = (page(40, number), page(41, number));
    let mut compressor = PageCompressor::new();
    let mut filled = |page: &[u8]| is_filled(&mut compressor, page);
    assert_eq!([&short, &long, &short].map(|page| filled(page)), [false; 3]);
    assert!(filled(&short));
    // One odd page does not cost the template.
    assert_eq!(
        [&long, &short, &long].map(|page| filled(page)),
        [false, true, false]
    );
    assert!(filled(&long));
    // The text of a template in the middle of others' is another text.
    assert!(!filled(&[&long[..], b"a 1\n"].concat()));
    assert!(!filled(&long[..long.len() - 40]));
    assert!(filled(&long));
    // So is one that differs in a byte.
    let at = long.iter().rposition(|byte| *byte == b'1').unwrap();
    let mut renamed = long.clone();
    renamed[at - 8..at].fill(b'x');
    assert!(!filled(&renamed));
}

/// Bytes on both sides of a number do not follow one another in the page.
#[test]
fn nothing_is_repeated_over_a_number() {
    let mut compressor = PageCompressor::new();
    let lines = "# HELP other jobs_of_this_host \n# TYPE other gauge\nother 5\n".repeat(20);
    let page = format!("jobs_of_this_host 7\n# TYPE other gauge\nother 1\n{lines}");
    for round in 0..3 {
        assert_eq!(is_filled(&mut compressor, page.as_bytes()), round > 0);
    }
}

/// Distances that fitted when the template was made do not fit over longer numbers.
#[test]
fn numbers_that_become_long_move_repetitions_out_of_reach() {
    let mut compressor = PageCompressor::new();
    let with = |digits: usize| page(150, |_| "7".repeat(digits));
    assert!(!is_filled(&mut compressor, &with(1)));
    for (digits, expected) in [(1, true), (4, true), (3_000, false), (5, true)] {
        assert_eq!(
            is_filled(&mut compressor, &with(digits)),
            expected,
            "{digits}"
        );
    }
}

#[test]
fn bodies_that_are_no_metrics_are_compressed_one_by_one() {
    let mut compressor = PageCompressor::new();
    let json = format!("[{}]", vec!["{\"a\": 1}"; 400].join(",\n"));
    let exemplars = "a_bucket{le=\"1\"} 1 # {trace=\"x\"} 1\n".repeat(100);
    for body in [json, exemplars] {
        for _ in 0..3 {
            assert!(!is_filled(&mut compressor, body.as_bytes()));
        }
    }
    assert_eq!(compressor.gzip(b""), None);
    assert_eq!(compressor.gzip(b"a 1\n"), None);
    assert_eq!(compressor.gzip(b"a 2\n"), None);
}

#[test]
fn templates_are_smaller_than_fast_compression() {
    let mut compressor = PageCompressor::new();
    let mut rng = SplitMix64::new(6);
    let pages = [(); 3].map(|()| page(200, |_| (rng.next_u64() % 1_000).to_string()));
    let lengths = pages
        .each_ref()
        .map(|page| compressor.gzip(page).unwrap().len());
    let fast = gzip(&pages[2]).unwrap().len();
    assert!(lengths[2] < fast, "{} bytes, {fast} before", lengths[2]);
}
