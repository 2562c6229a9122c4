//! State of rules over reloads, removals, restarts and failures, where Prometheus cannot be asked or does less.

use crate::rehearsal::Rehearsal;
use narthex_model::{
    LabelSet, MemStore,
    storage::{SeriesSample, Sink as _},
};
use std::sync::atomic::Ordering;

const STEP_MS: i64 = 15_000;
const NAMES: &str = "rec.*|ALERTS.*";

fn one(rules: &str) -> String {
    format!("groups: [{{name: g, rules: [{rules}]}}]")
}

fn samples(rehearsal: &Rehearsal, series: &str) -> Vec<String> {
    let all = rehearsal.series(NAMES);
    all.get(series).cloned().unwrap_or_default()
}

#[test]
fn series_end_with_their_group() {
    let mut rehearsal = Rehearsal::new("m 1x100", STEP_MS, 0);
    let both = one("{record: 'rec:a', expr: m}, {record: 'rec:b', expr: m}");
    rehearsal.begin("start", &both, 0);
    rehearsal.evaluate(0);
    let other = one("{record: 'rec:c', expr: m}").replace("name: g", "name: h");
    rehearsal.begin("reload", &other, 10_000);
    rehearsal.evaluate(STEP_MS);
    for name in ["rec:a", "rec:b"] {
        let ended = samples(&rehearsal, &format!("{{__name__={name:?}}}"));
        assert_eq!(ended, ["0 3ff0000000000000", "10000 stale"]);
    }
}

