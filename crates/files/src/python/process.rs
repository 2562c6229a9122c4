//! Whether a process runs.
//!
//! **Invariant:** what cannot be found out counts as running, so that nothing is left out by mistake.

use std::{fs, path::Path, sync::OnceLock};

/// Kernel clock ticks a second in what /proc shows, on every architecture that matters.
const TICKS_PER_SECOND: i64 = 100;
/// Slack of the comparison of a file's time with a process' start, whose clock has other steps.
const SLACK_SECONDS: i64 = 2;

/// Reports whether the process that wrote a file has ended. `modified_seconds` is when the file was last modified: a
/// process that began later only has the same number.
pub(super) fn has_ended(pid: &str, modified_seconds: i64) -> bool {
    if !pid.bytes().all(|byte| byte.is_ascii_digit()) || !Path::new("/proc/self/stat").exists() {
        return false;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return !Path::new("/proc").join(pid).exists();
    };
    let started = started_seconds(&stat, boot_seconds());
    started.is_some_and(|started| started > modified_seconds.saturating_add(SLACK_SECONDS))
}

/// Returns when a process started, as a Unix time.
fn started_seconds(stat: &str, boot_seconds: Option<i64>) -> Option<i64> {
    // The name in parentheses may contain anything; the start time is the 20th field behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: i64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(boot_seconds? + ticks / TICKS_PER_SECOND)
}

fn boot_seconds() -> Option<i64> {
    static BOOT: OnceLock<Option<i64>> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        line.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_it_ended_or_has_another_start() {
        let own = std::process::id().to_string();
        let later = i64::MAX / 2;
        assert!(!has_ended(&own, later));
        // A file from 1970 was not written by this process.
        assert!(has_ended(&own, 0));
        // Numbers of processes are below 2^22.
        assert!(has_ended("99999999", later));
        assert!(!has_ended("worker-a", 0));
    }

    #[test]
    fn a_start_is_read_behind_any_name() {
        let fields: Vec<String> = (3..=30).map(|at| at.to_string()).collect();
        let stat = format!("7 (a) b (c) {}", fields.join(" "));
        assert_eq!(started_seconds(&stat, Some(1000)), Some(1000));
        let stat = stat.replace(" 22 ", " 4200 ");
        assert_eq!(started_seconds(&stat, Some(1000)), Some(1042));
        assert_eq!(started_seconds("7 (a", Some(1000)), None);
    }
}
