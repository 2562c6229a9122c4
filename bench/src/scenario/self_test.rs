//! Tests of the meters: processes that use known CPU time and write known bytes, a server with known stalls.
//!
//! The known values do not come from the meter: the burning process reads its own CPU clock in nanoseconds and counts
//! the bytes it writes; the stalling server follows a clock and not its requests.

use crate::{
    harness::{
        cleanup::{Group, WorkDir},
        cli::Values,
        error::BenchError,
        machine,
        measure::{Usage, cpu_time},
    },
    load::{
        fleet,
        open_loop::{self, Plan},
        stall_server::{StallServer, Stalls},
    },
    report::say,
};
use narthex_cli::flags;
use rustix::time::ClockId;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

flags! {
    /// What `self-test` takes.
    #[derive(Debug)]
    pub(crate) struct Flags {
        /// Where the known bytes are written. Default: the system's temporary directory.
        dir: Option<PathBuf> = "dir", directory();
    }
}

flags! {
    /// What `burn` takes, the process that `self-test` measures.
    #[derive(Debug)]
    pub(crate) struct BurnFlags {
        /// CPU time to use up.
        cpu: Duration = "cpu", default("0s");
        /// Bytes to write.
        write: usize = "write", default("0"), within(0, 1 << 32);
        /// File to write them to.
        file: PathBuf = "file";
    }
}

/// Maximum relative error of a measurement.
const TOLERANCE: f64 = 0.05;
const CPU: Duration = Duration::from_secs(1);
const WRITTEN_BYTES: u64 = 48 << 20;
/// Two burn at once after an earlier one was waited for: a tree with live and ended members.
const TREE: &str = r#"exec 3<&0
"$0" burn --cpu=1s </dev/null >/dev/null
"$0" burn --cpu=1s --write=$1 --file="$2" <&3 &
exec "$0" burn --cpu=1s"#;

/// The server answers for a second, and stalls for one.
const STALL: Duration = Duration::from_secs(1);
const STALLS_EVERY: Duration = Duration::from_secs(2);
/// Maximum cost of a sample to the fleet.
const FLEET_BUDGET_NS: f64 = 60.0;

/// Runs every check.
pub(crate) fn run(values: &Values) -> Result<(), BenchError> {
    let base = values.dir()?;
    known_use(&base)?;
    known_stall()?;
    own_cost()
}

/// Loads a stalling server: half of all requests are due during stalls, and two in a thousand are sent then.
fn known_stall() -> Result<(), BenchError> {
    let server = StallServer::start(Stalls {
        every: STALLS_EVERY,
        length: STALL,
    })?;
    let load = open_loop::run(&Plan {
        address: server.address(),
        request: b"GET / HTTP/1.1\r\nHost: self-test\r\n\r\n".to_vec(),
        rate: 500.0,
        connections: 2,
        threads: 1,
        warmup: Duration::ZERO,
        duration: STALLS_EVERY * 2,
        drain: Duration::from_secs(60),
    })?;
    let corrected = load.latencies.corrected.quantile_ms(0.999);
    let uncorrected = load.latencies.uncorrected.quantile_ms(0.99);
    let stall = STALL.as_secs_f64() * 1e3;
    say(&format!(
        "stalls of {stall} ms: corrected P99.9 {corrected:.1} ms, uncorrected P99 {uncorrected:.2} ms; a request cost {:.1} µs",
        load.cpu_a_request().as_secs_f64() * 1e6
    ));
    if corrected >= stall / 2.0 && uncorrected < stall / 2.0 {
        return Ok(());
    }
    Err(BenchError::Refused(
        "a stall shows where it must not, or not where it must".to_owned(),
    ))
}

/// Measures the cost of the fleet's texts.
fn own_cost() -> Result<(), BenchError> {
    let ns = fleet::cost_of_a_sample_ns();
    let is_judged = machine::profile() != "debug";
    let judged = if is_judged {
        ""
    } else {
        "; not judged in a debug build"
    };
    say(&format!(
        "the fleet's text: {ns:.1} ns a sample, at most {FLEET_BUDGET_NS}{judged}"
    ));
    if !is_judged || ns <= FLEET_BUDGET_NS {
        return Ok(());
    }
    Err(BenchError::Refused(format!(
        "a sample of the fleet costs more than {FLEET_BUDGET_NS} ns"
    )))
}

/// Measures a tree that uses 3 s of CPU in three processes and writes 48 MiB.
fn known_use(base: &Path) -> Result<(), BenchError> {
    let dir = WorkDir::new(base, "self-test")?;
    let program = std::env::current_exe().map_err(BenchError::io("find this program"))?;
    let (ready, ready_end) = std::io::pipe().map_err(BenchError::io("make a pipe"))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", TREE])
        .arg(program)
        .arg(WRITTEN_BYTES.to_string())
        .arg(dir.path().join("written"))
        .stdin(Stdio::piped())
        .stdout(ready_end);
    let group = Group::start(&mut command).map_err(BenchError::io("start sh"))?;
    drop(command);
    let mut lines = BufReader::new(ready).lines();
    for _ in 0..2 {
        lines
            .next()
            .transpose()
            .map_err(BenchError::io("wait for the burning processes"))?
            .ok_or_else(|| BenchError::Server {
                name: "burn".to_owned(),
                what: "ended early".to_owned(),
                log: String::new(),
            })?;
    }
    let measured = Usage::read_tree(group.pid().as_raw_nonzero().get())?;
    compare(
        "CPU seconds",
        measured.cpu.as_secs_f64(),
        3.0 * CPU.as_secs_f64(),
    )?;
    compare("MiB written", mib(measured.write_bytes), mib(WRITTEN_BYTES))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn compare(what: &str, measured: f64, known: f64) -> Result<(), BenchError> {
    let error = measured / known - 1.0;
    say(&format!(
        "{what}: measured {measured:.3}, known {known:.3} ({:+.1} %)",
        error * 100.0
    ));
    if error.abs() <= TOLERANCE {
        return Ok(());
    }
    Err(BenchError::Refused(format!(
        "{what} are more than {:.0} % off",
        TOLERANCE * 100.0
    )))
}

/// Uses CPU time and writes bytes, prints both in one line, and waits for the end of its standard input.
pub(crate) fn burn(values: &Values) -> Result<(), BenchError> {
    let flags = values.read(BurnFlags::from_values)?;
    if flags.write > 0 {
        let write = || {
            let mut file = File::create(&flags.file)?;
            let block = vec![7; 1 << 16];
            let mut left = flags.write;
            while left > 0 {
                left -= file.write(&block[..left.min(block.len())])?;
            }
            file.sync_all()
        };
        write().map_err(BenchError::io("write the known bytes"))?;
    }
    while cpu_time(ClockId::ProcessCPUTime) < flags.cpu {
        std::hint::spin_loop();
    }
    say("burnt");
    // Its usage can only be read while it is alive.
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}
