//! `narthex doctor` and what running exporters and servers say.

use crate::support::{Job, PATIENCE, Running, config, narthex};
use narthex_testkit::{TempDir, http};

/// Starts an exporter of the text files in a directory, of a host that has nothing but what is there.
fn exporter(dir: &TempDir) -> Running {
    let directory = format!("--collector.textfile.directory={}", dir.path().display());
    let spawn = narthex()
        .arg("node-exporter")
        .arg("--web.listen-address=127.0.0.1:0")
        .arg("--collector.disable-defaults")
        .arg("--collector.textfile")
        .arg(directory)
        .arg(format!("--path.procfs={}", dir.join("proc").display()))
        .arg(format!("--path.sysfs={}", dir.join("sys").display()));
    Running::exporter(spawn)
}

#[test]
fn a_running_exporter_is_examined_and_the_code_is_the_severity() {
    let dir = TempDir::new("doctor");
    let warning = "warning clock_unsynchronised: the clock is not synchronised\n";
    let critical = "critical clock_offset: the clock is 0.50 s away from its reference\n";
    for (page, code, texts) in [
        (
            "node_timex_sync_status 1\n",
            0,
            &["Nothing to advise.\n"][..],
        ),
        ("node_timex_sync_status 0\n", 1, &[warning]),
        (
            "node_timex_sync_status 0\nnode_timex_offset_seconds 0.5\n",
            2,
            &[critical, warning],
        ),
    ] {
        dir.write("a.prom", page);
        let running = exporter(&dir);
        let address = running.url.trim_start_matches("http://").to_owned();
        let landing = http::get(&running.url).unwrap().text();
        let doctor = narthex().arg("doctor").arg(&address).run(PATIENCE);
        assert_eq!(doctor.exit.code, Some(code), "{doctor:?}");
        for text in texts {
            assert!(doctor.stdout.contains(text), "{doctor:?}");
            assert_eq!(landing.contains(text.trim_end()), code > 0, "{landing}");
        }
        running.stop();
        let gone = narthex().arg("doctor").arg(&address).run(PATIENCE);
        assert_eq!(
            (gone.exit.code, gone.stdout.as_str()),
            (Some(3), ""),
            "{gone:?}"
        );
        assert!(!gone.stderr.is_empty());
    }
}

/// Limits of the kernel are on no page that is scraped.
#[test]
fn a_running_exporter_is_asked_for_facts_of_its_host() {
    let dir = TempDir::new("doctor-facts");
    dir.write("proc/sys/net/ipv4/tcp_max_tw_buckets", "8192\n");
    dir.write("a.prom", "node_sockstat_TCP_tw 7900\n");
    let running = exporter(&dir);
    for address in [running.url.clone(), format!("{}/metrics", running.url)] {
        let doctor = narthex().arg("doctor").arg(&address).run(PATIENCE);
        let expected = "warning time_wait_buckets: 7,900 sockets in TIME_WAIT";
        assert!(doctor.stdout.starts_with(expected), "{address}: {doctor:?}");
        assert_eq!(doctor.exit.code, Some(1));
    }
}

#[test]
fn this_host_may_be_below_a_directory() {
    let dir = TempDir::new("doctor-paths");
    dir.write("proc/sys/net/ipv4/tcp_max_tw_buckets", "8192\n");
    dir.write(
        "proc/net/sockstat",
        "sockets: used 9000\nTCP: inuse 5 orphan 0 tw 7900 alloc 9 mem 3\n",
    );
    let paths = ["procfs", "sysfs", "rootfs"].map(|name| {
        let below = if name == "procfs" { "proc" } else { "" };
        format!("--path.{name}={}", dir.join(below).display())
    });
    let doctor = narthex().arg("doctor").args(paths).run(PATIENCE);
    let expected = "warning time_wait_buckets: 7,900 sockets in TIME_WAIT";
    assert!(doctor.stdout.contains(expected), "{doctor:?}");
    assert_ne!(doctor.exit.code, Some(3), "{doctor:?}");
}

/// What it finds depends on the machine.
#[test]
fn without_an_address_this_host_is_examined() {
    let doctor = narthex().arg("doctor").run(PATIENCE);
    assert!(matches!(doctor.exit.code, Some(0..=2)), "{doctor:?}");
    assert!(!doctor.stdout.is_empty(), "{doctor:?}");
}

#[test]
fn each_host_that_a_server_knows_is_examined() {
    let dirs = ["doctor-a", "doctor-b"].map(TempDir::new);
    dirs[0].write(
        "a.prom",
        "node_timex_sync_status 1\nnode_sockstat_TCP_tw 30000\n",
    );
    dirs[1].write("a.prom", "node_timex_sync_status 0\n");
    let exporters = dirs.each_ref().map(exporter);
    let data = TempDir::new("doctor-server");
    let job = Job {
        name: "node",
        targets: exporters.iter().map(Running::address).collect(),
        more: "",
    };
    let server = Running::start(data.path(), &config(&data, "1s", &[job]));
    server.wait_vector("node_timex_sync_status", |hosts| hosts.len() == 2);
    let doctor = narthex().arg("doctor").arg(server.address()).run(PATIENCE);
    let mut hosts: Vec<(String, &str)> = vec![
        (
            format!("node {}:", exporters[0].address()),
            "warning time_wait_ports: 30,000 sockets in TIME_WAIT leave few of the local ports",
        ),
        (
            format!("node {}:", exporters[1].address()),
            "warning clock_unsynchronised: the clock is not synchronised",
        ),
    ];
    hosts.sort();
    let said = doctor.stdout.lines().filter(|line| !line.starts_with(' '));
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 4, "{doctor:?}");
    for (found, (host, finding)) in said.chunks(2).zip(&hosts) {
        assert_eq!(found[0], host, "{doctor:?}");
        assert!(found[1].starts_with(finding), "{doctor:?}");
    }
    assert_eq!(doctor.exit.code, Some(1));
}
