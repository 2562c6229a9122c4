//! Handles over edits, stale events, discards and compaction.

use super::*;

fn round(sink: &mut Sink, time_ms: i64, values: &[(Slot, f64)]) -> (Vec<String>, Vec<u32>) {
    sink.begin();
    for (slot, value) in values {
        sink.set(*slot, *value);
    }
    let frame = sink.finish(time_ms);
    let shown = frame
        .present()
        .iter()
        .map(|at| {
            let column = ColumnId(u32::try_from(at).expect("small"));
            format!("{} {}", frame.schema().labels(column), frame.values()[at])
        })
        .collect();
    (shown, frame.stale().iter().map(|column| column.0).collect())
}

fn device(sink: &mut Sink, name: &str) -> Slot {
    sink.add(&Desc::counter("bytes", "Bytes."), &[("device", name)])
}

#[test]
fn absence_is_a_stale_event_once() {
    let mut sink = Sink::new(LabelSet::new([("job", "node")]));
    let (a, b) = (device(&mut sink, "a"), device(&mut sink, "b"));
    let expected = [
        r#"bytes{device="a", job="node"} 1"#,
        r#"bytes{device="b", job="node"} 2"#,
    ];
    assert_eq!(
        round(&mut sink, 1, &[(a, 1.0), (b, 2.0)]),
        (expected.map(String::from).to_vec(), vec![])
    );
    assert_eq!(round(&mut sink, 2, &[(a, 1.0)]).1, [1]);
    assert_eq!(round(&mut sink, 3, &[(a, 1.0)]).1, [] as [u32; 0]);
}

#[test]
fn a_retired_handle_is_reused_for_another_slot() {
    let mut sink = Sink::new(LabelSet::empty());
    let (a, b) = (device(&mut sink, "a"), device(&mut sink, "b"));
    round(&mut sink, 1, &[(a, 1.0), (b, 2.0)]);
    let before = sink.schema().clone();
    sink.begin();
    sink.retire(a);
    sink.retire(a);
    let c = device(&mut sink, "c");
    sink.set(b, 3.0);
    sink.set(c, 4.0);
    let frame = sink.finish(2);
    assert_eq!(frame.stale(), [ColumnId(0)]);
    let diff = frame.schema().diff(&before).expect("one lineage");
    assert_eq!((diff.appended, diff.retired), (2..3, vec![ColumnId(0)]));
    assert_eq!(frame.values()[1..], [3.0, 4.0]);
}

#[test]
fn discard_takes_back_one_collectors_values() {
    let mut sink = Sink::new(LabelSet::empty());
    sink.set_owner(1);
    let a = device(&mut sink, "a");
    sink.set_owner(2);
    let b = device(&mut sink, "b");
    sink.begin();
    sink.set(a, 1.0);
    sink.set(b, 1.0);
    sink.discard(1);
    assert_eq!(sink.finish(1).present().iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn many_dead_slots_end_in_a_smaller_schema() {
    let mut sink = Sink::new(LabelSet::empty());
    let stays = device(&mut sink, "stays");
    for i in 0..=TOLERATED_RETIRED {
        sink.begin();
        let flaps = device(&mut sink, &format!("veth{i}"));
        sink.set(stays, i as f64);
        sink.set(flaps, 1.0);
        sink.finish(i as i64);
        sink.begin();
        sink.retire(flaps);
        sink.set(stays, i as f64);
        assert_eq!(sink.finish(i as i64).stale().len(), 1);
    }
    let lineage = sink.schema().lineage();
    let (shown, stale) = round(&mut sink, 9, &[(stays, 7.0)]);
    assert_eq!(
        (shown, stale),
        (vec![r#"bytes{device="stays"} 7"#.to_string()], vec![])
    );
    assert_eq!(sink.schema().len(), 1);
    assert_ne!(sink.schema().lineage(), lineage);
}

#[test]
fn a_series_that_ends_in_the_round_that_set_it_has_no_value() {
    let mut sink = Sink::new(LabelSet::empty());
    let (a, b) = (device(&mut sink, "a"), device(&mut sink, "b"));
    sink.begin();
    sink.set(a, 1.0);
    sink.set(b, 1.0);
    sink.retire(a);
    assert_eq!(sink.finish(1).present().iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_series_added_twice_is_one_and_ends_when_both_are_gone() {
    let mut sink = Sink::new(LabelSet::empty());
    let (a, again) = (device(&mut sink, "a"), device(&mut sink, "a"));
    assert_eq!(a, again);
    sink.retire(a);
    let (shown, _) = round(&mut sink, 1, &[(again, 2.0)]);
    assert_eq!(shown, [r#"bytes{device="a"} 2"#]);
    sink.retire(again);
    let (shown, stale) = round(&mut sink, 2, &[]);
    assert_eq!((shown.len(), stale.len()), (0, 1));
    let anew = device(&mut sink, "a");
    assert_eq!(round(&mut sink, 3, &[(anew, 3.0)]).0.len(), 1);
}

/// A round that began with a compaction and added series looked for them in the page before, in which others had their columns:
/// the exporter answered 500.
#[test]
fn shares_of_the_last_page_are_known_after_a_compaction() {
    const KEPT: usize = TOLERATED_RETIRED;
    const NEW: usize = 2 * TOLERATED_RETIRED;
    let mut sink = Sink::new(LabelSet::empty());
    sink.set_owner(1);
    let add = |sink: &mut Sink, kind: &str, count: usize| -> Vec<(Slot, f64)> {
        let names = (0..count).map(|at| format!("{kind}-{at}"));
        names.map(|name| (device(sink, &name), 0.5)).collect()
    };
    let others = add(&mut sink, "other", TOLERATED_RETIRED + 1);
    let kept = add(&mut sink, "kept", KEPT);
    round(&mut sink, 1, &[others.as_slice(), &kept].concat());
    others.into_iter().for_each(|(slot, _)| sink.retire(slot));
    round(&mut sink, 2, &kept);
    let share = sink.page_share(1);
    assert_eq!(share.0, KEPT);
    sink.begin();
    assert_eq!(sink.schema().len(), KEPT, "compacted");
    add(&mut sink, "new", NEW);
    assert_eq!(sink.page_share(1), share);
    sink.finish(3);
    assert_eq!(sink.page_share(1).0, 0);
}
