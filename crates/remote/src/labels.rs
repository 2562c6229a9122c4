//! From the labels a sender names to a label set.
//!
//! **Invariant:** what becomes a set has a metric name, is UTF-8 throughout and names no label twice. Labels are added up
//! before they are copied: a request may name one long symbol any number of times.

use crate::{error::RemoteError, incoming::LabelSource};
use narthex_model::{LabelSet, METRIC_NAME};
use std::ops::Range;

/// Most bytes of a series' labels, with what each label takes beside its text.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// What a label takes beside its text.
const LABEL_BYTES: usize = 64;

/// Returns what the labels of a series take as a set.
///
/// # Errors
/// Fails when the labels are malformed.
pub(crate) fn bytes_of(
    source: &LabelSource<'_>,
    labels: &Range<u32>,
) -> Result<usize, RemoteError> {
    let mut bytes = 0;
    source.visit(labels, |name, value| {
        bytes += LABEL_BYTES + name.len() + value.len();
    })?;
    Ok(bytes)
}

/// Builds the label set of a series; what the sender is told if its labels are none.
///
/// # Errors
/// Fails when the labels are malformed.
pub(crate) fn resolve(
    source: &LabelSource<'_>,
    labels: &Range<u32>,
) -> Result<Result<LabelSet, String>, RemoteError> {
    let bytes = bytes_of(source, labels)?;
    if bytes > MAX_BYTES {
        return Ok(Err(format!(
            "labels of a series take {bytes} bytes, more than {MAX_BYTES}"
        )));
    }
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    source.visit(labels, |name, value| {
        pairs.push((name.to_vec(), value.to_vec()));
    })?;
    pairs.sort();
    let texts: Vec<(&str, &str)> = pairs
        .iter()
        .filter_map(|(name, value)| {
            let text = |bytes| std::str::from_utf8(bytes).ok();
            Some((text(name)?, text(value)?))
        })
        .collect();
    let named = texts
        .iter()
        .any(|(name, value)| *name == METRIC_NAME && !value.is_empty());
    let valid = texts.len() == pairs.len() && texts.iter().all(|(name, _)| !name.is_empty());
    if !named || !valid {
        return Ok(Err(format!(
            "invalid metric name or labels, got {}",
            shown(&pairs)
        )));
    }
    if let Some(twice) = texts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Ok(Err(format!(
            "invalid labels for series, labels {}, duplicated label {}",
            shown(&pairs),
            twice[0].0
        )));
    }
    Ok(Ok(LabelSet::new(texts)))
}

/// Prints labels as Go prints them, duplicates and all.
fn shown(pairs: &[(Vec<u8>, Vec<u8>)]) -> String {
    let mut out = String::from("{");
    for (at, (name, value)) in pairs.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        let name = String::from_utf8_lossy(name);
        if narthex_model::labels::is_legacy_name(&name) {
            out.push_str(&name);
        } else {
            // Writing to a string does not fail.
            let _ = narthex_model::labels::write_quoted(&mut out, &name);
        }
        out.push('=');
        let _ = narthex_model::labels::write_quoted(&mut out, &String::from_utf8_lossy(value));
    }
    out.push('}');
    out
}
