//! Marks of listings: equal ones mean equal lists, whatever comes, goes, ends, arrives late or is flushed.

use crate::support::{NOW_MS, ROOT, options};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, MatchOp, Matcher, Schema, SchemaEdit,
    metadata::Family,
    storage::{
        Binding, Context, ListingMark, ListingOf, SeriesQuery, SeriesSample, Sink, Store, TimeRange,
    },
};
use narthex_testkit::{rng::SplitMix64, scaled};
use narthex_tsdb::{Db, DbOptions, FaultyIo, ManualClock};
use std::{collections::HashMap, sync::Arc};

const STEP_MS: i64 = 15_000;
const METRICS: usize = 6;

struct Origin {
    schema: Schema,
    binding: Box<dyn Binding>,
}

struct Fleet {
    db: Db,
    clock: ManualClock,
    now_ms: i64,
    rng: SplitMix64,
    origins: Vec<Origin>,
    made: usize,
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::new(NOW_MS);
        let options = DbOptions {
            path: ROOT.into(),
            ..options()
        };
        let io = Arc::new(FaultyIo::new());
        let db = Db::open(io, options, Arc::new(clock.clone())).expect("a database");
        let mut fleet = Self {
            db,
            clock,
            now_ms: NOW_MS,
            rng: SplitMix64::new(seed),
            origins: Vec::new(),
            made: 0,
        };
        fleet.origins = (0..5).map(|_| fleet.origin()).collect();
        fleet
    }

    fn origin(&mut self) -> Origin {
        let pod = format!("pod-{}", self.made % 9);
        let job = format!("job-{}", self.made % 2);
        self.made += 1;
        let common = LabelSet::new([("job", job.as_str()), ("pod", pod.as_str())]);
        let mut edit = Schema::new(common).edit();
        for at in 0..self.rng.below(METRICS as u64) as usize {
            push(&mut edit, &local(at, 0));
        }
        let schema = edit.finish();
        let binding = self.db.bind(&schema).expect("a binding");
        Origin { schema, binding }
    }

    /// Does something that listings may depend on.
    fn step(&mut self) {
        match self.rng.below(12) {
            0..6 => self.round(),
            6 => {
                let at = self.rng.index(self.origins.len());
                self.origins[at] = self.origin();
            }
            7 => {
                let at = self.rng.index(self.origins.len());
                let set = local(self.rng.index(METRICS), self.made % 3);
                self.made += 1;
                let origin = &mut self.origins[at];
                let mut edit = origin.schema.edit();
                push(&mut edit, &set);
                let schema = edit.finish();
                origin.binding.rebind(&schema).expect("bound");
                origin.schema = schema;
            }
            8 => {
                let labels = local(self.rng.index(METRICS), 0).with("pod", "pod-1");
                let late_ms = self.now_ms - self.rng.below(20) as i64 * STEP_MS - 1;
                let sample = SeriesSample::float(labels, late_ms, 1.0);
                self.db.append_samples(&[sample]).expect("stored");
            }
            9 => self.db.flush().expect("flushed"),
            _ => {
                for _ in 0..self.rng.below(30) {
                    self.now_ms += STEP_MS;
                    self.clock.set(self.now_ms);
                    self.db.maintain(self.now_ms).expect("maintained");
                }
            }
        }
    }

    /// Returns a time to ask for.
    fn range(&mut self) -> TimeRange {
        let from_ms = self.now_ms - self.rng.below(40) as i64 * STEP_MS;
        match self.rng.below(4) {
            0 => TimeRange::ALL,
            1 => TimeRange::new(from_ms, from_ms + 3 * STEP_MS),
            _ => TimeRange::new(from_ms, self.now_ms),
        }
    }

    /// Most origins report, and most of their series.
    fn round(&mut self) {
        self.now_ms += STEP_MS;
        self.clock.set(self.now_ms);
        for origin in &mut self.origins {
            if self.rng.one_in(4) {
                continue;
            }
            let mut frame = Frame::new(origin.schema.clone(), self.now_ms);
            for column in 0..origin.schema.len() as u32 {
                if !self.rng.one_in(5) {
                    frame.set(ColumnId(column), 1.0);
                }
            }
            origin.binding.append(&frame).expect("appended");
        }
    }
}

fn push(edit: &mut SchemaEdit, set: &LabelSet) {
    let family = edit.family(Family {
        name: set.metric_name().into(),
        ..Family::default()
    });
    edit.push(set, family);
}

fn local(metric: usize, extra: usize) -> LabelSet {
    let name = format!("m{metric}");
    let extra = format!("{extra}");
    let labels = [(METRIC_NAME, name.as_str()), ("extra", extra.as_str())];
    LabelSet::new(labels.into_iter().take(1 + metric % 2))
}

