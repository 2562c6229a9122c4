//! Answers about labels and series that are asked again and again, by panels that are drawn and people who type, kept as text until
//! they would be others.
//!
//! **Invariant:** an answer is sent again only while the store marks what it lists as it did before and after listing it.
//! **Invariant:** what is kept is leased. Nothing is kept of a question before it is asked for the second time with one answer.

use crate::metrics;
use bytes::Bytes;
use narthex_model::{
    Recent,
    storage::{Budget, Context, Lease, ListingMark, ListingOf, SeriesQuery, StorageError, Store},
    sync::Whole as _,
};
use std::sync::Mutex;

/// Most questions that are known.
const MOST_QUESTIONS: usize = 256;
/// Longest text of a question, which its sender chooses.
const LONGEST_QUESTION: usize = 1 << 10;

/// What was asked, but for the range.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Question {
    /// What is listed.
    pub(crate) of: Of,
    /// Texts of the selectors.
    pub(crate) selectors: Vec<String>,
    pub(crate) limit: Option<usize>,
}

/// What is listed.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Of {
    Names,
    Values(String),
    Series,
    Cardinality,
}

impl Of {
    fn listed(&self) -> ListingOf<'_> {
        match self {
            Self::Names => ListingOf::Names,
            Self::Values(name) => ListingOf::Values(name),
            Self::Series => ListingOf::Series,
            Self::Cardinality => ListingOf::Cardinality,
        }
    }
}

/// Kept answers.
pub(crate) struct KeptAnswers {
    state: Mutex<State>,
    memory: Budget,
    /// Most bytes of one answer, and of all.
    most_of_one: usize,
    most: usize,
}

#[derive(Default)]
struct State {
    known: Recent<Question, Known>,
    /// Bytes of all texts.
    bytes: usize,
}

struct Known {
    mark: ListingMark,
    /// `None` while it was answered once.
    text: Option<Bytes>,
}

/// A text, leased until the last response that has it was sent.
struct Leased {
    text: Vec<u8>,
    _lease: Lease,
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// What a look-up found: the answer, or the mark of what is to be listed where that is worth being kept, since it was asked
/// before.
pub(crate) enum LookedUp {
    Answer(Bytes),
    Unknown(Option<ListingMark>),
}

/// What is asked of a store.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) question: &'a Question,
    pub(crate) query: &'a SeriesQuery,
    pub(crate) ctx: &'a Context,
}

impl Asked<'_> {
    fn mark(&self) -> Result<Option<ListingMark>, StorageError> {
        let listed = self.question.of.listed();
        self.store.listing_mark(listed, self.query, self.ctx)
    }

    /// Reports whether what was listed after [`KeptAnswers::look_up`] gave `mark` is the answer that has it, and came without
    /// warnings.
    ///
    /// # Errors
    /// As `Store::listing_mark`.
    pub(crate) fn has_still(&self, mark: ListingMark) -> Result<bool, StorageError> {
        Ok(self.ctx.warnings.is_empty() && self.mark()? == Some(mark))
    }
}

impl KeptAnswers {
    /// Looks for the answer that the store would give now.
    ///
    /// # Errors
    /// As `Store::listing_mark`.
    pub(crate) fn look_up(&self, asked: Asked<'_>) -> Result<LookedUp, StorageError> {
        let mark = asked.mark()?;
        Ok(mark.map_or(LookedUp::Unknown(None), |mark| {
            self.find(asked.question, mark)
        }))
    }

    /// Returns an empty table; answers lease from a share of `memory`.
    pub(crate) fn new(memory: &Budget, most_bytes: u64) -> Self {
        let most_bytes = most_bytes.min(memory.percent(5));
        let most = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        Self {
            state: Mutex::default(),
            memory: memory.share("kept answers", most_bytes, memory.percent(50)),
            most_of_one: most / 2,
            most,
        }
    }

    /// Returns the longest answer that may be kept.
    pub(crate) fn most_of_one(&self) -> usize {
        self.most_of_one
    }

    /// Looks for the answer that has this mark, and notes that it was asked for.
    fn find(&self, question: &Question, mark: ListingMark) -> LookedUp {
        if question.bytes() > LONGEST_QUESTION {
            return LookedUp::Unknown(None);
        }
        let mut state = self.state.lock().whole();
        let state = &mut *state;
        if let Some(known) = state.known.use_mut(question) {
            if known.mark == mark {
                return match &known.text {
                    Some(text) => {
                        metrics::KEPT.inc();
                        LookedUp::Answer(text.clone())
                    }
                    None => LookedUp::Unknown(Some(mark)),
                };
            }
            known.mark = mark;
            if let Some(text) = known.text.take() {
                state.bytes -= text.len();
            }
            return LookedUp::Unknown(None);
        }
        if state.known.len() == MOST_QUESTIONS {
            state.drop_oldest();
        }
        let known = Known { mark, text: None };
        state.known.insert(question.clone(), known);
        LookedUp::Unknown(None)
    }

