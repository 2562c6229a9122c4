//! node_exporter's own fixture trees, given to the command with the flags that printed its page of them; and files of
//! devices that are in no page of its, given to both.

use super::{
    differential::{Expected, compare, of_both},
    is_1_5, ours, real,
};
use narthex_testkit::{
    TempDir, corpora,
    exposition::{Families, Samples, parse_text},
    http,
    node_exporter::{OF_THIS_HOST, VOLATILE},
    ttar,
};

/// Beginnings of families about the processes themselves.
const OF_PROCESS: [&str; 4] = ["go_", "narthex_", "process_", "promhttp_"];

/// The flags of FLAGS.md as far as they apply, with paths below the fixtures where they end in a slash.
const FLAGS: [&str; 40] = [
    "--web.disable-exporter-metrics",
    "--collector.buddyinfo",
    "--collector.cgroups",
    "--collector.cpu_vulnerabilities",
    "--collector.drbd",
    "--collector.interrupts",
    "--collector.ksmd",
    "--collector.lnstat",
    "--collector.meminfo_numa",
    "--collector.mountstats",
    "--collector.pcidevice",
    "--collector.processes",
    "--collector.qdisc",
    "--collector.slabinfo",
    "--collector.softirqs",
    "--collector.sysctl",
    "--collector.wifi",
    "--collector.xfrm",
    "--collector.zoneinfo",
    "--no-collector.filesystem",
    "--no-collector.selinux",
    "--no-collector.timex",
    "--no-collector.uname",
    "--collector.arp.device-exclude=nope",
    "--no-collector.arp.netlink",
    "--collector.bcache.priorityStats",
    "--collector.cpu.info",
    "--collector.cpu.info.bugs-include=^(cpu_meltdown|spectre_.*|mds)$",
    "--collector.cpu.info.flags-include=^(aes|avx.?|constant_tsc)$",
    "--collector.hwmon.chip-include=(applesmc|asus_nb_wmi|coretemp|hwmon4|ieee80211|nct6779)",
    "--collector.netclass.ignore-invalid-speed",
    "--collector.netclass.ignored-devices=(dmz|int)",
    "--collector.netdev.device-include=lo",
    // Otherwise chosen by whether it is the kernel's procfs.
    "--collector.netdev.netlink",
    "--collector.stat.softirq",
    "--collector.sysctl.include=fs.file-nr",
    "--collector.sysctl.include=fs.file-nr:total,current,max",
    "--collector.sysctl.include=kernel.threads-max",
    "--collector.sysctl.include-info=kernel.seccomp.actions_avail",
    "--collector.qdisc.device-include=(wlan0|eth0)",
];

fn family_of(series: &str) -> &str {
    series.split('{').next().unwrap_or_default()
}

/// Removes what cannot be compared.
fn comparable(
    (mut samples, mut families): (Samples, Families),
    collectors: &[String],
) -> (Samples, Families) {
    let is_compared = |family: &str| {
        let mut ignored = VOLATILE.iter().chain(&OF_PROCESS);
        !ignored.any(|begin| family.starts_with(begin))
    };
    samples.retain(|series, _| {
        let collector = series.strip_prefix("node_scrape_collector_success");
        is_compared(family_of(series))
            && collector.is_none_or(|labels| collectors.iter().any(|one| one == labels))
    });
    for (series, value) in &mut samples {
        if OF_THIS_HOST.iter().any(|begin| series.starts_with(begin)) {
            *value = 0.0;
        }
    }
    families.retain(|family, _| is_compared(family));
    // Types alone: helps are in our own words.
    let types = families
        .into_iter()
        .map(|(family, (kind, _))| (family, (kind, String::new())));
    (samples, types.collect())
}

