//! The texts of the fleet's targets, written anew for each scrape from parts that stay in the processor's cache.
//!
//! Targets differ in the labels all their lines share and in values only, so everything else is kept once for the
//! whole fleet: 850 texts of 140 KB would come from memory every time. **Invariant:** a text is byte for byte what
//! `fleet::Target::render` gives for the same round.

use narthex_testkit::fleet::Target;
use std::sync::Arc;

/// A target and what its text is made of.
#[derive(Debug)]
pub(crate) struct Body {
    target: Target,
    layout: Arc<Layout>,
    common: Box<str>,
}

/// The parts of a text between common labels and values.
#[derive(Debug, PartialEq)]
struct Layout {
    /// For each line: its own start, such as `name{`, behind the end of the line before; the common labels follow.
    heads: Box<[Box<str>]>,
    /// For each line: its own labels, up to the value.
    tails: Box<[Box<str>]>,
}

impl Body {
    /// Returns all targets of the fleet `seed`, with `series` series each, in their first round.
    /// With `line_labels` every line has its target's labels; otherwise they are for the configuration to give, as
    /// service discovery does.
    pub(crate) fn fleet(targets: usize, seed: u64, series: usize, line_labels: bool) -> Vec<Self> {
        let generation = usize::try_from(seed).expect("the flag's range fits 32 bits");
        let mut bodies: Vec<Self> = Vec::with_capacity(targets);
        for index in 0..targets {
            let target = Target::new(index, generation, series);
            let (layout, common) = Layout::of(&target);
            let common = if line_labels { common } else { "".into() };
            let shared = bodies.first().map(|first| &first.layout);
            let layout = match shared.filter(|shared| ***shared == layout) {
                Some(shared) => Arc::clone(shared),
                None => Arc::new(layout),
            };
            bodies.push(Self {
                target,
                layout,
                common,
            });
        }
        bodies
    }

    /// Returns the values of the present round, in line order.
    pub(crate) fn values(&self) -> &[f64] {
        self.target.values()
    }

    /// Moves on by one round and replaces `text` by its text.
    pub(crate) fn next(&mut self, text: &mut Vec<u8>) {
        self.target.step();
        text.clear();
        let lines = self.layout.heads.iter().zip(&self.layout.tails);
        for ((head, tail), value) in lines.zip(self.target.values()) {
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(self.common.as_bytes());
            text.extend_from_slice(tail.as_bytes());
            write_value(*value, text);
        }
        text.push(b'\n');
    }
}

/// Returns the labels that all lines of target `index` share, as `name="value"` with commas between and behind.
pub(crate) fn target_labels(index: usize, seed: u64, series: usize) -> Box<str> {
    let generation = usize::try_from(seed).expect("the flag's range fits 32 bits");
    Layout::of(&Target::new(index, generation, series)).1
}

impl Layout {
    /// Splits a target's lines around the labels they all share.
    fn of(target: &Target) -> (Self, Box<str>) {
        let prefixes = target.prefixes();
        let labels = |prefix: &str| prefix.find('{').map_or(prefix.len(), |at| at + 1);
        let mut common = &prefixes[0][labels(&prefixes[0])..];
        for prefix in prefixes {
            let same = common
                .bytes()
                .zip(prefix[labels(prefix)..].bytes())
                .take_while(|(a, b)| a == b);
            common = &common[..same.count()];
        }
        // Whole labels only, so that targets whose values begin alike still share a layout.
        common = &common[..common.rfind("\",").map_or(0, |at| at + 2)];
        let head = |(at, prefix): (usize, &String)| {
            let end_of_line = if at == 0 { "" } else { "\n" };
            format!("{end_of_line}{}", &prefix[..labels(prefix)]).into()
        };
        let tail = |prefix: &String| prefix[labels(prefix) + common.len()..].into();
        let layout = Self {
            heads: prefixes.iter().enumerate().map(head).collect(),
            tails: prefixes.iter().map(tail).collect(),
        };
        (layout, common.into())
    }
}

/// Appends a number's shortest text. `Display` of a float takes about 100 ns; the fleet's values are whole numbers or
/// thousandths.
fn write_value(value: f64, text: &mut Vec<u8>) {
    // Above this, neighbouring floats are more than a thousandth apart.
    const LARGEST: f64 = 1e12;
    let thousandths = (value * 1000.0 + 0.5) as u64;
    let is_short = (0.0..LARGEST).contains(&value) && thousandths as f64 / 1000.0 == value;
    if !is_short || value.is_sign_negative() {
        text.extend_from_slice(value.to_string().as_bytes());
        return;
    }
    let (whole, rest) = (thousandths / 1000, (thousandths % 1000) as u16);
    text.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    if rest != 0 {
        let digit = |number: u16| b'0' + (number % 10) as u8;
        let places = [b'.', digit(rest / 100), digit(rest / 10), digit(rest)];
        let used = match (places[2], places[3]) {
            (b'0', b'0') => 2,
            (_, b'0') => 3,
            _ => 4,
        };
        text.extend_from_slice(&places[..used]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_shortest_text() {
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
            f64::INFINITY,
        ] {
            let mut text = Vec::new();
            write_value(value, &mut text);
            assert_eq!(std::str::from_utf8(&text).unwrap(), value.to_string());
        }
        for thousandths in 0..1_000_000 {
            let value = f64::from(thousandths) / 1000.0;
            let mut text = Vec::new();
            write_value(value, &mut text);
            assert!(text == value.to_string().as_bytes(), "{value}");
        }
    }

    #[test]
    fn texts_are_the_fleets_over_many_rounds_and_share_their_layout() {
        let mut bodies = Body::fleet(12, 3, 97, true);
        assert!(
            bodies
                .iter()
                .all(|body| Arc::ptr_eq(&body.layout, &bodies[0].layout))
        );
        assert!(
            bodies[0].common.starts_with("cluster=") && bodies[0].common.ends_with(".internal\",")
        );
        let mut text = Vec::new();
        for (index, body) in bodies.iter_mut().enumerate() {
            let mut target = Target::new(index, 3, 97);
            for round in 0..200 {
                let mut expected = String::new();
                target.step();
                target.render(&mut expected);
                body.next(&mut text);
                assert!(
                    text == expected.as_bytes(),
                    "round {round} of {index} differs"
                );
                assert_eq!(body.values(), target.values());
            }
        }
    }

    #[test]
    fn labels_of_the_target_are_in_its_lines_or_in_its_configuration() {
        let mut bodies = Body::fleet(2, 3, 97, false);
        let (mut text, mut expected) = (Vec::new(), String::new());
        let mut target = Target::new(1, 3, 97);
        target.step();
        target.render(&mut expected);
        let labels = target_labels(1, 3, 97);
        assert!(
            labels.starts_with("cluster=\"prod\",") && labels.contains("pod="),
            "{labels}"
        );
        bodies[1].next(&mut text);
        assert_eq!(expected.replace(&*labels, "").as_bytes(), text);
    }

    #[test]
    fn lines_without_anything_in_common_still_have_their_text() {
        let mut text = Vec::new();
        let mut expected = String::new();
        let mut target = Target::new(0, 0, 1);
        target.step();
        target.render(&mut expected);
        Body::fleet(1, 0, 1, true)[0].next(&mut text);
        assert!(text == expected.as_bytes());
    }
}
