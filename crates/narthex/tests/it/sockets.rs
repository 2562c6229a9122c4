//! Sockets that systemd binds and passes.

use crate::support::{PATIENCE, Running, narthex, path_flag};
use narthex_testkit::{
    TempDir, http,
    process::{Exit, Spawn},
};
use std::{net::TcpListener, net::UdpSocket, os::fd::OwnedFd};

/// Starts our binary with its standard input as the first passed descriptor, as systemd would.
fn activated(socket: impl Into<OwnedFd>, arguments: &[&str]) -> Spawn {
    Spawn::new("sh")
        .arg("-c")
        .arg("LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3<&0 </dev/null")
        .arg("sh")
        .arg(crate::support::binary())
        .args(arguments)
        .arg("--web.systemd-socket")
        .stdin(socket)
}

#[test]
fn every_server_answers_on_a_passed_socket() {
    let dir = TempDir::new("passed-socket");
    let path = path_flag(dir.path());
    let config = dir.write("agent.yml", "scrape_configs: []\n");
    let config = format!("--config.file={}", config.display());
    let agent_path = format!("--storage.agent.path={}", dir.join("agent").display());
    for arguments in [
        &["node-exporter", "--collector.disable-defaults"][..],
        &["server", &path],
        &["agent", &config, &agent_path],
        &["pushgateway"],
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = Running::exporter(activated(listener, arguments));
        assert_eq!(running.address(), address.to_string(), "{arguments:?}");
        let answer = http::get(&format!("http://{address}/metrics")).unwrap();
        assert_eq!(answer.status, 200, "{arguments:?}");
        running.stop();
    }
}

#[test]
fn what_is_not_a_listening_socket_is_refused() {
    let refused = |spawn: Spawn| {
        let finished = spawn.run(PATIENCE);
        let failed = Exit {
            code: Some(1),
            signal: None,
        };
        assert_eq!(finished.exit, failed, "{}", finished.stderr);
        finished
            .stderr
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    let flags = ["node-exporter", "--collector.disable-defaults"];
    let none = narthex().args(flags).arg("--web.systemd-socket");
    let none = none.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    assert_eq!(
        refused(none),
        "narthex: error: --web.systemd-socket: no socket activation file descriptors found"
    );
    let file = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(
        refused(activated(file, &flags)),
        "narthex: error: cannot listen on the passed socket 0: it is not a TCP socket"
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(
        refused(activated(socket, &flags)),
        "narthex: error: cannot listen on the passed socket 0: it is not listening"
    );
}
