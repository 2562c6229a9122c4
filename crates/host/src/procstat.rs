//! `/proc/stat`, read once per round for the cpu and the stat collector.
//!
//! Invariant: CPUs are in ascending order of their number, each once.

use std::path::PathBuf;

use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::scan::{each_line, next_field, next_u64, number};

/// Ticks of one CPU in the kernel's order: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
pub(crate) type Ticks = [u64; 10];

/// Ticks per second: fixed by the kernel's ABI whatever its internal rate.
pub(crate) const USER_HZ: u64 = 100;

/// No machine has more CPUs; a file with more is corrupt.
const MAX_CPUS: usize = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct StatSnapshot {
    pub(crate) cpus: Vec<(u32, Ticks)>,
    pub(crate) interrupts: u64,
    pub(crate) context_switches: u64,
    pub(crate) boot_time_seconds: u64,
    pub(crate) forks: u64,
    pub(crate) procs_running: u64,
    pub(crate) procs_blocked: u64,
    /// hi, timer, net_tx, net_rx, block, block_iopoll, tasklet, sched, hrtimer, rcu.
    pub(crate) softirqs: [u64; 10],
}

/// The file and its last contents.
#[derive(Debug)]
pub(crate) struct SharedStat {
    file: OpenFile,
    snapshot: StatSnapshot,
    round: u64,
}

impl SharedStat {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            file: OpenFile::new(path),
            snapshot: StatSnapshot::default(),
            round: 0,
        }
    }

    /// Returns the contents in `round` (from 1), reading the file at the round's first call.
    pub(crate) fn get(
        &mut self,
        round: u64,
        buf: &mut ReadBuf,
    ) -> Result<&StatSnapshot, HostError> {
        if self.round != round {
            let text = self.file.read(buf, End::Short)?;
            let parsed = parse(text, &mut self.snapshot);
            parsed.map_err(|source| self.file.malformed(source))?;
            self.round = round;
        }
        Ok(&self.snapshot)
    }
}

/// Parses the file's text; missing values are 0.
pub(crate) fn parse(text: &[u8], out: &mut StatSnapshot) -> Result<(), ParseError> {
    let cpus = std::mem::take(&mut out.cpus);
    *out = StatSnapshot {
        cpus,
        ..StatSnapshot::default()
    };
    out.cpus.clear();
    each_line(text, |mut line| match next_field(&mut line) {
        Some(key) => parse_line(key, &mut line, out),
        None => Ok(()),
    })
}

fn parse_line(key: &[u8], rest: &mut &[u8], out: &mut StatSnapshot) -> Result<(), &'static str> {
    let single = match key {
        b"intr" => &mut out.interrupts,
        b"ctxt" => &mut out.context_switches,
        b"btime" => &mut out.boot_time_seconds,
        b"processes" => &mut out.forks,
        b"procs_running" => &mut out.procs_running,
        b"procs_blocked" => &mut out.procs_blocked,
        b"softirq" => return parse_softirq(rest, &mut out.softirqs),
        _ => {
            return match key.strip_prefix(b"cpu") {
                // The line with the sum over all CPUs.
                Some(b"") => Ok(()),
                Some(id) => parse_cpu(id, rest, &mut out.cpus),
                None => Ok(()),
            };
        }
    };
    if let Some(value) = next_u64(rest).map_err(|_| "a number after the keyword")? {
        *single = value;
    }
    Ok(())
}

fn parse_softirq(rest: &mut &[u8], out: &mut [u64; 10]) -> Result<(), &'static str> {
    const EXPECTED: &str = "a total and ten softirq counts";
    next_u64(rest).ok().flatten().ok_or(EXPECTED)?;
    for value in out {
        *value = next_u64(rest).ok().flatten().ok_or(EXPECTED)?;
    }
    Ok(())
}

fn parse_cpu(
    id: &[u8],
    rest: &mut &[u8],
    cpus: &mut Vec<(u32, Ticks)>,
) -> Result<(), &'static str> {
    let id = number(id)
        .and_then(|id| u32::try_from(id).ok())
        .ok_or("a CPU number after `cpu`")?;
    let mut ticks = Ticks::default();
    for value in &mut ticks {
        match next_u64(rest).map_err(|_| "ticks as numbers")? {
            Some(parsed) => *value = parsed,
            None => break,
        }
    }
    if cpus.last().is_none_or(|last| last.0 < id) {
        if cpus.len() == MAX_CPUS {
            return Err("fewer CPUs");
        }
        cpus.push((id, ticks));
        return Ok(());
    }
    match cpus.binary_search_by_key(&id, |cpu| cpu.0) {
        Ok(at) => cpus[at].1 = ticks,
        Err(_) if cpus.len() == MAX_CPUS => return Err("fewer CPUs"),
        Err(at) => cpus.insert(at, (id, ticks)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_print_fewer_columns_and_unknown_lines_are_skipped() {
        let mut out = StatSnapshot::default();
        let text = b"cpu  1 2 3 4\ncpu1 10 20 30 40 50\ncpu0 1 2 3 4\nintr 77 1 2 x\npage 1 2\n\nctxt 5\nbtime\n";
        assert_eq!(parse(text, &mut out), Ok(()));
        let expected = [
            (0, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0]),
            (1, [10, 20, 30, 40, 50, 0, 0, 0, 0, 0]),
        ];
        assert_eq!(out.cpus, expected);
        assert_eq!(
            (out.interrupts, out.context_switches, out.boot_time_seconds),
            (77, 5, 0)
        );
    }

    #[test]
    fn malformed_lines_name_their_number() {
        let mut out = StatSnapshot::default();
        let bad = [
            (&b"cpu0 1 2\ncpux 1"[..], 2),
            (b"ctxt -1", 1),
            (b"\nsoftirq 1 2 3", 2),
            (b"cpu0 1 x", 1),
        ];
        for (text, line) in bad {
            assert_eq!(
                parse(text, &mut out).map_err(|e| e.line),
                Err(line),
                "{:?}",
                text.escape_ascii().to_string()
            );
        }
    }
}
