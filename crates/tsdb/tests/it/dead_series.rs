//! What series that ended cost the queries that cannot see them.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema, cell,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Batch, Budget, Context, Selector, Sink, Store, TimeRange},
};
use narthex_promql::{Engine, EngineOptions, Value};
use narthex_tsdb::{Db, FaultyIo, ManualClock};
use std::sync::Arc;

const LIVE: usize = 5;

fn schema(pod: &str) -> Schema {
    let common = LabelSet::new([("job", "churn"), ("pod", pod)]);
    let mut edit = Schema::new(common).edit();
    for name in ["up", "queue"] {
        let family = edit.family(Family {
            name: name.into(),
            ..Family::default()
        });
        edit.push(&LabelSet::new([(METRIC_NAME, name)]), family);
    }
    edit.finish()
}

/// Returns a database with targets that ended before `BASE_MS + 1000`, and live ones that began after it.
fn database(dead: usize) -> Db {
    let clock = ManualClock::new(BASE_MS + 10_000);
    let db = Db::open(Arc::new(FaultyIo::new()), options(), Arc::new(clock)).expect("a database");
    let store = |pod: &str, from_ms: i64, ends: bool| {
        let schema = schema(pod);
        let mut binding = db.bind(&schema).expect("a binding");
        for row in 0..3 {
            let mut frame = Frame::new(schema.clone(), from_ms + row * 100);
            for column in [ColumnId(0), ColumnId(1)] {
                if ends && row == 2 {
                    frame.mark_stale(column);
                } else {
                    frame.set(column, 1.0);
                }
            }
            binding.append(&frame).expect("appended");
        }
    };
    (0..dead).for_each(|at| store(&format!("dead-{at}"), BASE_MS, true));
    (0..LIVE).for_each(|at| store(&format!("live-{at}"), BASE_MS + 5000, false));
    db
}

/// Returns the batches of `up`.
fn batches(db: &Db, range: TimeRange) -> Vec<Arc<dyn Batch>> {
    let ctx = Context::unlimited();
    let selector = Selector::new(vec![Matcher::equal(METRIC_NAME, "up")], range);
    let prepared = db.view(range).expect("a view").prepare(&[selector], &ctx);
    prepared
        .expect("prepared")
        .batches(0, &ctx)
        .expect("batches")
}

/// Returns the newest value of the only series of a batch, unless it ended.
fn newest(batch: &dyn Batch, range: TimeRange) -> Option<f64> {
    let mut found = Vec::new();
    let read = batch.last(&[0], range, &mut found, &Context::unlimited());
    read.expect("read");
    let last = found.pop().flatten().expect("a sample");
    Some(last.cell).filter(|cell| !cell::is_stale(*cell))
}

/// Returns the series of `up` at an instant, and how many samples were read.
fn ask(db: &Db, time_ms: i64) -> (String, u64) {
    ask_for(db, "up", time_ms)
}

fn ask_for(db: &Db, query: &str, time_ms: i64) -> (String, u64) {
    let engine = Engine::new(EngineOptions::default());
    let result = engine.instant(db, query, time_ms, &Context::unlimited());
    let result = result.expect("the query is valid");
    (format!("{:?}", result.value), result.stats.samples_read)
}

