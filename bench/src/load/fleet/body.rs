//! The fleet's pages, written for each scrape from parts that stay in the processor's cache.
//!
//! Targets differ only in the labels that all their lines share and in values, so everything else is kept once for the
//! whole fleet: 850 texts of 140 KB would come from memory every time.
//! **Invariant:** in the plain shapes a text is byte for byte the prefixes and values of the same round, one per line;
//! others have the same lines in another order, with timestamps, or fewer.

mod groups;

use super::{
    config::FleetConfig,
    page::{Page, Scratch, label_pairs},
    shape::{OLDEST_STAMP_MS, Shape},
};
use groups::Groups;
use narthex_testkit::{fleet::Target, rng::SplitMix64};
use std::sync::Arc;

/// Rounds after which a flapping series is absent once.
const FLAP_ROUNDS: usize = 3;
/// One in this many series flaps.
const FLAP_SERIES: usize = 10;

/// A target and the parts of its text.
#[derive(Debug)]
pub(crate) struct Body {
    series: Target,
    layout: Arc<Layout>,
    common: Box<str>,
    /// The same as label pairs, for pages in protobuf.
    common_pairs: Box<[u8]>,
    shape: Shape,
    /// Whether lines have timestamps, and whether these differ from line to line.
    stamps: Stamps,
    /// Timestamps and values of groups of lines, if those have some.
    groups: Option<Groups>,
    round: usize,
    rng: SplitMix64,
    /// Families and their lines in the order of this round; used if the order changes.
    order: Vec<u32>,
}

/// Timestamps of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    None,
    /// The fleet's clock.
    Clock,
    /// Up to [`OLDEST_STAMP_MS`] before it.
    Older,
    /// Those of the groups.
    Grouped,
}

/// The parts of a text between common labels and values.
#[derive(Debug, PartialEq)]
struct Layout {
    /// For each line: its own start, such as `name{`, after the end of the previous line; the common labels follow.
    heads: Box<[Box<str>]>,
    /// For each line: its own labels, up to the value.
    tails: Box<[Box<str>]>,
    /// The first line of each family.
    families: Box<[u32]>,
    /// The lines as protobuf messages, if that is the format.
    page: Option<Page>,
}

impl Body {
    /// Returns all targets of a fleet in their first round.
    pub(super) fn fleet(config: &FleetConfig) -> Vec<Self> {
        let mut bodies: Vec<Self> = Vec::with_capacity(config.targets);
        for index in 0..config.targets {
            let body = Self::new(config, index, 0, bodies.first());
            bodies.push(body);
        }
        bodies
    }

    /// Returns target `index` in its `generation`, sharing its layout with `other` if possible.
    pub(super) fn new(
        config: &FleetConfig,
        index: usize,
        generation: usize,
        other: Option<&Self>,
    ) -> Self {
        let generation = seed_of(config.seed, generation);
        let series = config.shape.target(index, generation, config.series);
        let (layout, common) = Layout::new(config.shape, &series);
        let common = if config.line_labels {
            common
        } else {
            "".into()
        };
        let shared = other.map(|other| &other.layout);
        let layout = match shared.filter(|shared| ***shared == layout) {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(layout),
        };
        let stamps = match (config.shape, config.clock) {
            (Shape::Stamped, _) => Stamps::Older,
            (Shape::Cadvisor, _) => Stamps::Grouped,
            (_, Some(_)) => Stamps::Clock,
            (_, None) => Stamps::None,
        };
        let groups = (stamps == Stamps::Grouped).then(|| Groups::new(index, series.values()));
        Self {
            series,
            layout,
            groups,
            common_pairs: label_pairs(&common).0.into(),
            common,
            shape: config.shape,
            stamps,
            round: 0,
            rng: SplitMix64::new(index as u64),
            order: Vec::new(),
        }
    }

