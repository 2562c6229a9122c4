//! Tests of `stored`.

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

/// Returns the page of a gateway that holds these rounds of the groups.
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
        // An older round means a lost push.
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
    // A push without a received response may have been stored.
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
