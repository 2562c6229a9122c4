//! `cargo xtask ci`: everything CI runs, in one place, each step shown, counted and timed.
//!
//! Invariant: a step that could not run is a failed step, unless it needs something that not every machine has (a
//! database of vulnerabilities, a nightly compiler): then it prints one line and is not counted. A test or two that
//! failed among the others run once more alone: what passes then is reported as unsteady. The last line is only
//! `N passed, N failed`, and the exit code is 0 only if nothing failed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::product;

/// How to count a step's output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// The step is one check: its exit code decides.
    Check,
    /// Sums the `test result:` lines of cargo's runner.
    Cargo,
    /// Counts the `--- PASS` and `--- FAIL` lines of `go test -v`.
    Go,
    /// Sums the `# pass N` and `# fail N` lines of Node's runner (also vitest's `Tests  N passed`).
    Node,
}

/// A bash command.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    dir: &'static str,
    command: &'static str,
    count: Count,
    /// Whether it may end with [`NOT_RUN`].
    optional: bool,
}

/// Exit code of a step whose requirements are missing, as in automake.
const NOT_RUN: i32 = 77;

/// A check in the workspace's directory.
const fn step(name: &'static str, command: &'static str) -> Step {
    Step {
        name,
        dir: ".",
        command,
        count: Count::Check,
        optional: false,
    }
}

impl Step {
    const fn within(mut self, dir: &'static str) -> Self {
        self.dir = dir;
        self
    }

