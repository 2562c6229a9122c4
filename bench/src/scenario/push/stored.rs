//! Contents of gateways, read back and compared with what was pushed.
//!
//! **Invariant:** the expected contents come from the generator alone. A group holds one complete push, the last
//! accepted one or one that overlapped with it; anything else is wrong.

use super::{
    body::process_name,
    fleet::{Fleet, JOB, host_name},
    pushers::Sent,
};
use narthex_testkit::exposition::Line;
use std::collections::HashMap;

/// Result of reading back a fleet's series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Series of the fleet that were found.
    pub(crate) series: u64,
    /// Series that were not found, though a push of them was accepted.
    pub(crate) missing: u64,
    /// Series whose value belongs to no push that may be the last.
    pub(crate) wrong: u64,
    /// Lines with the fleet's job that nobody pushed.
    pub(crate) strange: u64,
}

/// Collects the pages of all gateways.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    fleet: &'a Fleet,
    /// Index of a series by name and sorted labels, as written.
    series: HashMap<String, u32>,
    hosts: HashMap<String, u32>,
    processes: HashMap<String, u32>,
    /// Series of each process; NaN, which is never pushed, marks missing ones.
    values: Vec<f64>,
    strange: u64,
}

impl<'a> Reader<'a> {
    /// Returns a reader without pages.
    pub(crate) fn new(fleet: &'a Fleet) -> Self {
        let identity = |(at, (name, labels)): (usize, (&str, &str))| {
            let mut labels: Vec<&str> = labels.split(',').collect();
            labels.sort_unstable();
            (format!("{name}{{{}", labels.join(",")), at as u32)
        };
        let names = |count, name: fn(u32) -> String| (0..count).map(|at| (name(at), at)).collect();
        let all = fleet.all_processes() as usize * fleet.catalogue.len();
        Self {
            fleet,
            series: fleet
                .catalogue
                .identities()
                .enumerate()
                .map(identity)
                .collect(),
            hosts: names(fleet.settings.hosts, host_name),
            processes: names(fleet.settings.processes, process_name),
            values: vec![f64::NAN; all],
            strange: 0,
        }
    }

    /// Adds a gateway's page.
    pub(crate) fn read(&mut self, page: &str) {
        let of_fleet = [",", "{"].map(|before| format!("{before}job=\"{JOB}\""));
        for line in page.lines() {
            // Cheaper than parsing every line.
            if !of_fleet.iter().any(|label| line.contains(label)) {
                continue;
            }
            let place = Line::parse(line).and_then(|line| self.place(&line));
            match place {
                Some(Some((at, value))) if self.values[at].is_nan() => self.values[at] = value,
                // The gateway's own gauges about the group.
                Some(None) => {}
                _ => self.strange += 1,
            }
        }
    }

    /// Returns the index of a line's series and its value; `Some(None)` for the gateway's own metrics about a group.
    fn place(&self, line: &Line<'_>) -> Option<Option<(usize, f64)>> {
        let (mut host, mut process, mut own) = (None, None, Vec::with_capacity(4));
        for label in &line.labels {
            match label.name {
                "job" if label.value == JOB => {}
                "instance" if label.value.is_empty() => {}
                "host" => host = self.hosts.get(label.value),
                "process" => process = self.processes.get(label.value),
                name => own.push(format!("{name}=\"{}\"", label.value)),
            }
        }
        if matches!(line.name, "push_time_seconds" | "push_failure_time_seconds") && own.is_empty()
        {
            return Some(None);
        }
        own.sort_unstable();
        let series = self
            .series
            .get(&format!("{}{{{}", line.name, own.join(",")))?;
        let process = host? * self.fleet.settings.processes + process?;
        let at = process as usize * self.fleet.catalogue.len() + *series as usize;
        Some(Some((at, line.value.parse().ok()?)))
    }

    /// Compares the pages with all pushes, in any order.
    pub(crate) fn compare(&self, sent: &[Sent]) -> Stored {
        let mut stored = Stored {
            strange: self.strange,
            ..Stored::default()
        };
        let mut of_group: Vec<Vec<&Sent>> = vec![Vec::new(); self.fleet.groups() as usize];
        for push in sent {
            of_group[push.group as usize].push(push);
        }
        let series = self.fleet.catalogue.len();
        let in_group = self.fleet.group_processes();
        for (group, pushes) in of_group.iter().enumerate() {
            let first = self.fleet.first_process(group as u32);
            let from = first as usize * series;
            let values = &self.values[from..from + in_group as usize * series];
            let found = values.iter().filter(|value| !value.is_nan()).count() as u64;
            stored.series += found;
            let possible = possible(pushes);
            if possible.is_empty() {
                stored.wrong += found;
                continue;
            }
            stored.missing += values.len() as u64 - found;
            let wrong_in = |round: u64| {
                let is_wrong = |(at, value): (usize, &f64)| {
                    let process = first + (at / series) as u32;
                    let expected = self.fleet.catalogue.value(process, at % series, round);
                    !value.is_nan() && *value != expected
                };
                values
                    .iter()
                    .enumerate()
                    .filter(|pair| is_wrong(*pair))
                    .count() as u64
            };
            stored.wrong += possible.into_iter().map(wrong_in).min().unwrap_or(found);
        }
        stored
    }
}

/// Returns the rounds a group may hold: that of its last accepted push and of those that overlapped with it.
fn possible(pushes: &[&Sent]) -> Vec<u64> {
    let taken = pushes.iter().filter(|push| push.is_taken);
    let Some(last) = taken.map(|push| push.sent).max() else {
        return Vec::new();
    };
    let overlaps = |push: &&&Sent| push.ended >= last;
    pushes
        .iter()
        .filter(overlaps)
        .map(|push| push.round)
        .collect()
}

#[cfg(test)]
mod tests;
