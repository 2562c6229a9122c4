//! `narthex doctor` and what running exporters and servers say.

use crate::{
    client,
    support::{Job, PATIENCE, Running, config, config_flag, narthex, until},
};
use narthex_testkit::{TempDir, http, process::Exit};
use std::path::PathBuf;

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

/// Starts the exporters of two hosts, each with a trouble of its own; returns them with what doctor says of them after
/// their names.
fn two_hosts(dirs: &[TempDir; 2]) -> [(Running, &'static str); 2] {
    dirs[0].write(
        "a.prom",
        "node_timex_sync_status 1\nnode_sockstat_TCP_tw 30000\n",
    );
    dirs[1].write("a.prom", "node_timex_sync_status 0\n");
    let [a, b] = dirs.each_ref().map(exporter);
    [
        (
            a,
            "warning time_wait_ports: 30,000 sockets in TIME_WAIT leave few of the local ports",
        ),
        (
            b,
            "warning clock_unsynchronised: the clock is not synchronised",
        ),
    ]
}

/// Fails unless doctor names these hosts, each with a finding of its own.
fn expect(address: &str, mut hosts: Vec<(String, &str)>) {
    let doctor = narthex().arg("doctor").arg(address).run(PATIENCE);
    hosts.sort();
    let said = doctor.stdout.lines().filter(|line| !line.starts_with(' '));
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 2 * hosts.len(), "{doctor:?}");
    for (found, (host, finding)) in said.chunks(2).zip(&hosts) {
        assert_eq!(found[0], host, "{doctor:?}");
        assert!(found[1].starts_with(finding), "{doctor:?}");
    }
    let warning = Exit {
        code: Some(1),
        signal: None,
    };
    assert_eq!(doctor.exit, warning);
}

#[test]
fn each_host_that_a_server_knows_is_examined() {
    let dirs = ["doctor-a", "doctor-b"].map(TempDir::new);
    let exporters = two_hosts(&dirs);
    let data = TempDir::new("doctor-server");
    let targets = exporters.iter().map(|(one, _)| one.address()).collect();
    let job = Job {
        name: "node",
        targets,
        more: "",
    };
    let server = Running::start(data.path(), &config(&data, "1s", &[job]));
    server.wait_vector("node_timex_sync_status", |hosts| hosts.len() == 2);
    let hosts = exporters.iter();
    let hosts = hosts.map(|(one, finding)| (format!("node {}:", one.address()), *finding));
    expect(server.address(), hosts.collect());
}

/// All hosts of an agent's page were examined as one.
#[test]
fn each_host_that_an_agent_shows_is_examined() {
    let dirs = ["doctor-c", "doctor-d"].map(TempDir::new);
    let exporters = two_hosts(&dirs);
    let data = TempDir::new("doctor-agent");
    let config = own_host(&data, &exporters);
    let agent = narthex()
        .arg("agent")
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(format!("--storage.agent.path={}", data.path().display()))
        .arg(config_flag(&config));
    let agent = Running::of(agent);
    until("all hosts are on the page", || {
        let page = client::get(&format!("{}/metrics", agent.url)).text();
        let hosts = page.matches("\nnode_sockstat_TCP_tw{").count();
        (hosts == 2 && page.matches("\nnode_timex_sync_status{").count() == 2).then_some(())
    });
    expect(agent.address(), with_own_host(&exporters));
}

/// Facts of a server's host are that host's alone.
#[test]
fn facts_of_a_servers_own_host_are_not_those_of_the_others() {
    let dirs = ["doctor-e", "doctor-f"].map(TempDir::new);
    let exporters = two_hosts(&dirs);
    let data = TempDir::new("doctor-own-host");
    let server = Running::start(data.path(), &own_host(&data, &exporters));
    let all = r#"{__name__=~"node_timex_sync_status|node_sockstat_TCP_tw"}"#;
    server.wait_vector(all, |series| series.len() == 4);
    expect(server.address(), with_own_host(&exporters));
}

/// Writes a configuration that scrapes the exporters and reads a host of its own, whose limits are narrow; all series
/// get a label more where others read them.
fn own_host(dir: &TempDir, exporters: &[(Running, &str)]) -> PathBuf {
    dir.write("host/proc/sys/net/ipv4/tcp_max_tw_buckets", "8192\n");
    dir.write(
        "host/proc/net/sockstat",
        "sockets: used 9000\nTCP: inuse 5 orphan 0 tw 7900 alloc 9 mem 3\n",
    );
    let job = Job {
        name: "node",
        targets: exporters.iter().map(|(one, _)| one.address()).collect(),
        more: "",
    };
    let path = config(dir, "1s", &[job]);
    let text = std::fs::read_to_string(&path).unwrap();
    let host = dir.join("host");
    let host = host.display();
    let text = text.replace("global:\n", "global:\n  external_labels: {region: west}\n");
    let own = format!(
        "host:\n  job_name: here\n  labels: {{rack: r1}}\n  flags: [--collector.disable-defaults, \
         --collector.sockstat, --path.procfs={host}/proc, --path.sysfs={host}/sys]\n"
    );
    dir.write("own.yml", text + &own)
}

/// Returns what doctor says of the exporters' hosts and of the own one.
fn with_own_host(exporters: &[(Running, &'static str)]) -> Vec<(String, &'static str)> {
    let named = |one: &str| format!("{one}:");
    let hosts = exporters.iter();
    let hosts = hosts.map(|(one, finding)| (named(&format!("node {}", one.address())), *finding));
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let own = named(&format!("here {}", name.trim()));
    let finding = "warning time_wait_buckets: 7,900 sockets in TIME_WAIT";
    hosts.chain([(own, finding)]).collect()
}