/// Readers of the storage engine see all that is stored at once, or none of it.
#[test]
fn results_are_stored_once_a_rule_needs_them_and_behind_the_last() {
    let rules = one(
        "{record: 'rec:a', expr: m}, {record: 'rec:b', expr: m}, {record: 'rec:c', expr: 'rec:a + 1'}, \
         {record: 'rec:d', expr: 'm[1m]'}, {alert: A, expr: 'm == 1'}, {record: 'rec:none', expr: 'm > 1'}",
    );
    for at_once in [0, 2] {
        let mut rehearsal = Rehearsal::stored("m 1x100", STEP_MS, 0);
        rehearsal.at_once = at_once;
        rehearsal.begin("start", &rules, 0);
        rehearsal.evaluate(0);
        // What has failed and what is empty has nothing to store.
        let stored = std::mem::take(&mut *rehearsal.stored_at_once.lock().unwrap());
        assert_eq!(stored, if at_once == 0 { [2, 2] } else { [3, 1] });
        let c = samples(&rehearsal, "{__name__=\"rec:c\"}");
        assert_eq!(c, ["0 4000000000000000"]);
        let errors = rehearsal.groups.as_ref().unwrap().errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}

/// The outcome of a write is divided among the rules whose results it has.
#[test]
fn a_refused_result_is_the_error_of_its_own_rule() {
    let rules = one("{record: 'rec:a', expr: m}, {record: 'rec:b', expr: m}");
    let mut rehearsal = Rehearsal::new("m 1x100", STEP_MS, 0);
    let taken = LabelSet::new([("__name__", "rec:b")]);
    let taken = SeriesSample::float(taken, 0, 7.0);
    rehearsal.store.append_samples(&[taken]).unwrap();
    rehearsal.begin("start", &rules, 0);
    rehearsal.evaluate(0);
    assert_eq!(*rehearsal.stored_at_once.lock().unwrap(), [2]);
    let errors = rehearsal.groups.as_ref().unwrap().errors();
    let expected = (
        "rec:b".to_owned(),
        "duplicate sample for timestamp".to_owned(),
    );
    assert_eq!(errors, [expected]);
}

/// A marker that came late would hide what the other group wrote.
#[test]
fn a_rule_that_moves_to_a_running_group_keeps_its_series_alive() {
    let mut rehearsal = Rehearsal::new("m 1x100", STEP_MS, 0);
    let two = "groups: [{name: g, rules: [{record: 'rec:a', expr: m}]}, {name: h, rules: [{record: 'rec:a', expr: m}]}]";
    rehearsal.begin("start", two, 0);
    rehearsal.evaluate(0);
    let rest = "groups: [{name: h, rules: [{record: 'rec:a', expr: m}]}]";
    rehearsal.begin("reload", rest, 10_000);
    rehearsal.evaluate(STEP_MS);
    let a = samples(&rehearsal, "{__name__=\"rec:a\"}");
    assert_eq!(a, ["0 3ff0000000000000", "15000 3ff0000000000000"]);
}

/// Prometheus resolves such an alert by forgetting it.
#[test]
fn what_goes_on_firing_does_so_after_a_restart() {
    let rules = one(
        "{alert: A, expr: m == 1, keep_firing_for: 5m, annotations: {fixed: text, of: '{{ $value }}'}}",
    );
    let mut rehearsal = Rehearsal::new("m{a=\"1\"} 1x4 0x100", STEP_MS, 0);
    rehearsal.run(
        "start",
        &rules,
        &[0, 15_000, 30_000, 45_000, 60_000, 75_000],
    );
    rehearsal.take_sent();
    rehearsal.run("restart", &rules, &[120_000, 135_000]);
    let alerts = |rehearsal: &Rehearsal| rehearsal.groups.as_ref().unwrap().alerts(None);
    let kept = alerts(&rehearsal);
    assert_eq!(kept.len(), 1);
    assert!(kept[0].is_firing && kept[0].active_at_ms == 0, "{kept:?}");
    assert_eq!(kept[0].annotations.len(), 1, "{kept:?}");
    rehearsal.evaluate(150_000);
    let state = samples(
        &rehearsal,
        "{__name__=\"ALERTS\", a=\"1\", alertname=\"A\", alertstate=\"firing\"}",
    );
    assert_eq!(state.last().unwrap(), "150000 3ff0000000000000");
    // Its time counts from the last evaluation before the restart, at 75 s.
    rehearsal.evaluate(374_000);
    assert_eq!(alerts(&rehearsal).len(), 1);
    rehearsal.evaluate(375_000);
    assert_eq!(alerts(&rehearsal).len(), 0);
}

#[test]
fn an_alert_that_was_resolved_before_a_restart_stays_so() {
    let rules = one("{alert: A, expr: m == 1, keep_firing_for: 15s}");
    let mut rehearsal = Rehearsal::new("m 1x2 0x100", STEP_MS, 0);
    rehearsal.run("start", &rules, &[0, 15_000, 30_000, 45_000, 60_000]);
    let later = rules.replace("15s", "1h");
    rehearsal.run("restart", &later, &[75_000, 90_000, 105_000]);
    assert!(rehearsal.groups.as_ref().unwrap().alerts(None).is_empty());
}

/// A schema that only grew would keep every pod there ever was.
#[test]
fn series_that_are_gone_leave_the_schema() {
    let mut rehearsal = Rehearsal::new("", STEP_MS, 0);
    rehearsal.begin(
        "start",
        &one("{record: 'rec:a', expr: m, labels: {x: y}}"),
        0,
    );
    let mut expected = 0;
    for round in 0..40 {
        let time_ms = round * 600_000;
        put(&rehearsal.store, round, time_ms);
        rehearsal.evaluate(time_ms);
        expected += 2 * 50;
    }
    let widest = rehearsal.widest.load(Ordering::Relaxed);
    assert!(widest < 600, "{widest} columns for 50 series at a time");
    let all: usize = rehearsal.series(NAMES).values().map(Vec::len).sum();
    // Every series has one sample and one marker, except those of the last round.
    assert_eq!(all, expected - 50);
}

fn put(store: &MemStore, round: i64, time_ms: i64) {
    for at in 0..50 {
        let pod = format!("{round}-{at}");
        let labels = LabelSet::new([("__name__", "m"), ("pod", &pod)]);
        let sample = SeriesSample::float(labels, time_ms, 1.0);
        store.append_samples(&[sample]).unwrap();
    }
}
