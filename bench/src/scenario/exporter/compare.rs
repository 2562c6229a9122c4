//! Comparison of two exporters' pages of the same host.
//!
//! The first exporter is scraped before and after the second one, so that its two pages bound the second one's values
//! of a counter.
//!
//! **Invariant:** an exporter's own metrics are not compared. Every other series is on one side only, or has a class:
//! equal, moved on (between the two pages), near, or different.

use super::page::{Family, Page};

/// Maximum relative difference of instantaneous gauges: load, free memory, clocks.
const NEAR: f64 = 0.05;

/// Result of comparing one series' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Equal,
    /// Between the first exporter's values before and after.
    MovedOn,
    /// A gauge within a few percent of those.
    Near,
    Different,
}

/// Numbers of series in each class, and tables of differences.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) equal: usize,
    pub(crate) moved_on: usize,
    pub(crate) near: usize,
    /// Family, series and both values.
    pub(crate) different: Vec<[String; 3]>,
    /// Families and the numbers of their series.
    pub(crate) only_first: Vec<(String, usize)>,
    pub(crate) only_other: Vec<(String, usize)>,
    /// Series of families that both have.
    pub(crate) series_only_first: Vec<String>,
    pub(crate) series_only_other: Vec<String>,
    /// Family, which description differs (`type` or `help`), and both texts.
    pub(crate) descriptions: Vec<[String; 4]>,
}

impl Comparison {
    /// Compares the first exporter's pages, before and after, with the other's between them.
    pub(crate) fn new(before: &Page, other: &Page, after: &Page) -> Self {
        let mut comparison = Self::default();
        for (name, first) in &before.families {
            if Page::is_own(name) {
                continue;
            }
            match other.families.get(name) {
                None => comparison
                    .only_first
                    .push((name.clone(), first.series.len())),
                Some(family) => comparison.family(name, first, family, after.families.get(name)),
            }
        }
        for (name, family) in &other.families {
            if !Page::is_own(name) && !before.families.contains_key(name) {
                comparison
                    .only_other
                    .push((name.clone(), family.series.len()));
            }
        }
        comparison
    }

    /// Returns the number of series that both have.
    pub(crate) fn shared(&self) -> usize {
        self.equal + self.moved_on + self.near + self.different.len()
    }

    fn family(&mut self, name: &str, first: &Family, other: &Family, after: Option<&Family>) {
        for (what, a, b) in [
            ("type", &first.kind, &other.kind),
            ("help", &first.help, &other.help),
        ] {
            if a != b {
                let row = [name, what, a, b].map(str::to_owned);
                self.descriptions.push(row);
            }
        }
        for (series, before) in &first.series {
            let Some(value) = other.series.get(series) else {
                self.series_only_first.push(series.clone());
                continue;
            };
            let after = after.and_then(|after| after.series.get(series));
            let after = *after.unwrap_or(before);
            match class(first.is_counter(), *before, *value, after) {
                Class::Equal => self.equal += 1,
                Class::MovedOn => self.moved_on += 1,
                Class::Near => self.near += 1,
                Class::Different => {
                    let row = [series.clone(), before.to_string(), value.to_string()];
                    self.different.push(row);
                }
            }
        }
        let new = other
            .series
            .keys()
            .filter(|series| !first.series.contains_key(*series));
        self.series_only_other.extend(new.cloned());
    }
}

fn class(is_counter: bool, before: f64, value: f64, after: f64) -> Class {
    if before.to_bits() == value.to_bits() || (before.is_nan() && value.is_nan()) {
        return Class::Equal;
    }
    let (low, high) = (before.min(after), before.max(after));
    if (low..=high).contains(&value) {
        return Class::MovedOn;
    }
    // Counters read at nearly the same moment may be ahead by the events in between.
    let slack = NEAR * low.abs().max(high.abs());
    let is_near = value >= low - slack && value <= high + slack;
    match (is_counter, is_near) {
        (true, true) if value >= low => Class::Near,
        (false, true) => Class::Near,
        _ => Class::Different,
    }
}

#[cfg(test)]
mod tests;
