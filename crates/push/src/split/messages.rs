//! Splits delimited messages `io.prometheus.client.MetricFamily`: their metrics are copied as they are.

use super::{Collector, Families, Piece, offset};
use crate::error::PushError;
use narthex_model::varint::{put_varint, read_varint};
use std::ops::Range;

/// Number of a family's field with a metric.
const METRIC: u64 = 4;
/// Number of a metric's field with a label.
const LABEL: u64 = 1;

/// A field: its number, all of its bytes, and those of its value.
struct Field {
    number: u64,
    whole: Range<usize>,
    value: Range<usize>,
}

pub(super) fn collect<'a>(
    body: &'a [u8],
    collector: &mut Collector<'a, '_>,
) -> Result<Families<'a>, PushError> {
    let mut heads = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let (start, end) = delimited(body, at).ok_or_else(|| malformed(at))?;
        let mut head = Vec::new();
        let mut field_at = start;
        while field_at < end {
            let field = field(&body[..end], field_at).ok_or_else(|| malformed(field_at))?;
            field_at = field.whole.end;
            if field.number != METRIC {
                head.extend_from_slice(&body[field.whole]);
                continue;
            }
            let start = field.value.start;
            labels(body, field.value, collector).ok_or_else(|| malformed(start))?;
            let range = offset(field.whole.start)..offset(field.whole.end);
            collector.piece(range, offset(heads.len()), None, str::to_owned)?;
        }
        heads.push(head);
        at = end;
    }
    Ok(Families::Messages(heads))
}

/// Reads the labels of a metric that name its group.
fn labels<'a>(
    body: &'a [u8],
    metric: Range<usize>,
    collector: &mut Collector<'a, '_>,
) -> Option<()> {
    collector.values.clear();
    collector.values.resize(collector.by.len(), "");
    let mut at = metric.start;
    while at < metric.end {
        let found = field(&body[..metric.end], at)?;
        at = found.whole.end;
        if found.number != LABEL {
            continue;
        }
        let (mut name, mut value) = ("", "");
        let mut at = found.value.start;
        while at < found.value.end {
            let part = field(&body[..found.value.end], at)?;
            at = part.whole.end;
            match part.number {
                1 => name = str::from_utf8(&body[part.value]).ok()?,
                2 => value = str::from_utf8(&body[part.value]).ok()?,
                _ => {}
            }
        }
        if let Some(at) = collector.by.iter().position(|by| *by == name) {
            collector.values[at] = value;
        }
    }
    Some(())
}

/// Returns a part's messages.
pub(super) fn body_of(body: &[u8], pieces: &[Piece], heads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for family in pieces.chunk_by(|a, b| a.place == b.place) {
        let head = family
            .first()
            .and_then(|piece| heads.get(piece.place as usize));
        let head = head.map_or(&[][..], Vec::as_slice);
        let metrics = family.iter().map(|piece| super::index(&piece.range));
        let len = head.len() + metrics.clone().map(|range| range.len()).sum::<usize>();
        put_varint(&mut out, len as u64);
        out.extend_from_slice(head);
        metrics.for_each(|range| out.extend_from_slice(&body[range]));
    }
    out
}

/// Returns start and end of the message whose length is at `at`.
fn delimited(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let (len, read) = read_varint(bytes.get(at..)?)?;
    let start = at + read;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    (end <= bytes.len()).then_some((start, end))
}

/// Returns the field at `at`.
fn field(bytes: &[u8], at: usize) -> Option<Field> {
    let (key, read) = read_varint(bytes.get(at..)?)?;
    let start = at + read;
    let value = match key & 7 {
        0 => start..start + read_varint(bytes.get(start..)?)?.1,
        1 => start..start + 8,
        2 => {
            let (from, to) = delimited(bytes, start)?;
            from..to
        }
        5 => start..start + 4,
        _ => return None,
    };
    (value.end <= bytes.len()).then_some(Field {
        number: key >> 3,
        whole: at..value.end,
        value,
    })
}

fn malformed(at: usize) -> PushError {
    let detail = format!("byte {at}: not a delimited message of a metric family");
    PushError::body(None, detail)
}
