//! Splits a body whose series carry the labels of several groups into one body for each group.
//!
//! Only names and labels are read here. Each part is a body of its own that is decoded like any push, so that what is
//! wrong in one part is the error of one group.
//!
//! **Invariant:** every sample is in exactly one part or is a stray. A part has the comment lines of its families, in the
//! order of the body.

mod labels;
mod messages;

use crate::{error::PushError, grouping::Grouping};
use labels::Labels;
use narthex_expfmt::{Format, unescape};
use narthex_net::Allowance;
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// Pieces for which memory is asked at once.
const PIECES_AT_ONCE: usize = 1024;
/// Ungrouped lines that are described; others are counted.
const DESCRIBED_UNGROUPED: usize = 10;
/// Suffixes that the samples of a family may have.
const SUFFIXES: [&str; 8] = [
    "_bucket", "_sum", "_count", "_total", "_created", "_gsum", "_gcount", "_info",
];

/// A body, split.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    body: &'a [u8],
    families: Families<'a>,
    parts: Vec<Part>,
    pub(crate) ungrouped: Ungrouped,
}

/// The samples of one group.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) grouping: Grouping,
    pieces: Vec<Piece>,
}

/// A line or a message of one sample.
#[derive(Debug)]
struct Piece {
    range: Range<u32>,
    /// Line, from 1, or index of the family.
    place: u32,
}

/// What parts repeat of the body.
#[derive(Debug)]
enum Families<'a> {
    /// Comment lines by family name, and whether the body has an end mark.
    Lines {
        heads: HashMap<&'a str, Vec<(Range<u32>, u32)>>,
        has_end: bool,
    },
    /// Fields of each family's message except its metrics.
    Messages(Vec<Vec<u8>>),
}

/// Samples that belong to no group.
#[derive(Debug, Default)]
pub(crate) struct Ungrouped {
    pub(crate) total: usize,
    /// The first ones.
    pub(crate) errors: Vec<PushError>,
}

/// One part as a body of its own.
#[derive(Debug, Default)]
pub(crate) struct PartBody {
    pub(crate) bytes: Vec<u8>,
    /// Line of the whole body for each of its lines.
    lines: Vec<u32>,
}

/// Collects the pieces of parts.
struct Collector<'a, 'r> {
    by: &'a [String],
    parts: Vec<Part>,
    /// Parts by the values of the labels, as they are written.
    places: HashMap<Vec<&'a str>, usize>,
    values: Vec<&'a str>,
    /// The values of the last piece, and its part.
    last: Option<(Vec<&'a str>, usize)>,
    pieces: usize,
    room: &'r mut dyn Allowance,
    ungrouped: Ungrouped,
}

impl<'a> Split<'a> {
    /// Splits a body by the labels `by`, of which `job` is one.
    ///
    /// # Errors
    /// Fails on a body of no known structure, or for lack of memory.
    pub(crate) fn new(
        format: Format,
        body: &'a [u8],
        by: &'a [String],
        room: &mut dyn Allowance,
    ) -> Result<Self, PushError> {
        let mut collector = Collector {
            by,
            parts: Vec::new(),
            places: HashMap::new(),
            values: Vec::new(),
            last: None,
            pieces: 0,
            room,
            ungrouped: Ungrouped::default(),
        };
        let families = match format {
            Format::Protobuf => messages::collect(body, &mut collector)?,
            Format::Text | Format::OpenMetrics => lines(format, body, &mut collector)?,
        };
        Ok(Self {
            body,
            families,
            parts: collector.parts,
            ungrouped: collector.ungrouped,
        })
    }

    /// Returns the parts in the order of their first samples.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the body of one part.
    pub(crate) fn body_of(&self, part: &Part) -> PartBody {
        match &self.families {
            Families::Lines { heads, has_end } => self.text_of(part, heads, *has_end),
            Families::Messages(heads) => PartBody {
                bytes: messages::body_of(self.body, &part.pieces, heads),
                lines: Vec::new(),
            },
        }
    }

    fn text_of(
        &self,
        part: &Part,
        heads: &HashMap<&str, Vec<(Range<u32>, u32)>>,
        has_end: bool,
    ) -> PartBody {
        let mut out = PartBody::default();
        let mut written: HashSet<&str> = HashSet::new();
        let mut last = "";
        for piece in &part.pieces {
            let line = &self.body[index(&piece.range)];
            let name = Labels::new(line).map_or("", |labels| labels.name());
            if name != last {
                last = name;
                for family in families_of(name) {
                    let Some((family, lines)) = heads.get_key_value(family) else {
                        continue;
                    };
                    if written.insert(family) {
                        for (range, number) in lines {
                            out.push(&self.body[index(range)], *number);
                            // The body's last line may have no end, and is no longer the last one.
                            if !out.bytes.ends_with(b"\n") {
                                out.bytes.push(b'\n');
                            }
                        }
                    }
                }
            }
            out.push(line, piece.place);
        }
        if has_end {
            out.push(b"# EOF\n", 0);
        }
        out
    }
}

impl Part {
    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }
}

