//! Exemplars: a bounded ring beside the strips.
//!
//! **Invariant:** at most `capacity` exemplars are held, the oldest go first; equal ones are held once.

use crate::block::SeriesExemplar;
use narthex_model::Exemplar;
use std::collections::{HashSet, VecDeque};

/// The newest exemplars of all series.
#[derive(Debug)]
pub(crate) struct ExemplarRing {
    entries: VecDeque<Numbered>,
    capacity: usize,
    next: u64,
}

/// An entry, numbered in the order of arrival.
#[derive(Clone, Debug)]
struct Numbered {
    number: u64,
    in_block: bool,
    entry: SeriesExemplar,
}

/// Most characters in the names and values of an exemplar's labels together, as in Prometheus.
const MAX_CHARS: usize = 128;

/// Reports whether an exemplar is small enough to keep: a ring of large ones would fill the memory.
pub(crate) fn fits(exemplar: &Exemplar) -> bool {
    let labels = exemplar.labels.iter();
    let chars = labels.map(|label| label.name().chars().count() + label.value().chars().count());
    chars.sum::<usize>() <= MAX_CHARS
}

impl ExemplarRing {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity,
            next: 0,
        }
    }

    /// Changes the capacity; drops the excess at once.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        let surplus = self.entries.len().saturating_sub(capacity);
        self.entries.drain(..surplus);
    }

    /// Stores an exemplar unless it equals the series' newest one.
    pub(crate) fn push(&mut self, entry: SeriesExemplar) {
        if self.capacity == 0 || !fits(&entry.exemplar) {
            return;
        }
        // A scrape repeats an exemplar until it is replaced by another observation.
        let of_series =
            |other: &&SeriesExemplar| other.local == entry.local && other.common == entry.common;
        // An exemplar without its own time gets the time of each scrape.
        let same = |newest: &SeriesExemplar| {
            newest.exemplar == entry.exemplar
                && (newest.time_ms == entry.time_ms || entry.exemplar.time_ms.is_none())
        };
        if self
            .iter()
            .rev()
            .take(1024)
            .find(of_series)
            .is_some_and(same)
        {
            return;
        }
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back(Numbered {
            number: self.next,
            in_block: false,
            entry,
        });
        self.next += 1;
    }

    /// Lists the exemplars that no block has, with their numbers.
    pub(crate) fn unflushed(&self) -> Vec<(u64, SeriesExemplar)> {
        let open = self.entries.iter().filter(|numbered| !numbered.in_block);
        open.map(|numbered| (numbered.number, numbered.entry.clone()))
            .collect()
    }

    /// Records that blocks hold the entries with these numbers.
    pub(crate) fn set_flushed(&mut self, numbers: &HashSet<u64>) {
        for numbered in &mut self.entries {
            numbered.in_block |= numbers.contains(&numbered.number);
        }
    }

    /// Visits all, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &SeriesExemplar> {
        self.entries.iter().map(|numbered| &numbered.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::LabelSet;

    #[test]
    fn exemplars_with_long_labels_do_not_fit() {
        for (length, fit) in [(127, true), (128, false)] {
            let text = "\u{fc}".repeat(length);
            let exemplar = Exemplar {
                labels: LabelSet::new([("t", text.as_str())]),
                value: 1.0,
                time_ms: None,
            };
            assert_eq!(fits(&exemplar), fit, "{length}");
        }
    }

    #[test]
    fn the_oldest_go_and_repetitions_are_held_once() {
        let entry = |series: &str, value: f64| SeriesExemplar {
            common: LabelSet::empty(),
            local: LabelSet::new([("__name__", series)]),
            time_ms: 1,
            exemplar: Exemplar {
                labels: LabelSet::empty(),
                value,
                time_ms: None,
            },
        };
        let mut ring = ExemplarRing::new(2);
        for time_ms in 1..4 {
            for series in ["a", "b"] {
                let entry = entry(series, 1.0);
                ring.push(SeriesExemplar { time_ms, ..entry });
            }
        }
        assert_eq!(
            ring.iter().count(),
            2,
            "the scrape's time makes no other exemplar"
        );
        ring.push(entry("a", 2.0));
        assert_eq!(
            ring.iter().cloned().collect::<Vec<_>>(),
            [entry("b", 1.0), entry("a", 2.0)]
        );
        ring.set_capacity(1);
        let left: Vec<SeriesExemplar> = ring.iter().cloned().collect();
        assert_eq!(left, [entry("a", 2.0)], "the newest stays");
        ring.set_capacity(0);
        ring.push(entry("b", 3.0));
        assert_eq!(ring.iter().count(), 0);
    }
}