    /// Returns the values of the current round, in line order.
    pub(super) fn values(&self) -> &[f64] {
        let of_groups = self.groups.as_ref().map(Groups::values);
        of_groups.unwrap_or(self.series.values())
    }

    /// Advances by one round and replaces `text` by the page at `now_ms`; returns its number of samples.
    pub(super) fn next(&mut self, now_ms: i64, text: &mut Vec<u8>, scratch: &mut Scratch) -> usize {
        self.series.step();
        if let Some(groups) = &mut self.groups {
            groups.step(now_ms, self.series.values());
        }
        self.round += 1;
        text.clear();
        if let Some(page) = &self.layout.page {
            let stamp_ms = (self.stamps == Stamps::Clock).then_some(now_ms);
            page.write(
                (&self.series).into(),
                &self.common_pairs,
                stamp_ms,
                scratch,
                text,
            );
            return self.layout.heads.len();
        }
        match (self.shape, self.stamps) {
            (Shape::Shuffled, _) => self.shuffled(now_ms, text),
            (Shape::Flapping, _) | (_, Stamps::Clock | Stamps::Older | Stamps::Grouped) => {
                self.picked(now_ms, text)
            }
            _ => self.plain(text),
        }
    }

    /// Writes all lines in order, without timestamps.
    fn plain(&self, text: &mut Vec<u8>) -> usize {
        let layout = &self.layout;
        let lines = layout.heads.iter().zip(&layout.tails);
        for ((head, tail), value) in lines.zip(self.series.values()) {
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(self.common.as_bytes());
            text.extend_from_slice(tail.as_bytes());
            write_value(*value, text);
        }
        text.push(b'\n');
        layout.heads.len()
    }

    /// Writes the lines that are present, in order.
    fn picked(&self, now_ms: i64, text: &mut Vec<u8>) -> usize {
        let mut samples = 0;
        for line in 0..self.layout.heads.len() {
            if self.shape == Shape::Flapping && self.is_absent(line) {
                continue;
            }
            self.line(line, true, now_ms, text);
            samples += 1;
        }
        samples
    }

    fn is_absent(&self, line: usize) -> bool {
        // The first line of a family has its comments; some target keeps every series.
        line % FLAP_SERIES == FLAP_SERIES - 1
            && (self.round + line / FLAP_SERIES).is_multiple_of(FLAP_ROUNDS)
            && !self.layout.has_comments(line)
    }

    /// Writes all lines, with families and lines within them in an order of this round.
    fn shuffled(&mut self, now_ms: i64, text: &mut Vec<u8>) -> usize {
        let layout = Arc::clone(&self.layout);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..layout.families.len() as u32);
        self.rng.shuffle(&mut order);
        let families = order.len();
        for at in 0..families {
            let family = order[at] as usize;
            let start = layout.families[family];
            let end = layout.families.get(family + 1).copied();
            let end = end.unwrap_or(layout.heads.len() as u32);
            layout.comments(start as usize, text);
            order.truncate(families);
            order.extend(start..end);
            self.rng.shuffle(&mut order[families..]);
            for line in &order[families..] {
                self.line(*line as usize, false, now_ms, text);
            }
        }
        self.order = order;
        layout.heads.len()
    }

    fn line(&self, line: usize, with_comments: bool, now_ms: i64, text: &mut Vec<u8>) {
        let layout = &self.layout;
        if with_comments {
            layout.comments(line, text);
        }
        let (_, name) = layout.parts(line);
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(self.common.as_bytes());
        text.extend_from_slice(layout.tails[line].as_bytes());
        write_value(self.values()[line], text);
        let stamp_ms = match (self.stamps, &self.groups) {
            (_, Some(groups)) => Some(groups.stamp_ms(line)),
            (Stamps::Clock, _) => Some(now_ms),
            (Stamps::Older, _) => {
                let age_ms = SplitMix64::new(line as u64).below(OLDEST_STAMP_MS);
                Some(now_ms - age_ms as i64)
            }
            _ => None,
        };
        if let Some(stamp) = stamp_ms {
            text.push(b' ');
            text.extend_from_slice(itoa::Buffer::new().format(stamp).as_bytes());
        }
        text.push(b'\n');
    }
}

