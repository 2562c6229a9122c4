//! Families as text: tables with one line each, embedded by their collectors.
//!
//! `word … type name help`: first the collector's own words to find the number, then the family.
//! Invariant: every table is parsed in full by its collector's tests.

use std::str::FromStr;

use crate::sink::{Desc, Sink, Slot};

/// A line's first words and its family.
type Row<const N: usize> = ([&'static str; N], Desc<'static>);

/// Returns each line's first `N` words and its family.
pub(crate) fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = Row<N>> {
    table.lines().map(row)
}

/// As `rows`, of the lines that begin with the word `of`, which is left out.
pub(crate) fn rows_of<const N: usize>(
    table: &'static str,
    of: &str,
) -> impl Iterator<Item = Row<N>> {
    lines_of(table, of).map(row)
}

/// Returns the lines that begin with the word `of`, without it.
pub(crate) fn lines_of(table: &'static str, of: &str) -> impl Iterator<Item = &'static str> {
    let lines = table.lines();
    lines.filter_map(move |line| line.strip_prefix(of)?.strip_prefix(' '))
}

fn row<const N: usize>(line: &'static str) -> Row<N> {
    let mut words = line.splitn(N + 3, ' ');
    let mut word = || words.next().expect("a line has all its words");
    let first = [(); N].map(|()| word());
    let (kind, name, help) = (word(), word(), word());
    let desc = match kind {
        "counter" => Desc::counter(name, help),
        _ => Desc::gauge(name, help),
    };
    (first, desc)
}

/// Returns each line's family.
pub(crate) fn families(table: &'static str) -> impl Iterator<Item = Desc<'static>> {
    rows(table).map(|([], desc)| desc)
}

/// Adds a series of each line's family, all with the same labels.
pub(crate) fn add(table: &'static str, labels: &[(&str, &str)], out: &mut Sink) -> Vec<Slot> {
    families(table).map(|desc| out.add(&desc, labels)).collect()
}

/// A series of each family of a table, without labels. They are added when they first get values.
#[derive(Debug)]
pub(crate) struct Series {
    table: &'static str,
    slots: Vec<Slot>,
}

impl Series {
    pub(crate) fn new(table: &'static str) -> Self {
        let slots = Vec::new();
        Self { table, slots }
    }

    /// Sets the values, in the order of the table.
    pub(crate) fn set(&mut self, values: impl IntoIterator<Item = f64>, out: &mut Sink) {
        if self.slots.is_empty() {
            self.slots = add(self.table, &[], out);
        }
        out.set_all(&self.slots, values);
    }
}

/// Parses a table's word as a number.
pub(crate) fn number<T: FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.expect("the table has a number here")
}
