//! Counters of Fibre Channel adapters.
//!
//! Invariant: an attribute that a driver lacks is an empty label or a missing series.

use std::path::Path;

use crate::error::HostError;
use crate::scan::{hex, number};
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_fibrechannel_info",
    "Non-numeric data from /sys/class/fc_host/<host>, value is always 1.",
);

/// Files that become labels of the same name, and whether to strip their first two characters (`0x`).
const LABELS: [(&str, bool); 10] = [
    ("speed", false),
    ("port_state", false),
    ("port_type", false),
    ("port_id", true),
    ("port_name", true),
    ("fabric_name", true),
    ("symbolic_name", false),
    ("supported_classes", false),
    ("supported_speeds", false),
    ("dev_loss_tmo", false),
];

/// Files of a host's statistics.
const COUNTERS: &str = include_str!("fibrechannel.txt");

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for host in sysdir::list(directory)? {
        let directory = directory.join(&host);
        let texts = LABELS.map(|(name, is_cut)| {
            let text = plan.label(&directory.join(name)).unwrap_or_default();
            match (is_cut, text.char_indices().nth(2)) {
                (true, Some((at, _))) => text[at..].to_owned(),
                _ => text,
            }
        });
        let mut labels = vec![("fc_host", host.as_str())];
        let named = LABELS.iter().zip(&texts);
        labels.extend(named.map(|((name, _), text)| (*name, text.as_str())));
        plan.fixed(&INFO, &labels, 1.0);
        let statistics = directory.join("statistics");
        for ([file], desc) in table::rows(COUNTERS) {
            let decode = Decode::With(counter);
            plan.file(&desc, &[("fc_host", &host)], &statistics.join(file), decode);
        }
    }
    Ok(())
}

/// Parses a number in base 16 after `0x`, or in base 10. All bits set means that the adapter does not count it.
fn counter(text: &[u8]) -> Option<f64> {
    let value = match text.strip_prefix(b"0x") {
        Some(digits) => hex(digits),
        None => number(text),
    };
    value
        .filter(|value| *value != u64::MAX)
        .map(|value| value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_the_adapter_lacks() {
        assert_eq!(counter(b"0x13"), Some(19.0));
        assert_eq!(counter(b"19"), Some(19.0));
        assert_eq!(counter(b"0xffffffffffffffff"), None);
        assert_eq!(counter(b"x"), None);
    }
}
