//! Start times of counters: for each column, the rows at which its start time changes.
//!
//! **Invariant:** entries of a column ascend by row; a column without start times costs nothing.

use std::collections::BTreeMap;

/// Start times of the counters in a strip's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartTimes {
    of_column: BTreeMap<u32, Vec<(u64, i64)>>,
}

impl StartTimes {
    /// Reports whether no column ever had one.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_column.is_empty()
    }

    /// Lists the changes when, in row `row`, exactly `stated` hold and all other columns have none.
    pub(crate) fn changes(&self, stated: &[(u32, i64)]) -> Vec<(u32, i64)> {
        let mut wanted: BTreeMap<u32, i64> =
            self.of_column.keys().map(|column| (*column, 0)).collect();
        wanted.extend(stated.iter().copied());
        wanted.retain(|column, start_ms| self.current(*column) != *start_ms);
        wanted.into_iter().collect()
    }

    /// Applies changes from row `row` on.
    pub(crate) fn apply(&mut self, row: u64, changes: &[(u32, i64)]) {
        for (column, start_ms) in changes {
            self.of_column
                .entry(*column)
                .or_default()
                .push((row, *start_ms));
        }
    }

    /// Undoes changes from row `row` on.
    pub(crate) fn undo_from(&mut self, row: u64) {
        self.of_column.retain(|_, entries| {
            let before = entries.partition_point(|(from, _)| *from < row);
            entries.truncate(before);
            !entries.is_empty()
        });
    }

    /// Returns the start time of `column` in row `row`, 0 if unknown.
    pub(crate) fn at(&self, column: u32, row: u64) -> i64 {
        let Some(entries) = self.of_column.get(&column) else {
            return 0;
        };
        let after = entries.partition_point(|(from, _)| *from <= row);
        after.checked_sub(1).map_or(0, |at| entries[at].1)
    }

    /// Lists the start times of `column` within `rows` rows, each with its first row, counted from `first`.
    pub(crate) fn entries(&self, column: u32, first: u64, rows: usize) -> Vec<(u32, i64)> {
        let Some(entries) = self.of_column.get(&column) else {
            return Vec::new();
        };
        let end = first + rows as u64;
        let before = entries.partition_point(|(from, _)| *from <= first);
        let inherited = before
            .checked_sub(1)
            .map(|at| (0, entries[at].1))
            .filter(|(_, start_ms)| *start_ms != 0);
        let own = entries[before..].iter().take_while(|(from, _)| *from < end);
        inherited
            .into_iter()
            .chain(own.map(|(from, start_ms)| ((from - first) as u32, *start_ms)))
            .collect()
    }

    /// Returns the start time of `column` in the newest row.
    fn current(&self, column: u32) -> i64 {
        self.of_column
            .get(&column)
            .and_then(|entries| entries.last())
            .map_or(0, |entry| entry.1)
    }

    /// Lists all columns that have one in the newest row.
    pub(crate) fn all_current(&self) -> Vec<(u32, i64)> {
        let columns = self
            .of_column
            .keys()
            .map(|column| (*column, self.current(*column)));
        columns.filter(|(_, start_ms)| *start_ms != 0).collect()
    }

    /// Drops start times that held only before row `row`.
    pub(crate) fn drop_before(&mut self, row: u64) {
        for entries in self.of_column.values_mut() {
            let after = entries.partition_point(|(from, _)| *from <= row);
            entries.drain(..after.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_holds_until_another_is_stated() {
        let mut starts = StartTimes::default();
        assert!(starts.changes(&[]).is_empty());
        starts.apply(0, &starts.changes(&[(3, 100)]));
        assert!(starts.changes(&[(3, 100)]).is_empty());
        starts.apply(5, &starts.changes(&[(3, 200), (4, 7)]));
        starts.apply(6, &starts.changes(&[(4, 7)]));
        assert_eq!(
            [0, 4, 5, 6, 9].map(|row| starts.at(3, row)),
            [100, 100, 200, 0, 0]
        );
        assert_eq!([4, 5].map(|row| starts.at(4, row)), [0, 7]);
        assert_eq!(starts.all_current(), [(4, 7)]);
        assert_eq!(starts.entries(3, 0, 5), [(0, 100)]);
        assert_eq!(starts.entries(3, 1, 9), [(0, 100), (4, 200), (5, 0)]);
        assert_eq!(starts.entries(3, 6, 9), []);
        assert_eq!(starts.entries(9, 0, 9), []);
        starts.drop_before(6);
        assert_eq!((starts.at(3, 6), starts.at(4, 6)), (0, 7));
        starts.apply(8, &starts.changes(&[(3, 300), (4, 7), (5, 9)]));
        starts.undo_from(8);
        assert_eq!([3, 4, 5].map(|column| starts.at(column, 8)), [0, 7, 0]);
        assert_eq!(starts.all_current(), [(4, 7)]);
    }
}