    const fn counted(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Allows for machines that cannot run it.
    const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// Node packages are reinstalled only if the lock file changed.
const NPM_CI: &str = "cmp -s package-lock.json node_modules/.installed-lock || \
    { npm ci && cp package-lock.json node_modules/.installed-lock; }";

/// Building cargo-deny takes minutes; if it is absent, the licence step has checked the same lists.
const DENY: &str = "command -v cargo-deny || { echo 'not run: cargo-deny is not installed'; exit 77; }; \
    cargo deny check --hide-inclusion-graph bans licenses sources";

/// Known vulnerabilities of the product's dependencies.
const ADVISORIES: &str = "command -v cargo-deny || { echo 'not run: cargo-deny is not installed'; exit 77; }; \
    cargo deny fetch db >/dev/null 2>&1 || { echo 'not run: the advisory database is not reachable'; exit 77; }; \
    cargo deny check --disable-fetch advisories";

/// Known vulnerabilities of the Go module's dependencies.
const GO_ADVISORIES: &str = "out=$(go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./... 2>&1); code=$?; \
    case \"$code $out\" in 0*) ;; *'fetching vulnerabilities:'* | *'golang.org/x/vuln@'*) \
    echo 'not run: the database of vulnerabilities is not reachable'; exit 77;; esac; echo \"$out\"; exit $code";

/// Compiles with Clippy's compiler, so that what lints look at is not compiled a second time to be run, and at once, not in
/// parts that are kept for the next time. After a change to one crate, `make test ONLY=crate` takes less.
macro_rules! linted {
    ($command:literal) => {
        concat!(
            "RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ CARGO_INCREMENTAL=0 ",
            $command
        )
    };
}

/// Compiles everything, benches too.
const CLIPPY: &str = linted!("cargo test --workspace --all-targets --locked --no-run");

/// Twice as many tests at a time as there are cores: those that run servers wait most of their time. Properties are tried with
/// the same values each time.
const TEST: &str = linted!(
    "PROPTEST_RNG_SEED=1 RUST_TEST_THREADS=$((2 * $(nproc))) \
    cargo test --workspace --locked --no-fail-fast 2>&1"
);

/// The client library by itself: without features, where nothing else of the workspace switches them on.
const BARE_CLIENT: &str =
    "PROPTEST_RNG_SEED=1 cargo test --locked -p narthex-client --lib --no-default-features 2>&1";

/// Miri on the client's unsafe code that shares memory between threads.
const MIRI: &str = "cargo +nightly miri --version >/dev/null 2>&1 || \
    { echo 'not run: there is no nightly compiler with Miri'; exit 77; }; \
    MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked -p narthex-client --lib";

const GO_LINT: &str = "test -z \"$(gofmt -l .)\" && (cd oracle && go vet ./...) && (cd goclient && go vet ./...) && \
    (cd gopeer && go vet ./...)";

/// The Go client, and its comparison with other libraries where those can be had.
const GO_LIBRARY_LINT: &str = "test -z \"$(gofmt -l .)\" && go vet ./... && go vet -tags narthex_portable ./... && \
    if (cd compare && go mod download); then cd compare && go vet ./...; \
    else echo 'the libraries that compare measures are not reachable'; fi";

/// Both ways of choosing a buffer run under the race detector; without it, only the one that services use.
const GO_LIBRARY: &str = "go test -count=1 -short -timeout 10m -v ./... && \
    go test -race -count=1 -short -timeout 10m -v ./internal/... ./summary ./switches ./segment && \
    go test -race -count=1 -short -timeout 10m -v -tags narthex_portable ./internal/record ./summary";

/// The releases of Go beside the installed one, if their toolchains are available.
const GO_VERSIONS: &str = "for v in go1.25.11 go1.27.0; do \
    if GOTOOLCHAIN=$v go version; then GOTOOLCHAIN=$v go test -count=1 -short -timeout 10m ./... || exit 1; \
    else echo \"$v is not reachable; $(go version) has been tested\"; fi; done";

/// Tests that may fail beside others and pass alone; more failures than these are not the machine's mood.
const UNSTEADY_MAX: usize = 2;

/// How long a step may take in CI, in seconds.
const STEP_SECONDS_MAX: &str = "2400";

const GO_TEST: &str = "go test -count=1 -v ./...";

/// Cheap checks first, so that the common mistakes show within seconds.
const STEPS: &[Step] = &[
    FMT,
    TIDY,
    step("licences", "cargo xtask licenses --check"),
    step("deny", DENY).optional(),
    step("advisories", ADVISORIES).optional(),
    step("clippy", CLIPPY),
    step("go lint", GO_LINT).within("testkit"),
    step("go oracle", GO_TEST)
        .within("testkit/oracle")
        .counted(Count::Go),
    step("go client", GO_TEST)
        .within("testkit/goclient")
        .counted(Count::Go),
    step("go peer", GO_TEST)
        .within("testkit/gopeer")
        .counted(Count::Go),
    step("go library lint", GO_LIBRARY_LINT).within("clients/go"),
    step("go library", GO_LIBRARY)
        .within("clients/go")
        .counted(Count::Go),
    step("go advisories", GO_ADVISORIES)
        .within("clients/go")
        .optional(),
    step("go versions", GO_VERSIONS).within("clients/go"),
    step("test", TEST).counted(Count::Cargo),
    step("bare client", BARE_CLIENT).counted(Count::Cargo),
    step("miri", MIRI).counted(Count::Cargo).optional(),
    step("gen-docs", "cargo xtask gen-docs --check"),
    step("npm ci", NPM_CI).within("ui"),
    step("npm test", "npm test")
        .within("ui")
        .counted(Count::Node),
    step("check-dist", "npm run check-dist").within("ui"),
    step("npm licences", "npm run licenses -- --check").within("ui"),
    step("browser", "cargo xtask browser"),
];

const FMT: Step = step("fmt", "cargo fmt --all --check");
const TIDY: Step = step("tidy", "cargo xtask tidy");
const GOFMT: &str = "! command -v gofmt >/dev/null || test -z \"$(gofmt -l testkit clients/go)\"";
const TYPES: &str = "! test -d node_modules || npm run --silent typecheck";

/// Steps quick enough for every commit. The page's types need its packages: without them, only CI checks them.
const QUICK: &[Step] = &[
    FMT,
    TIDY,
    step("gofmt", GOFMT),
    step("types", TYPES).within("ui"),
];

/// File with the steps' times of the last run, for forecasts.
const TIMES: &str = "ci-seconds";
/// Minutes of a whole run on two cores with nothing built.
const MINUTES_FROM_EMPTY: u64 = 20;

/// Runs the named steps, those of named crates and groups, or all; later ones also after one failed.
///
/// # Errors
///
/// If any test or check failed, or a name is neither a step nor a crate nor a group.
pub(crate) fn run(names: &[&str]) -> Result<(), String> {
    let mut steps = Vec::new();
    for name in names {
        steps.extend(named(name)?);
    }
    if names.is_empty() {
        steps = STEPS.to_vec();
    }
    let times = Times::read();
    println!("{}", times.forecast(&steps));
    let report = run_all(&steps);
    times.write(&report.seconds);
    report.print()
}

/// Runs the quick steps.
///
/// # Errors
///
/// If any of them failed.
pub(crate) fn check() -> Result<(), String> {
    run_all(QUICK).print()
}

/// Returns the steps that `name` selects.
fn named(name: &str) -> Result<Vec<Step>, String> {
    let group: Vec<Step> = STEPS
        .iter()
        .filter(|step| match name {
            "go" => step.name.starts_with("go "),
            "ui" => step.dir == "ui",
            _ => step.name == name,
        })
        .copied()
        .collect();
    if !group.is_empty() {
        return Ok(group);
    }
    let Some(package) = package(name) else {
        let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!(
            "neither a crate nor a step: {name:?}; there are the steps {}, the groups go and ui, and every crate",
            all.join(", ")
        ));
    };
    // Steps live as long as the tool.
    let of_crate =
        |what: &str, command: String| step(format!("{what} {name}").leak(), command.leak());
    let clippy = format!("cargo clippy -p {package} --all-targets --locked -- -D warnings");
    let test = format!("cargo test -p {package} --locked --no-fail-fast 2>&1");
    Ok(vec![
        of_crate("clippy", clippy),
        of_crate("test", test).counted(Count::Cargo),
    ])
}

/// Returns the package of the crate called `name`, as its directory or in full.
fn package(name: &str) -> Option<String> {
    let short = name.strip_prefix("narthex-").unwrap_or(name);
    if short == "client" {
        return Some("narthex-client".to_owned());
    }
    ["crates", "."].iter().find_map(|parent| {
        let manifest = std::path::Path::new(parent).join(short).join("Cargo.toml");
        let text = std::fs::read_to_string(manifest).ok()?;
        let line = text.lines().find(|line| line.starts_with("name = "))?;
        line.split('"').nth(1).map(str::to_owned)
    })
}

fn run_all(steps: &[Step]) -> Report {
    let start = Instant::now();
    let mut report = Report::default();
    let mut built = false;
    let (beside, others) = beside_and_others(steps);
    for step in others {
        let beside = if compiles(step) { &*beside } else { &[] };
        std::thread::scope(|scope| {
            let shown = |step: &&Step| {
                let mut lines = Vec::new();
                let (tally, seconds) = timed(step, built, &mut |line| lines.push(line.to_owned()));
                (lines, tally, seconds)
            };
            let beside_run = scope.spawn(move || beside.iter().map(shown).collect::<Vec<_>>());
            let (tally, seconds) = timed(step, built, &mut |line| println!("{line}"));
            report.add(step, tally, seconds);
            let all = beside_run.join().expect("steps do not panic");
            for (step, (lines, tally, seconds)) in beside.iter().zip(all) {
                println!("{}", lines.join("\n"));
                report.add(step, tally, seconds);
            }
        });
        // Even if a test fails, cargo has built all programs before it runs the first.
        built |= step.name == "test";
    }
    report.total_seconds = start.elapsed().as_secs();
    report
}

/// Runs a step, passing its lines to `say`; also returns how many seconds it took.
fn timed(step: &Step, built: bool, say: &mut dyn FnMut(&str)) -> (Tally, u64) {
    let began = Instant::now();
    say(&format!("\n==> {}: {}", step.name, step.command));
    let mut tally = run_step(step, built, say);
    if step.name == "test" {
        tally.try_again(alone);
    }
    (tally, began.elapsed().as_secs())
}

fn compiles(step: &Step) -> bool {
    step.name == "clippy"
}

/// Divides steps: compiling the last and largest crates leaves a core to the Go steps.
fn beside_and_others(steps: &[Step]) -> (Vec<&Step>, Vec<&Step>) {
    let has_compilation = steps.iter().any(compiles);
    let is_beside = |step: &&Step| has_compilation && step.name.starts_with("go ");
    steps.iter().partition(is_beside)
}

/// Results of a run, and its times.
#[derive(Default)]
struct Report {
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    /// The lines of tests that passed only alone.
    unsteady: Vec<String>,
    lines: Vec<String>,
    /// Seconds of every step that ran.
    seconds: Vec<(String, u64)>,
    total_seconds: u64,
    /// Seconds of every test program.
    programs: Vec<(f64, String)>,
}

impl Report {
    fn add(&mut self, step: &Step, tally: Tally, seconds: u64) {
        let Tally { passed, failed, .. } = tally;
        self.lines.push(if tally.not_run {
            format!("{seconds:>4} s  not run                   {}", step.name)
        } else {
            format!(
                "{seconds:>4} s  {passed:>5} passed  {failed:>3} failed  {}",
                step.name
            )
        });
        self.seconds.push((step.name.to_string(), seconds));
        self.passed += passed;
        self.failed += failed;
        if failed > 0 && tally.failures.is_empty() {
            self.failures
                .push(format!("{}: {}", step.name, step.command));
        }
        self.failures.extend(tally.failures);
        self.unsteady.extend(tally.unsteady);
        self.programs.extend(tally.programs);
    }

