//! Numbers as they are written: a mantissa and how it is laid out, so that a difference of two texts is a small number.
//!
//! **Invariant:** [`Decimal::parse`] accepts a text only when [`Decimal::write`] gives the same text back, byte for byte.

/// Most digits of a mantissa: differences of two scaled ones still fit an `i128`.
const MAX_DIGITS: usize = 18;
/// Largest exponent, either way, that a layout has.
const MAX_EXPONENT: i16 = 999;

/// How a number is written, apart from its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Digits behind the point; 0 has no point.
    pub(crate) decimals: u8,
    /// What stands behind `e`, with a sign and two digits at least, as Go writes it.
    pub(crate) exponent: Option<i16>,
}

impl Layout {
    /// The power of ten of the last digit.
    fn scale(self) -> i32 {
        i32::from(self.exponent.unwrap_or(0)) - i32::from(self.decimals)
    }
}

/// A number as it is written: `mantissa` × 10^scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) mantissa: i64,
    pub(crate) layout: Layout,
}

impl Decimal {
    /// Reads `-12.5e+07` and the like; nothing for whatever it would not write the same way.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = match rest.iter().position(|byte| *byte == b'e') {
            Some(at) => (&rest[..at], Some(parse_exponent(&rest[at + 1..])?)),
            None => (rest, None),
        };
        if digits.len() > MAX_DIGITS + 1 {
            return None;
        }
        let (mut mantissa, mut decimals, mut point) = (0_i64, 0_u8, false);
        let mut count = 0;
        for byte in digits {
            match byte {
                b'0'..=b'9' if count < MAX_DIGITS => {
                    mantissa = mantissa * 10 + i64::from(byte - b'0');
                    decimals += u8::from(point);
                    count += 1;
                }
                b'.' if !point && count > 0 => point = true,
                _ => return None,
            }
        }
        let whole = count - usize::from(decimals);
        let has_extra_zero = digits.first() == Some(&b'0') && whole > 1;
        let is_cut = point && decimals == 0;
        if count == 0 || has_extra_zero || is_cut {
            return None;
        }
        if is_negative && mantissa == 0 {
            return None;
        }
        Some(Self {
            mantissa: if is_negative { -mantissa } else { mantissa },
            layout: Layout { decimals, exponent },
        })
    }

    /// Appends the text.
    pub(crate) fn write(self, text: &mut Vec<u8>) {
        if self.mantissa < 0 {
            text.push(b'-');
        }
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(self.mantissa.unsigned_abs()).as_bytes();
        let decimals = usize::from(self.layout.decimals);
        let padding = (decimals + 1).saturating_sub(digits.len());
        let whole = digits.len() + padding - decimals;
        for at in 0..digits.len() + padding {
            if at == whole {
                text.push(b'.');
            }
            text.push(at.checked_sub(padding).map_or(b'0', |at| digits[at]));
        }
        if let Some(exponent) = self.layout.exponent {
            text.push(b'e');
            text.push(if exponent < 0 { b'-' } else { b'+' });
            if exponent.unsigned_abs() < 10 {
                text.push(b'0');
            }
            text.extend_from_slice(buffer.format(exponent.unsigned_abs()).as_bytes());
        }
    }

    /// Returns what has to be added to `before`, in units of the finer of both last digits; nothing when that is too
    /// large to be of use.
    pub(crate) fn minus(self, before: Self) -> Option<i64> {
        let finest = self.layout.scale().min(before.layout.scale());
        let scaled = |number: Self| scale_up(number.mantissa, number.layout.scale() - finest);
        i64::try_from(scaled(self)? - scaled(before)?).ok()
    }

    /// Undoes [`Decimal::minus`]: returns the number laid out as `layout` that is `difference` more than this one.
    pub(crate) fn plus(self, difference: i64, layout: Layout) -> Option<Self> {
        let finest = self.layout.scale().min(layout.scale());
        let sum = scale_up(self.mantissa, self.layout.scale() - finest)? + i128::from(difference);
        let unit = power_of_ten(layout.scale() - finest)?;
        if sum % unit != 0 {
            return None;
        }
        let mantissa = i64::try_from(sum / unit).ok()?;
        Some(Self { mantissa, layout })
    }
}

