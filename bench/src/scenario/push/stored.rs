//! What gateways hold, read back and compared with what was pushed.
//!
//! **Invariant:** knows what was pushed from the generator alone. A group holds one push whole, the last one that was
//! taken or one that overlapped with it; anything else is wrong.

use super::{
    body::process_name,
    fleet::{Fleet, JOB, host_name},
    pushers::Sent,
};
use crate::load::line::Line;
use std::collections::HashMap;

/// What of a fleet was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Series of the fleet that are there.
    pub(crate) series: u64,
    /// Series that are not there, though a push of them was taken.
    pub(crate) missing: u64,
    /// Series whose value is of no push that may be the last.
    pub(crate) wrong: u64,
    /// Lines with the fleet's job that nobody pushed.
    pub(crate) strange: u64,
}

/// Collects the pages of all gateways.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    fleet: &'a Fleet,
    /// Number of a series by name and labels, sorted, as they are written.
    series: HashMap<String, u32>,
    hosts: HashMap<String, u32>,
    processes: HashMap<String, u32>,
    /// For each process its series; NaN is nothing, which nobody pushes.
    values: Vec<f64>,
    strange: u64,
}

impl<'a> Reader<'a> {
    /// Returns one that has seen nothing yet.
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
            // Cheaper than taking every line apart.
            if !of_fleet.iter().any(|label| line.contains(label)) {
                continue;
            }
            let place = Line::parse(line).and_then(|line| self.place(&line));
            match place {
                Some(Some((at, value))) if self.values[at].is_nan() => self.values[at] = value,
                // Its own gauges about the group.
                Some(None) => {}
                _ => self.strange += 1,
            }
        }
    }

    /// Returns the place of a line's series and its value, Some(None) for what the gateway says about a group.
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

    /// Compares what was found with all pushes, in any order.
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

/// Returns the rounds a group may hold: its last taken push' and those of pushes that it did not follow.
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
mod tests {
    use super::*;
    use crate::scenario::push::{
        body::Body,
        fleet::{
            PushMode,
            tests::{PLAIN, fleet},
        },
    };
    use std::time::{Duration, Instant};

    const MERGED: PushMode = PushMode {
        merges_hosts: true,
        ..PLAIN
    };

    fn push(group: u32, round: u64, start: Instant, from_ms: u64, to_ms: u64) -> Sent {
        Sent {
            group,
            round,
            sent: start + Duration::from_millis(from_ms),
            ended: start + Duration::from_millis(to_ms),
            is_taken: true,
        }
    }

    /// The page of a gateway that holds these rounds of the groups.
    fn page(fleet: &Fleet, rounds: &[(u32, u64)]) -> String {
        let mut page = "go_goroutines 5\nup{job=\"other\"} 1\n".to_owned();
        let mut body = Body::default();
        for (group, round) in rounds {
            let path = fleet.path(*group);
            let labels: Vec<&str> = path.split('/').skip(2).collect();
            let grouping: String = labels
                .chunks(2)
                .map(|pair| format!(",{}=\"{}\"", pair[0], pair[1]))
                .collect();
            let text = String::from_utf8(fleet.body(*group, *round, &mut body).to_vec()).unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.split_once("} ").unwrap();
                page.push_str(&format!("{series}{grouping},instance=\"\"}} {value}\n"));
            }
            let own = &grouping[1..];
            page.push_str(&format!(
                "push_time_seconds{{instance=\"\",{own}}} 1.7e+09\n"
            ));
        }
        page
    }

    #[test]
    fn what_was_pushed_last_is_right_whatever_the_mode() {
        let start = Instant::now();
        for mode in [PLAIN, MERGED] {
            let fleet = fleet(2, 3, 120, mode);
            let sent: Vec<Sent> = (0..fleet.groups())
                .flat_map(|group| (0..3).map(move |round| (group, round)))
                .map(|(group, round)| push(group, round, start, round * 10, round * 10 + 5))
                .collect();
            let rounds: Vec<(u32, u64)> = (0..fleet.groups()).map(|group| (group, 2)).collect();
            let mut reader = Reader::new(&fleet);
            reader.read(&page(&fleet, &rounds));
            let all = Stored {
                series: 720,
                ..Stored::default()
            };
            assert_eq!(reader.compare(&sent), all, "{mode:?}");
            // An older round is a push that was lost.
            let mut reader = Reader::new(&fleet);
            let older: Vec<(u32, u64)> = rounds.iter().map(|(group, _)| (*group, 1)).collect();
            reader.read(&page(&fleet, &older));
            assert_eq!(reader.compare(&sent).wrong, 720, "{mode:?}");
        }
    }

    #[test]
    fn pushes_under_way_at_once_may_end_in_either_order() {
        let start = Instant::now();
        let fleet = fleet(1, 1, 40, PLAIN);
        let sent = [
            push(0, 0, start, 0, 5),
            push(0, 1, start, 10, 30),
            push(0, 2, start, 20, 40),
        ];
        let wrong = |round| {
            let mut reader = Reader::new(&fleet);
            reader.read(&page(&fleet, &[(0, round)]));
            reader.compare(&sent).wrong
        };
        assert_eq!([wrong(0), wrong(1), wrong(2)], [40, 0, 0]);
        // A push whose answer nobody saw may have been stored.
        let mut lost = sent;
        lost[2].is_taken = false;
        let mut reader = Reader::new(&fleet);
        reader.read(&page(&fleet, &[(0, 2)]));
        assert_eq!(reader.compare(&lost).wrong, 0);
    }

    #[test]
    fn what_is_missing_changed_or_strange_is_counted() {
        let start = Instant::now();
        let fleet = fleet(1, 2, 40, PLAIN);
        let sent = [push(0, 0, start, 0, 5), push(1, 0, start, 0, 5)];
        let whole = page(&fleet, &[(0, 0), (1, 0)]);
        let count = |page: &str| {
            let mut reader = Reader::new(&fleet);
            reader.read(page);
            reader.compare(&sent)
        };
        let lines: Vec<&str> = whole.lines().collect();
        let without = lines.iter().enumerate().filter(|(at, _)| *at != 7);
        let without: Vec<&str> = without.map(|(_, line)| *line).collect();
        assert_eq!(
            count(&without.join("\n")),
            Stored {
                series: 79,
                missing: 1,
                ..Stored::default()
            }
        );
        let line = lines[7];
        let changed = whole.replace(line, &format!("{line}1"));
        assert_eq!(count(&changed).wrong, 1);
        let strange = format!("{whole}nobodys{{job=\"game\"}} 1\n{line}\n");
        assert_eq!(count(&strange).strange, 2);
        let nothing = Reader::new(&fleet).compare(&[]);
        assert_eq!(nothing, Stored::default());
    }
}