    fn print(mut self) -> Result<(), String> {
        if !self.failures.is_empty() {
            println!("\nfailed:\n  {}", self.failures.join("\n  "));
        }
        if !self.unsteady.is_empty() {
            let tests = self.unsteady.join("\n  ");
            println!(
                "\nunsteady (failed beside other tests, passed alone), to be mended:\n  {tests}"
            );
        }
        self.programs.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.programs.retain(|(seconds, _)| *seconds >= 5.0);
        if !self.programs.is_empty() {
            println!("\nthe slowest test programs:");
        }
        for (seconds, program) in self.programs.iter().take(8) {
            println!("{seconds:>4.0} s  {program}");
        }
        println!("\n{}", self.lines.join("\n"));
        println!("{:>4} s", self.total_seconds);
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 {
            Ok(())
        } else {
            Err(String::new())
        }
    }
}

/// Last times of steps on this machine.
struct Times {
    path: std::path::PathBuf,
    seconds: Vec<(String, u64)>,
}

impl Times {
    fn read() -> Self {
        let path = product::target().join(TIMES);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let seconds = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(seconds, name)| Some((name.to_owned(), seconds.parse().ok()?)))
            .collect();
        Self { path, seconds }
    }

    fn last(&self, name: &str) -> Option<u64> {
        let known = self.seconds.iter().find(|(known, _)| known == name)?;
        Some(known.1)
    }