impl PartBody {
    fn push(&mut self, line: &[u8], number: u32) {
        self.bytes.extend_from_slice(line);
        self.lines.push(number);
    }

    /// Returns an error about this part as one about the whole body.
    pub(crate) fn located(&self, error: PushError) -> PushError {
        match error {
            PushError::Body {
                line: Some(line),
                detail,
            } => {
                let whole = self.lines.get(line - 1).map(|line| *line as usize);
                PushError::body(whole.filter(|line| *line > 0), detail)
            }
            other => other,
        }
    }
}

/// Returns the names of the families that a sample may belong to.
fn families_of(name: &str) -> impl Iterator<Item = &str> {
    let stripped = SUFFIXES
        .iter()
        .filter_map(|suffix| name.strip_suffix(suffix));
    std::iter::once(name).chain(stripped)
}

fn index(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Collects the lines of a text.
fn lines<'a>(
    format: Format,
    body: &'a [u8],
    collector: &mut Collector<'a, '_>,
) -> Result<Families<'a>, PushError> {
    let mut heads: HashMap<&str, Vec<(Range<u32>, u32)>> = HashMap::new();
    let (mut at, mut has_end) = (0, false);
    for (number, line) in (1u32..).zip(body.split_inclusive(|byte| *byte == b'\n')) {
        let range = at..at + offset(line.len());
        at = range.end;
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if has_end {
            return Err(faulty(number, "there is something behind # EOF"));
        }
        let Some(comment) = text.strip_prefix(b"#") else {
            collector.line(line, range, number)?;
            continue;
        };
        let mut words = comment.split(u8::is_ascii_whitespace);
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (Some(b"HELP" | b"TYPE" | b"UNIT"), Some(name)) => {
                let name = str::from_utf8(name).map_err(|_| faulty(number, "invalid UTF-8"))?;
                let name = name.trim_matches('"');
                heads.entry(name).or_default().push((range, number));
            }
            (Some(b"EOF"), None) => has_end = format == Format::OpenMetrics,
            _ => {}
        }
    }
    if format == Format::OpenMetrics && !has_end {
        return Err(PushError::body(None, "the body does not end with # EOF"));
    }
    Ok(Families::Lines { heads, has_end })
}

fn faulty(line: u32, detail: &str) -> PushError {
    PushError::body(line as usize, detail)
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a body is shorter than 4 GiB")
}

impl<'a> Collector<'a, '_> {
    fn line(&mut self, line: &'a [u8], range: Range<u32>, number: u32) -> Result<(), PushError> {
        self.values.clear();
        self.values.resize(self.by.len(), "");
        let read = Labels::new(line).and_then(|labels| {
            for label in labels {
                let (name, value) = label?;
                if let Some(at) = self.by.iter().position(|by| *by == name) {
                    self.values[at] = value;
                }
            }
            Ok(())
        });
        match read {
            Ok(()) => self.piece(range, number, Some(number), unescape),
            Err(detail) => {
                self.stray(faulty(number, detail));
                Ok(())
            }
        }
    }

    /// Adds a piece to the part of the current values, which `value_of` turns into those of labels.
    fn piece(
        &mut self,
        range: Range<u32>,
        place: u32,
        line: Option<u32>,
        value_of: fn(&str) -> String,
    ) -> Result<(), PushError> {
        // Series of one group mostly stand together.
        let known = match &self.last {
            Some((values, at)) if *values == self.values => Some(*at),
            _ => self.places.get(&self.values).copied(),
        };
        let at = match known {
            Some(at) => at,
            None => {
                let pairs = self.by.iter().zip(&self.values);
                let pairs = pairs.filter(|(_, value)| !value.is_empty());
                let pairs = pairs.map(|(name, value)| (name.clone(), value_of(value)));
                let grouping = Grouping::new(pairs.collect());
                if grouping.get("job").is_none() {
                    let line = line.map(|line| line as usize);
                    self.stray(PushError::body(line, "a series has no label \"job\""));
                    return Ok(());
                }
                self.parts.push(Part {
                    grouping,
                    pieces: Vec::new(),
                });
                let at = self.parts.len() - 1;
                self.places.insert(self.values.clone(), at);
                at
            }
        };
        if self.pieces.is_multiple_of(PIECES_AT_ONCE) {
            let bytes = PIECES_AT_ONCE * size_of::<Piece>();
            self.room.grow(bytes).map_err(PushError::busy)?;
        }
        self.pieces += 1;
        if self.last.as_ref().is_none_or(|(_, last)| *last != at) {
            self.last = Some((self.values.clone(), at));
        }
        self.parts[at].pieces.push(Piece { range, place });
        Ok(())
    }

    fn stray(&mut self, error: PushError) {
        self.ungrouped.total += 1;
        if self.ungrouped.errors.len() < DESCRIBED_UNGROUPED {
            self.ungrouped.errors.push(error);
        }
    }
}
