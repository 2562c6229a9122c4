//! The samples of one series in one era, sorted by time.
//!
//! They are stored in pieces of bounded size: a sample in order moves none of the earlier ones, and a late one moves
//! only those of its piece.
//!
//! **Invariant:** offsets ascend strictly, within a piece and from piece to piece; no piece is empty, unless it is the
//! only one.

/// Most samples of a piece: half a kilobyte.
const PIECE: usize = 32;
/// Initial capacity of the first piece: most series with late samples have only a few.
const FIRST: usize = 4;

/// A sample without its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) cell: f64,
    /// Milliseconds from the era's start.
    pub(super) offset: u32,
    pub(super) place: u32,
}

/// Samples of one series, sorted.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Pieces before the last one.
    full: Vec<Vec<Timed>>,
    last: Vec<Timed>,
}

impl Run {
    pub(super) fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Timed> {
        self.full.first().unwrap_or(&self.last).first()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Timed> {
        self.full.iter().flatten().chain(&self.last)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Timed> {
        self.full.iter_mut().flatten().chain(&mut self.last)
    }

    /// Returns the sample at `offset`.
    pub(super) fn find(&self, offset: u32) -> Option<&Timed> {
        let piece = match self.last.first() {
            Some(first) if first.offset > offset => self.full.get(self.piece_of(offset))?,
            _ => &self.last,
        };
        let at = piece.binary_search_by_key(&offset, |sample| sample.offset);
        piece.get(at.ok()?)
    }

    /// Adds a sample that is newer than all others.
    #[inline]
    pub(super) fn push(&mut self, sample: Timed) {
        if self.last.len() == self.last.capacity() {
            self.make_room();
        }
        self.last.push(sample);
    }

    /// Adds a sample at a time without one.
    pub(super) fn insert(&mut self, sample: Timed) {
        let in_last = self.full.is_empty()
            || self
                .last
                .first()
                .is_some_and(|first| first.offset < sample.offset);
        let number = if in_last {
            self.full.len()
        } else {
            self.piece_of(sample.offset)
        };
        let piece = self.full.get_mut(number).unwrap_or(&mut self.last);
        let at = piece.partition_point(|other| other.offset < sample.offset);
        piece.insert(at, sample);
        if piece.len() > PIECE {
            let later = piece.split_off(PIECE / 2);
            let earlier = std::mem::replace(piece, later);
            self.full.insert(number, earlier);
        }
    }

    /// Returns the index of the full piece to which an offset below the last piece's belongs.
    fn piece_of(&self, offset: u32) -> usize {
        let ends_before =
            |piece: &Vec<Timed>| piece.last().is_some_and(|last| last.offset < offset);
        let number = self.full.partition_point(ends_before);
        number.min(self.full.len().saturating_sub(1))
    }

    #[cold]
    fn make_room(&mut self) {
        let len = self.last.len();
        if len < PIECE {
            let more = if self.full.is_empty() {
                len.max(FIRST)
            } else {
                PIECE
            };
            self.last.reserve_exact(more.min(PIECE - len));
        } else {
            self.full
                .push(std::mem::replace(&mut self.last, Vec::with_capacity(PIECE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::rng::SplitMix64;
    use std::collections::BTreeMap;

    #[test]
    fn samples_are_found_wherever_they_came() {
        let mut rng = SplitMix64::new(7);
        for late in [0, 3, 10] {
            let (mut run, mut model) = (Run::default(), BTreeMap::new());
            for place in 0..2_000 {
                let newest = model.last_key_value().map_or(0, |(offset, _)| *offset);
                let offset = if rng.below(10) < late {
                    rng.below(6_000) as u32
                } else {
                    newest + 1 + rng.below(3) as u32
                };
                assert_eq!(
                    run.find(offset).map(|sample| sample.place),
                    model.get(&offset).copied()
                );
                if model.contains_key(&offset) {
                    continue;
                }
                let sample = Timed {
                    cell: 0.0,
                    offset,
                    place,
                };
                if model.is_empty() || offset > newest {
                    run.push(sample);
                } else {
                    run.insert(sample);
                }
                model.insert(offset, place);
            }
            assert_eq!(run.len(), model.len());
            let seen: Vec<_> = run.iter().map(|s| (s.offset, s.place)).collect();
            assert_eq!(seen, model.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(
                run.first().map(|first| first.offset),
                model.keys().next().copied()
            );
            assert!(
                run.full
                    .iter()
                    .all(|piece| (1..=PIECE).contains(&piece.len()))
            );
        }
    }
}
