//! Memory errors, corrected and uncorrected, per controller, row and channel.
//!
//! Invariant: errors without a known row are counted for the row `unknown`.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};

const CORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_correctable_errors_total",
    "Total correctable memory errors.",
);
const UNCORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_uncorrectable_errors_total",
    "Total uncorrectable memory errors.",
);
const ROW_CORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_csrow_correctable_errors_total",
    "Total correctable memory errors for this csrow.",
);
const ROW_UNCORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_csrow_uncorrectable_errors_total",
    "Total uncorrectable memory errors for this csrow.",
);
const CHANNEL_CORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_channel_correctable_errors_total",
    "Total correctable memory errors for this channel.",
);
const CHANNEL_UNCORRECTABLE: Desc<'static> = Desc::counter(
    "node_edac_channel_uncorrectable_errors_total",
    "Total uncorrectable memory errors for this channel.",
);

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for (directory, controller) in sysdir::numbered_if_there(directory, "mc")? {
        let controller = ("controller", controller.as_str());
        let mut count = |desc, labels: &[(&str, &str)], file: &str| {
            plan.file(desc, labels, &directory.join(file), Decode::PLAIN);
        };
        count(&CORRECTABLE, &[controller], "ce_count");
        count(&UNCORRECTABLE, &[controller], "ue_count");
        let unknown = [controller, ("csrow", "unknown")];
        count(&ROW_CORRECTABLE, &unknown, "ce_noinfo_count");
        count(&ROW_UNCORRECTABLE, &unknown, "ue_noinfo_count");
        for (directory, row) in sysdir::numbered_if_there(&directory, "csrow")? {
            describe_row(&directory, controller, &row, plan)?;
        }
    }
    Ok(())
}

fn describe_row(
    directory: &Path,
    controller: (&str, &str),
    row: &str,
    plan: &mut Plan<'_>,
) -> Result<(), HostError> {
    let of_row = [controller, ("csrow", row)];
    let mut count = |desc, labels: &[(&str, &str)], file: &str| {
        plan.file(desc, labels, &directory.join(file), Decode::PLAIN);
    };
    count(&ROW_CORRECTABLE, &of_row, "ce_count");
    count(&ROW_UNCORRECTABLE, &of_row, "ue_count");
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
        let families = [(&CHANNEL_CORRECTABLE, "ce"), (&CHANNEL_UNCORRECTABLE, "ue")];
        for (desc, kind) in families {
            let path = directory.join(format!("ch{channel}_{kind}_count"));
            plan.file(desc, &labels, &path, Decode::PLAIN);
        }
    }
    Ok(())
}

/// Converts `CPU_SrcID#0_MC#0csrow#1channel#2` to node_exporter's form.
fn dimm_label(text: &str) -> String {
    let text = text.replace('#', "");
    text.replace("csrow", "_csrow")
        .replace("channel", "_channel")
}
