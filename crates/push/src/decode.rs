//! Decodes bodies into families: what is remembered of a body, and how the next one like it uses that.
//!
//! A body with the same series as one before, of this group or of another one, is read along it, and only its values are
//! parsed. Any other body is parsed from scratch, without memory.
//!
//! **Invariant:** the meaning of a body never depends on the bodies before it.

use crate::{
    error::PushError,
    family::{Family, NO_TIME, Numbers},
    grouping::{Grouping, quoted},
    heads,
    layout::{Contents, Layout, Layouts, Table},
    plan,
};
use narthex_expfmt::{Format, ParseError, ParseOptions, Parser, Resolver, Round};
use narthex_model::{
    Frame, Label, LabelSet, METRIC_NAME, Schema,
    bits::BitSet,
    labels::{is_legacy_metric_name, is_legacy_name},
    sync::Whole as _,
};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

/// Layouts of bodies a group remembers, for senders that push different families in turn.
const SHELVES: usize = 4;
/// Decoders kept of one layout: as many as work on its bodies at once.
const DECODERS: usize = 16;
/// Bytes of a line that distinguish layouts of bodies.
const KEY_BYTES: usize = 64;

/// What is allowed in a body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    /// Names of any UTF-8.
    pub(crate) utf8_names: bool,
    /// Samples with timestamps.
    pub(crate) timestamps: bool,
}

/// What bodies of a group have beside their own labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) grouping: &'a Grouping,
    /// The group's labels without empty ones.
    pub(crate) common: &'a LabelSet,
}

/// Parser of bodies of one layout, and how the columns of its last body map to cells.
///
/// It knows nothing of a group but the names of its labels.
#[derive(Debug)]
pub(crate) struct Decoder {
    format: Format,
    parser: Parser,
    round: Round,
    schema: Schema,
    present: BitSet,
    natives: usize,
    layout: Arc<Layout>,
    /// The column of each cell.
    columns: Vec<u32>,
}

/// What is remembered of the bodies of a store: their layouts, and decoders.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) layouts: Layouts,
    shelves: Mutex<Table<Shelf>>,
}

impl Memory {
    /// Begins a shelf with a decoder.
    fn new_shelf(&self, key: u64, layout: &Arc<Layout>, decoder: Box<Decoder>) -> Arc<Shelf> {
        let shelf = Shelf {
            key,
            layout: Arc::clone(layout),
            decoders: Mutex::new(vec![(thread::current().id(), decoder)]),
        };
        let mut shelves = self.shelves.lock().whole();
        // The newest one is found: bodies of groups that come next are more likely like it.
        shelves.forget(key);
        shelves.insert(key, Arc::new(shelf))
    }
}

/// Decoders of bodies of one layout that begin and end alike.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// Hash of what is known of such a body before it is decoded.
    key: u64,
    layout: Arc<Layout>,
    /// With the threads that had them last; in boxes, so that no processor's copy of one is moved to another's.
    decoders: Mutex<Vec<(ThreadId, Box<Decoder>)>>,
}

impl Shelf {
    /// Takes a decoder, unless all are in use.
    fn take_decoder(&self) -> Option<Box<Decoder>> {
        let mut decoders = self.decoders.lock().whole();
        // The one that is in this processor's cache.
        let own = thread::current().id();
        let at = decoders.iter().position(|(thread, _)| *thread == own);
        let at = at.or_else(|| decoders.len().checked_sub(1))?;
        Some(decoders.swap_remove(at).1)
    }

    /// Puts a decoder back, or one more.
    fn return_decoder(&self, decoder: Box<Decoder>) {
        let mut decoders = self.decoders.lock().whole();
        if decoders.len() < DECODERS {
            decoders.push((thread::current().id(), decoder));
        }
    }
}

fn options() -> ParseOptions {
    let mut options = ParseOptions::default();
    options.native_histograms = true;
    options.classic_histograms = true;
    options
}

/// Decodes a body, along one of `shelves` or of the store if it is like a body before; afterwards one of `shelves` is
/// of this body.
///
/// # Errors
/// Returns what is wrong with the body, and where.
pub(crate) fn decode(
    memory: &Memory,
    shelves: &mut Vec<Arc<Shelf>>,
    (format, body): (Format, &[u8]),
    target: Target<'_>,
    allowed: Allowed,
) -> Result<Contents, PushError> {
    let layouts = &memory.layouts;
    let key = key(layouts, format, body, target.grouping);
    let own = shelves.iter().find(|shelf| shelf.key == key);
    let newest = || memory.shelves.lock().whole().find(key, |_| true);
    let known = own.map(Arc::clone).or_else(newest);
    if let Some(shelf) = &known
        && let Some(mut decoder) = shelf.take_decoder()
    {
        let numbers = decoder.expected(format, body, target, allowed);
        let layout = Arc::clone(&decoder.layout);
        // One that has seen other series is dropped: the attempt has half changed it.
        if decoder.knows_only_its_own() {
            shelf.return_decoder(decoder);
        }
        if let Some(numbers) = numbers {
            remember(shelves, shelf);
            return Ok(Contents {
                layout,
                numbers: Arc::new(numbers),
            });
        }
    }
    let (decoder, contents) = Decoder::learn(layouts, format, body, target, allowed)?;
    let decoder = Box::new(decoder);
    match known.filter(|shelf| Arc::ptr_eq(&shelf.layout, &contents.layout)) {
        Some(shelf) => {
            shelf.return_decoder(decoder);
            remember(shelves, &shelf);
        }
        None => remember(shelves, &memory.new_shelf(key, &contents.layout, decoder)),
    }
    Ok(contents)
}