#[test]
fn the_page_of_the_fixtures_is_node_exporters() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("node_exporter fixtures by command", 0, 0);
    };
    let unpacked = TempDir::new("node-exporter-fixtures");
    ttar::unpack(&dir.join("sys.ttar"), unpacked.path());
    ttar::unpack(&dir.join("udev.ttar"), unpacked.path());
    ttar::link_procfs(&dir.join("proc"), &unpacked.join("proc"));
    std::os::unix::fs::symlink(dir.join("usr"), unpacked.join("usr")).unwrap();
    let paths = [
        format!("--path.procfs={}", unpacked.join("proc").display()),
        format!("--path.sysfs={}", unpacked.join("sys").display()),
        format!("--path.rootfs={}", unpacked.path().display()),
        format!("--collector.wifi.fixtures={}", dir.join("wifi").display()),
        format!("--collector.qdisc.fixtures={}", dir.join("qdisc").display()),
        format!("--path.udev.data={}", unpacked.join("udev/data").display()),
        format!(
            "--collector.textfile.directory={}",
            dir.join("textfile/two_metric_files").display()
        ),
    ];
    let flags: Vec<&str> = FLAGS
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .collect();
    let exporter = ours(&flags);
    let page = http::get(&format!("{}/metrics", exporter.url))
        .unwrap()
        .text();
    // node_exporter's page was printed in the directory above the trees.
    let page = page.replace(&unpacked.path().display().to_string(), "collector/fixtures");
    let page = page.replace(&dir.display().to_string(), "collector/fixtures");
    let expected = std::fs::read_to_string(dir.join("e2e-output.txt")).unwrap();
    let page = parse_text(&page);
    let collectors = page
        .0
        .keys()
        .filter_map(|series| series.strip_prefix("node_scrape_collector_success"));
    let collectors: Vec<String> = collectors.map(str::to_owned).collect();
    let (samples, types) = comparable(page, &collectors);
    let (expected, expected_types) = comparable(parse_text(&expected), &collectors);
    let lines = |samples: &Samples| {
        samples
            .iter()
            .map(|(series, value)| format!("{series} {value}"))
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (ours, theirs) = (lines(&samples), lines(&expected));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let extra: Vec<_> = ours.difference(&theirs).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:#?}\nextra {extra:#?}"
    );
    assert_eq!(types, expected_types);
    let total = expected.len() + expected_types.len();
    corpora::report(
        "node_exporter fixtures by command (series and families)",
        total,
        total,
    );
}

/// Files of graphics cards, of which one is another driver's, and of swap spaces.
const FILES: [(&str, &str); 17] = [
    (
        "sys/class/drm/card0/device/uevent",
        "DRIVER=amdgpu\nPCI_CLASS=30000\n",
    ),
    ("sys/class/drm/card0/device/gpu_busy_percent", "4\n"),
    (
        "sys/class/drm/card0/device/mem_info_gtt_total",
        "8573157376\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_gtt_used",
        "144560128\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_vis_vram_total",
        "8573157376\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_vis_vram_used",
        "1490378752\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_vram_total",
        "8573157376\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_vram_used",
        "1490378752\n",
    ),
    (
        "sys/class/drm/card0/device/mem_info_vram_vendor",
        "samsung\n",
    ),
    (
        "sys/class/drm/card0/device/power_dpm_force_performance_level",
        "manual\n",
    ),
    ("sys/class/drm/card0/device/unique_id", "0123456789abcdef\n"),
    ("sys/class/drm/card1/device/uevent", "DRIVER=amdgpu\n"),
    ("sys/class/drm/card1/device/mem_info_vram_total", "42\n"),
    ("sys/class/drm/card2/device/uevent", "DRIVER=i915\n"),
    ("sys/class/drm/card0-DP-1/status", "connected\n"),
    ("sys/class/drm/card10/device/uevent", "DRIVER=amdgpu\n"),
    (
        "proc/swaps",
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
         /dev/zram0                              partition\t1048572\t\t176\t\t100\n\
         /swapfile                               file\t\t2097148\t\t0\t\t-2\n",
    ),
];

#[test]
fn devices_that_the_fixtures_lack_are_the_same() {
    let dir = TempDir::new("node-exporter-files");
    // 1.5 shows cards of other drivers, as if all their files said 0.
    let is_shown = |path: &str| is_1_5() && path.contains("card2");
    for (path, text) in FILES.into_iter().filter(|(path, _)| !is_shown(path)) {
        dir.write(path, text);
    }
    let mut flags = of_both(&["drm", "swap"]);
    flags.extend([
        "--web.disable-exporter-metrics".to_owned(),
        "--collector.disable-defaults".to_owned(),
        format!("--path.procfs={}", dir.join("proc").display()),
        format!("--path.sysfs={}", dir.join("sys").display()),
    ]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let expected = Expected {
        is_1_5: is_1_5(),
        has_own_help: true,
    };
    compare(&ours(&flags), &real(&flags), &expected, 10);
}