/// Returns the seed of a generation of the fleet; that of the first is the seed itself.
fn seed_of(seed: u64, generation: usize) -> usize {
    let mixed = seed.wrapping_add((generation as u64).wrapping_mul(0x9e37_79b9));
    mixed as u32 as usize
}

impl FleetConfig {
    /// Returns the labels that the configuration gives a target: name and value, without quotes.
    pub(crate) fn labels_of(&self, target: usize, generation: usize) -> Vec<(String, String)> {
        if self.line_labels {
            return Vec::new();
        }
        let labels = target_labels(self, target, generation);
        let labels = labels
            .split_terminator(',')
            .filter_map(|label| label.split_once('='));
        labels
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
            .collect()
    }
}

/// Returns the labels that all lines of a target share, as `name="value"` with a comma after each.
fn target_labels(config: &FleetConfig, index: usize, generation: usize) -> Box<str> {
    // A few lines of each kind suffice to find the labels common to all.
    let series = config.series.min(64);
    let generation = seed_of(config.seed, generation);
    let series = config.shape.target(index, generation, series);
    Layout::new(config.shape, &series).1
}

impl Layout {
    /// Splits a target's lines around the labels they all share.
    fn new(shape: Shape, series: &Target) -> (Self, Box<str>) {
        let prefixes = series.prefixes();
        let labels = |prefix: &str| {
            // The comments before the name contain no braces.
            prefix.find('{').map_or(prefix.len(), |at| at + 1)
        };
        let mut common = &prefixes[0][labels(&prefixes[0])..];
        for prefix in prefixes {
            let same = common
                .bytes()
                .zip(prefix[labels(prefix)..].bytes())
                .take_while(|(a, b)| a == b);
            common = &common[..same.count()];
        }
        // Whole labels only, so that targets whose values share a prefix still share a layout.
        common = &common[..common.rfind("\",").map_or(0, |at| at + 2)];
        let head = |(at, prefix): (usize, &String)| {
            let end_of_line = if at == 0 { "" } else { "\n" };
            format!("{end_of_line}{}", &prefix[..labels(prefix)]).into()
        };
        let tail = |prefix: &String| prefix[labels(prefix) + common.len()..].into();
        let is_first = |(_, prefix): &(usize, &String)| prefix.starts_with('#');
        let firsts = prefixes.iter().enumerate().filter(is_first);
        let mut layout = Self {
            page: None,
            families: firsts.map(|(at, _)| at as u32).collect(),
            heads: prefixes.iter().enumerate().map(head).collect(),
            tails: prefixes.iter().map(tail).collect(),
        };
        if shape == Shape::Native {
            let lines = layout.tails.iter().enumerate();
            let lines = lines.map(|(line, tail)| (layout.parts(line).0, &**tail));
            layout.page = Some(Page::new(lines));
        }
        (layout, common.into())
    }

    /// Returns a line's comments, each with its end, and the start of the line itself.
    fn parts(&self, line: usize) -> (&str, &str) {
        let head = &self.heads[line];
        let head = head.strip_prefix('\n').unwrap_or(head);
        head.split_at(head.rfind('\n').map_or(0, |at| at + 1))
    }

    fn has_comments(&self, line: usize) -> bool {
        !self.parts(line).0.is_empty()
    }

    fn comments(&self, line: usize, text: &mut Vec<u8>) {
        text.extend_from_slice(self.parts(line).0.as_bytes());
    }
}

/// Appends a number's shortest text. `Display` of a float takes about 100 ns; the fleet's values are whole numbers or
/// thousandths.
pub(crate) fn write_value(value: f64, text: &mut Vec<u8>) {
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
mod tests;