/// Decodes a body that comes once, into families ordered by name.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_once(
    format: Format,
    body: &[u8],
    grouping: &Grouping,
    allowed: Allowed,
) -> Result<Vec<Family>, PushError> {
    let common = &grouping.common();
    let target = Target { grouping, common };
    let (_, contents) = Decoder::learn(&Layouts::default(), format, body, target, allowed)?;
    let families = contents.families().map(|family| Family {
        shape: Arc::clone(family.shape),
        numbers: family.own_numbers(),
    });
    Ok(families.collect())
}

/// Makes a shelf one of a group's, in place of one with the same key, or of the oldest.
fn remember(shelves: &mut Vec<Arc<Shelf>>, shelf: &Arc<Shelf>) {
    if shelves.iter().any(|known| Arc::ptr_eq(known, shelf)) {
        return;
    }
    shelves.retain(|known| known.key != shelf.key);
    if shelves.len() == SHELVES {
        shelves.remove(0);
    }
    shelves.push(Arc::clone(shelf));
}

/// Hashes what distinguishes layouts of bodies without reading all of one: how it begins and ends, and its number of lines.
fn key(layouts: &Layouts, format: Format, body: &[u8], grouping: &Grouping) -> u64 {
    let names = grouping.labels().iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.collect();
    if format == Format::Protobuf {
        return layouts.hash((names, format, first_name(body)));
    }
    let first = body.split(|byte| *byte == b'\n').next();
    let first = match first.unwrap_or_default() {
        comment @ [b'#', ..] => comment,
        sample => name(sample),
    };
    let lines = memchr::memchr_iter(b'\n', body).count();
    let (last, trailer) = ends(body);
    layouts.hash((
        names,
        format,
        lines,
        &first[..first.len().min(KEY_BYTES)],
        last,
        trailer,
    ))
}

/// Returns the name of the first family of a protobuf body.
fn first_name(body: &[u8]) -> &[u8] {
    let length = body.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    match body.get(length..) {
        Some([0x0a, name, rest @ ..]) => &rest[..rest.len().min(usize::from(*name))],
        _ => &[],
    }
}

/// Returns the name of a sample.
fn name(line: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'{', b' ', line).unwrap_or(line.len());
    &line[..end.min(KEY_BYTES)]
}

/// Returns the name of the last sample, and the lines behind it.
fn ends(body: &[u8]) -> (&[u8], &[u8]) {
    let mut end = body.len();
    loop {
        let lines = &body[..end];
        let line = lines.strip_suffix(b"\n").unwrap_or(lines);
        let start = memchr::memrchr(b'\n', line).map_or(0, |at| at + 1);
        let line = &line[start..];
        if !matches!(line.trim_ascii_start(), [] | [b'#', ..]) {
            return (name(line), &body[end..]);
        }
        if start == 0 {
            return (&[], body);
        }
        end = start;
    }
}

impl Decoder {
    /// Decodes a body with the same lines as the one before; `None` if they differ.
    fn expected(
        &mut self,
        format: Format,
        body: &[u8],
        target: Target<'_>,
        allowed: Allowed,
    ) -> Option<Numbers> {
        if self.format != format || format == Format::Text && !body.ends_with(b"\n") {
            return None;
        }
        let mut overwrite = Overwrite::new(target);
        self.parser
            .parse_into(&mut self.round, format, body, NO_TIME, &mut overwrite)
            .ok()?;
        let Round { frame, stats, .. } = &self.round;
        let is_like = stats.expected == stats.lines
            && stats.repeated == 0
            && (frame.times_ms().is_empty() || allowed.timestamps)
            && frame.schema().same(&self.schema)
            && frame.present() == &self.present
            && frame.histograms().len() == self.natives;
        is_like.then(|| plan::numbers(&self.columns, frame))
    }

    /// Reports whether no other series have come than those of the body it was made from: a body with an error or with
    /// times changes nothing.
    fn knows_only_its_own(&self) -> bool {
        let stats = self.parser.stats();
        let is_along = stats.expected == stats.lines && stats.added == 0;
        (is_along || self.round.stats != stats) && self.parser.schema().same(&self.schema)
    }

