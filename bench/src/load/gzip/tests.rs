//! Tests of `gzip`.

use super::*;

#[test]
fn texts_come_back_whatever_their_length() {
    let mut gzip = Gzip::new(1);
    for length in [0, 10, 3_000_000] {
        let text = b"abc ".repeat(length / 4);
        assert!(gunzip(gzip.pack(&text)).unwrap() == text, "{length}");
    }
    assert!(gunzip(b"no gzip").is_err());
}