#[test]
fn what_has_ended_is_not_read_again() {
    const DEAD: usize = 20;
    let db = database(DEAD);
    let end_ms = BASE_MS + 9000;
    let all = TimeRange::new(BASE_MS, end_ms);
    let ended = |range: TimeRange| {
        let batches = batches(&db, range);
        let ended = batches.iter().filter(|batch| batch.has_ended(range));
        ended
            .inspect(|batch| assert_eq!(newest(&***batch, range), None))
            .count()
    };
    let knows_who_ended = |at: &str| {
        assert_eq!(ended(all), DEAD, "{at}");
        // Not in ranges without the marker, in which they had not ended.
        assert_eq!(ended(TimeRange::new(BASE_MS, BASE_MS + 199)), 0, "{at}");
        assert_eq!(ended(TimeRange::new(BASE_MS + 201, end_ms)), 0, "{at}");
        assert_eq!(ask(&db, BASE_MS + 199).1, DEAD as u64, "{at}");
    };
    let (before, read) = ask(&db, end_ms);
    assert_eq!(read, LIVE as u64, "the head knows at once");
    knows_who_ended("in the head");
    db.flush().expect("flushed");
    assert_eq!(
        ask(&db, end_ms),
        (before.clone(), (DEAD + LIVE) as u64),
        "blocks are read once"
    );
    assert_eq!(ask(&db, end_ms), (before, LIVE as u64));
    knows_who_ended("in a block");
    // A target comes back, another has a late sample.
    for (pod, time_ms) in [("dead-3", BASE_MS + 6000), ("dead-4", BASE_MS + 50)] {
        let schema = schema(pod);
        let mut binding = db.bind(&schema).expect("a binding");
        let mut frame = Frame::new(schema, time_ms);
        frame.set(ColumnId(0), 7.0);
        binding.append(&frame).expect("appended");
    }
    assert_eq!(
        ended(all),
        DEAD - 1,
        "a sample before the marker changes nothing"
    );
    let values = batches(&db, all);
    let values = values.iter().filter_map(|batch| newest(&**batch, all));
    assert_eq!(values.filter(|value| *value == 7.0).count(), 1);
    let (after, read) = ask(&db, end_ms);
    assert_eq!(read, (LIVE + 1) as u64);
    assert!(
        after.contains("dead-3") && !after.contains("dead-4"),
        "{after}"
    );
    db.flush().expect("flushed");
    let again = ask(&db, end_ms);
    assert_eq!(again.0.len(), after.len());
    assert!(again.0.contains("dead-3"));
}

#[test]
fn who_reads_all_series_of_a_target_knows_its_end_for_others() {
    const DEAD: usize = 20;
    let db = database(DEAD);
    db.flush().expect("flushed");
    let read = |query: &str| ask_for(&db, query, BASE_MS + 9000).1;
    assert_eq!(read("up"), (DEAD + LIVE) as u64);
    assert_eq!(read("queue"), (DEAD + LIVE) as u64, "that ended on its own");
    assert_eq!(read("up"), LIVE as u64);
    let db = database(DEAD);
    db.flush().expect("flushed");
    let read = |query: &str| ask_for(&db, query, BASE_MS + 9000).1;
    let all = "{job=\"churn\"}";
    assert_eq!(read(all), 2 * (DEAD + LIVE) as u64);
    assert_eq!(read(all), 2 * LIVE as u64);
    assert_eq!((read("up"), read("queue")), (LIVE as u64, LIVE as u64));
}

#[test]
fn an_end_in_the_head_hides_what_blocks_have() {
    let clock = ManualClock::new(BASE_MS + 10_000);
    let db = Db::open(Arc::new(FaultyIo::new()), options(), Arc::new(clock)).expect("a database");
    let pods: Vec<String> = (0..4).map(|at| format!("pod-{at}")).collect();
    let mut bindings: Vec<_> = pods
        .iter()
        .map(|pod| (schema(pod), db.bind(&schema(pod)).expect("a binding")))
        .collect();
    let mut store = |at: usize, time_ms: i64, fill: &dyn Fn(&mut Frame)| {
        let (schema, binding) = &mut bindings[at];
        let mut frame = Frame::new(schema.clone(), time_ms);
        fill(&mut frame);
        binding.append(&frame).expect("appended");
    };
    let live = |frame: &mut Frame| {
        frame.set(ColumnId(0), 1.0);
        frame.set(ColumnId(1), 2.0);
    };
    let end = |frame: &mut Frame| {
        frame.mark_stale(ColumnId(0));
        frame.mark_stale(ColumnId(1));
    };
    (0..4).for_each(|at| store(at, BASE_MS, &live));
    // The first has a block's sample and an end in the head, the second ended in the block, too.
    store(1, BASE_MS + 100, &end);
    db.flush().expect("flushed");
    store(0, BASE_MS + 200, &end);
    // An end of one series alone, and an end after which the target came back.
    store(2, BASE_MS + 200, &|frame| frame.mark_stale(ColumnId(1)));
    store(3, BASE_MS + 200, &end);
    store(3, BASE_MS + 300, &live);
    let end_ms = BASE_MS + 9000;
    for _ in 0..3 {
        let (answer, _) = ask(&db, end_ms);
        let seen = |pod: &&String| answer.contains(pod.as_str());
        let seen: Vec<&String> = pods.iter().filter(seen).collect();
        assert_eq!(seen, [&pods[2], &pods[3]], "{answer}");
    }
    let (earlier, _) = ask(&db, BASE_MS + 150);
    assert!(earlier.contains("pod-0") && !earlier.contains("pod-1"));
    db.flush().expect("flushed");
    assert!(!ask(&db, end_ms).0.contains("pod-0"));
}

