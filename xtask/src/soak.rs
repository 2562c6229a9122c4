//! `cargo xtask soak`: tests that take hours, in parts that can be run on their own.
//!
//! Invariant: the parts and their approximate times are printed before anything runs; a failed part does not keep the
//! others from running, and sets the exit code.

use std::process::Command;
use std::time::Instant;

/// A part: a bash command.
struct Part {
    name: &'static str,
    /// Description, and approximate time on two cores.
    what: &'static str,
    command: &'static str,
}

/// A filter that no longer matches any test fails its part: cargo would report success.
///
/// `SCALE` and `MINUTES` come from make: the factor on iterations, and the duration of a cluster or a churn.
const PARTS: &[Part] = &[
    Part {
        name: "tests",
        what: "every test with SCALE times its iterations: an hour for 50",
        command: "NARTHEX_TEST_SCALE=${SCALE:-50} cargo test --workspace --locked --profile iterate --no-fail-fast",
    },
    Part {
        name: "fuzz",
        what: "libFuzzer, a minute for each function, inputs kept: 40 min, and 5 to build",
        command: "cargo xtask fuzz run --seconds=${SECONDS_EACH:-60}",
    },
    Part {
        name: "crash",
        what: "20 rounds for each of SCALE of ingesting, a fault and kill -9: 15 min for 50, and 5 to build",
        command: "scale=$((${SCALE:-50} * 2 / 5)); NARTHEX_TEST_SCALE=$((scale < 1 ? 1 : scale)) cargo test -p narthex --locked --profile iterate --test it crash_soak -- --nocapture \
            | tee /dev/stderr | grep -q 'test result: ok. [1-9]'",
    },
    Part {
        name: "segments",
        what: "20 kills for each of SCALE of workers in C, C++, Go, Lua, Python and Rust, their server and nginx under reloads: 10 min for 50, and 5 to build",
        command: "scale=$((${SCALE:-50} * 2 / 5)); NARTHEX_TEST_SCALE=$((scale < 1 ? 1 : scale)) cargo test -p narthex --locked --profile iterate --test it -- --nocapture --test-threads=1 \
            segment_kills segments::killed gateway::reloads | tee /dev/stderr | grep -q 'test result: ok. [1-9]'",
    },
    Part {
        name: "bodies",
        what: "200 hostile bodies for each of SCALE, for the receivers of pushes and remote write: 10 min for 50, and 5 to build",
        command: "scale=$((${SCALE:-50} * 4 / 5)); NARTHEX_TEST_SCALE=$((scale < 1 ? 1 : scale)) cargo test -p narthex --locked --profile iterate --test it hostile_bodies -- --nocapture \
            | tee /dev/stderr | grep -q 'test result: ok. [1-9]'",
    },
    Part {
        name: "disk",
        what: "a third of MINUTES, 12 at least, of 20,000 series, 60 % replaced, on an ext4 of 320 MiB that fills and empties: 20 min",
        command: "minutes=$((${MINUTES:-60} / 3)); NARTHEX_SOAK_MINUTES=$((minutes < 12 ? 12 : minutes)) cargo test -p narthex --locked --profile iterate --test it full_disk -- --ignored --nocapture \
            | tee /dev/stderr | grep -q 'test result: ok. [1-9]'",
    },
    Part {
        name: "cluster",
        what: "MINUTES of 504 targets under reloads: 60 min",
        command: "NARTHEX_SOAK_MINUTES=${MINUTES:-60} cargo test -p narthex --locked --profile iterate --test it soak::unchanged -- --nocapture \
            | tee /dev/stderr | grep -q 'test result: ok. [1-9]'",
    },
    Part {
        name: "churn",
        what: "twice MINUTES of 850 targets with 588 series of which 60 % are replaced every 90 s: 120 min",
        command: "cargo build --release --locked -p narthex -p narthex-bench && \
            ${CARGO_TARGET_DIR:-target}/release/narthex-bench storage --server=narthex --targets=850 --series=588 \
            --queries=with --line-labels --churn-share=0.6 --churn-every=90s --duration=$((2 * ${MINUTES:-60}))m",
    },
];

/// Runs the named parts, or all.
///
/// # Errors
/// When a name is no part's, or a part failed.
pub(crate) fn run(names: &[&str]) -> Result<(), String> {
    let parts = chosen(names)?;
    println!("{}", plan(&parts));
    let mut failed = Vec::new();
    for part in parts {
        println!("\n==> {}: {}", part.name, part.command);
        let start = Instant::now();
        let ok = Command::new("bash")
            .args(["-o", "pipefail", "-c", part.command])
            .status()
            .is_ok_and(|status| status.success());
        let minutes = start.elapsed().as_secs().div_ceil(60);
        let word = if ok { "passed" } else { "FAILED" };
        println!("==> {} {word} after {minutes} min", part.name);
        if !ok {
            failed.push(part.name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}", failed.join(", ")))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Part>, String> {
    let all = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>();
    if let Some(name) = names.iter().find(|name| !all().contains(*name)) {
        return Err(format!("no part {name:?}; there are: {}", all().join(", ")));
    }
    let wanted = |part: &&Part| names.is_empty() || names.contains(&part.name);
    Ok(PARTS.iter().filter(wanted).collect())
}

fn plan(parts: &[&Part]) -> String {
    let lines = parts
        .iter()
        .map(|part| format!("  {:<8} {}", part.name, part.what));
    let lines: Vec<String> = lines.collect();
    format!("this will run, one after the other:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_chosen_by_name() {
        let names = |names: &[&str]| {
            let parts = chosen(names)?;
            Ok::<_, String>(parts.iter().map(|part| part.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).map(|all| all.len()), Ok(PARTS.len()));
        assert_eq!(names(&["fuzz", "tests"]), Ok(vec!["tests", "fuzz"]));
        assert!(names(&["fuz"]).is_err_and(|text| text.contains("there are: tests, fuzz, crash")));
        let all = chosen(&[]).expect("all parts");
        assert_eq!(plan(&all).lines().count(), 1 + PARTS.len());
    }

    #[test]
    fn every_part_is_as_long_as_make_says() {
        for part in PARTS {
            let size = match part.name {
                "fuzz" => "${SECONDS_EACH:-",
                "tests" | "crash" | "segments" | "bodies" => "${SCALE:-",
                _ => "${MINUTES:-",
            };
            assert!(part.command.contains(size), "{}", part.name);
        }
    }
}
