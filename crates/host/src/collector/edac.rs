//! Memory errors, corrected and uncorrected, per controller, row and channel.
//!
//! Invariant: errors without a known row are counted for the row `unknown`.

use std::path::Path;

use crate::error::HostError;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const COUNTERS: &str = include_str!("edac.txt");

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for (directory, controller) in sysdir::numbered_if_there(directory, "mc")? {
        let controller = ("controller", controller.as_str());
        describe_counts("controller", &directory, &[controller], "", plan);
        let unknown = [controller, ("csrow", "unknown")];
        describe_counts("unknown", &directory, &unknown, "", plan);
        for (directory, row) in sysdir::numbered_if_there(&directory, "csrow")? {
            describe_row(&directory, controller, &row, plan)?;
        }
    }
    Ok(())
}

/// Describes the counters `of` something, whose files' names have a prefix.
fn describe_counts(
    of: &str,
    directory: &Path,
    labels: &[(&str, &str)],
    prefix: &str,
    plan: &mut Plan<'_>,
) {
    for ([file], desc) in table::rows_of(COUNTERS, of) {
        let path = directory.join(format!("{prefix}{file}"));
        plan.file(&desc, labels, &path, Decode::PLAIN);
    }
}

fn describe_row(
    directory: &Path,
    controller: (&str, &str),
    row: &str,
    plan: &mut Plan<'_>,
) -> Result<(), HostError> {
    let of_row = [controller, ("csrow", row)];
    describe_counts("row", directory, &of_row, "", plan);
    let files = sysdir::list(directory)?;
    let channels = files
        .iter()
        .filter_map(|file| file.strip_prefix("ch")?.strip_suffix("_ce_count"))
        .filter(|channel| channel.bytes().all(|b| b.is_ascii_digit()));
    for channel in channels {
        let path = directory.join(format!("ch{channel}_dimm_label"));
        let label = plan.text(&path);
        let label = label.map_or_else(|| "unknown".to_owned(), |text| dimm_label(&text));
        let labels = [
            of_row[0],
            of_row[1],
            ("channel", channel),
            ("dimm_label", &label),
        ];
        let prefix = format!("ch{channel}");
        describe_counts("channel", directory, &labels, &prefix, plan);
    }
    Ok(())
}

/// Converts `CPU_SrcID#0_MC#0csrow#1channel#2` to node_exporter's form.
fn dimm_label(text: &str) -> String {
    let text = text.replace('#', "");
    text.replace("csrow", "_csrow")
        .replace("channel", "_channel")
}
