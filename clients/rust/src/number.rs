//! Numbers in Prometheus' text format: Go's `strconv.FormatFloat(v, 'g', -1, 64)`.
//!
//! **Invariant:** the shortest digits that read back as the same number; exponent form when the decimal exponent is
//! below -4 or above 5, with a sign and at least two digits; `+Inf`, `-Inf`, `NaN`.

/// Whole numbers below this are exact in a float, so their digits are the shortest.
const EXACT: u64 = 1 << 53;
/// Decimal exponents from here on are printed in exponent form.
const EXPONENT_FROM: i32 = 6;
/// Decimal exponents below this are printed in exponent form.
const EXPONENT_BELOW: i32 = -4;
/// Bytes of sixteen digits, a point, an exponent and one to spare.
const LONGEST_WHOLE: usize = 22;
/// Maximum digits of a shortest representation.
const MAX_DIGITS: usize = 17;
/// Maximum length of a number and a line feed, rounded up: a sign, 17 digits, a point, an exponent of five characters.
pub(crate) const LINE_MAX: usize = 32;

/// Appends a number.
#[inline]
pub fn write(out: &mut Vec<u8>, v: f64) {
    append(out, |text| text.push_number(v));
}

/// Appends a number and a line feed.
#[inline]
pub(crate) fn write_line_end(out: &mut Vec<u8>, v: f64) {
    append(out, |text| {
        text.push_number(v);
        text.push(b'\n');
    });
}

/// Appends as many bytes as a number may have, and takes back those that are not the text's: it is put together where it
/// stays, because bytes that were written one by one cannot be copied together at once.
#[inline]
fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Text<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[0; LINE_MAX]);
    let mut end = start;
    if let Some(bytes) = out[start..].first_chunk_mut() {
        let mut text = Text { bytes, len: 0 };
        write(&mut text);
        end += text.len;
    }
    out.truncate(end);
}

/// A number's text, in a place that has room for any.
struct Text<'a> {
    bytes: &'a mut [u8; LINE_MAX],
    len: usize,
}

impl Text<'_> {
    #[inline]
    fn push_number(&mut self, v: f64) {
        let whole = v as i64;
        let magnitude = whole.unsigned_abs();
        if whole as f64 == v && magnitude < EXACT && (whole != 0 || v.is_sign_positive()) {
            if whole < 0 {
                self.push(b'-');
            }
            self.push_whole(magnitude);
        } else if !self.push_thousandths(v) && !self.push_plain(v) {
            self.push_fraction(v);
        }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn push_all(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends the digits of a whole number; returns how many there are.
    #[inline]
    fn push_digits(&mut self, n: u64) -> usize {
        let count = n.checked_ilog10().map_or(1, |log| log as usize + 1);
        self.len += count;
        put_digits(n, &mut self.bytes[..self.len]);
        count
    }

    #[inline]
    fn push_whole(&mut self, n: u64) {
        if n < 10_u64.pow(EXPONENT_FROM as u32) {
            self.push_digits(n);
            return;
        }
        // 1233 / 4096 is nearly the decimal logarithm of 2, so this is the exponent or one too much.
        let most = ((u64::BITS - n.leading_zeros()) as usize * 1233) >> 12;
        let exponent = most - usize::from(n < POWERS[most]);
        let digits = sixteen_digits(n * POWERS[15 - exponent]);
        // The first digit is in the lowest byte, and zeros behind the last one are in the highest.
        let last = 15 - digits.leading_zeros() as usize / 8;
        let digits = (digits | ZEROS).to_le_bytes();
        let [tens, ones] = PAIRS[exponent];
        let start = self.len;
        let room = &mut self.bytes[start..start + LONGEST_WHOLE];
        room[1..17].copy_from_slice(&digits);
        room[0] = digits[0];
        room[1] = b'.';
        let len = match last {
            0 => 1,
            more => 2 + more,
        };
        room[len..len + 4].copy_from_slice(&[b'e', b'+', tens, ones]);
        self.len = start + len + 4;
    }

    /// Appends a number with at most three decimals, the form of most gauges, if `v` is one in the plain range.
    ///
    /// Up to nine digits identify a single float, so they are the shortest.
    fn push_thousandths(&mut self, v: f64) -> bool {
        let magnitude = v.abs();
        if !(0.001..1e6).contains(&magnitude) {
            return false;
        }
        let thousandths = (magnitude * 1000.0 + 0.5) as u32;
        if f64::from(thousandths) / 1000.0 != magnitude {
            return false;
        }
        if v < 0.0 {
            self.push(b'-');
        }
        self.push_digits(u64::from(thousandths / 1000));
        let decimals = thousandths % 1000;
        let digits =
            [decimals / 100, decimals / 10 % 10, decimals % 10].map(|digit| b'0' + digit as u8);
        let len = match digits {
            [_, b'0', b'0'] => 1,
            [_, _, b'0'] => 2,
            _ => 3,
        };
        self.push(b'.');
        self.push_all(&digits[..len]);
        true
    }

    /// Appends a fraction in the plain range, where the digits are laid out as they come.
    #[cfg(feature = "fast-digits")]
    fn push_plain(&mut self, v: f64) -> bool {
        let is_plain = (1e-4..1e6).contains(&v.abs());
        if is_plain {
            self.push_all(zmij::Buffer::new().format_finite(v).as_bytes());
        }
        is_plain
    }

    #[cfg(not(feature = "fast-digits"))]
    fn push_plain(&mut self, _: f64) -> bool {
        false
    }

    fn push_fraction(&mut self, v: f64) {
        if !v.is_finite() {
            let text: &[u8] = if v.is_nan() {
                b"NaN"
            } else if v > 0.0 {
                b"+Inf"
            } else {
                b"-Inf"
            };
            self.push_all(text);
            return;
        }
        if v.is_sign_negative() {
            self.push(b'-');
        }
        let mut digits = [0; MAX_DIGITS];
        let (len, exponent) = shortest(v.abs(), &mut digits);
        let digits = &digits[..len];
        if !(EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) {
            self.push(digits[0]);
            if len > 1 {
                self.push(b'.');
                self.push_all(&digits[1..]);
            }
            self.push_exponent(exponent);
        } else if exponent < 0 {
            self.push_all(&b"0.0000"[..1 + exponent.unsigned_abs() as usize]);
            self.push_all(digits);
        } else {
            let whole = exponent as usize + 1;
            let (before, after) = digits.split_at(whole.min(len));
            self.push_all(before);
            self.push_all(&b"000000"[..whole - before.len()]);
            if !after.is_empty() {
                self.push(b'.');
                self.push_all(after);
            }
        }
    }

    #[inline]
    fn push_exponent(&mut self, exponent: i32) {
        self.push(b'e');
        self.push(if exponent < 0 { b'-' } else { b'+' });
        let magnitude = u64::from(exponent.unsigned_abs());
        if magnitude < 10 {
            self.push(b'0');
        }
        self.push_digits(magnitude);
    }
}

/// Powers of ten.
const POWERS: [u64; 17] = {
    let mut powers = [1; 17];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = 10 * powers[at - 1];
        at += 1;
    }
    powers
};