    /// Estimates how long `steps` will take, from their last times if all are known.
    fn forecast(&self, steps: &[Step]) -> String {
        let count = steps.len();
        let (_beside, others) = beside_and_others(steps);
        let last: Option<u64> = others.iter().map(|step| self.last(step.name)).sum();
        match last {
            Some(seconds) => format!("{count} steps; the last time they took {seconds} s"),
            None if count == STEPS.len() => format!(
                "{count} steps; when nothing is built yet they take about {MINUTES_FROM_EMPTY} minutes on two cores"
            ),
            None => format!("{count} steps, not timed here before"),
        }
    }

    /// Stores the new times beside those of steps that did not run.
    fn write(mut self, new: &[(String, u64)]) {
        self.seconds
            .retain(|(known, _)| new.iter().all(|(name, _)| name != known));
        self.seconds.extend_from_slice(new);
        let text: String = self
            .seconds
            .iter()
            .map(|(name, seconds)| format!("{seconds} {name}\n"))
            .collect();
        // Only a forecast is lost.
        let _ = std::fs::write(&self.path, text);
    }
}

#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Its requirements are missing, so it is not counted.
    not_run: bool,
    /// The lines in which the runner named failures.
    failures: Vec<String>,
    /// Those of `failures` that passed when they ran again alone.
    unsteady: Vec<String>,
    /// Test programs and the seconds they ran.
    programs: Vec<(f64, String)>,
    /// The test program whose result comes next.
    program: String,
}

/// Returns the command that runs one of the workspace's tests without the others.
fn alone(test: &str) -> String {
    let command = linted!("cargo test --workspace --locked --tests");
    format!("{command} -- --exact '{test}' 2>&1")
}

impl Tally {
    /// Adds the numbers of a summary.
    fn add(&mut self, summary: &str) {
        self.passed += number_before(summary, " passed");
        self.failed += number_before(summary, " failed");
    }

    /// Runs the few tests that failed once more, each by its `command`; what passes is unsteady.
    fn try_again(&mut self, command: impl Fn(&str) -> String) {
        let named = self.failures.len();
        if named == 0 || named > UNSTEADY_MAX || self.failed != named as u64 {
            return;
        }
        for line in std::mem::take(&mut self.failures) {
            let name = line
                .trim_start_matches("test ")
                .trim_end_matches(" ... FAILED")
                .trim_end_matches(" - should panic");
            println!("\n==> again, alone: {name}");
            let again = step("again", command(name).leak()).counted(Count::Cargo);
            if run_step(&again, true, &mut |line| println!("{line}")).failed == 0 {
                self.failed -= 1;
                self.passed += 1;
                self.unsteady.push(line);
            } else {
                self.failures.push(line);
            }
        }
    }
}