fn selectors() -> [Vec<Vec<Matcher>>; 5] {
    let matcher = |op, name, value| Matcher::new(op, name, value).expect("a matcher");
    [
        vec![],
        vec![vec![Matcher::equal(METRIC_NAME, "m1")]],
        vec![
            vec![Matcher::equal("job", "job-1")],
            vec![Matcher::equal(METRIC_NAME, "m2")],
        ],
        vec![vec![
            matcher(MatchOp::Regex, METRIC_NAME, "m0|m3"),
            matcher(MatchOp::NotEqual, "pod", "pod-1"),
        ]],
        vec![vec![matcher(MatchOp::NotEqual, "job", "")]],
    ]
}

/// Returns what `of` lists, as text; `None` for what is not asked with such a query.
fn listed(db: &Db, of: ListingOf<'_>, query: &SeriesQuery) -> Option<String> {
    let (view, ctx) = (db.view(query.range).expect("a view"), Context::unlimited());
    Some(match of {
        ListingOf::Names => format!("{:?}", view.label_names(query, &ctx).expect("a list").items),
        ListingOf::Values(name) => {
            format!(
                "{:?}",
                view.label_values(name, query, &ctx).expect("a list").items
            )
        }
        ListingOf::Series => format!("{:?}", view.series(query, &ctx).expect("a list").items),
        ListingOf::Cardinality if query.range == TimeRange::ALL && query.any_of.is_empty() => {
            format!("{:?}", view.cardinality(9, &ctx).expect("a list"))
        }
        ListingOf::Cardinality => return None,
    })
}

#[test]
fn listings_with_equal_marks_are_equal() {
    let selectors = selectors();
    let ofs = [
        ListingOf::Names,
        ListingOf::Values("pod"),
        ListingOf::Values(METRIC_NAME),
        ListingOf::Values("extra"),
        ListingOf::Series,
        ListingOf::Cardinality,
    ];
    let (mut again, mut asked) = (0, 0);
    for seed in 0..scaled(6) as u64 {
        let mut fleet = Fleet::new(seed);
        let mut known: HashMap<(usize, usize, ListingMark), String> = HashMap::new();
        for _ in 0..250 {
            fleet.step();
            let range = fleet.range();
            let all = (0..selectors.len())
                .flat_map(|selector| (0..ofs.len()).map(move |of| (selector, of)));
            for (selector, at) in all {
                let query = SeriesQuery {
                    any_of: selectors[selector].clone(),
                    range,
                    limit: None,
                };
                let mark = || {
                    let mark = fleet
                        .db
                        .listing_mark(ofs[at], &query, &Context::unlimited());
                    mark.expect("a mark")
                };
                let before = mark();
                let Some(list) = listed(&fleet.db, ofs[at], &query) else {
                    continue;
                };
                let Some(before) = before else {
                    assert_eq!(
                        selector, 4,
                        "only what selects nearly everything is not kept"
                    );
                    continue;
                };
                assert_eq!(Some(before), mark(), "nothing has happened");
                asked += 1;
                let first = known
                    .entry((selector, at, before))
                    .or_insert_with(|| list.clone());
                again += 1;
                assert_eq!(*first, list, "seed {seed}, {:?} of {query:?}", ofs[at]);
            }
        }
        again -= known.len();
    }
    // Most of what happens changes none of them.
    assert!(again * 4 > asked, "{again} of {asked}");
}

/// Rows that are appended change no list, and hence no mark.
#[test]
fn rows_leave_marks_as_they_are() {
    let mut fleet = Fleet::new(1);
    let all = |fleet: &Fleet, from_ms: i64| -> Vec<ListingMark> {
        let query = |any_of| SeriesQuery {
            any_of,
            range: TimeRange::new(from_ms, fleet.now_ms),
            limit: None,
        };
        let mark = |of, any_of| {
            let mark = fleet
                .db
                .listing_mark(of, &query(any_of), &Context::unlimited());
            mark.expect("a mark").expect("known")
        };
        let of_metric = || vec![vec![Matcher::equal(METRIC_NAME, "m1")]];
        vec![
            mark(ListingOf::Values("pod"), Vec::new()),
            mark(ListingOf::Names, Vec::new()),
            mark(ListingOf::Cardinality, Vec::new()),
            mark(ListingOf::Series, of_metric()),
            mark(ListingOf::Values("pod"), of_metric()),
        ]
    };
    let append = |fleet: &mut Fleet| {
        fleet.now_ms += STEP_MS;
        fleet.clock.set(fleet.now_ms);
        for origin in &mut fleet.origins {
            let mut frame = Frame::new(origin.schema.clone(), fleet.now_ms);
            let columns = 0..origin.schema.len() as u32;
            columns.for_each(|column| frame.set(ColumnId(column), 1.0));
            origin.binding.append(&frame).expect("appended");
        }
    };
    append(&mut fleet);
    let before = all(&fleet, fleet.now_ms - STEP_MS);
    for _ in 0..300 {
        append(&mut fleet);
        assert_eq!(all(&fleet, fleet.now_ms - 3 * STEP_MS / 2), before);
    }
    let origin = fleet.origin();
    fleet.origins.push(origin);
    append(&mut fleet);
    assert_ne!(all(&fleet, fleet.now_ms - STEP_MS)[0], before[0]);
}
