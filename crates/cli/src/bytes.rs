//! Sizes in flags; the unit is optional.

/// A number of bytes: `15MB`, `1GiB`, `512KB`; units are powers of 1024 as in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns the size as `usize`.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Parses a size.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len()
            - text
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
        let (number, unit) = text.split_at(digits);
        let power = match unit
            .trim()
            .to_ascii_uppercase()
            .trim_end_matches('B')
            .trim_end_matches('I')
        {
            "" => 0,
            "K" => 1,
            "M" => 2,
            "G" => 3,
            "T" => 4,
            "P" => 5,
            "E" => 6,
            _ => return None,
        };
        let amount: f64 = number.parse().ok()?;
        let bytes = amount * 1024f64.powi(power);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked against the bounds"
        )]
        (0.0..9e18).contains(&bytes).then_some(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("15MB", 15 << 20),
            ("1.5KiB", 1536),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)), "{text}");
        }
        for text in ["", "MB", "1XB", "-1MB", "1e30EB"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }
}
