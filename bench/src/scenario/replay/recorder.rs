//! Scrapes real exporters at an interval and writes their pages, scrubbed, to one file for each target.
//!
//! **Invariant:** a failed round is omitted and counted, never invented; everything written has been scrubbed. A killed
//! recording keeps its complete blocks.

use super::{
    corpus::{About, CorpusWriter, Round},
    scrub::{IdentifierKind, Scrubber, own_names},
};
use crate::{
    harness::{BenchError, Progress, join},
    load::fleet::now_ms,
};
use narthex_testkit::http;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Requested format: the only one that every exporter has and whose lines can be given other timestamps.
const ACCEPT: &str = "text/plain;version=0.0.4";
/// Extension of a recording's file name.
pub(crate) const EXTENSION: &str = "scrapes";

/// Parameters of a recording.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) targets: Vec<Target>,
    pub(crate) interval: Duration,
    pub(crate) count: usize,
    pub(crate) out: PathBuf,
}

/// An exporter and the name of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Target {
    /// Parses `URL` or `NAME=URL`; a target without a name is named after its index.
    pub(crate) fn parse(text: &str, place: usize) -> Result<Self, String> {
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(['/', ':']) => (name.to_owned(), url),
            _ => (format!("target-{place}"), text),
        };
        let is_file_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !is_file_name {
            return Err(format!("{name:?} is no name of letters, digits, - and _"));
        }
        if !url.starts_with("http://") {
            return Err(format!("{url:?} does not begin with http://"));
        }
        let has_path = url.trim_start_matches("http://").contains('/');
        let path = if has_path { "" } else { "/metrics" };
        Ok(Self {
            name,
            url: format!("{url}{path}"),
        })
    }
}

/// Result of one target.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) rounds: usize,
    pub(crate) failed: usize,
    /// The last failure's reason.
    pub(crate) failure: Option<String>,
    pub(crate) body_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) replaced: BTreeMap<IdentifierKind, u32>,
}

impl Recording {
    /// Records until every target has been asked `count` times.
    pub(crate) fn run(&self, progress: &mut Progress) -> Result<Vec<Recorded>, BenchError> {
        std::fs::create_dir_all(&self.out)
            .map_err(BenchError::io(format!("create {}", self.out.display())))?;
        let (start, asked) = (Instant::now(), AtomicUsize::new(0));
        let all = self.count * self.targets.len();
        let results: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .targets
                .iter()
                .map(|target| scope.spawn(|| self.record(target, start, &asked)))
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                let asked = asked.load(Ordering::Relaxed);
                progress.show(&format!("recording, {asked} of {all} scrapes"));
                thread::sleep(Duration::from_millis(200));
            }
            threads.into_iter().map(join).collect()
        });
        results.into_iter().collect()
    }

    fn record(
        &self,
        target: &Target,
        start: Instant,
        asked: &AtomicUsize,
    ) -> Result<Recorded, BenchError> {
        let path = self.out.join(format!("{}.{EXTENSION}", target.name));
        let failed = |e| BenchError::io(format!("write {}", path.display()))(e);
        let about = About::new(&target.name, self.interval.as_millis() as u64);
        let file = File::create(&path).map_err(failed)?;
        let mut writer = CorpusWriter::new(BufWriter::new(file), &about).map_err(failed)?;
        let mut scrubber = Scrubber::new(own_names());
        let mut recorded = Recorded {
            name: target.name.clone(),
            rounds: 0,
            failed: 0,
            failure: None,
            body_bytes: 0,
            file_bytes: 0,
            replaced: BTreeMap::new(),
        };
        for round in 0..self.count {
            let due = self.interval * u32::try_from(round).unwrap_or(u32::MAX);
            thread::sleep(due.saturating_sub(start.elapsed()));
            let at_ms = now_ms();
            match scrape(&target.url) {
                Ok((content_type, body)) => {
                    let body = scrubber.scrub(&body);
                    recorded.rounds += 1;
                    recorded.body_bytes += body.len() as u64;
                    writer
                        .push(Round {
                            at_ms,
                            content_type: &content_type,
                            body: &body,
                        })
                        .map_err(failed)?;
                }
                Err(error) => {
                    recorded.failed += 1;
                    recorded.failure = Some(error.to_string());
                }
            }
            asked.fetch_add(1, Ordering::Relaxed);
        }
        let file = writer.finish().map_err(failed)?;
        recorded.file_bytes = file.get_ref().metadata().map_err(failed)?.len();
        recorded.replaced = scrubber.counts().clone();
        if recorded.rounds == 0 {
            let why = recorded.failure.unwrap_or_default();
            return Err(BenchError::Refused(format!(
                "{} never answered: {why}",
                target.name
            )));
        }
        Ok(recorded)
    }
}

/// Returns the format and the text of one scrape.
fn scrape(url: &str) -> io::Result<(String, String)> {
    let answer = http::request("GET", url, &[("Accept", ACCEPT)], &[])?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("status {}", answer.status)));
    }
    let content_type = answer.header("Content-Type").unwrap_or_default().to_owned();
    if !content_type.starts_with("text/plain") {
        let what = format!("answers {content_type:?} where text/plain was asked for");
        return Err(io::Error::other(what));
    }
    let body = String::from_utf8(answer.body).map_err(io::Error::other)?;
    Ok((content_type, body))
}

/// Returns the files of a directory that hold recorded scrapes, by name.
pub(crate) fn files(dir: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let entries = std::fs::read_dir(dir).map_err(BenchError::io(dir.display().to_string()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == EXTENSION))
        .collect();
    files.sort();
    if files.is_empty() {
        let what = format!("{} has no file that ends in .{EXTENSION}", dir.display());
        return Err(BenchError::Usage(what));
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
