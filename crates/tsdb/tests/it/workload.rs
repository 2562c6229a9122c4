//! Writes that remember acknowledged samples, for comparison with those a database serves after a failure.

use narthex_model::{
    ColumnId, Frame, Histogram, LabelSet, METRIC_NAME, Schema,
    conformance::{BASE_MS, Sampled, dump},
    histogram::Span,
    metadata::Family,
    storage::{
        Binding, BoundRound, Outcome, SeriesSample, Sink, StorageError, SyncToken, TimeRange,
    },
};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::Db;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Acknowledged samples: bits by series and time, or what stands for a histogram.
pub(crate) type Acknowledged = BTreeMap<LabelSet, BTreeMap<i64, u64>>;

/// An instant in the middle of forty rounds.
pub(crate) const SPLIT_MS: i64 = BASE_MS + 40_500;

/// A series, a time, a float's bits or what stands for a histogram.
pub(crate) type Written = (LabelSet, i64, u64);

/// Several origins and some individual samples, round after round.
///
/// Often a strip's first record in a file of the log is no row: a late sample, or a family of a schema that has grown.
pub(crate) struct Workload {
    random: SplitMix64,
    /// Chooses which rounds are appended together.
    pairs: SplitMix64,
    /// Chooses what comes before the rows.
    extras: SplitMix64,
    origins: Vec<Origin>,
    /// An origin that has series of the first one.
    twin: Option<Box<dyn Binding>>,
    round: i64,
    /// Acknowledged appends, in order: the token and the samples.
    pub(crate) log: Vec<(SyncToken, Vec<Written>)>,
    /// Samples that may have been stored although the append failed or never returned.
    pub(crate) uncertain: Vec<Written>,
}

struct Origin {
    schema: Schema,
    values: Vec<f64>,
    binding: Option<Box<dyn Binding>>,
}

impl Workload {
    pub(crate) fn new(seed: u64, widths: &[usize]) -> Self {
        let origin = |(index, width): (usize, &usize)| {
            let instance = format!("i{index}");
            let schema = Schema::new(LabelSet::new([
                ("job", "w"),
                ("instance", instance.as_str()),
            ]));
            Origin {
                schema: grown(&schema, *width),
                values: vec![0.0; *width],
                binding: None,
            }
        };
        Self {
            random: SplitMix64::new(seed),
            pairs: SplitMix64::new(!seed),
            extras: SplitMix64::new(seed.rotate_left(32)),
            twin: None,
            origins: widths.iter().enumerate().map(origin).collect(),
            round: 0,
            log: Vec::new(),
            uncertain: Vec::new(),
        }
    }

    /// Forgets bindings, as the end of a process does.
    pub(crate) fn unbind(&mut self) {
        self.twin = None;
        self.origins
            .iter_mut()
            .for_each(|origin| origin.binding = None);
    }

    /// Appends one round of every origin, two together now and then, and individual samples; returns the first error.
    pub(crate) fn round(&mut self, db: &Db) -> Result<(), StorageError> {
        let time_ms = BASE_MS + self.round * 1000;
        self.round += 1;
        let mut result = Ok(());
        for origin in 0..self.origins.len() {
            if self.extras.one_in(3) {
                result = result.and(self.append_late(db, origin, time_ms));
            } else if self.extras.one_in(8) {
                result = result.and(self.append_family(db, origin, time_ms));
            }
        }
        if self.extras.one_in(3) {
            result = result.and(self.append_twin(db, time_ms + 500));
        }
        let mut rest = 0..self.origins.len();
        while !rest.is_empty() {
            let together = if self.pairs.one_in(4) { 2 } else { 1 };
            let some: Vec<usize> = rest.by_ref().take(together).collect();
            result = result.and(self.append(db, &some, time_ms));
        }
        if self.random.one_in(3) {
            result = result.and(self.append_out_of_order(db, time_ms));
        }
        result
    }

    /// Appends one round of each of these origins, several together.
    fn append(&mut self, db: &Db, some: &[usize], time_ms: i64) -> Result<(), StorageError> {
        let mut frames = Vec::new();
        let mut samples = Vec::new();
        for at in some {
            frames.push(self.frame(db, *at, time_ms, &mut samples)?);
        }
        let origins = self.origins.iter_mut().enumerate();
        let chosen = origins.filter(|(at, _)| some.contains(at));
        let bindings = chosen.map(|(_, origin)| origin.binding.as_mut().expect("it was bound"));
        let mut rounds: Vec<BoundRound<'_>> = bindings
            .zip(&frames)
            .map(|(binding, frame)| BoundRound::new(&mut **binding, frame))
            .collect();
        let appended = match rounds.as_mut_slice() {
            [alone] => alone.binding.append(alone.frame),
            several => db.append_together(several),
        };
        self.note(appended, samples)
    }

