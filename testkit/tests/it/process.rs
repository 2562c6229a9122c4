//! The process harness: readiness, ports, exit codes, signals, and nothing left behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use narthex_testkit::process::{SIGKILL, SIGTERM, Spawn, port_in};

const DEADLINE: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Spawn {
    Spawn::new("/bin/sh").arg("-c").arg(script)
}

#[test]
fn waits_for_a_complete_line_and_its_port() {
    let mut server = shell("printf 'at 10:20:30 listen'; sleep 0.05; echo 'ing on 127.0.0.1:4567 now' >&2; echo 'listening on [::]:89'; exec sleep 60").start();
    assert_eq!(server.wait_port("listening", DEADLINE), 89);
    assert_eq!(server.wait_port("ing on 127", DEADLINE), 4567);
    assert!(server.is_running());
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let finished = shell("echo out; echo err >&2; exit 3").run(DEADLINE);
    assert_eq!(
        (
            finished.exit.code,
            finished.stdout.as_str(),
            finished.stderr.as_str()
        ),
        (Some(3), "out\n", "err\n")
    );

    let mut graceful =
        shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done").start();
    graceful.wait_for("ready", DEADLINE);
    assert_eq!(graceful.terminate(DEADLINE).code, Some(0));

    let mut killed = shell("exec sleep 60").start();
    killed.signal(SIGKILL);
    assert_eq!(killed.wait_exit(DEADLINE).signal, Some(SIGKILL));
}

#[test]
fn a_program_that_dies_early_shows_its_output() {
    let failure = catch_unwind(AssertUnwindSafe(|| {
        shell("echo cannot bind >&2; exit 1")
            .start()
            .wait_for("ready", DEADLINE)
    }));
    let text = failure
        .unwrap_err()
        .downcast_ref::<String>()
        .unwrap()
        .clone();
    assert!(
        text.contains("cannot bind") && text.contains("exit status: 1"),
        "{text}"
    );
}

#[test]
fn a_program_that_ignores_sigterm_misses_the_deadline() {
    let failure = catch_unwind(AssertUnwindSafe(|| {
        let mut server = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done").start();
        server.wait_for("ready", DEADLINE);
        server.signal(SIGTERM);
        server.wait_exit(Duration::from_millis(100))
    }));
    assert!(
        failure
            .unwrap_err()
            .downcast_ref::<String>()
            .unwrap()
            .contains("still runs")
    );
}

#[test]
fn drop_kills_the_whole_group() {
    let mut server = shell("sleep 61 & echo child $!; wait").start();
    let line = server.wait_for("child", DEADLINE);
    let child: u32 = line.rsplit(' ').next().unwrap().parse().unwrap();
    let parent = server.pid();
    drop(server);
    // The grandchild is not ours to wait for: its end follows the signal, but not at once.
    let end = Instant::now() + DEADLINE;
    while [parent, child].into_iter().any(runs) {
        assert!(Instant::now() < end, "{parent} or {child} still runs");
        std::thread::yield_now();
    }
}

/// Returns whether a process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

#[test]
fn ports_are_not_clock_times() {
    assert_eq!(
        port_in("2024-01-01T10:20:30Z msg=Listening address=0.0.0.0:9090"),
        Some(9090)
    );
    assert_eq!(port_in("http://localhost:1234/"), Some(1234));
    assert_eq!(port_in("12:13:14 nothing"), None);
    assert_eq!(port_in("127.0.0.1:99999"), None);
}
