//! Every level of pressure: what it refuses, and that it ends.

use super::{attacks::unfinished, pressure};
use crate::{
    client,
    hostile::resident_kb,
    support::{self, Running, until},
    target::Target,
};
use narthex_testkit::{
    TempDir, http,
    remote_write::{Request, Series},
};
use std::{cmp::Ordering, fmt::Write as _, net::TcpStream};

/// Memory that the server may use beyond its idle size.
const LEFT_BYTES: u64 = 64 << 20;

/// Sends one sample with the current time.
fn write(server: &Running) -> http::Response {
    let series = Series::new(&[("__name__", "w")], &[(crate::target::now_ms(), 1.0)]);
    let request = Request {
        series: vec![series],
        ..Request::default()
    };
    request.send(&server.url).unwrap()
}

fn query(server: &Running) -> http::Response {
    client::try_call(&server.url, "/api/v1/query", &[("query", "up")]).unwrap()
}

/// Opens and ends requests with unfinished heads until the pressure is at `level`, and keeps it there until `look`
/// succeeds. What it sees counts only when the pressure is at `level` afterwards too.
fn press<T>(
    server: &Running,
    held: &mut Vec<TcpStream>,
    level: u8,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let line = format!("X-More: {}\r\n", "x".repeat(4000));
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{}", line.repeat(30));
    until(&format!("level {level}"), || {
        match pressure(&server.url)?.cmp(&level) {
            Ordering::Less => held.extend(unfinished(server.address(), 16, head.as_bytes())),
            Ordering::Greater => held.truncate(held.len().saturating_sub(16)),
            Ordering::Equal => {
                let seen = look()?;
                return (pressure(&server.url)? == level).then_some(seen);
            }
        }
        None
    })
}

#[test]
fn levels_of_pressure_refuse_one_thing_after_the_other_and_are_left_again() {
    let dir = TempDir::new("levels");
    let fresh = Target::start(|number| {
        let mut page = String::new();
        for at in 0..100 {
            let _ = writeln!(page, "m{number}_{at} 1");
        }
        page
    });
    let job = support::Job {
        name: "fresh",
        targets: vec![&fresh.address],
        more: "",
    };
    let config = support::config(&dir, "500ms", &[job]);
    let server = |name: &str, flag: &str| {
        let spawn = support::server_in(&dir.join(name))
            .arg(support::config_flag(&config))
            .arg("--web.enable-remote-write-receiver")
            .arg("--web.max-connections=5000")
            .arg(flag);
        Running::of(spawn)
    };
    // The idle size differs between builds.
    let idle = server("idle", "--memory.limit=100%");
    assert_eq!((write(&idle).status, query(&idle).status), (204, 200));
    let limit_bytes = (resident_kb(&idle, "VmRSS:") << 10) + LEFT_BYTES;
    idle.stop();
    let server = server("pressed", &format!("--memory.limit={limit_bytes}B"));
    let mut held = Vec::new();
    let refused = || server.metric("narthex_scrape_refused_series_total{scrape_job=\"fresh\"} ");
    let seen = press(&server, &mut held, 1, || {
        Some((write(&server).status, query(&server).status))
    });
    assert_eq!(seen, (204, 200));
    press(&server, &mut held, 2, || {
        refused().filter(|count| *count > 0.0)
    });
    press(&server, &mut held, 3, || {
        let answer = write(&server);
        (answer.status == 503).then(|| assert_eq!(answer.header("Retry-After"), Some("5")))
    });
    press(&server, &mut held, 4, || {
        let answer = query(&server);
        (answer.status == 503).then(|| assert_eq!(answer.header("Retry-After"), Some("5")))
    });
    assert_eq!(
        client::get(&format!("{}/-/healthy", server.url)).status,
        200
    );
    drop(held);
    until("no pressure", || {
        (pressure(&server.url)? == 0).then_some(())
    });
    assert_eq!((write(&server).status, query(&server).status), (204, 200));
    let before = fresh.count();
    server.wait_vector(&format!("m{}_0", before + 1), |found| !found.is_empty());
    let log = server.stop();
    for words in ["New series are left out", "job=fresh", "Memory is short"] {
        assert!(log.contains(words), "{words}: {log}");
    }
}