    /// Makes an origin's next round, whose samples are added to `samples`, and binds its schema.
    fn frame(
        &mut self,
        db: &Db,
        at: usize,
        time_ms: i64,
        samples: &mut Vec<Written>,
    ) -> Result<Frame, StorageError> {
        let Self {
            random, origins, ..
        } = self;
        let origin = &mut origins[at];
        if random.one_in(20) {
            origin.schema = grown(&origin.schema, 1 + random.index(3));
            origin.values.resize(origin.schema.len(), 0.0);
            if let Some(mut binding) = origin.binding.take() {
                binding.rebind(&origin.schema)?;
                origin.binding = Some(binding);
            }
        }
        let mut frame = Frame::new(origin.schema.clone(), time_ms);
        for (column, value) in (0u32..).zip(&mut origin.values) {
            let is_histogram = column % 5 == 3;
            match column % 3 {
                _ if is_histogram => *value += random.below(16) as f64,
                0 => *value += random.below(16) as f64,
                1 => *value = random.below(1000) as f64 / 1000.0,
                _ => *value = f64::from_bits(random.next_u64() >> 2),
            }
            if !random.one_in(10) {
                let mut bits = value.to_bits();
                if is_histogram {
                    let histogram = histogram(*value);
                    bits = fingerprint(&histogram);
                    frame.set_histogram(ColumnId(column), Arc::new(histogram));
                } else {
                    frame.set(ColumnId(column), *value);
                }
                samples.push((origin.schema.labels(ColumnId(column)), time_ms, bits));
            }
        }
        if origin.binding.is_none() {
            origin.binding = Some(db.bind(&origin.schema)?);
        }
        Ok(frame)
    }

    /// Appends an older sample of an origin's series.
    fn append_late(&mut self, db: &Db, origin: usize, time_ms: i64) -> Result<(), StorageError> {
        let schema = &self.origins[origin].schema;
        let labels = schema.labels(ColumnId(self.extras.below(schema.len() as u64) as u32));
        let late_ms = time_ms - 5_300;
        let sample = SeriesSample::float(labels.clone(), late_ms, self.extras.below(100) as f64);
        let written = vec![(labels, late_ms, sample.cell.to_bits())];
        let appended = db.append_samples(&[sample]);
        self.note(appended, written)
    }

    /// Lets an origin's schema grow by a family of which nothing is reported yet.
    fn append_family(&mut self, db: &Db, origin: usize, time_ms: i64) -> Result<(), StorageError> {
        let family = format!("family_{}", self.round);
        let origin = &mut self.origins[origin];
        origin.schema = grown_by(&origin.schema, 1, &family);
        origin.values.resize(origin.schema.len(), 0.0);
        let mut binding = match origin.binding.take() {
            Some(mut binding) => {
                binding.rebind(&origin.schema)?;
                binding
            }
            None => db.bind(&origin.schema)?,
        };
        let appended = binding.append(&Frame::new(origin.schema.clone(), time_ms));
        origin.binding = Some(binding);
        appended.map(drop)
    }

    /// Appends a row of another origin that reports a series of the first one.
    fn append_twin(&mut self, db: &Db, time_ms: i64) -> Result<(), StorageError> {
        let labels = self.origins[0].schema.labels(ColumnId(0));
        let mut edit = Schema::new(LabelSet::empty()).edit();
        let family = edit.family(Family::default());
        edit.push(&labels, family);
        let schema = edit.finish();
        let mut frame = Frame::new(schema.clone(), time_ms);
        let value = self.extras.below(1000) as f64;
        frame.set(ColumnId(0), value);
        let mut twin = match self.twin.take() {
            Some(twin) => twin,
            None => db.bind(&schema)?,
        };
        let appended = twin.append(&frame);
        self.twin = Some(twin);
        self.note(appended, vec![(labels, time_ms, value.to_bits())])
    }

