//! The API's JSON.
//!
//! **Invariant:** sample values are strings in Go's `'f'` form (`'e'` below 1e-6 and from 1e21 on), times are seconds
//! with at most three decimals, label sets are objects in label order.

use narthex_model::{Histogram, Label, LabelSet};
use narthex_promql::fmt::{float_e, float_f};

/// Writes a string with JSON's escapes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        escaped(out, bytes);
    }
    out.push(b'"');
}

/// Reports whether a text needs no escape, as nearly all: eight bytes at once.
fn is_plain(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let found = chunks.iter().fold(0, |found, chunk| {
        found | escapes_in(u64::from_ne_bytes(*chunk))
    });
    // The last eight overlap those before them.
    let last = match bytes.last_chunk::<8>() {
        Some(last) => *last,
        None => {
            let mut last = [b' '; 8];
            last[..rest.len()].copy_from_slice(rest);
            last
        }
    };
    found | escapes_in(u64::from_ne_bytes(last)) == 0
}

/// Returns 0 if none of eight bytes needs an escape.
fn escapes_in(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    // Bytes below `than`, which is at most 128, have their highest bit set; so may others above such a one.
    let below = |bytes: u64, than: u64| bytes.wrapping_sub(ONES * than) & !bytes;
    let equal = |byte: u8| below(bytes ^ (ONES * u64::from(byte)), 1);
    (below(bytes, 0x20) | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut plain_from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f => b"",
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain_from..at]);
        plain_from = at + 1;
        if escape.is_empty() {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.extend_from_slice(escape);
        }
    }
    out.extend_from_slice(&bytes[plain_from..]);
}