/// `0` in each byte.
const ZEROS: u128 = 0x3030_3030_3030_3030_3030_3030_3030_3030;

/// Returns the decimal digits of a number below 10^16, each in a byte, the first of them in the lowest one.
///
/// Eight digits at a time are split into halves, which does not wait for one division after the other.
#[inline]
fn sixteen_digits(n: u64) -> u128 {
    let [high, low] = [n / 100_000_000, n % 100_000_000].map(|n| {
        let fours = (n / 10_000) | ((n % 10_000) << 32);
        let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
        let twos = hundreds | ((fours - 100 * hundreds) << 16);
        let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
        tens | ((twos - 10 * tens) << 8)
    });
    u128::from(high) | (u128::from(low) << 64)
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Returns the decimal digits of a whole number, written at the end of the buffer.
#[inline]
pub(crate) fn digits(n: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let start = put_digits(n, buffer);
    &buffer[start..]
}

/// Writes the digits of a whole number two at a time at the end of a buffer; returns where they begin.
#[inline]
fn put_digits(mut n: u64, buffer: &mut [u8]) -> usize {
    let mut at = buffer.len();
    while n >= 100 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        buffer[at] = b'0' + n as u8;
    }
    at
}

/// Returns a number's text.
pub(crate) fn to_string(v: f64) -> String {
    let mut out = Vec::new();
    write(&mut out, v);
    String::from_utf8(out).expect("numbers are ASCII")
}

/// Returns the shortest digits that read back as a finite positive number, as [`decimal`] does.
#[cfg(feature = "fast-digits")]
fn shortest(v: f64, digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    decimal(zmij::Buffer::new().format_finite(v).as_bytes(), digits)
}

#[cfg(not(feature = "fast-digits"))]
use self::shortest_by_std as shortest;

/// The same with the standard library alone: a page of fractions takes twice as long.
#[cfg(any(test, not(feature = "fast-digits")))]
fn shortest_by_std(v: f64, digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    use std::io::Write;
    // 17 digits, a point, and an exponent of four characters with its `e`.
    let mut text = [0; 32];
    let mut rest = &mut text[..];
    write!(rest, "{v:e}").expect("a number has at most 24 characters");
    let len = 32 - rest.len();
    decimal(&text[..len], digits)
}

/// Splits a shortest representation (`12.5`, `0.001`, `1.5e-7`, `1e21`) into its significant digits and the decimal
/// exponent of the first one. Zero is one digit with exponent 0.
fn decimal(text: &[u8], digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    let (mantissa, mut exponent) = match text.iter().position(|byte| *byte == b'e') {
        Some(e) => (&text[..e], parse_exponent(&text[e + 1..])),
        None => (text, 0),
    };
    let point = mantissa
        .iter()
        .position(|byte| *byte == b'.')
        .unwrap_or(mantissa.len());
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let leading_zeros = mantissa
        .iter()
        .filter(is_digit)
        .take_while(|byte| **byte == b'0')
        .count();
    let mut len = 0;
    // A representation may have more digits than are significant, as in 100000000000000000000.0, but only zeros.
    for byte in mantissa
        .iter()
        .filter(is_digit)
        .skip(leading_zeros)
        .take(MAX_DIGITS)
    {
        digits[len] = *byte;
        len += 1;
    }
    while len > 0 && digits[len - 1] == b'0' {
        len -= 1;
    }
    if len == 0 {
        digits[0] = b'0';
        return (1, 0);
    }
    exponent += point as i32 - 1 - leading_zeros as i32;
    (len, exponent)
}

fn parse_exponent(text: &[u8]) -> i32 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests;