/// Runs `step`, passing its lines to `say`; `built` says that the tests' build of the product is of these sources.
fn run_step(step: &Step, built: bool, say: &mut dyn FnMut(&str)) -> Tally {
    let mut tally = Tally::default();
    let mut command = shell(step.command);
    if built {
        command.env(product::BUILT, product::path("dev"));
    }
    let child = command
        .current_dir(step.dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(e) => {
            say(&format!("bash: {e}"));
            return Tally {
                failed: 1,
                ..Tally::default()
            };
        }
    };
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            say(&line);
            count(step.count, &without_colours(&line), &mut tally);
        }
    }
    // Steps print to both streams; keep their order roughly right in a log.
    let _ = std::io::stdout().flush();
    let status = child.wait();
    let ok = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    if step.optional && status.is_ok_and(|status| status.code() == Some(NOT_RUN)) {
        return Tally {
            not_run: true,
            ..Tally::default()
        };
    }
    match (ok, step.count) {
        (true, Count::Check) => tally.passed += 1,
        // A runner that counted nothing has not tested anything, whatever its exit code.
        (true, _) if tally.passed == 0 => tally.failed += 1,
        (true, _) => {}
        (false, _) => tally.failed = tally.failed.max(1),
    }
    tally
}

/// Returns bash set up to run `command`, in CI under a deadline: a hang there must end in a report.
fn shell(command: &str) -> Command {
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        let mut bounded = Command::new("timeout");
        bounded.args(["-k", "30", STEP_SECONDS_MAX, "bash", "-c", command]);
        bounded
    } else {
        let mut plain = Command::new("bash");
        plain.args(["-c", command]);
        plain
    }
}

fn count(kind: Count, line: &str, tally: &mut Tally) {
    let names_failure = match kind {
        Count::Check => false,
        Count::Cargo => line.starts_with("test ") && line.ends_with(" ... FAILED"),
        Count::Go => line.trim_start().starts_with("--- FAIL"),
        Count::Node => line.trim_start().starts_with("FAIL "),
    };
    if names_failure {
        tally.failures.push(line.trim().to_owned());
    }
    match kind {
        Count::Check => {}
        Count::Cargo => {
            if let Some(rest) = line.strip_prefix("test result: ") {
                tally.add(rest);
                let seconds = rest
                    .rsplit_once("finished in ")
                    .and_then(|(_, time)| time.strip_suffix('s')?.parse().ok());
                if let Some(seconds) = seconds {
                    tally
                        .programs
                        .push((seconds, std::mem::take(&mut tally.program)));
                }
            } else if let Some(program) = line
                .trim_start()
                .strip_prefix("Running ")
                .or_else(|| line.trim_start().strip_prefix("Doc-tests "))
            {
                program.clone_into(&mut tally.program);
            }
        }
        Count::Go => {
            let line = line.trim_start();
            tally.passed += u64::from(line.starts_with("--- PASS"));
            tally.failed += u64::from(line.starts_with("--- FAIL"));
        }
        Count::Node => {
            let line = line.trim_start_matches(['#', '\u{2139}', ' ']);
            let after = |word: &str| {
                line.strip_prefix(word)
                    .and_then(|n| n.trim().parse().ok())
                    .unwrap_or(0)
            };
            tally.passed += after("pass ");
            tally.failed += after("fail ");
            if let Some(rest) = line.strip_prefix("Tests ") {
                tally.add(rest);
            }
        }
    }
}

/// Removes terminal escapes: some runners colour their summary whatever they write to.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |plain, piece| {
        plain + piece.split_once('m').map_or(piece, |(_, rest)| rest)
    })
}