/// Writes a list.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    let empty = out.len();
    for item in items {
        if out.len() > empty {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Writes a label set as an object.
pub(crate) fn labels(out: &mut Vec<u8>, set: &LabelSet) {
    LabelNames::default().labels(out, set);
}

/// Names of labels as they are written, by their place: series of one answer mostly have the same ones.
#[derive(Default)]
pub(crate) struct LabelNames(Vec<(Label, Vec<u8>)>);

impl LabelNames {
    /// Writes a label set as an object.
    pub(crate) fn labels(&mut self, out: &mut Vec<u8>, set: &LabelSet) {
        if set.is_empty() {
            out.push(b'{');
        }
        for (at, label) in set.iter().enumerate() {
            let known = self.0.get(at);
            let known = known.filter(|(known, _)| known.same_name(label));
            let name = match known {
                Some((_, name)) => name,
                None => self.learn(at, label),
            };
            out.extend_from_slice(name);
            string(out, label.value());
        }
        out.push(b'}');
    }

    /// Returns what precedes the value of a label in place `at`.
    fn learn(&mut self, at: usize, label: &Label) -> &[u8] {
        let mut name = vec![if at == 0 { b'{' } else { b',' }];
        string(&mut name, label.name());
        name.push(b':');
        self.0.truncate(at);
        self.0.push((label.clone(), name));
        &self.0[at].1
    }
}

/// Writes milliseconds as seconds.
pub(crate) fn time(out: &mut Vec<u8>, time_ms: i64) {
    if time_ms < 0 {
        out.push(b'-');
    }
    let ms = time_ms.unsigned_abs();
    out.extend_from_slice(itoa::Buffer::new().format(ms / 1000).as_bytes());
    let fraction = ms % 1000;
    if fraction > 0 {
        // Four digits, of which the first is left out.
        out.push(b'.');
        out.extend_from_slice(&itoa::Buffer::new().format(1000 + fraction).as_bytes()[1..]);
    }
}

/// Writes a sample's value as a string.
pub(crate) fn value(out: &mut Vec<u8>, value: f64) {
    out.push(b'"');
    number(out, value);
    out.push(b'"');
}

/// Writes `[time,"value"]`.
pub(crate) fn sample(out: &mut Vec<u8>, time_ms: i64, sample: f64) {
    out.push(b'[');
    time(out, time_ms);
    out.push(b',');
    value(out, sample);
    out.push(b']');
}

/// Writes `[time,{"count":…,"sum":…,"buckets":…}]`.
pub(crate) fn histogram_sample(out: &mut Vec<u8>, time_ms: i64, histogram: &Histogram) {
    out.push(b'[');
    time(out, time_ms);
    out.extend_from_slice(b",{\"count\":");
    value(out, histogram.count);
    out.extend_from_slice(b",\"sum\":");
    value(out, histogram.sum);
    let buckets: Vec<_> = histogram
        .buckets()
        .into_iter()
        .filter(|bucket| bucket.count != 0.0)
        .collect();
    if !buckets.is_empty() {
        out.extend_from_slice(b",\"buckets\":");
        list(out, &buckets, |out, bucket| {
            // Inclusive bounds: 0 upper, 1 lower, 2 none, 3 both.
            let rule = match (bucket.lower_inclusive, bucket.upper_inclusive) {
                (false, true) => b'0',
                (true, false) => b'1',
                (false, false) => b'2',
                (true, true) => b'3',
            };
            out.extend_from_slice(&[b'[', rule, b',']);
            value(out, bucket.lower);
            out.push(b',');
            value(out, bucket.upper);
            out.push(b',');
            value(out, bucket.count);
            out.push(b']');
        });
    }
    out.extend_from_slice(b"}]");
}

/// Writes a number as Go writes it; not for those that JSON has no numbers for.
pub(crate) fn number(out: &mut Vec<u8>, value: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.trunc() == value && value.abs() < EXACT && (value != 0.0 || value.is_sign_positive()) {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        let whole = value as i64;
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    } else {
        fraction(out, value);
    }
}

fn fraction(out: &mut Vec<u8>, value: f64) {
    let magnitude = value.abs();
    if PLAIN.contains(&magnitude) {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else if magnitude.is_finite() && magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        // Rust may choose other shortest digits than Go; they read back as the same number.
        out.extend_from_slice(float_e(value).as_bytes());
    } else {
        out.extend_from_slice(float_f(value).as_bytes());
    }
}

/// Fractions that are written without an exponent either way, and of which no two shortest decimals are equally near.
const PLAIN: std::ops::Range<f64> = 1e-4..1e12;

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::rng::SplitMix64;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_follow_gos_api_encoding() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-12.0, "-12"),
            (0.1, "0.1"),
            (1e6, "1000000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (-1e-123, "-1e-123"),
            (0.000001, "0.000001"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
            (1234.5678, "1234.5678"),
        ];
        for (number, text) in cases {
            assert_eq!(written(|out| value(out, number)), format!("\"{text}\""));
        }
    }

    #[test]
    fn fractions_have_the_digits_of_the_standard_library() {
        let mut rng = SplitMix64::new(1);
        let mut plain = 0;
        for _ in 0..20_000 {
            let exponent = rng.index(36) as i32 - 10;
            let mut number = rng.below(1 << 53) as f64 / (1u64 << 53) as f64 * 10f64.powi(exponent);
            if rng.one_in(3) {
                number = (number * 1000.0).round() / 1000.0;
            }
            plain += usize::from(PLAIN.contains(&number));
            for number in [number, -number] {
                let expected = match number.abs() {
                    0.0 => continue,
                    1e-6..1e21 => number.to_string(),
                    _ => continue,
                };
                assert_eq!(written(|out| super::number(out, number)), expected);
            }
        }
        assert!(plain > 5_000, "{plain}");
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(
            written(|out| time(out, 1_700_000_000_123)),
            "1700000000.123"
        );
        assert_eq!(written(|out| time(out, 1_700_000_000_000)), "1700000000");
        assert_eq!(written(|out| time(out, -1_050)), "-1.050");
    }

    #[test]
    fn every_byte_is_found_wherever_it_stands() {
        for byte in 0..=0x7f_u8 {
            let needs = byte < 0x20 || byte == b'"' || byte == b'\\';
            for len in 1..=25 {
                for at in 0..len {
                    for around in [b' ', b'!', b'#', b'[', b'~'] {
                        let mut text = vec![around; len];
                        text[at] = byte;
                        assert_eq!(is_plain(&text), !needs, "{text:?}");
                    }
                }
            }
        }
        for text in ["", "ü", "äöüß€𝄞", "\u{7f}\u{80}\u{a0}\u{a2}\u{dc}"] {
            assert!(is_plain(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn names_that_are_remembered_are_those_of_the_labels() {
        let sets = [
            LabelSet::new([("a", "1"), ("b\"", "2"), ("c", "3")]),
            LabelSet::new([("a", "4"), ("b\"", "5"), ("c", "6")]),
            LabelSet::empty(),
            LabelSet::new([("b\"", "7"), ("c", "8")]),
            LabelSet::new([("a", "9"), ("c", "10")]),
            LabelSet::new([("a", "11"), ("b\"", "12"), ("d", "13")]),
        ];
        let mut names = LabelNames::default();
        for set in sets.iter().chain(&sets) {
            let text = written(|out| names.labels(out, set));
            let read: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&text).unwrap();
            let labels = set.iter().map(|label| (label.name(), label.value()));
            let found = read
                .iter()
                .map(|(name, value)| (&**name, value.as_str().unwrap()));
            assert!(found.eq(labels), "{text}");
        }
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(
            written(|out| string(out, "a\"b\\c\nd\u{1}ü")),
            "\"a\\\"b\\\\c\\nd\\u0001ü\""
        );
        assert_eq!(
            written(|out| labels(out, &LabelSet::new([("b", "2"), ("a", "1")]))),
            r#"{"a":"1","b":"2"}"#
        );
    }
}
