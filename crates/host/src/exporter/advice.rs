//! Advice on collectors that cost more than the others, each with the flag that helps.
//!
//! **Invariant:** a page of the usual size has none.

use std::time::Duration;

use crate::cost::CollectorCost;
use crate::kind::CollectorKind;

/// From how many series on a share of the page is worth a word.
const MANY_SERIES: usize = 400;
const LARGE_SHARE_PERCENT: usize = 25;
/// Of a round's CPU time.
const LONG: Duration = Duration::from_millis(5);

/// Returns a line for each collector that stands out, the most expensive first.
pub(super) fn advice(costs: &[CollectorCost]) -> Vec<String> {
    let page_bytes: usize = costs.iter().map(|cost| cost.page_bytes).sum();
    let cpu: Duration = costs.iter().filter_map(|cost| Some(cost.cost?.cpu)).sum();
    let mut found: Vec<(usize, String)> = Vec::new();
    for one in costs {
        let name = one.kind.name();
        let share = percent(one.page_bytes as f64, page_bytes as f64);
        let narrower =
            narrower(one.kind).map_or(String::new(), |flag| format!(", or narrow it by {flag}"));
        if one.series >= MANY_SERIES && share >= LARGE_SHARE_PERCENT {
            let text = format!(
                "{name}: {} series, {share} % of the page; --no-collector.{name} would save {} a scrape{narrower}",
                thousands(one.series),
                bytes(one.page_bytes),
            );
            found.push((share, text));
            continue;
        }
        let Some(cost) = one.cost.filter(|cost| cost.cpu >= LONG) else {
            continue;
        };
        let share = percent(cost.cpu.as_secs_f64(), cpu.as_secs_f64());
        if share >= LARGE_SHARE_PERCENT {
            let text = format!(
                "{name}: {:.1} ms of CPU, {share} % of a scrape's, in {} system calls; --no-collector.{name} would \
                 save them{narrower}",
                cost.cpu.as_secs_f64() * 1e3,
                thousands(usize::try_from(cost.calls).unwrap_or(usize::MAX)),
            );
            found.push((share, text));
        }
    }
    found.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    found.into_iter().map(|(_, text)| text).collect()
}

/// Returns the flag that reduces a collector's series.
fn narrower(kind: CollectorKind) -> Option<&'static str> {
    Some(match kind {
        CollectorKind::Arp => "--collector.arp.device-exclude",
        CollectorKind::Diskstats => "--collector.diskstats.device-exclude",
        CollectorKind::Filesystem => "--collector.filesystem.mount-points-exclude",
        CollectorKind::Hwmon => "--collector.hwmon.chip-exclude",
        CollectorKind::Interrupts => "--no-collector.interrupts.include-zeros",
        CollectorKind::Ipvs => "--collector.ipvs.backend-labels",
        CollectorKind::Netclass => "--collector.netclass.ignored-devices",
        CollectorKind::Netdev => "--collector.netdev.device-exclude",
        CollectorKind::Netstat => "--collector.netstat.fields",
        CollectorKind::Qdisc => "--collector.qdisc.device-exclude",
        CollectorKind::Slabinfo => "--collector.slabinfo.slabs-include",
        CollectorKind::Systemd => "--collector.systemd.unit-exclude",
        CollectorKind::Vmstat => "--collector.vmstat.fields",
        _ => return None,
    })
}

pub(super) fn percent(part: f64, whole: f64) -> usize {
    if whole > 0.0 {
        (part / whole * 100.0).round() as usize
    } else {
        0
    }
}

/// Writes a size with two digits or more: `950 B`, `12 kB`, `2.4 MB`.
pub(super) fn bytes(count: usize) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..10_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000..1_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Writes a number with commas between its thousands.
pub(super) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;

    fn cost(kind: CollectorKind, series: usize, page_bytes: usize, cpu_us: u64) -> CollectorCost {
        CollectorCost {
            kind,
            cost: Some(Cost {
                cpu: Duration::from_micros(cpu_us),
                calls: 1_234,
                read_bytes: 0,
            }),
            series,
            page_bytes,
            age: None,
            error: None,
        }
    }

    #[test]
    fn the_flag_is_named() {
        let costs = [
            cost(CollectorKind::Cpu, 300, 100_000, 80),
            cost(CollectorKind::Ipvs, 3_000, 2_400_000, 900),
            cost(CollectorKind::Netdev, 900, 880_000, 300),
            cost(CollectorKind::Hwmon, 20, 2_000, 60_000),
        ];
        assert_eq!(
            advice(&costs),
            [
                "hwmon: 60.0 ms of CPU, 98 % of a scrape's, in 1,234 system calls; --no-collector.hwmon would save \
                 them, or narrow it by --collector.hwmon.chip-exclude",
                "ipvs: 3,000 series, 71 % of the page; --no-collector.ipvs would save 2.4 MB a scrape, or narrow it by \
                 --collector.ipvs.backend-labels",
                "netdev: 900 series, 26 % of the page; --no-collector.netdev would save 880 kB a scrape, or narrow it \
                 by --collector.netdev.device-exclude",
            ]
        );
    }

    #[test]
    fn every_flag_that_is_named_exists() {
        for kind in CollectorKind::ALL {
            let Some(flag) = narrower(kind) else { continue };
            let name = flag.trim_start_matches("--").trim_start_matches("no-");
            assert!(
                crate::FLAGS.iter().any(|known| known.name == name),
                "{flag}"
            );
        }
    }

    #[test]
    fn a_usual_page_has_none() {
        let costs = [
            cost(CollectorKind::Cpu, 399, 90_000, 80),
            cost(CollectorKind::Meminfo, 51, 4_000, 4_000),
        ];
        assert_eq!(advice(&costs), [""; 0]);
        assert_eq!(advice(&[]), [""; 0]);
    }

    #[test]
    fn numbers_are_readable() {
        let shown = [0, 999, 1_000, 12_345, 999_999, 2_449_000].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "999 B", "1.0 kB", "12 kB", "999 kB", "2.4 MB"]
        );
        let shown = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
