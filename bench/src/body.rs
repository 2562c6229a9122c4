//! The text of one target, kept from round to round.
//!
//! A round changes values only, so only their digits are written, in place, as long as each keeps its width; from the
//! first that does not, the rest of the text is put together from prefixes. **Invariant:** the text is byte for byte
//! what `fleet::Target::render` gives for the same round.

use narthex_testkit::fleet::Target;

/// A target and its text.
#[derive(Debug)]
pub(crate) struct Body {
    target: Target,
    text: Vec<u8>,
    /// Where each value stands in the text.
    values: Vec<Place>,
    digits: Digits,
}

#[derive(Debug)]
struct Place {
    start: u32,
    end: u32,
}

impl Body {
    /// Returns target `index` of the fleet `seed`, with `series` series, in its first round.
    pub(crate) fn new(index: usize, seed: u64, series: usize) -> Self {
        let generation = usize::try_from(seed).expect("the flag's range fits 32 bits");
        let mut body = Self {
            target: Target::new(index, generation, series),
            text: Vec::new(),
            values: Vec::with_capacity(series),
            digits: Digits::default(),
        };
        body.write_from(0);
        body
    }

    /// Returns the text of the present round.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the values of the present round, in line order.
    pub(crate) fn values(&self) -> &[f64] {
        self.target.values()
    }

    /// Moves on by one round.
    pub(crate) fn step(&mut self) {
        self.target.step();
        for (at, (value, place)) in self.target.values().iter().zip(&self.values).enumerate() {
            let digits = self.digits.of(*value);
            let (start, end) = (place.start as usize, place.end as usize);
            if digits.len() != end - start {
                self.write_from(at);
                return;
            }
            self.text[start..end].copy_from_slice(digits);
        }
    }

    /// Writes the text from the line `first` on anew.
    fn write_from(&mut self, first: usize) {
        let line = first
            .checked_sub(1)
            .map_or(0, |before| self.values[before].end as usize + 1);
        self.text.truncate(line);
        self.values.truncate(first);
        let prefixes = &self.target.prefixes()[first..];
        for (prefix, value) in prefixes.iter().zip(&self.target.values()[first..]) {
            self.text.extend_from_slice(prefix.as_bytes());
            let start = position(&self.text);
            self.text.extend_from_slice(self.digits.of(*value));
            let end = position(&self.text);
            self.text.push(b'\n');
            self.values.push(Place { start, end });
        }
    }
}

fn position(text: &[u8]) -> u32 {
    u32::try_from(text.len()).expect("a target's text is below 4 GiB")
}

/// A number's shortest text. `Display` of a float takes about 100 ns; the fleet's values are whole or thousandths.
#[derive(Default)]
struct Digits {
    whole: itoa::Buffer,
    text: Vec<u8>,
}

impl std::fmt::Debug for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digits")
    }
}

impl Digits {
    fn of(&mut self, value: f64) -> &[u8] {
        // Above this, neighbouring floats are more than a thousandth apart.
        const LARGEST: f64 = 1e12;
        let thousandths = (value * 1000.0).round();
        let is_short = (0.0..LARGEST).contains(&value) && thousandths / 1000.0 == value;
        if !is_short || value.is_sign_negative() {
            self.text = value.to_string().into_bytes();
            return &self.text;
        }
        let thousandths = thousandths as u64;
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        if rest == 0 {
            return self.whole.format(whole).as_bytes();
        }
        self.text.clear();
        self.text
            .extend_from_slice(self.whole.format(whole).as_bytes());
        let digit = |number: u64| b'0' + (number % 10) as u8;
        let places = [b'.', digit(rest / 100), digit(rest / 10), digit(rest)];
        let used = places.iter().rposition(|place| *place != b'0');
        self.text
            .extend_from_slice(&places[..=used.expect("the point is no zero")]);
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_shortest_text() {
        let mut digits = Digits::default();
        for value in [
            0.0,
            1.0,
            9.0,
            1000.0,
            0.5,
            0.001,
            0.01,
            0.1,
            123.456,
            999.999,
            120.03,
            7.25e11,
            1e12,
            1e15,
            0.0001,
            1.0 / 3.0,
            -1.0,
            -0.0,
            4_503_599_627_370_497.5,
        ] {
            assert_eq!(
                std::str::from_utf8(digits.of(value)).unwrap(),
                value.to_string()
            );
        }
    }

    #[test]
    fn the_text_is_the_fleets_over_many_rounds() {
        let (mut body, mut target) = (Body::new(11, 3, 97), Target::new(11, 3, 97));
        for round in 0..2_000 {
            let mut expected = String::new();
            target.render(&mut expected);
            assert!(body.text() == expected.as_bytes(), "round {round} differs");
            assert_eq!(body.values(), target.values());
            body.step();
            target.step();
        }
    }
}
