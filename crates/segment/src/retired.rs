//! The counts of ended writers, on disk: a segment for each application, replaced as a whole.
//!
//! Bytes: docs/format/segment.md
//!
//! **Invariant:** the file lists every segment that is contained and may still exist, so a reader that ends between
//! replacing it and removing those segments does not count them twice.

use crate::{
    SegmentError,
    encode::Encoder,
    file::SegmentFile,
    layout::{Header, Role},
    totals::Totals,
};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Ending of the files' names.
pub(crate) const SUFFIX: &str = ".retired";

/// Returns the path of an application's file.
pub(crate) fn path_of(dir: &Path, app: &str) -> PathBuf {
    dir.join(format!("{app}{SUFFIX}"))
}

fn role(by_worker: bool) -> Role {
    if by_worker {
        Role::RetiredByWorker
    } else {
        Role::RetiredMerged
    }
}

/// Writes the retired counts of an application, and the identities of segments they contain.
///
/// The file is not synced: a power loss takes the whole memory file system with it.
///
/// # Errors
/// Fails when it cannot be written; then the one before is untouched.
pub(crate) fn write(
    dir: &Path,
    app: &str,
    by_worker: bool,
    totals: &Totals,
    folded: &[u64],
    now_ms: i64,
) -> Result<(), SegmentError> {
    let mut encoder = Encoder::default();
    let mut metrics = HashMap::new();
    for total in totals.iter().filter(|total| &*total.app == app) {
        let Some(cells) = &total.retired else {
            continue;
        };
        let metric = *metrics
            .entry(Arc::as_ptr(&total.family))
            .or_insert_with(|| encoder.metric(&total.family));
        encoder.series(metric, &total.labels, cells);
    }
    encoder.folded(folded);
    let bytes = encoder.finish(Header {
        role: role(by_worker),
        created_ms: now_ms,
        app: app.to_owned(),
        ..Header::default()
    });
    let path = path_of(dir, app);
    let new = dir.join(format!("{app}{SUFFIX}.new"));
    // Who can write to the directory may have put a link to any file there: what has the name is removed, not written.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    File::create_new(&new)?.write_all(&bytes)?;
    fs::rename(&new, &path)?;
    Ok(())
}

/// Adds the retired counts of a file to the totals; returns its application and the identities of segments it contains.
///
/// # Errors
/// Fails when it is malformed, or was written with another setting; nothing of it is used then.
pub(crate) fn read(
    path: &Path,
    by_worker: bool,
    totals: &mut Totals,
    now_ms: i64,
) -> Result<(Arc<str>, Vec<u64>), SegmentError> {
    let (file, error) = SegmentFile::open(path)?;
    if let Some(error) = error {
        return Err(error);
    }
    if file.header.role != role(by_worker) {
        let reason = "written with another setting of merge";
        return Err(SegmentError::Header { reason });
    }
    let app: Arc<str> = file.header.app.as_str().into();
    for series in &file.records.series {
        let Some(metric) = file.records.metrics.get(series.metric) else {
            continue;
        };
        let family = totals.admit(&app, &metric.family)?;
        let at = totals.attach(&app, None, &family, &series.labels, now_ms)?;
        let first = series.first_cell as usize;
        let cells = first..first + family.cells();
        totals.set_retired(at, cells.map(|at| file.cell(at)).collect());
    }
    Ok((app, file.records.folded))
}
