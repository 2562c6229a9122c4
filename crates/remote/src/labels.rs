//! Builds label sets from the labels a sender names.
//!
//! **Invariant:** a label set has a metric name, is valid UTF-8 and repeats no label name. The size of the labels is
//! computed before they are copied: a request may refer to one long symbol any number of times.

use crate::{error::RemoteError, incoming::LabelSource};
use narthex_model::{LabelSet, METRIC_NAME};
use std::ops::Range;

/// Maximum bytes of a series' labels, with each label's overhead.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Overhead of a label beside its text.
const LABEL_BYTES: usize = 64;

/// Returns the memory that the labels of a series take as a set.
///
/// # Errors
/// Fails if the labels are malformed.
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

/// Builds the label set of a series, or returns the message for the sender if its labels are invalid.
///
/// # Errors
/// Fails if the labels are malformed.
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

/// Formats labels as Go prints them, including duplicates.
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
