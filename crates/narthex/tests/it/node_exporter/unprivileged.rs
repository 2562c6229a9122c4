//! The exporter as an unprivileged user: what is missing is what its log says.

use super::ours;
use crate::support::{Running, binary};
use narthex_testkit::{
    TempDir, corpora, exposition::Samples, exposition::parse_text, http, process::Spawn,
};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

const FLAGS: [&str; 8] = [
    "--web.disable-exporter-metrics",
    "--collector.interrupts",
    "--collector.perf",
    "--collector.processes",
    "--collector.slabinfo",
    "--collector.tcpstat",
    "--collector.zoneinfo",
    "--no-collector.netdev",
];

fn success(one: &Running) -> Samples {
    let page = http::get(&format!("{}/metrics", one.url)).unwrap().text();
    let (mut samples, _) = parse_text(&page);
    samples.retain(|series, _| series.starts_with("node_scrape_collector_success"));
    samples
}

#[test]
fn it_says_which_collectors_lose_what() {
    let dir = TempDir::new("unprivileged");
    let copy = dir.join("narthex");
    fs::copy(binary(), &copy).unwrap();
    for path in [dir.path(), copy.as_path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let as_nobody = |spawn: Spawn| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        spawn.args(user).arg(&copy)
    };
    let allowed = as_nobody(Spawn::new("setpriv")).arg("--version");
    let may_switch = allowed.run(crate::support::PATIENCE).exit.code == Some(0);
    if !may_switch {
        return corpora::report("an exporter of another user", 0, 1);
    }
    let nobodys = as_nobody(Spawn::new("setpriv"))
        .arg("node-exporter")
        .arg("--web.listen-address=127.0.0.1:0")
        .args(FLAGS);
    let (roots, nobodys) = (ours(&FLAGS), Running::exporter(nobodys));
    let (with_root, without) = (success(&roots), success(&nobodys));
    assert!(with_root.keys().eq(without.keys()));
    let log = nobodys.stop();
    let said: BTreeSet<&str> = log
        .lines()
        .filter(|line| line.contains("a collector misses values"))
        .filter_map(|line| line.split("collector=").nth(1)?.split(' ').next())
        .collect();
    let lost = with_root
        .iter()
        .filter(|(series, yes)| without[*series] < **yes);
    let lost: BTreeSet<&str> = lost
        .filter_map(|(series, _)| series.split('"').nth(1))
        .collect();
    assert!(lost.contains("slabinfo"), "{lost:?}");
    assert!(lost.is_subset(&said), "{lost:?} {said:?}");
    assert!(!roots.stop().contains("a collector misses values"));
    corpora::report("an exporter of another user", 1, 1);
}
