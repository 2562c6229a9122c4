//! Families as text: tables with one line each, embedded by their collectors.
//!
//! `word … type name help`: first the collector's own words to find the number, then the family.
//! Invariant: every table is parsed in full by its collector's tests.

use std::str::FromStr;

use crate::sink::Desc;

/// Returns each line's first `N` words and its family.
pub(crate) fn rows<const N: usize>(
    table: &'static str,
) -> impl Iterator<Item = ([&'static str; N], Desc<'static>)> {
    table.lines().map(|line| {
        let mut words = line.splitn(N + 3, ' ');
        let mut word = || words.next().expect("a line has all its words");
        let first = [(); N].map(|()| word());
        let (kind, name, help) = (word(), word(), word());
        let desc = match kind {
            "counter" => Desc::counter(name, help),
            _ => Desc::gauge(name, help),
        };
        (first, desc)
    })
}

/// Parses a table's word as a number.
pub(crate) fn number<T: FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.expect("the table has a number here")
}
