//! Tests that need a process to themselves, because what they measure is shared by all of it.
//!
//! Invariant: the test's work runs exactly once, in the process made for it, and its failure is the test's.

use std::process::Command;

/// Set in the process that runs one test alone, to the test's name.
const ALONE: &str = "NARTHEX_TEST_ALONE";

/// Runs `work` in a process that runs nothing but the test called `name`.
///
/// The calling test, which is called `name` in its binary, is started again by itself; there, `work` runs.
///
/// # Panics
/// Panics when the other process fails, with all that it wrote.
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