    /// Keeps the answer with this mark to a question that was asked before, if there is memory for it; returns it.
    pub(crate) fn keep(&self, question: &Question, mark: ListingMark, mut text: Vec<u8>) -> Bytes {
        text.shrink_to_fit();
        let length = text.len();
        let mut state = self.state.lock().whole();
        let state = &mut *state;
        let is_asked = |known: &Known| known.mark == mark && known.text.is_none();
        if length > self.most_of_one || !state.known.get(question).is_some_and(is_asked) {
            return text.into();
        }
        while state.bytes + length > self.most {
            state.drop_oldest();
        }
        let Ok(lease) = self.memory.lease(length as u64) else {
            // Memory is short: whoever asks next lists anew.
            *state = State::default();
            return text.into();
        };
        let text = Bytes::from_owner(Leased {
            text,
            _lease: lease,
        });
        // Asked a moment ago, so it is not among the oldest unless its text is all there is room for.
        if let Some(known) = state.known.get_mut(question) {
            state.bytes += length;
            known.text = Some(text.clone());
        }
        text
    }
}

impl Question {
    fn bytes(&self) -> usize {
        let name = match &self.of {
            Of::Values(name) => name.len(),
            _ => 0,
        };
        let selectors = self.selectors.iter();
        name + selectors
            .map(|text| size_of::<String>() + text.len())
            .sum::<usize>()
    }
}

impl State {
    fn drop_oldest(&mut self) {
        let known = self.known.remove_oldest();
        if let Some(text) = known.and_then(|known| known.text) {
            self.bytes -= text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::storage::Marker;

    fn mark(number: u64) -> ListingMark {
        let mut marker = Marker::default();
        marker.add(number);
        marker.finish()
    }

    fn values(name: &str) -> Question {
        Question {
            of: Of::Values(name.to_owned()),
            selectors: Vec::new(),
            limit: None,
        }
    }

    #[test]
    fn an_answer_is_kept_when_asked_for_again_and_until_its_mark_changes() {
        let memory = Budget::new("all", 1 << 20);
        let kept = KeptAnswers::new(&memory, 8 << 20);
        let (question, text) = (values("job"), b"[\"a\"]".to_vec());
        assert!(matches!(
            kept.find(&question, mark(1)),
            LookedUp::Unknown(None)
        ));
        assert!(matches!(
            kept.find(&question, mark(1)),
            LookedUp::Unknown(Some(_))
        ));
        assert_eq!(memory.used_bytes(), 0);
        kept.keep(&question, mark(1), text.clone());
        assert!(matches!(kept.find(&question, mark(1)), LookedUp::Answer(found) if found == text));
        assert!(matches!(
            kept.find(&values("x"), mark(1)),
            LookedUp::Unknown(None)
        ));
        assert_eq!(memory.used_bytes(), 5);
        assert!(matches!(
            kept.find(&question, mark(2)),
            LookedUp::Unknown(None)
        ));
        assert_eq!(memory.used_bytes(), 0);
        // Somebody was slow to list what is old by now.
        assert_eq!(kept.keep(&question, mark(1), text.clone()), text);
        assert!(matches!(
            kept.find(&question, mark(2)),
            LookedUp::Unknown(Some(_))
        ));
        assert_eq!(memory.used_bytes(), 0);
        let sent = kept.keep(&question, mark(2), text);
        drop(kept);
        assert_eq!(memory.used_bytes(), 5);
        drop(sent);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn the_answers_used_last_stay() {
        let memory = Budget::new("all", 1 << 20);
        let kept = KeptAnswers::new(&memory, 1000);
        let text = |length| vec![b'x'; length];
        let ask = |at: usize| {
            let question = values(&at.to_string());
            let found = kept.find(&question, mark(1));
            kept.keep(&question, mark(1), text(250));
            matches!(found, LookedUp::Answer(_))
        };
        for at in 0..4 {
            ask(at);
        }
        assert_eq!(memory.used_bytes(), 1000);
        assert!(ask(0));
        ask(4);
        assert!(ask(0) && !ask(1));
        assert!(memory.used_bytes() <= 1000);
        for at in 0..10_000 {
            ask(at);
        }
        assert!(memory.used_bytes() <= 1000);
        assert!(kept.state.lock().unwrap().known.len() <= MOST_QUESTIONS);
        let long = values(&"x".repeat(LONGEST_QUESTION + 1));
        assert!(matches!(kept.find(&long, mark(1)), LookedUp::Unknown(None)));
        assert!(matches!(kept.find(&long, mark(1)), LookedUp::Unknown(None)));
        kept.keep(&values("0"), mark(1), text(501));
        assert!(memory.used_bytes() <= 1000);
        drop(kept);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn one_answer_may_be_half_of_what_is_kept() {
        let memory = Budget::new("all", 1 << 20);
        let kept = KeptAnswers::new(&memory, 1000);
        for (name, length, is_kept) in [("a", 500, true), ("b", 501, false)] {
            let question = values(name);
            kept.find(&question, mark(1));
            kept.keep(&question, mark(1), vec![b'x'; length]);
            let found = kept.find(&question, mark(1));
            assert_eq!(matches!(found, LookedUp::Answer(_)), is_kept, "{length}");
        }
    }
}
