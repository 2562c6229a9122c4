//! Warnings for the client that do not invalidate the answer.
//!
//! **Invariant:** each text is kept once, in the order of first appearance, up to a fixed number.

use crate::sync::Whole as _;
use std::sync::{Arc, Mutex, MutexGuard};

/// Texts kept; the log has the rest.
const MOST: usize = 20;

/// Collects warnings while something is read; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    texts: Vec<String>,
    /// Whether some texts did not fit.
    more: bool,
}

impl Warnings {
    /// Adds a text unless it is already there.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        let mut noted = self.lock();
        if noted.texts.contains(&text) {
            return;
        }
        if noted.texts.len() < MOST {
            noted.texts.push(text);
        } else {
            noted.more = true;
        }
    }

    /// Reports whether nothing was noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().texts.is_empty()
    }

    /// Returns the texts in the order they were added, and clears them.
    #[must_use]
    pub fn drain(&self) -> Vec<String> {
        let Noted { mut texts, more } = std::mem::take(&mut *self.lock());
        if more {
            texts.push(format!("there are more than these {MOST} warnings"));
        }
        texts
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        // A panic elsewhere leaves the list intact: a text is added in one step.
        self.0.lock().whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_once_in_order_and_not_without_end() {
        let warnings = Warnings::default();
        for text in ["b", "a", "b"] {
            warnings.clone().note(text);
        }
        assert_eq!(warnings.drain(), ["b", "a"]);
        assert!(warnings.drain().is_empty());
        (0..100).for_each(|n| warnings.note(n.to_string()));
        let texts = warnings.drain();
        assert_eq!(texts.len(), MOST + 1);
        assert_eq!(texts[MOST], "there are more than these 20 warnings");
    }
}
