//! Edge cases of numbers, fields and label text.

use super::*;

#[test]
fn numbers_end_at_64_bits() {
    assert_eq!(number(b"0"), Some(0));
    assert_eq!(
        number(b"9999999999999999999"),
        Some(9_999_999_999_999_999_999)
    );
    assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(number(b"18446744073709551616"), None);
    assert_eq!(number(b"00000000000000000000000001"), Some(1));
    for bad in [&b""[..], b"-1", b"1a", b"+1", b"1.5", b" 1"] {
        assert_eq!(number(bad), None, "{bad:?}");
    }
}

#[test]
fn decimals_equal_the_float_parser() {
    for text in [
        "0.21",
        "0.37",
        "12.00",
        "799.998",
        "3999.999",
        "0",
        "123456.789",
        ".5",
        "7.",
    ] {
        let float: f64 = text.parse().expect("a float");
        assert_eq!(
            decimal(text.as_bytes()).map(f64::to_bits),
            Some(float.to_bits()),
            "{text}"
        );
    }
    for bad in [
        "",
        ".",
        "1.2.3",
        "-1",
        "nan",
        "99999999999999999",
        "0.0000000000000001",
    ] {
        assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn lines_and_fields_split_without_trailing_ghosts() {
    let mut text = &b"a  1\t2 \n\nlast"[..];
    let mut line = next_line(&mut text).expect("first");
    assert_eq!(next_field(&mut line), Some(&b"a"[..]));
    assert_eq!(next_u64(&mut line), Ok(Some(1)));
    assert_eq!(next_u64(&mut line), Ok(Some(2)));
    assert_eq!(next_u64(&mut line), Ok(None));
    assert_eq!(next_line(&mut text), Some(&b""[..]));
    assert_eq!(next_line(&mut text), Some(&b"last"[..]));
    assert_eq!(next_line(&mut text), None);
}

#[test]
fn a_run_of_invalid_bytes_is_one_replacement() {
    assert_eq!(
        label_text(b"/mnt/\xff\xfe\xfdx\xc3(y"),
        "/mnt/\u{fffd}x\u{fffd}(y"
    );
    assert_eq!(label_text("/mnt/ä".as_bytes()), "/mnt/ä");
}

#[test]
fn sections_end_where_others_begin() {
    let text = b"read:\nsb   :  1\nuser :2\nwrite:\nsb: 3\n";
    let mut seen = Vec::new();
    section_lines(text, b"read:", |word, value| seen.push((word, value)));
    assert_eq!(seen, [(&b"sb"[..], &b"1"[..]), (b"user", b"2")]);
    section_lines(text, b"none", |_, _| panic!("no such section"));
}
