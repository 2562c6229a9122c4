//! Tests against values printed by Go's `strconv` and against parsing back.

use proptest::prelude::*;

use super::*;

#[test]
fn prints_like_go() {
    let cases: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (100_000.0, "100000"),
        (9_999_999.0, "9.999999e+06"),
        (10_000_000.0, "1e+07"),
        (1_000_000_000_000_001.0, "1.000000000000001e+15"),
        (0.000_099, "9.9e-05"),
        (999_999.0, "999999"),
        (1e6, "1e+06"),
        (1_000_001.0, "1.000001e+06"),
        (-1_500_000.0, "-1.5e+06"),
        (795_452_531.224, "7.95452531224e+08"),
        (123_456.789, "123456.789"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.000_123, "0.000123"),
        (0.000_01, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (2.5, "2.5"),
        (1e21, "1e+21"),
        (1e100, "1e+100"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (9_007_199_254_740_991.0, "9.007199254740991e+15"),
        (9_007_199_254_740_993.0, "9.007199254740992e+15"),
        (0.30000000000000004, "0.30000000000000004"),
        (1_760_000_000.25, "1.76000000025e+09"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
        (f64::NAN, "NaN"),
        (-f64::NAN, "NaN"),
    ];
    for (value, text) in cases {
        assert_eq!(to_string(*value), *text);
    }
}

/// Implements the same rule from the standard library's exponent form.
fn model(v: f64) -> String {
    let text = format!("{v:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if (-4..6).contains(&exponent) {
        format!("{v}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

proptest! {
    #[test]
    fn reads_back_and_is_laid_out_like_the_model(bits: u64, small in -2_000_000_000_i64..2_000_000_000, scale in 0..9) {
        let decimal = small as f64 / 10_f64.powi(scale);
        let whole = (bits >> (11 + 4 * scale)) as f64;
        for v in [f64::from_bits(bits), small as f64, whole, -whole, decimal, decimal.sqrt()] {
            let text = to_string(v);
            if v.is_finite() {
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), v.to_bits());
                let model = model(v);
                // If two shortest representations exist, the standard library may choose the other one.
                prop_assert_eq!(text.len(), model.len(), "{} {}", text, model);
                if v.trunc() == v {
                    prop_assert_eq!(text, model);
                }
            }
        }
    }
}

#[cfg(feature = "fast-digits")]
proptest! {
    #[test]
    fn the_standard_library_gives_the_same_digits(bits: u64, small: i32, scale in 0..9) {
        let decimal = f64::from(small) / 10_f64.powi(scale);
        for v in [f64::from_bits(bits), decimal, decimal.abs().sqrt()] {
            let v = v.abs();
            if v.is_finite() && v > 0.0 {
                let (mut fast, mut standard) = ([0; MAX_DIGITS], [0; MAX_DIGITS]);
                let (len, exponent) = shortest(v, &mut fast);
                prop_assert_eq!((len, exponent), shortest_by_std(v, &mut standard));
                prop_assert!(fast[..len] == standard[..len] || is_between_two(v, len), "{}", v);
            }
        }
    }
}

/// Reports whether a number is exactly between two decimals of `len` digits: each of them is as near as the other.
#[cfg(feature = "fast-digits")]
fn is_between_two(v: f64, len: usize) -> bool {
    let exact = format!("{v:.800e}");
    let mut rest = exact.bytes().filter(u8::is_ascii_digit).skip(len);
    rest.next() == Some(b'5') && rest.take(800 - len).all(|digit| digit == b'0')
}

#[cfg(feature = "fast-digits")]
#[test]
fn of_two_numbers_that_are_equally_near_either_may_be_written() {
    let v = 139_685_524_782_472.0 + 0.125;
    let (mut fast, mut standard) = ([0; MAX_DIGITS], [0; MAX_DIGITS]);
    let (len, _) = shortest(v, &mut fast);
    shortest_by_std(v, &mut standard);
    assert_ne!(fast[..len], standard[..len]);
    assert!(is_between_two(v, len));
    assert!(!is_between_two(v + 0.25 - 0.015_625, len) && !is_between_two(0.1, 1));
}

proptest! {
    #[test]
    fn whole_numbers_are_written_digit_by_digit(n: u64, shift in 0..64_u32) {
        let n: u64 = n >> shift;
        let expected = n.to_string();
        prop_assert_eq!(digits(n, &mut [0; 20]).to_vec(), expected.into_bytes());
    }
}