/// Returns the number directly before `word`, or 0.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map(|(before, _)| before);
    let digits = before.and_then(|before| before.rsplit(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_counted() {
        let tally = |kind, lines: &[&str]| {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| count(kind, line, &mut tally));
            (tally.passed, tally.failed)
        };
        let cargo = [
            "test result: ok. 12 passed; 0 failed; 1 ignored",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored",
        ];
        assert_eq!(tally(Count::Cargo, &cargo), (15, 2));
        let mut named = Tally::default();
        count(Count::Cargo, "test a::b ... FAILED", &mut named);
        count(Count::Cargo, "test a::c ... ok", &mut named);
        assert_eq!(named.failures, ["test a::b ... FAILED"]);
        assert_eq!(
            tally(
                Count::Go,
                &[
                    "--- PASS: TestA (0.00s)",
                    "    --- FAIL: TestA/b",
                    "ok x 0.1s"
                ]
            ),
            (1, 1)
        );
        assert_eq!(
            tally(Count::Node, &["# pass 7", "# fail 1", "\u{2139} pass 2"]),
            (9, 1)
        );
        assert_eq!(
            tally(Count::Node, &["      Tests  1 failed | 5 passed (6)"]),
            (5, 1)
        );
    }

    #[test]
    fn a_crate_is_named_by_its_directory_or_in_full() {
        // Tests run in the crate's directory, the tool in the workspace's.
        std::env::set_current_dir("..").expect("the workspace is there");
        let names = |name: &str| -> Vec<String> {
            named(name).map_or_else(
                |_| Vec::new(),
                |steps| steps.iter().map(|step| step.name.to_string()).collect(),
            )
        };
        assert_eq!(names("tsdb"), ["clippy tsdb", "test tsdb"]);
        assert_eq!(
            package("narthex-tsdb").as_deref(),
            Some("narthex-tsdb"),
            "in full"
        );
        assert_eq!(package("client").as_deref(), Some("narthex-client"));
        assert_eq!(package("xtask").as_deref(), Some("xtask"));
        assert_eq!(names("tidy"), ["tidy"]);
        assert!(names("go").len() > 3, "a group");
        assert!(names("nothing").is_empty(), "refused");
    }

    #[test]
    fn times_of_programs_are_found() {
        let mut tally = Tally::default();
        for line in [
            "     Running tests/it/main.rs (target/debug/deps/it-0123)",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 3.25s",
        ] {
            count(Count::Cargo, line, &mut tally);
        }
        assert_eq!(
            tally.programs,
            [(
                3.25,
                "tests/it/main.rs (target/debug/deps/it-0123)".to_owned()
            )]
        );
    }

    #[test]
    fn a_step_that_cannot_run_or_counts_nothing_fails() {
        let run = |command, count| {
            let tally = run_step(&step("x", command).counted(count), false, &mut |_| ());
            (tally.passed, tally.failed)
        };
        assert_eq!(run("no-such-program", Count::Check), (0, 1));
        assert_eq!(run("false", Count::Check), (0, 1));
        assert_eq!(run("true", Count::Check), (1, 0));
        assert_eq!(run("true", Count::Cargo), (0, 1));
        assert_eq!(
            run("echo test result: ok. 2 passed\\; 0 failed", Count::Cargo),
            (2, 0)
        );
    }

    #[test]
    fn a_test_that_passes_alone_is_unsteady() {
        let failed = |names: &[&str]| {
            let mut tally = Tally::default();
            for name in names {
                let line = format!("test {name} ... FAILED");
                count(Count::Cargo, &line, &mut tally);
            }
            let result = format!("test result: FAILED. 3 passed; {} failed", names.len());
            count(Count::Cargo, &result, &mut tally);
            // `b` fails again.
            tally.try_again(|name| {
                let failed = usize::from(name == "b");
                format!("echo test result: {} passed\\; {failed} failed", 1 - failed)
            });
            (
                tally.passed,
                tally.failed,
                tally.failures.len(),
                tally.unsteady.len(),
            )
        };
        assert_eq!(failed(&["a"]), (4, 0, 0, 1));
        assert_eq!(failed(&["a", "b"]), (4, 1, 1, 1));
        assert_eq!(failed(&["a", "c", "d"]), (3, 3, 3, 0), "too many");
    }

    #[test]
    fn only_an_optional_step_may_lack_what_it_needs() {
        let run = |step: &Step| {
            let tally = run_step(step, false, &mut |_| ());
            (tally.passed, tally.failed, tally.not_run)
        };
        let lacking = "echo 'not run: no compiler'; exit 77";
        for count in [Count::Check, Count::Cargo] {
            let lacking = step("x", lacking).counted(count);
            assert_eq!(run(&lacking.optional()), (0, 0, true));
            assert_eq!(run(&lacking), (0, 1, false));
            let failing = step("x", "exit 1").counted(count);
            assert_eq!(run(&failing.optional()), (0, 1, false));
        }
        assert_eq!(run(&step("x", "true").optional()), (1, 0, false));
    }
}
