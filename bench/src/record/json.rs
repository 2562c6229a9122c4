//! File format of a record: one JSON object.
//!
//! **Invariant:** [`read`] returns what [`write`] wrote; anything else is rejected with its line and column, or with
//! the field that contradicts another one.

use super::{FORMAT, Record};
use crate::harness::BenchError;
use serde::Deserialize;
use std::{collections::HashSet, fs, path::Path};

/// Maximum size of a file.
const MAX_BYTES: u64 = 256 << 20;

/// Writes a record.
pub(crate) fn write(path: &Path, record: &Record) -> Result<(), BenchError> {
    fs::write(path, text(record)).map_err(BenchError::io(format!("write {}", path.display())))
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> Result<Record, BenchError> {
    let name = path.display().to_string();
    let metadata = fs::metadata(path).map_err(BenchError::io(format!("read {name}")))?;
    if metadata.len() > MAX_BYTES {
        let what = format!("longer than {MAX_BYTES} bytes");
        return Err(BenchError::damaged(&name)(what));
    }
    let text = fs::read(path).map_err(BenchError::io(format!("read {name}")))?;
    parse(&text, &name)
}

/// Returns a record's file: numbers rounded to measurement precision, long lists with one object per line.
pub(super) fn text(record: &Record) -> String {
    let mut record = record.clone();
    for run in &mut record.runs {
        let figures = run.figures.iter_mut().map(|figure| &mut figure.value);
        let costs = run.own_costs.iter_mut().map(|cost| &mut cost.value);
        figures
            .chain(costs)
            .for_each(|value| *value = rounded(*value));
        for course in &mut run.courses {
            let numbers = course.points.iter_mut().flatten();
            numbers.for_each(|number| *number = rounded(*number));
        }
        for distribution in &mut run.distributions {
            let lines = distribution.corrected.iter_mut();
            let lines = lines.chain(&mut distribution.uncorrected);
            lines.for_each(|line| line.value = rounded(line.value));
        }
    }
    let mut text = serde_json::to_string(&record).expect("a record has text keys only");
    text.push('\n');
    text
}

/// Parses a record's file, which errors call `name`.
pub(super) fn parse(text: &[u8], name: &str) -> Result<Record, BenchError> {
    /// The version is parsed first: another one may have other fields.
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    let versioned: Versioned =
        serde_json::from_slice(text).map_err(|e| BenchError::damaged(name)(e.to_string()))?;
    if versioned.format != FORMAT {
        let found = versioned.format;
        let what = format!("format {found} is not known, only {FORMAT}");
        return Err(BenchError::damaged(name)(what));
    }
    let record: Record =
        serde_json::from_slice(text).map_err(|e| BenchError::damaged(name)(e.to_string()))?;
    check(&record).map_err(BenchError::damaged(name))?;
    Ok(record)
}

/// Checks that no field contradicts another one; the error names it.
fn check(record: &Record) -> Result<(), String> {
    if record.subjects.is_empty() {
        return Err("subjects: there is none".to_owned());
    }
    let labels: Vec<&str> = record.subjects.iter().map(|s| s.label.as_str()).collect();
    unique(labels.iter().copied())
        .map_err(|label| format!("subjects: two are called {label:?}"))?;
    for (at, run) in record.runs.iter().enumerate() {
        let place = format!("runs[{at}]");
        if run.subject >= record.subjects.len() {
            let (subject, count) = (run.subject, record.subjects.len());
            return Err(format!("{place}.subject: {subject} of {count}"));
        }
        let figures = run.figures.iter().map(|figure| figure.key.as_str());
        unique(figures).map_err(|key| format!("{place}.figures: two are called {key:?}"))?;
        for course in &run.courses {
            if course.points.windows(2).any(|pair| pair[0][0] > pair[1][0]) {
                let key = &course.key;
                return Err(format!("{place}.courses: {key:?} goes back in time"));
            }
        }
        for distribution in &run.distributions {
            let lines = distribution
                .corrected
                .iter()
                .chain(&distribution.uncorrected);
            if !lines.into_iter().all(|q| (0.0..=1.0).contains(&q.share)) {
                let key = &distribution.key;
                return Err(format!(
                    "{place}.distributions: {key:?} has a share outside 0 to 1"
                ));
            }
        }
    }
    for (at, difference) in record.differences.iter().enumerate() {
        let columns = difference.columns.len();
        if difference.rows.iter().any(|row| row.len() != columns) {
            return Err(format!(
                "differences[{at}].rows: not all have {columns} texts"
            ));
        }
    }
    Ok(())
}

/// Checks that no text occurs twice; the error is the first that does.
fn unique<'a>(texts: impl Iterator<Item = &'a str>) -> Result<(), &'a str> {
    let mut seen = HashSet::new();
    for text in texts {
        if !seen.insert(text) {
            return Err(text);
        }
    }
    Ok(())
}

/// Returns a number rounded to five significant digits, more than a measurement has; whole ones stay whole.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    if value.fract() == 0.0 {
        return value;
    }
    let places = 4 - value.abs().log10().floor() as i32;
    // Through text, for the shortest digits; a product of powers leaves 0.30000000000000004.
    let text = format!("{value:.*}", usize::try_from(places).unwrap_or(0).min(17));
    text.parse().unwrap_or(value)
}

/// Parses arbitrary bytes; anything accepted must survive being written and read again.
#[cfg(test)]
pub(crate) fn try_record(data: &[u8]) {
    if let Ok(record) = parse(data, "fuzz") {
        let again = text(&record);
        let read = parse(again.as_bytes(), "again").expect("what was written is read");
        assert_eq!(text(&read), again);
    }
}
