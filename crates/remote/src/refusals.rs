//! Rejected parts of a request, and the response to its sender.

use crate::{error::RemoteError, incoming::Objections, message::Message, metrics};
use narthex_model::{LabelSet, storage::Outcome};

/// Message for samples too far ahead of the clock.
const TOO_NEW: &str = "out of bounds: timestamp is too far in the future";

/// Collects rejected parts and their reasons.
#[derive(Debug)]
pub(crate) struct Refusals {
    pub(crate) message: Message,
    pub(crate) texts: Objections,
}

impl Refusals {
    /// Records a series with invalid labels; version 1 has always dropped such series silently.
    pub(crate) fn invalid_labels(&mut self, objection: String, samples: u32) {
        metrics::INVALID_LABELS.inc_by(u64::from(samples));
        if self.names_all() {
            self.push(objection);
        } else {
            tracing::warn!(objection, "A series of a remote write request is left out.");
        }
    }

    pub(crate) fn invalid_histogram(&mut self, reason: &str) {
        metrics::REFUSED.with(&["invalid_histogram"]).inc();
        self.push(reason.to_owned());
    }

    pub(crate) fn too_new(&mut self, samples: u64) {
        if samples > 0 {
            metrics::REFUSED.with(&["too_new"]).inc_by(samples);
            self.push(TOO_NEW.to_owned());
        }
    }

    /// Adds the sink's refusals; `series` returns the series of the first one, if known.
    pub(crate) fn count(&mut self, outcome: &Outcome, series: impl Fn() -> Option<LabelSet>) {
        let reasons = [
            (
                outcome.duplicate,
                "duplicate",
                "duplicate sample for timestamp",
            ),
            (outcome.out_of_order, "out_of_order", "out of order sample"),
            (outcome.too_old, "too_old", "too old sample"),
            (outcome.too_new, "too_new", TOO_NEW),
            (
                outcome.over_limit,
                "memory",
                "memory is short: a series that is not known is refused",
            ),
        ];
        for (count, reason, text) in reasons {
            if count > 0 {
                metrics::REFUSED.with(&[reason]).inc_by(count);
                let series = series().filter(|_| self.names_all());
                self.push(match series {
                    Some(series) => format!("{text} for series {series}"),
                    None => text.to_owned(),
                });
            }
        }
    }

    /// Reports whether the answer names every reason, as those of version 1 do not.
    fn names_all(&self) -> bool {
        self.message != Message::V1
    }

    fn push(&mut self, text: String) {
        self.texts.push_new(text);
    }

    /// Returns the error for the sender: the first reason in version 1, all reasons otherwise.
    pub(crate) fn finish(self) -> Option<RemoteError> {
        let names_all = self.names_all();
        let (mut texts, more) = self.texts.finish();
        if texts.is_empty() {
            return None;
        }
        if !names_all {
            texts.truncate(1);
        } else if more > 0 {
            texts.push(format!("and {more} more"));
        }
        Some(RemoteError::Refused {
            detail: texts.join("\n"),
        })
    }
}
