//! A sink that remembers what each series has at each time.

use narthex_files::{FileSource, FilesConfig, RoundSource as _};
use narthex_model::{
    Frame, Schema,
    storage::{Binding, Budget, Outcome, SeriesSample, Sink, StorageError, SyncToken},
    sync::Whole as _,
};
use narthex_testkit::TempDir;
use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

/// Values of a series by time; `None` is a staleness marker.
type Samples = BTreeMap<i64, Option<f64>>;

#[derive(Clone, Default)]
pub(crate) struct Recorder {
    series: Arc<Mutex<BTreeMap<String, Samples>>>,
}

struct Bound {
    recorder: Recorder,
    schema: Schema,
}

impl Recorder {
    /// Stores a sample; the first one at a time stays.
    fn put(&self, series: String, time_ms: i64, value: Option<f64>) {
        let mut all = self.series.lock().whole();
        all.entry(series)
            .or_default()
            .entry(time_ms)
            .or_insert(value);
    }

    /// Returns what was stored at a time, as `series value`; `x` for a marker.
    pub(crate) fn at(&self, time_ms: i64) -> Vec<String> {
        let all = self.series.lock().whole();
        let found = all.iter().filter_map(|(series, samples)| {
            let value = samples.get(&time_ms)?;
            let value = value.map_or("x".to_owned(), |value| value.to_string());
            Some(format!("{series} {value}"))
        });
        let mut found: Vec<String> = found.collect();
        // By name, then by labels, whatever the punctuation.
        found.sort_by_key(|line| line.replace(['{', '}'], " "));
        found
    }
}

impl Sink for Recorder {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(Bound {
            recorder: self.clone(),
            schema: schema.clone(),
        }))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        for sample in samples {
            self.put(sample.labels.to_string(), sample.time_ms, Some(sample.cell));
        }
        Ok(Outcome::default())
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

impl Binding for Bound {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.schema = schema.clone();
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        assert!(
            frame.schema().same(&self.schema),
            "a frame of another version"
        );
        for at in frame.present().iter() {
            let column = narthex_model::ColumnId(u32::try_from(at).unwrap());
            let labels = self.schema.labels(column).to_string();
            self.recorder
                .put(labels, frame.time_of(column), Some(frame.values()[at]));
        }
        for column in frame.stale() {
            let labels = self.schema.labels(*column).to_string();
            self.recorder.put(labels, frame.time_ms(), None);
        }
        Ok(Outcome::default())
    }
}

/// A directory with files, and a source that looks at them.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) recorder: Recorder,
    source: FileSource,
    pub(crate) now_ms: i64,
}

impl Rig {
    /// Starts with the pattern `*.prom` in a new directory, and settings that `change` changes.
    pub(crate) fn new(change: impl FnOnce(&mut FilesConfig, &TempDir)) -> Self {
        Self::within(Budget::unlimited(), change)
    }

    /// Starts as `new` does, with so much memory.
    pub(crate) fn within(budget: Budget, change: impl FnOnce(&mut FilesConfig, &TempDir)) -> Self {
        let dir = TempDir::new("files");
        let mut config = FilesConfig::new("j");
        config.paths = vec![dir.join("*.prom").display().to_string()];
        // Often enough to be told of changes.
        config.interval = Duration::from_secs(1);
        change(&mut config, &dir);
        Self {
            source: FileSource::new(config, budget),
            dir,
            recorder: Recorder::default(),
            now_ms: now_ms(),
        }
    }

    /// Writes a file as writers should: under another name, and long enough ago to be settled.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let temporary = self.dir.join("temporary");
        fs::write(&temporary, content).unwrap();
        age(&temporary, 10);
        fs::rename(temporary, self.dir.join(name)).unwrap();
    }

    /// Looks, a second after the last time; returns what was stored, without the series about files.
    pub(crate) fn round(&mut self) -> Vec<String> {
        let all = self.round_with_own();
        all.into_iter()
            .filter(|line| !line.contains("file="))
            .collect()
    }

    /// Looks, a second after the last time; returns what was stored, paths as names.
    pub(crate) fn round_with_own(&mut self) -> Vec<String> {
        self.now_ms += 1000;
        self.source.round(self.now_ms, &self.recorder).unwrap();
        self.stored()
    }

    pub(crate) fn end(&mut self) -> Vec<String> {
        self.now_ms += 1000;
        self.source.end(self.now_ms, &self.recorder).unwrap();
        self.stored()
    }

    fn stored(&self) -> Vec<String> {
        let directory = format!("{}/", self.dir.path().display());
        let lines = self.recorder.at(self.now_ms).into_iter();
        lines.map(|line| line.replace(&directory, "")).collect()
    }
}

/// Makes a file as old as if it had been written so many seconds ago.
pub(crate) fn age(path: &std::path::Path, seconds: u64) {
    let modified = SystemTime::now() - Duration::from_secs(seconds);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}