/// Reads `+07`, `-05`, `+100`: a sign, and two digits or more of which the first is no zero unless there are two.
fn parse_exponent(text: &[u8]) -> Option<i16> {
    let (sign, digits) = text.split_first()?;
    let is_canonical = digits.len() == 2 || digits.len() == 3 && digits.first() != Some(&b'0');
    if !is_canonical || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .fold(0_i16, |number, digit| number * 10 + i16::from(digit - b'0'));
    match sign {
        b'+' => Some(number),
        // "-00" would be written with a plus.
        b'-' if number > 0 => Some(-number),
        _ => None,
    }
    .filter(|exponent| exponent.abs() <= MAX_EXPONENT)
}

fn power_of_ten(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok().filter(|power| *power <= 18)?)
}

fn scale_up(mantissa: i64, by: i32) -> Option<i128> {
    // At most 19 digits times 10^18: far below 10^38.
    Some(i128::from(mantissa) * power_of_ten(by)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::{rng::SplitMix64, scaled};

    fn text_of(number: Decimal) -> String {
        let mut text = Vec::new();
        number.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_text_that_is_read_is_written_the_same() {
        for text in [
            "0",
            "7",
            "-7",
            "120",
            "0.5",
            "-0.05",
            "10.250",
            "1.795e+09",
            "7.08e-07",
            "1e+100",
            "2e+06",
            "999999999999999999",
            "0.000",
            "0e+00",
        ] {
            let number = Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(text_of(number), text);
        }
    }

    #[test]
    fn a_text_it_would_write_otherwise_is_not_read() {
        for text in [
            "",
            "-",
            "-0",
            "-0.0",
            "00",
            "01.5",
            ".5",
            "5.",
            "+5",
            "1e5",
            "1e+5",
            "1e+005",
            "1e-00",
            "1E+05",
            "1e",
            "1e+",
            "NaN",
            "+Inf",
            "1_0",
            "1.2.3",
            " 1",
            "1 ",
            "1234567890123456789",
            "1e+1000",
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_difference_leads_from_one_number_to_the_other() {
        for (before, after, difference) in [
            ("12", "15", 3),
            ("0.5", "0.25", -25),
            ("1.7e+09", "1.70000001e+09", 1),
            ("9.99e+02", "1000", 1),
            ("-3", "4", 7),
            ("1.25", "1", -25),
        ] {
            let [from, to] = [before, after].map(|text| Decimal::parse(text.as_bytes()).unwrap());
            assert_eq!(to.minus(from), Some(difference), "{before} to {after}");
            assert_eq!(from.plus(difference, to.layout), Some(to));
        }
        // Too far apart, or not a whole number of the layout's last digit.
        let [large, small] =
            ["1e+30", "1e-30"].map(|text| Decimal::parse(text.as_bytes()).unwrap());
        assert_eq!(large.minus(small), None);
        let [half, one] = ["0.5", "1"].map(|text| Decimal::parse(text.as_bytes()).unwrap());
        assert_eq!(half.plus(1, one.layout), None);
    }

    #[test]
    fn random_numbers_lead_to_each_other() {
        let mut rng = SplitMix64::new(11);
        let mut random = || {
            let layout = Layout {
                decimals: rng.index(8) as u8,
                exponent: (!rng.one_in(2)).then(|| rng.index(40) as i16 - 20),
            };
            let bits = rng.index(58) as u32;
            let mantissa = (rng.next_u64() >> 6 >> bits) as i64 - i64::from(rng.one_in(3)) * 5;
            Decimal { mantissa, layout }
        };
        let mut led = 0;
        for _ in 0..scaled(20_000) {
            let (from, to) = (random(), random());
            assert_eq!(Decimal::parse(text_of(to).as_bytes()), Some(to), "{to:?}");
            if let Some(difference) = to.minus(from) {
                assert_eq!(from.plus(difference, to.layout), Some(to));
                led += 1;
            }
        }
        assert!(led > 1_000, "{led}");
    }
}
