//! `cargo xtask fuzz run`: libFuzzer over every fuzz function, on the stable compiler.
//!
//! Found inputs are kept: `<target>/fuzz/corpus/<function>`, or below the directory that `NARTHEX_FUZZ_CORPUS` names,
//! grows from run to run, beginning with the tests' inputs. Failing inputs are in `<target>/fuzz/failed/<function>`.
//!
//! Invariant: a function that did not run is a failure.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::{product, tidy};

/// Timeout of one input, in seconds: the code is not optimised, the machine may be busy.
const INPUT_SECONDS: &str = "-timeout=30";
/// Maximum length of an input, in bytes: long enough that a factor outweighs any constant of `fuzz/bounds.txt`.
const INPUT_BYTES: &str = "-max_len=16384";
/// Seconds past its end after which a process is killed.
const GRACE_SECONDS: u64 = 120;
/// The tests that drive fuzz functions are in modules named `fuzz`, or are named after these words.
const DRIVERS: [&str; 3] = ["fuzz", "mutated", "damaged"];

/// Parameters of the command line.
struct Plan {
    seconds: u64,
    /// The functions, by binary and by name within it.
    functions: Vec<(String, String)>,
}

/// Result of running one function.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    executed: u64,
    edges: u64,
    corpus: u64,
    peak_mib: u64,
    /// Whether libFuzzer reached its end.
    done: bool,
}

/// Builds the binaries and runs the functions that `args` name, or all, for `--seconds=N` each (60).
///
/// # Errors
/// When one cannot be built or run, or an input fails.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let plan = plan(args, tidy::fuzz_functions()?)?;
    let target = product::target().join("fuzz");
    let binaries = build(&target, &plan)?;
    let seeds = target.join("seeds");
    write_seeds(&seeds, &plan)?;
    let corpus = std::env::var_os("NARTHEX_FUZZ_CORPUS")
        .map_or_else(|| target.join("corpus"), PathBuf::from);
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{} functions, {} s each, {jobs} at once: about {} min; what is found stays in {}",
        plan.functions.len(),
        plan.seconds,
        (plan.functions.len() as u64 * plan.seconds).div_ceil(60 * jobs as u64),
        corpus.display()
    );
    println!(
        "| function | inputs run | edges | inputs kept | peak MiB |\n| --- | --- | --- | --- | --- |"
    );
    let waiting = Mutex::new(plan.functions.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no panic while it is held").next();
                    let Some((binary, function)) = next else {
                        break;
                    };
                    let name = format!("{binary}_{function}");
                    let one = One {
                        program: binaries.join(binary),
                        function,
                        seeds: seeds.join(&name),
                        corpus: corpus.join(&name),
                        failed: target.join("failed").join(&name),
                    };
                    match one.run(plan.seconds) {
                        Ok(outcome) => println!("| {name} {outcome}"),
                        Err(text) => {
                            println!("| {name} | failed | | | |");
                            let mut failed = failed.lock().expect("no panic while it is held");
                            failed.push(format!("{name}: {text}"));
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic while it was held");
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} failed:\n{}", failed.len(), failed.join("\n")))
}

/// Chooses among `all` functions.
fn plan(args: &[&str], all: Vec<(String, String)>) -> Result<Plan, String> {
    let mut plan = Plan {
        seconds: 60,
        functions: Vec::new(),
    };
    let mut asked = Vec::new();
    for arg in args {
        match arg.strip_prefix("--seconds=") {
            Some(n) => plan.seconds = n.parse().map_err(|_| format!("{arg}: not a number"))?,
            None => asked.push(*arg),
        }
    }
    for name in &asked {
        let known = plan.functions.len();
        let named = all
            .iter()
            .filter(|(binary, function)| name == binary || *name == format!("{binary}_{function}"));
        plan.functions.extend(named.cloned());
        if plan.functions.len() == known {
            return Err(format!("no function {name:?}"));
        }
    }
    if asked.is_empty() {
        plan.functions = all;
    }
    Ok(plan)
}

/// Builds the binaries that are needed and returns their directory.
fn build(target: &Path, plan: &Plan) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--locked", "--target-dir"])
        .arg(target);
    let needed: BTreeSet<&String> = plan.functions.iter().map(|(binary, _)| binary).collect();
    for binary in needed {
        cargo.args(["--bin", binary]);
    }
    // The coverage flags are in `fuzz/.cargo`.
    succeed(cargo.current_dir("fuzz"), "cargo build in fuzz/")?;
    let host = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output();
    let host = host.map_err(|e| format!("rustc: {e}"))?.stdout;
    Ok(target
        .join(String::from_utf8_lossy(&host).trim())
        .join("debug"))
}

