//! A run plan built from flags: corpora, rounds, and the times they are given.
//!
//! **Invariant:** timestamps stay within what servers accept: not too far behind the present, hardly ahead of it.

use super::{corpus::Corpus, recorder::files};
use crate::{
    harness::{BenchError, Values},
    scenario::replay::feed::Times,
};
use narthex_cli::flags;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How far behind its newest sample Prometheus accepts others, less a margin: its limit is an hour.
const BEHIND: Duration = Duration::from_mins(55);
/// How far ahead of its clock Prometheus accepts samples, less a margin: its limit is ten minutes.
const AHEAD: Duration = Duration::from_mins(9);

flags! {
    /// What `replay` takes.
    #[derive(Debug)]
    pub(crate) struct Flags {
        /// Directory that record-scrapes wrote.
        corpus: PathBuf = "corpus", default("bench/corpus"), directory();
        /// Recorded target to serve. Default: all.
        target: Vec<String> = "target", value("NAME");
        /// Serve only so many rounds; 0 is all.
        rounds: usize = "rounds", default("0"), within(0, 100_000_000);
        /// Serve so many times as fast as recorded, with the recorded distances as explicit timestamps.
        compress_time: u32 = "compress-time", default("1"), within(1, 1_000);
        /// Without those timestamps: a round is of the time it is scraped, however fast they come.
        own_times: bool = "own-times";
        /// Series of each target that are read back and compared bit by bit.
        compare: usize = "compare", default("50"), within(0, 1_000_000);
        /// Time after the last round before anything is read.
        settle: Duration = "settle", default("5s");
    }
}

/// Input of every server.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) flags: Flags,
    pub(crate) corpora: Vec<Arc<Corpus>>,
    /// Rounds of the longest.
    pub(crate) rounds: usize,
    /// Real time between two scrapes.
    pub(crate) interval: Duration,
    pub(crate) compression: u32,
    pub(crate) base: PathBuf,
    /// When the first round was recorded, and how long the recording is.
    from_ms: i64,
    recorded: Duration,
    name: String,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Reads the flags and the corpus.
    pub(crate) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let flags = values.read(Flags::from_values)?;
        let (dir, only) = (&flags.corpus, &flags.target);
        let (mut corpora, mut notes) = (Vec::new(), Vec::new());
        for file in files(dir)? {
            let corpus = read(&file)?;
            let name = corpus.about().name.clone();
            if !only.is_empty() && !only.contains(&name) {
                continue;
            }
            if !corpus.is_whole() {
                notes.push(format!(
                    "the recording of {name} was killed: its last block is missing"
                ));
            }
            corpora.push(Arc::new(corpus));
        }
        if corpora.is_empty() {
            return Err(values.wrong("target", "is none of the recorded ones"));
        }
        let longest = corpora.iter().map(|corpus| corpus.len()).max().unwrap_or(0);
        let rounds = match flags.rounds {
            0 => longest,
            wanted => wanted.min(longest),
        };
        let compression = flags.compress_time;
        let intervals_ms = corpora.iter().map(|corpus| corpus.about().interval_ms);
        let interval = Duration::from_millis(intervals_ms.min().unwrap_or(1)) / compression;
        if interval < Duration::from_millis(50) {
            return Err(values.wrong("compress-time", "leaves less than 50ms between scrapes"));
        }
        let (from_ms, to_ms) = span(&corpora, rounds)?;
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        let mut plan = Self {
            corpora,
            rounds,
            interval,
            compression,
            base: values.dir()?,
            from_ms,
            recorded: Duration::from_millis((to_ms - from_ms).unsigned_abs()),
            name: name.to_string_lossy().into_owned(),
            flags,
            notes,
        };
        if plan.past().is_some() {
            plan.notes.push(
                "the recording is too long for compressed time: servers are told to take samples out of order"
                    .to_owned(),
            );
        }
        Ok(plan)
    }

    /// Returns the approximate duration of serving.
    pub(crate) fn serving(&self) -> Duration {
        self.interval * u32::try_from(self.rounds).unwrap_or(u32::MAX)
    }

    /// Returns the approximate duration of one run.
    pub(crate) fn each(&self) -> Duration {
        self.serving() + self.flags.settle + Duration::from_secs(20)
    }

    /// Returns how much more written time passes than real time.
    fn drift(&self) -> Duration {
        self.recorded
            .saturating_sub(self.recorded / self.compression)
    }

    /// Returns how far out of order servers must accept samples, if they do not by default.
    pub(crate) fn past(&self) -> Option<Duration> {
        let is_far = !self.flags.own_times && self.drift() > BEHIND + AHEAD;
        is_far.then(|| self.drift() + Duration::from_hours(1))
    }

    /// Returns the times of rounds whose serving begins at `now_ms`.
    pub(crate) fn times(&self, now_ms: i64) -> Times {
        if self.compression == 1 || self.flags.own_times {
            return Times::Scraped;
        }
        let ahead = match self.past() {
            None => self.drift().saturating_sub(BEHIND),
            Some(_) => Duration::ZERO,
        };
        let start_ms = now_ms - (self.drift() - ahead).as_millis() as i64;
        Times::Written {
            shift_ms: start_ms - self.from_ms,
        }
    }

    /// Describes the plan in one sentence.
    pub(crate) fn title(&self) -> String {
        let names: Vec<&str> = self
            .corpora
            .iter()
            .map(|corpus| corpus.about().name.as_str())
            .collect();
        let minutes = self.recorded.as_secs_f64() / 60.0;
        let faster = match self.compression {
            1 => "in real time".to_owned(),
            factor if self.flags.own_times => {
                format!("{factor} times as fast, each round at the time it was scraped")
            }
            factor => format!("{factor} times as fast, with the times they were recorded"),
        };
        format!(
            "{} rounds ({minutes:.0} min) of {} from the corpus {:?}, served again {faster}",
            self.rounds,
            names.join(", "),
            self.name
        )
    }
}

fn read(path: &Path) -> Result<Corpus, BenchError> {
    let bytes = std::fs::read(path).map_err(BenchError::io(path.display().to_string()))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Corpus::parse(bytes).map_err(BenchError::damaged(&name.to_string_lossy()))
}

/// Returns when the first and the last of the rounds were recorded. Reads them all, which detects damage beforehand.
fn span(corpora: &[Arc<Corpus>], rounds: usize) -> Result<(i64, i64), BenchError> {
    let (mut from_ms, mut to_ms) = (i64::MAX, i64::MIN);
    for corpus in corpora {
        let name = &corpus.about().name;
        let mut reader = corpus.rounds().map_err(BenchError::damaged(name))?;
        for _ in 0..rounds {
            let Some(round) = reader.next().map_err(BenchError::damaged(name))? else {
                break;
            };
            from_ms = from_ms.min(round.at_ms);
            to_ms = to_ms.max(round.at_ms);
        }
    }
    if from_ms > to_ms {
        return Err(BenchError::Usage("the corpus has no rounds".to_owned()));
    }
    Ok((from_ms, to_ms))
}

#[cfg(test)]
mod tests;
