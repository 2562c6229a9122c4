//! One source over a tree whose files are truncated, garbled, emptied and restored at random.

use narthex_host::CollectorKind::{
    self, Logind, NetworkRoute, Ntp, Qdisc, Supervisord, Systemd, Tcpstat,
};
use narthex_host::HostSource;
use narthex_testkit::mutate::scaled;
use narthex_testkit::rng::SplitMix64;

use crate::support::{Tree, column, of_family, samples};

/// Returns the kernel's own texts, and small ones for those this kernel may lack.
fn whole() -> Vec<(&'static str, Vec<u8>)> {
    let names = [
        "proc/stat",
        "proc/meminfo",
        "proc/loadavg",
        "proc/vmstat",
        "proc/diskstats",
        "proc/net/dev",
        "proc/1/mountinfo",
        "proc/cpuinfo",
    ];
    let read = |name: &'static str| {
        (
            name,
            std::fs::read(format!("/{name}")).expect("procfs is there"),
        )
    };
    let mut files: Vec<_> = names.into_iter().map(read).collect();
    files.extend([
        ("sys/devices/system/cpu/cpu0/online", b"1\n".to_vec()),
        ("sys/devices/system/cpu/online", b"0-1\n".to_vec()),
        (
            "sys/devices/system/cpu/cpu0/topology/core_id",
            b"0\n".to_vec(),
        ),
        (
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            b"0\n".to_vec(),
        ),
        (
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            b"7\n".to_vec(),
        ),
        (
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            b"tsc hpet\n".to_vec(),
        ),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            b"tsc\n".to_vec(),
        ),
        (
            "udev/b254:0",
            b"E:ID_FS_TYPE=ext4\nE:ID_ATA=1\nE:ID_ATA_WRITE_CACHE=1\n".to_vec(),
        ),
    ]);
    files
}

fn damaged(text: &[u8], rng: &mut SplitMix64) -> Vec<u8> {
    let mut text = text.to_vec();
    match rng.below(6) {
        0 => text.truncate(rng.index(text.len() + 1)),
        1 => text.clear(),
        2 => {
            for _ in 0..=rng.index(20) {
                let at = rng.index(text.len().max(1));
                if let Some(byte) = text.get_mut(at) {
                    *byte = rng.next_u64() as u8;
                }
            }
        }
        // Lines that are missing, duplicated, or reordered.
        3..=5 => {
            let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
            match rng.below(3) {
                0 => drop(lines.drain(..rng.index(lines.len() + 1))),
                1 => lines.extend_from_within(..rng.index(lines.len() + 1)),
                _ => rng.shuffle(&mut lines),
            }
            text = lines.concat();
        }
        _ => unreachable!("below 6"),
    }
    text
}

#[test]
fn damaged_files_cost_their_collector_and_nothing_else() {
    let files = whole();
    let tree = Tree::new("host-garbage");
    let mut rng = SplitMix64::new(0x6e61_7274_6865_7821);
    for (name, text) in &files {
        tree.dir.write(name, text);
    }
    // These ask the kernel or a program, not the tree: what they report may change meanwhile.
    let asks_others = [
        Logind,
        NetworkRoute,
        Ntp,
        Qdisc,
        Supervisord,
        Systemd,
        Tcpstat,
    ];
    let kinds = CollectorKind::ALL.into_iter();
    let kinds: Vec<_> = kinds.filter(|kind| !asks_others.contains(kind)).collect();
    let mut config = tree.config(&kinds);
    config.cpu.info = true;
    config.cpu.info_flags_include = Some("^a".into());
    let mut host = HostSource::new(config).expect("valid");
    let whole = samples(host.collect(0));
    let success = "node_scrape_collector_success";
    let mut failures = 0;
    for round in 0..scaled(400) {
        let (name, text) = rng.pick(&files);
        tree.dir.write(name, damaged(text, &mut rng));
        let frame = host.collect(i64::try_from(round).expect("small"));
        let schema = frame.schema();
        assert!(
            frame
                .present()
                .iter()
                .all(|at| !schema.is_retired(column(at)))
        );
        assert!(
            frame
                .stale()
                .iter()
                .all(|id| !frame.present().contains(id.index()))
        );
        failures += CollectorKind::ALL
            .iter()
            .filter(|kind| host.error(**kind).is_some_and(|error| !error.is_no_data()))
            .count();
        tree.dir.write(name, text);
    }
    assert!(
        failures > 50,
        "only {failures} failures: the damage does no harm"
    );
    // Once restored, everything is there again.
    let mended = samples(host.collect(0));
    assert_eq!(mended.len(), whole.len());
    assert_eq!(of_family(&mended, success), of_family(&whole, success));
}
