//! Segments one by one, for people: who wrote them, what is in them, and the switches of their metrics.
//!
//! **Invariant:** only words of switches are written, and only in the file that was read: who can write to the directory
//! may put a link to any other file in its place meanwhile.

use crate::{
    MetricKind, SegmentError,
    file::{OPEN_FLAGS, SegmentFile},
    layout::HEADER_BYTES,
    owner::Machine,
    pool::{self, SUFFIX},
};
use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedSegment {
    /// The file.
    pub path: PathBuf,
    /// Name of the application.
    pub app: String,
    /// Name of the worker.
    pub worker: String,
    /// Process that writes it.
    pub pid: u32,
    /// When it was created.
    pub created_ms: i64,
    /// Whether its writer lives.
    pub is_live: bool,
    /// Bytes in use.
    pub bytes: u64,
    /// Series that the writer had no room for.
    pub refused: u64,
    /// Its metrics.
    pub metrics: Vec<ListedMetric>,
    /// What is wrong with it, if anything is.
    pub problem: Option<String>,
}

/// A metric of a segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedMetric {
    /// The metric's name.
    pub name: String,
    /// Its type.
    pub kind: MetricKind,
    /// Number of its series.
    pub series: usize,
    /// Whether it is switched on.
    pub is_on: bool,
}

/// Returns the segments of a directory by name, and those that are none with what is wrong with them.
///
/// # Errors
/// Fails when the directory cannot be read.
#[expect(clippy::type_complexity, reason = "two lists")]
pub fn list(
    dir: &Path,
) -> Result<(Vec<ListedSegment>, Vec<(PathBuf, SegmentError)>), SegmentError> {
    let machine = Machine::read();
    let (mut listed, mut bad) = (Vec::new(), Vec::new());
    let mut paths = pool::paths(dir, SUFFIX)?;
    paths.sort_unstable();
    for path in paths {
        match SegmentFile::open(&path) {
            Ok((file, error)) => listed.push(listed_segment(path, &file, error, &machine)),
            Err(error) => bad.push((path, error)),
        }
    }
    Ok((listed, bad))
}

fn listed_segment(
    path: PathBuf,
    file: &SegmentFile,
    error: Option<SegmentError>,
    machine: &Machine,
) -> ListedSegment {
    let records = &file.records;
    let mut metrics: Vec<ListedMetric> = (records.metrics.iter())
        .map(|metric| ListedMetric {
            name: metric.family.name.to_string(),
            kind: metric.family.shape.kind(),
            series: 0,
            is_on: file.cell(metric.switch as usize) == 0,
        })
        .collect();
    for series in &records.series {
        if let Some(metric) = metrics.get_mut(series.metric) {
            metric.series += 1;
        }
    }
    ListedSegment {
        path,
        app: file.header.app.clone(),
        worker: file.header.worker.clone(),
        pid: file.header.pid,
        created_ms: file.header.created_ms,
        is_live: !machine.is_dead(&file.header, &file.marks, file.input()),
        bytes: file.bytes(),
        refused: file.marks.refused,
        metrics,
        problem: error.map(|error| error.to_string()),
    }
}

/// Switches a metric on or off in every segment of an application; returns in how many.
///
/// The writers obey when they next look at their switches.
///
/// # Errors
/// Fails when the directory cannot be read, or a segment cannot be written; the others are switched nevertheless.
pub fn set_switch(dir: &Path, app: &str, metric: &str, is_on: bool) -> Result<usize, SegmentError> {
    let (mut switched, mut failure) = (0, None);
    for path in pool::paths(dir, SUFFIX)? {
        // Who is no segment has no switches.
        let Ok((file, _)) = SegmentFile::open(&path) else {
            continue;
        };
        if file.header.app != app {
            continue;
        }
        let found = file
            .records
            .metrics
            .iter()
            .filter(|m| &*m.family.name == metric);
        for metric in found {
            let word = u64::from(!is_on).to_le_bytes();
            let at = HEADER_BYTES as u64 + 8 * u64::from(metric.switch);
            match reopen(&path, file.input()).and_then(|file| Ok(file.write_all_at(&word, at)?)) {
                Ok(()) => switched += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    failure.map_or(Ok(switched), Err)
}

/// Opens for writing what is open for reading, if it is still at its path.
fn reopen(path: &Path, file: &File) -> Result<File, SegmentError> {
    let mut options = File::options();
    let opened = options.write(true).custom_flags(OPEN_FLAGS).open(path)?;
    let (is, was) = (opened.metadata()?, file.metadata()?);
    if (is.dev(), is.ino()) == (was.dev(), was.ino()) {
        return Ok(opened);
    }
    let reason = "another file took its place";
    Err(SegmentError::Header { reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn what_took_a_segments_place_is_not_written() {
        let dir = TempDir::new("switch");
        let path = dir.write("a.segment", "a");
        let file = File::open(&path).unwrap();
        assert!(reopen(&path, &file).is_ok());
        let other = dir.write("passwd", "b");
        fs::rename(&path, dir.join("kept")).unwrap();
        symlink(&other, &path).unwrap();
        assert!(matches!(reopen(&path, &file), Err(SegmentError::Io(_))));
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        assert!(matches!(
            reopen(&path, &file),
            Err(SegmentError::Header { .. })
        ));
        assert!(reopen(&path, &File::open(other).unwrap()).is_ok());
    }
}
