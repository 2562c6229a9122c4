//! Builds label sets from the labels a sender names.
//!
//! **Invariant:** a label set has a metric name, is valid UTF-8 and repeats no label name. The size of the labels is
//! computed before they are copied: a request may refer to one long symbol any number of times.

use crate::{allowance::Allowance, error::RemoteError, incoming::LabelSource};
use narthex_model::{Label, LabelSet, METRIC_NAME};
use std::ops::Range;

/// Maximum bytes of a series' labels, with each label's overhead.
const MAX_BYTES: usize = 1 << 20;
/// Overhead of a label beside its text.
const LABEL_BYTES: usize = 64;

/// Builds the label set of a series within `allowance`, or returns the message for the sender if its labels are
/// invalid.
///
/// # Errors
/// Fails if the labels are malformed or their memory is not available.
pub(crate) fn resolve(
    source: &LabelSource<'_>,
    labels: &Range<u32>,
    allowance: &mut Allowance,
) -> Result<Result<LabelSet, String>, RemoteError> {
    let (count, text_bytes) = source.size(labels)?;
    let bytes = count * LABEL_BYTES + text_bytes;
    if bytes > MAX_BYTES {
        return Ok(Err(format!(
            "labels of a series take {bytes} bytes, more than {MAX_BYTES}"
        )));
    }
    allowance.lease(bytes)?;
    let mut pairs: Vec<(&[u8], &[u8])> = Vec::with_capacity(count);
    source.visit(labels, |name, value| pairs.push((name, value)))?;
    pairs.sort_unstable();
    let mut texts: Vec<(&str, &str)> = Vec::with_capacity(count);
    texts.extend(pairs.iter().filter_map(|(name, value)| {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some((text(name)?, text(value)?))
    }));
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
    let mut set = Vec::with_capacity(count);
    let texts = texts.iter().filter(|(_, value)| !value.is_empty());
    set.extend(texts.map(|(name, value)| Label::new(name, value)));
    Ok(Ok(LabelSet::from_labels(set)))
}

/// Formats labels as Go prints them, including duplicates.
fn shown(pairs: &[(&[u8], &[u8])]) -> String {
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