    /// Decodes a body from scratch.
    fn learn(
        layouts: &Layouts,
        format: Format,
        body: &[u8],
        target: Target<'_>,
        allowed: Allowed,
    ) -> Result<(Self, Contents), PushError> {
        let mut parser = Parser::new(LabelSet::empty(), options());
        let mut overwrite = Overwrite::new(target);
        let parsed = parser.parse(format, body, NO_TIME, &mut overwrite);
        let round = parsed.map_err(|error| syntax(format, body, &error))?;
        if format == Format::Text {
            let text = str::from_utf8(body).map_err(|_| PushError::body(1, "invalid UTF-8"))?;
            heads::check(text).map_err(|(line, detail)| PushError::body(line, detail))?;
        }
        let inconsistent = |detail| Err(PushError::Inconsistent { detail });
        let frame = &round.frame;
        if !allowed.utf8_names {
            check_names(format, body, frame, target.common)?;
        }
        if !frame.times_ms().is_empty() && !allowed.timestamps {
            return inconsistent("pushed metrics must not have timestamps".to_owned());
        }
        if let Some(detail) = overwrite.fault {
            return inconsistent(detail);
        }
        let (shapes, columns) = plan::plans(format, frame);
        let layout = layouts.layout(target.grouping, shapes);
        let contents = Contents {
            layout: Arc::clone(&layout),
            numbers: Arc::new(plan::numbers(&columns, frame)),
        };
        let decoder = Self {
            format,
            schema: frame.schema().clone(),
            present: frame.present().clone(),
            natives: frame.histograms().len(),
            layout,
            columns,
            parser,
            round,
        };
        Ok((decoder, contents))
    }
}

/// Makes the path's labels override those of the body.
struct Overwrite<'a> {
    target: Target<'a>,
    seen: HashSet<u128>,
    fault: Option<String>,
}

impl<'a> Overwrite<'a> {
    fn new(target: Target<'a>) -> Self {
        Self {
            target,
            seen: HashSet::new(),
            fault: None,
        }
    }
}

impl Resolver for Overwrite<'_> {
    fn resolve(&mut self, parsed: &LabelSet, _: &LabelSet) -> Result<Option<LabelSet>, String> {
        let Target { grouping, common } = self.target;
        let overwritten = |label: &Label| grouping.get(label.name()).is_some();
        let local = if parsed.iter().any(overwritten) {
            let names = grouping.labels().iter().map(|(name, _)| name.as_str());
            parsed.without(&names.collect::<Vec<_>>())
        } else {
            parsed.clone()
        };
        if self.fault.is_none() {
            let reserved = |name: &str| name.starts_with("__") && name != METRIC_NAME;
            if let Some(label) = local.iter().find(|label| reserved(label.name())) {
                let metric = collected(&local, common);
                self.fault = Some(format!(
                    "{metric} has a label with an invalid name: {}",
                    label.name()
                ));
            } else if !self.seen.insert(local.hash().bits()) {
                let metric = collected(&local, common);
                self.fault = Some(format!(
                    "{metric} was collected before with the same name and label values"
                ));
            }
        }
        Ok(Some(local))
    }
}

/// Formats a metric as the Pushgateway does, without its value.
pub(crate) fn collected(local: &LabelSet, common: &LabelSet) -> String {
    let all = common.union(local);
    let mut pairs: Vec<(&str, &str)> = all
        .iter()
        .map(|label| (label.name(), label.value()))
        .collect();
    pairs.retain(|(name, _)| *name != METRIC_NAME);
    if all.get("instance").is_none() {
        pairs.push(("instance", ""));
    }
    pairs.sort_unstable();
    let each = pairs.into_iter().map(|(name, value)| {
        let (name, value) = (quoted(name), quoted(value));
        format!("label:{{name:{name} value:{value}}}")
    });
    let labels = each.collect::<Vec<_>>().join(" ");
    format!(
        "collected metric {} {{ {labels}}}",
        quoted(local.metric_name())
    )
}

/// Rejects names that are not legacy names, if only those are allowed.
fn check_names(
    format: Format,
    body: &[u8],
    frame: &Frame,
    common: &LabelSet,
) -> Result<(), PushError> {
    let is_text = format != Format::Protobuf;
    let line_of = |name: &str| {
        let at = memchr::memmem::find(body, quoted(name).as_bytes()).unwrap_or_default();
        memchr::memchr_iter(b'\n', &body[..at]).count() + 1
    };
    for (_, column) in frame.schema().columns() {
        let metric = column.set.metric_name();
        if is_text && !is_legacy_metric_name(metric) {
            let detail = format!("invalid metric name {}", quoted(metric));
            return Err(PushError::body(line_of(metric), detail));
        }
        let mut names = column.set.iter().map(|label| label.name());
        let Some(name) = names.find(|name| !is_legacy_name(name)) else {
            continue;
        };
        if is_text {
            let detail = format!("invalid label name {}", quoted(name));
            return Err(PushError::body(line_of(name), detail));
        }
        let metric = collected(&column.set, common);
        let detail = format!("{metric} has a label with an invalid name: {name}");
        return Err(PushError::Inconsistent { detail });
    }
    Ok(())
}

fn syntax(format: Format, body: &[u8], error: &ParseError) -> PushError {
    if format == Format::Protobuf {
        return PushError::body(None, error.to_string());
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line - 1);
    let line = line.and_then(|line| str::from_utf8(line).ok());
    let hint = line.and_then(heads::hint);
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    let detail = format!("column {}: {}{hint}", error.column, error.kind);
    PushError::body(error.line, detail)
}

#[cfg(test)]
mod tests;
