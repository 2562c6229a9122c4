//! Output of the program without measuring.

use narthex_testkit::process::{Finished, Spawn};
use std::time::Duration;

fn run(arguments: &[&str]) -> Finished {
    Spawn::new(env!("CARGO_BIN_EXE_narthex-bench"))
        .args(arguments)
        .run(Duration::from_secs(300))
}

#[test]
fn a_wrong_command_line_exits_with_2_and_its_reason() {
    for (arguments, reason) in [
        (&["stroage"][..], "\"stroage\" is no command"),
        (
            &["storage", "--targets=0"],
            "--targets: \"0\" is not a number from 1 to 62500",
        ),
        (
            &["storage", "--server=influx"],
            "--server: \"influx\" is none of narthex, prometheus, victoria-metrics",
        ),
        (
            &[
                "storage",
                "--server=prometheus=/bin/sh",
                "--server=prometheus=/bin/sh",
            ],
            "two are called prometheus",
        ),
        (
            &["storage", "--server=prometheus=/bin/sh", "--warmup=5s"],
            "--warmup is at least two intervals",
        ),
        (
            &["storage", "--server=prometheus=/bin/sh", "--dir=/dev/shm"],
            "lies in memory",
        ),
        (
            &[
                "storage",
                "--server=prometheus=/bin/sh",
                "--out=/nowhere/x.json",
            ],
            "does not exist",
        ),
    ] {
        let finished = run(arguments);
        assert_eq!(
            finished.exit.code,
            Some(2),
            "{arguments:?}: {}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains(reason),
            "{arguments:?}: {}",
            finished.stderr
        );
    }
    let help = run(&["--help"]);
    assert_eq!(help.exit.code, Some(0));
    assert!(help.stdout.contains("--duration=120s"), "{}", help.stdout);
    let of_one = run(&["storage", "--shape=tiny", "--help"]);
    assert_eq!(of_one.exit.code, Some(0));
    let usage = "usage: narthex-bench storage [<flags>]\n";
    assert!(of_one.stdout.starts_with(usage), "{}", of_one.stdout);
    assert!(
        !of_one.stdout.contains("--connections"),
        "{}",
        of_one.stdout
    );
}
