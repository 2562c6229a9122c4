//! Tests that need a process of their own, because they measure process-wide state.
//!
//! Invariant: the test's work runs exactly once, in its own process, and its failure fails the test.

use std::process::Command;

/// Set in the process that runs one test alone, to the test's name.
const ALONE: &str = "NARTHEX_TEST_ALONE";

/// Runs `work` in a process that runs nothing but the test called `name`.
///
/// Starts the calling test, which is called `name` in its binary, again by itself; there, `work` runs.
///
/// # Panics
/// Panics if the other process fails, with all of its output.
pub fn alone(name: &str, work: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some_and(|test| test == name) {
        return work();
    }
    let program = std::env::current_exe().expect("a test knows its binary");
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, name)
        .output()
        .expect("the binary starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "running 1 test")]
    fn a_failure_of_the_other_process_counts() {
        alone(
            "alone::tests::a_failure_of_the_other_process_counts",
            || std::process::exit(3),
        );
    }

    #[test]
    #[should_panic(expected = "0 passed")]
    fn a_name_that_is_no_tests_fails() {
        alone("no such test", || {});
    }
}