/// Has the tests write their initial inputs, unless they did.
fn write_seeds(seeds: &Path, plan: &Plan) -> Result<(), String> {
    let without = |plan: &Plan| -> Vec<String> {
        let names = plan.functions.iter().map(|(b, f)| format!("{b}_{f}"));
        names.filter(|name| !seeds.join(name).exists()).collect()
    };
    if without(plan).is_empty() {
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--workspace", "--exclude=narthex-bench"]);
    cargo.args(["--locked", "-q"]);
    cargo.args(["--lib", "--test", "it", "--"]).args(DRIVERS);
    // Comparisons with Prometheus are another kind of test.
    cargo.args(["--skip", "oracle"]);
    cargo.env("NARTHEX_FUZZ_SEEDS", seeds);
    succeed(cargo.stdout(Stdio::null()), "the tests that write seeds")?;
    let left = without(plan);
    if left.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no test of a name with {} feeds {}",
        DRIVERS.join(", "),
        left.join(", ")
    ))
}

fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{what}: {e}"))?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{what}: {status}"))
}

/// A function and the paths of its inputs.
struct One<'a> {
    program: PathBuf,
    function: &'a str,
    seeds: PathBuf,
    corpus: PathBuf,
    failed: PathBuf,
}

impl One<'_> {
    fn run(&self, seconds: u64) -> Result<Outcome, String> {
        for dir in [&self.corpus, &self.failed] {
            fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let output = Command::new("timeout")
            .args(["-k", "10", &(seconds + GRACE_SECONDS).to_string()])
            .arg(&self.program)
            .arg(&self.corpus)
            .arg(&self.seeds)
            .args([INPUT_SECONDS, INPUT_BYTES, "-print_final_stats=1"])
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", self.failed.display()))
            .env("NARTHEX_FUZZ", self.function)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let outcome = read_log(&log);
        if output.status.success() && outcome.done {
            return Ok(outcome);
        }
        // The function's own message precedes a long stack trace.
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.len().saturating_sub(20);
        let from = lines.iter().position(|line| line.contains(" panicked at "));
        let shown = lines.iter().skip(from.unwrap_or(end)).take(20);
        let last: Vec<&str> = shown.copied().collect();
        let last = last.join("\n  ");
        Err(format!(
            "{}, {}\n  {last}",
            output.status,
            self.failed.display()
        ))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            executed,
            edges,
            corpus,
            peak_mib,
            ..
        } = self;
        write!(f, "| {executed} | {edges} | {corpus} | {peak_mib} |")
    }
}

/// Parses libFuzzer's log: lines `#9 NEW cov: 5 ft: 6 corp: 2/9b …`, and statistics at its end.
fn read_log(log: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in log.lines() {
        let after = |word: &str| -> Option<u64> {
            let rest = line.split(word).nth(1)?.trim_start();
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        };
        if line.starts_with('#') {
            outcome.edges = after(" cov: ").unwrap_or(outcome.edges);
            outcome.corpus = after(" corp: ").unwrap_or(outcome.corpus);
        }
        if let Some(n) = after("stat::number_of_executed_units:") {
            outcome.executed = n;
        }
        if let Some(n) = after("stat::peak_rss_mb:") {
            outcome.peak_mib = n;
        }
        outcome.done |= line.starts_with("Done ");
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "INFO: seed corpus: files: 3\n#4\tINITED cov: 49 ft: 70 corp: 3/40b exec/s: 0 rss: 40Mb\n\
                   #100\tNEW    cov: 51 ft: 80 corp: 5/60b lim: 4 exec/s: 0\n#2000\tDONE   cov: 52 ft: 81 corp: 6/61b\n\
                   Done 2000 runs in 2 second(s)\nstat::number_of_executed_units: 2000\nstat::peak_rss_mb:              41\n";
        let whole = Outcome {
            executed: 2000,
            edges: 52,
            corpus: 6,
            peak_mib: 41,
            done: true,
        };
        assert_eq!(read_log(log), whole);
        let cut = log.split("Done").next().unwrap_or_default();
        assert!(!read_log(cut).done);
    }

    #[test]
    fn a_program_that_does_not_come_to_its_end_fails() {
        let dir = narthex_testkit::TempDir::new("fuzz");
        let one = |program: &str| One {
            program: PathBuf::from(program),
            function: "x",
            seeds: dir.join("seeds"),
            corpus: dir.join("corpus"),
            failed: dir.join("failed"),
        };
        for program in ["true", "false", "/no/such/program"] {
            assert!(one(program).run(1).is_err(), "{program}");
        }
    }

    #[test]
    fn what_is_asked_for_is_run() {
        let all = [("tsdb", "block"), ("tsdb", "wal"), ("api", "params")];
        let all = all.map(|(binary, name)| (binary.to_owned(), name.to_owned()));
        let named = |args: &[&str]| {
            let plan = plan(args, all.to_vec())?;
            let names = plan.functions.iter().map(|(b, f)| format!("{b}_{f}"));
            Ok::<_, String>((plan.seconds, names.collect::<Vec<_>>().join(" ")))
        };
        let one = named(&["tsdb_wal", "--seconds=5"]);
        assert_eq!(one, Ok((5, "tsdb_wal".to_owned())));
        assert_eq!(named(&["tsdb"]), Ok((60, "tsdb_block tsdb_wal".to_owned())));
        assert!(named(&[]).is_ok_and(|(_, names)| names.ends_with("api_params")));
        assert!(named(&["tsdb_nothing"]).is_err() && named(&["--seconds=x"]).is_err());
    }
}