    /// Remembers samples by what became of them.
    fn note(
        &mut self,
        appended: Result<Outcome, StorageError>,
        samples: Vec<Written>,
    ) -> Result<(), StorageError> {
        match appended {
            Ok(outcome) => {
                assert_eq!(outcome.accepted, samples.len() as u64);
                self.log.push((outcome.token, samples));
                Ok(())
            }
            Err(error) => {
                self.uncertain.extend(samples);
                Err(error)
            }
        }
    }

    fn append_out_of_order(&mut self, db: &Db, time_ms: i64) -> Result<(), StorageError> {
        let mut samples = Vec::new();
        for series in 0..1 + self.random.below(4) {
            let labels = LabelSet::new([
                (METRIC_NAME, "scattered"),
                ("s", series.to_string().as_str()),
            ]);
            // Times are unique: otherwise a second value for one could not be distinguished from a lost one.
            let time_ms = time_ms - 500 - (self.round * 37 % 11) * 1000 * 60 - self.round;
            samples.push(SeriesSample::float(
                labels,
                time_ms,
                self.random.below(100) as f64,
            ));
        }
        let remembered = samples
            .iter()
            .map(|sample| (sample.labels.clone(), sample.time_ms, sample.cell.to_bits()));
        let remembered = remembered.collect();
        self.note(db.append_samples(&samples), remembered)
    }

    /// Returns everything acknowledged up to the `count`th append.
    pub(crate) fn acknowledged(&self, count: usize) -> Acknowledged {
        collect(self.log[..count].iter().flat_map(|(_, samples)| samples))
    }
}

fn collect<'a>(samples: impl Iterator<Item = &'a Written>) -> Acknowledged {
    let mut all = Acknowledged::new();
    for (labels, time_ms, bits) in samples {
        all.entry(labels.clone())
            .or_default()
            .insert(*time_ms, *bits);
    }
    all
}

/// Returns a histogram of so many observations, which gets another bucket now and then.
pub(crate) fn histogram(count: f64) -> Histogram {
    let length = 1 + (count as u32) / 40 % 9;
    let mut positive_buckets = vec![1.0; length as usize];
    positive_buckets[0] = count;
    Histogram {
        histogram_schema: 2,
        integer_counts: true,
        count: count + f64::from(length) - 1.0,
        sum: count / 3.0,
        positive_spans: vec![Span { offset: -4, length }],
        positive_buckets,
        ..Histogram::default()
    }
}

/// Returns a number that stands for a histogram.
pub(crate) fn fingerprint(histogram: &Histogram) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{histogram:?}").hash(&mut hasher);
    hasher.finish()
}

fn grown(schema: &Schema, columns: usize) -> Schema {
    grown_by(schema, columns, "m")
}

/// Returns the schema with further columns of a family.
fn grown_by(schema: &Schema, columns: usize, family: &str) -> Schema {
    let mut edit = schema.edit();
    let family = edit.family(Family {
        name: family.into(),
        ..Family::default()
    });
    for at in schema.len()..schema.len() + columns {
        edit.push(
            &LabelSet::new([(METRIC_NAME, "m"), ("at", at.to_string().as_str())]),
            family,
        );
    }
    edit.finish()
}

/// Returns everything a database serves.
pub(crate) fn served(db: &Db) -> Acknowledged {
    let mut all = Acknowledged::new();
    for (labels, samples) in dump(db, &[], TimeRange::ALL) {
        for (time_ms, sampled, _) in samples {
            let bits = match sampled {
                Sampled::Float(bits) => bits,
                Sampled::Histogram(histogram) => fingerprint(&histogram),
                Sampled::Stale => panic!("{labels} has {sampled:?} at {time_ms}"),
            };
            all.entry(labels.clone()).or_default().insert(time_ms, bits);
        }
    }
    all
}

/// Returns the first sample of `part` that `whole` lacks or has with another value.
pub(crate) fn missing(part: &Acknowledged, whole: &Acknowledged) -> Option<(LabelSet, i64)> {
    part.iter().find_map(|(labels, samples)| {
        let same = |time_ms: &i64, bits: &u64| {
            whole.get(labels).and_then(|all| all.get(time_ms)) == Some(bits)
        };
        let (time_ms, _) = samples
            .iter()
            .find(|(time_ms, bits)| !same(time_ms, bits))?;
        Some((labels.clone(), *time_ms))
    })
}
