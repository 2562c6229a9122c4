//! Tests against zlib's reader.

use std::io::Read;

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::*;

fn compress(parts: &[&[u8]]) -> Vec<u8> {
    let mut compressor = Compressor::new();
    let mut out = Vec::new();
    for part in parts {
        compressor.write(part);
        compressor.take_into(&mut out);
    }
    compressor.finish(&mut out);
    out
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // Fails on a wrong checksum or length.
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

#[test]
fn pages_come_back_and_are_short() {
    let mut page = String::from("# HELP requests_total Requests.\n# TYPE requests_total counter\n");
    for i in 0..1000 {
        page += &format!(
            "requests_total{{method=\"GET\",instance=\"10.0.0.{i}:9100\",job=\"é\"}} {}\n",
            i * 37
        );
    }
    let packed = compress(&[page.as_bytes()]);
    assert_eq!(inflate(&packed), page.as_bytes());
    assert!(
        packed.len() * 6 < page.len(),
        "{} of {}",
        packed.len(),
        page.len()
    );
}

#[test]
fn odd_pages_come_back() {
    let long = format!("{}{{a=\"1\"}} 1\n", "x".repeat(700));
    let far = format!("{}\n", "y".repeat(40_000));
    let pages: [&[&[u8]]; 9] = [
        &[],
        &[b""],
        &[b"\n\n\n"],
        &[b"no line feed at the end"],
        &[long.as_bytes(), long.as_bytes()],
        &[far.as_bytes(), far.as_bytes()],
        &[b"a{b=\"c\"} 1\n", b"a\"b{c 2\n", b"a{b\"c 3\n"],
        &[b"# HELP a b\n", b"", b"a 1\n# TYPE b\n#\n# \nb 2\n"],
        &[&[0, 255, 128, b'\n', 0, 255, 128, 7]],
    ];
    for parts in pages {
        assert_eq!(inflate(&compress(parts)), parts.concat());
    }
}

proptest! {
    #[test]
    fn all_lines_come_back(lines in prop::collection::vec("[ab{\"} #é\\\\\n]{0,40}|(ab){150,400}", 0..20)) {
        let parts: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        prop_assert_eq!(inflate(&compress(&parts)), parts.concat());
    }
}
