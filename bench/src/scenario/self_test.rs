//! The meter measured: processes that use known CPU time and write known bytes.
//!
//! The known side comes from elsewhere than the meter: the burning process counts its own CPU clock in nanoseconds
//! and the bytes it hands to the kernel.

use crate::{
    frame::{
        cleanup::{Group, WorkDir},
        cli::{Flag, Values},
        error::BenchError,
        measure::{Usage, cpu_time},
    },
    report::say,
};
use rustix::time::ClockId;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    time::Duration,
};

/// The flags of `self-test`.
pub(crate) static FLAGS: &[Flag] = &[Flag::new(
    "dir",
    "DIR",
    "",
    "Where the known bytes are written. Default: the system's temporary directory.",
)];

/// The flags of `burn`, the process that `self-test` measures.
pub(crate) static BURN: &[Flag] = &[
    Flag::new("cpu", "TIME", "0s", "CPU time to use up."),
    Flag::new("write", "BYTES", "0", "Bytes to write."),
    Flag::new("file", "FILE", "", "File to write them to."),
];

/// How far a measurement may be off.
const TOLERANCE: f64 = 0.05;
const CPU: Duration = Duration::from_secs(1);
const WRITTEN_BYTES: u64 = 48 << 20;
/// Two burn at once and one before them, waited for: a tree with live and ended members.
const TREE: &str = r#"exec 3<&0
"$0" burn --cpu=1s </dev/null >/dev/null
"$0" burn --cpu=1s --write=$1 --file="$2" <&3 &
exec "$0" burn --cpu=1s"#;

/// Measures a tree that uses 3 s of CPU in three processes and writes 48 MiB.
///
/// # Errors
///
/// When a figure is more than 5 % off, or nothing could be measured.
pub(crate) fn run(values: &Values) -> Result<(), BenchError> {
    let base = values.dir()?;
    let dir = WorkDir::new(&base, "self-test")?;
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
    let measured = Usage::of_tree(group.pid().as_raw_nonzero().get())?;
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

/// Uses CPU time and writes bytes, says so in one line, and waits for its standard input to end.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn burn(values: &Values) -> Result<(), BenchError> {
    let bytes = values.number("write", 0..=1 << 32)?;
    if bytes > 0 {
        let write = || {
            let mut file = File::create(values.text("file"))?;
            let block = vec![7; 1 << 16];
            let mut left = bytes as usize;
            while left > 0 {
                left -= file.write(&block[..left.min(block.len())])?;
            }
            file.sync_all()
        };
        write().map_err(BenchError::io("write the known bytes"))?;
    }
    let until = values.time("cpu")?;
    while cpu_time(ClockId::ProcessCPUTime) < until {
        std::hint::spin_loop();
    }
    say("burnt");
    // Its figures can only be read while it lives.
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}
