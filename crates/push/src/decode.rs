//! Decodes bodies into families: what a group remembers of its last body, and how the next one uses it.
//!
//! A body with the same series as the one before is read along it, and only its values are parsed. Any other body is
//! parsed from scratch, without memory.
//!
//! **Invariant:** the meaning of a body never depends on the bodies before it.

use crate::{
    error::PushError,
    family::{Incoming, NO_TIME},
    grouping::{Grouping, quoted},
    heads,
    plan::{self, Plan},
};
use narthex_expfmt::{Format, ParseError, ParseOptions, Parser, Resolver, Round};
use narthex_model::{
    Frame, LabelSet, METRIC_NAME, Schema,
    bits::BitSet,
    labels::{is_legacy_metric_name, is_legacy_name},
};
use std::collections::HashSet;

/// What is allowed in a body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    /// Names of any UTF-8.
    pub(crate) utf8_names: bool,
    /// Samples with timestamps.
    pub(crate) timestamps: bool,
}

/// Parser and layout of one group's bodies of one kind.
#[derive(Debug)]
pub(crate) struct Decoder {
    format: Format,
    parser: Parser,
    round: Round,
    layout: Layout,
}

/// How the columns of the last body map to families.
#[derive(Debug)]
struct Layout {
    schema: Schema,
    present: BitSet,
    /// Number of `#` bytes, which shows that comment lines were added or removed.
    hashes: usize,
    natives: usize,
    families: Vec<Plan>,
}

fn options() -> ParseOptions {
    let mut options = ParseOptions::default();
    options.native_histograms = true;
    options.classic_histograms = true;
    options
}

fn hashes(format: Format, body: &[u8]) -> usize {
    match format {
        Format::Protobuf => 0,
        _ => memchr::memchr_iter(b'#', body).count(),
    }
}

/// Decodes a body, using `memory` if it is like the body before; afterwards `memory` is of this body.
///
/// Families are ordered by name.
///
/// # Errors
/// Returns what is wrong with the body, and where.
pub(crate) fn decode(
    memory: &mut Option<Decoder>,
    format: Format,
    body: &[u8],
    grouping: &Grouping,
    allowed: Allowed,
) -> Result<Vec<Incoming>, PushError> {
    if let Some(decoder) = memory
        && let Some(families) = decoder.expected(format, body, grouping, allowed)
    {
        return Ok(families);
    }
    // Drops an old memory that the failed attempt has half updated.
    *memory = None;
    let (decoder, families) = Decoder::learn(format, body, grouping, allowed)?;
    *memory = Some(decoder);
    Ok(families)
}

impl Decoder {
    /// Decodes a body with the same lines as the one before; `None` if they differ.
    fn expected(
        &mut self,
        format: Format,
        body: &[u8],
        grouping: &Grouping,
        allowed: Allowed,
    ) -> Option<Vec<Incoming>> {
        if self.format != format || format == Format::Text && !body.ends_with(b"\n") {
            return None;
        }
        let mut overwrite = Overwrite::new(grouping);
        self.parser
            .parse_into(&mut self.round, format, body, NO_TIME, &mut overwrite)
            .ok()?;
        let Round { frame, stats, .. } = &self.round;
        let layout = &self.layout;
        let is_like = stats.expected == stats.lines
            && stats.repeated == 0
            && (frame.times_ms().is_empty() || allowed.timestamps)
            && frame.schema().same(&layout.schema)
            && frame.present() == &layout.present
            && frame.histograms().len() == layout.natives
            && hashes(format, body) == layout.hashes;
        is_like.then(|| {
            layout
                .families
                .iter()
                .map(|plan| plan.fill(frame))
                .collect()
        })
    }

    /// Decodes a body from scratch.
    fn learn(
        format: Format,
        body: &[u8],
        grouping: &Grouping,
        allowed: Allowed,
    ) -> Result<(Self, Vec<Incoming>), PushError> {
        let mut parser = Parser::new(grouping.common(), options());
        let mut overwrite = Overwrite::new(grouping);
        let parsed = parser.parse(format, body, NO_TIME, &mut overwrite);
        let round = parsed.map_err(|error| syntax(format, body, &error))?;
        if format == Format::Text {
            let text = str::from_utf8(body).map_err(|_| text_error(1, "invalid UTF-8"))?;
            heads::check(text).map_err(|(line, detail)| text_error(line, &detail))?;
        }
        let inconsistent = |detail| Err(PushError::Inconsistent { detail });
        let frame = &round.frame;
        if !allowed.utf8_names {
            check_names(format, body, frame)?;
        }
        if !frame.times_ms().is_empty() && !allowed.timestamps {
            return inconsistent("pushed metrics must not have timestamps".to_owned());
        }
        if let Some(detail) = overwrite.fault {
            return inconsistent(detail);
        }
        let families = plan::plans(format, frame);
        let layout = Layout {
            schema: frame.schema().clone(),
            present: frame.present().clone(),
            hashes: hashes(format, body),
            natives: frame.histograms().len(),
            families,
        };
        let incoming = layout
            .families
            .iter()
            .map(|plan| plan.fill(frame))
            .collect();
        let decoder = Self {
            format,
            layout,
            parser,
            round,
        };
        Ok((decoder, incoming))
    }
}

/// Makes the path's labels override those of the body.
struct Overwrite<'a> {
    names: Vec<&'a str>,
    seen: HashSet<u128>,
    fault: Option<String>,
}

impl<'a> Overwrite<'a> {
    fn new(grouping: &'a Grouping) -> Self {
        let names = grouping.labels().iter().map(|(name, _)| name.as_str());
        Self {
            names: names.collect(),
            seen: HashSet::new(),
            fault: None,
        }
    }
}

impl Resolver for Overwrite<'_> {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        let overwritten = parsed
            .iter()
            .any(|label| self.names.contains(&label.name()));
        let local = if overwritten {
            parsed.without(&self.names)
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
fn check_names(format: Format, body: &[u8], frame: &Frame) -> Result<(), PushError> {
    let is_text = format != Format::Protobuf;
    let line_of = |name: &str| {
        let at = memchr::memmem::find(body, quoted(name).as_bytes()).unwrap_or_default();
        memchr::memchr_iter(b'\n', &body[..at]).count() + 1
    };
    for (_, column) in frame.schema().columns() {
        let metric = column.set.metric_name();
        if is_text && !is_legacy_metric_name(metric) {
            let detail = format!("invalid metric name {}", quoted(metric));
            return Err(text_error(line_of(metric), &detail));
        }
        let mut names = column.set.iter().map(|label| label.name());
        let Some(name) = names.find(|name| !is_legacy_name(name)) else {
            continue;
        };
        if is_text {
            let detail = format!("invalid label name {}", quoted(name));
            return Err(text_error(line_of(name), &detail));
        }
        let metric = collected(&column.set, frame.schema().common());
        let detail = format!("{metric} has a label with an invalid name: {name}");
        return Err(PushError::Inconsistent { detail });
    }
    Ok(())
}

fn text_error(line: usize, detail: &str) -> PushError {
    PushError::Body {
        line: Some(line),
        detail: detail.to_owned(),
    }
}

fn syntax(format: Format, body: &[u8], error: &ParseError) -> PushError {
    if format == Format::Protobuf {
        return PushError::Body {
            line: None,
            detail: error.to_string(),
        };
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line - 1);
    let line = line.and_then(|line| str::from_utf8(line).ok());
    let hint = line.and_then(heads::hint);
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    let detail = format!("column {}: {}{hint}", error.column, error.kind);
    text_error(error.line, &detail)
}
