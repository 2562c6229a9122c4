//! Tests of Go's number and string formats.

use super::*;

#[test]
fn floats_are_written_as_go_writes_them() {
    for (value, f, g) in [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (1.5, "1.5", "1.5"),
        (1e20, "100000000000000000000", "1e+20"),
        (1e21, "1000000000000000000000", "1e+21"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "0.00001", "1e-05"),
        (f64::INFINITY, "+Inf", "+Inf"),
        (f64::NEG_INFINITY, "-Inf", "-Inf"),
        (f64::NAN, "NaN", "NaN"),
        (123456789.0, "123456789", "1.23456789e+08"),
    ] {
        assert_eq!(float_f(value), f);
        assert_eq!(float_g(value), g, "{value}");
    }
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (12.0, "12"),
        (123.0, "1.2e+02"),
        (0.123, "0.12"),
        (9.99, "10"),
        (1e-7, "1e-07"),
    ] {
        assert_eq!(float_digits(value, 2), text, "{value}");
    }
}

#[test]
fn strings_are_quoted_as_go_quotes_them() {
    assert_eq!(quote("a\"b\\\n\u{1}é😀"), "\"a\\\"b\\\\\\n\\x01é😀\"");
    assert_eq!(quote_bytes(b"a\xff"), "\"a\\xff\"");
    assert_eq!(quote("\u{a0}\u{200b}"), "\"\\u00a0\\u200b\"");
    assert_eq!(quote_char(Some('\'')), "'\\''");
    assert_eq!(quote_char(None), "'\u{fffd}'");
    assert_eq!(unicode_point('q'), "U+0071 'q'");
}

#[test]
fn exponents_look_like_gos() {
    for (value, text) in [
        (1.0, "1e+00"),
        (-0.25, "-2.5e-01"),
        (1.5e120, "1.5e+120"),
        (0.0, "0e+00"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        assert_eq!(float_e(value), text);
    }
}