/// Both the same series, of which one is in strips with and without `pod` among the labels that all their series have.
#[test]
fn an_end_hides_what_strips_with_other_common_labels_have() {
    let db = database(3);
    let end_ms = BASE_MS + 9000;
    let mut edit = Schema::new(LabelSet::new([("job", "churn")])).edit();
    let family = edit.family(Family {
        name: "up".into(),
        ..Family::default()
    });
    edit.push(
        &LabelSet::new([(METRIC_NAME, "up"), ("pod", "dead-1")]),
        family,
    );
    let schema = edit.finish();
    let mut binding = db.bind(&schema).expect("a binding");
    let mut frame = Frame::new(schema, BASE_MS + 150);
    frame.set(ColumnId(0), 5.0);
    binding.append(&frame).expect("appended");
    let in_head = ask(&db, end_ms).0;
    assert!(!in_head.contains("dead-"), "{in_head}");
    assert!(ask(&db, BASE_MS + 160).0.contains("dead-1"));
    db.flush().expect("flushed");
    for round in 0..3 {
        let in_block = ask(&db, end_ms).0;
        assert_eq!(in_block, in_head, "round {round}");
    }
}

/// Returns the most memory that selecting `up` took, and the number of series selected.
fn select(db: &Db, range: TimeRange) -> (u64, usize) {
    let ctx = Context {
        budget: Budget::new("query", 1 << 30),
        ..Context::unlimited()
    };
    let selector = Selector::new(vec![Matcher::equal(METRIC_NAME, "up")], range);
    let view = db.view(range).expect("a view");
    let prepared = view.prepare(&[selector], &ctx).expect("prepared");
    let batches = prepared.batches(0, &ctx).expect("batches");
    let series = batches.iter().map(|batch| batch.len()).sum();
    (ctx.budget.peak_bytes(), series)
}

#[test]
fn a_selector_does_not_look_at_series_that_ended_before_its_range() {
    let (alone, crowded) = (database(0), database(300));
    let now = TimeRange::new(BASE_MS + 4000, BASE_MS + 9000);
    let (bytes, series) = select(&alone, now);
    assert!(bytes > 0 && series == LIVE);
    assert_eq!(
        select(&crowded, now),
        (bytes, series),
        "nothing is leased for dead series"
    );
    let before = TimeRange::new(BASE_MS + 200, BASE_MS + 9000);
    assert_eq!(
        select(&crowded, before).1,
        LIVE + 300,
        "their last instant is seen"
    );
}

#[test]
fn series_are_grouped_by_common_labels_as_by_their_own() {
    let db = database(0);
    let engine = Engine::new(EngineOptions::default());
    let groups = |query: &str| {
        let all = format!("{query} ({{job=\"churn\"}})");
        let result = engine.instant(&db, &all, BASE_MS + 9000, &Context::unlimited());
        match result.expect("the query is valid").value {
            Value::Vector(samples) => samples.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(groups("count by (job)"), 1);
    assert_eq!(groups("count by (pod)"), LIVE);
    assert_eq!(groups("count by (__name__)"), 2);
    assert_eq!(groups("count by (job, __name__)"), 2);
    assert_eq!(groups("count by (pod, __name__)"), 2 * LIVE);
    assert_eq!(groups("count without (job)"), LIVE);
    assert_eq!(groups("count by (nothing)"), 1);
}
