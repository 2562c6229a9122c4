//! The product's development build, for checks that look at it from outside.
//!
//! Tests build it with their own set of features, so building it alone afterwards would build half of the workspace
//! again: a run that has just built the tests names its program in [`BUILT`].

use std::path::PathBuf;
use std::process::Command;

/// Environment variable with the path of a program that was built from the current sources.
pub(crate) const BUILT: &str = "NARTHEX_PROGRAM";

/// Returns cargo's directory of what it builds.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    std::path::absolute(&target).unwrap_or_else(|_| target.into())
}

/// Returns where cargo puts the program that it builds with a profile.
pub(crate) fn path(profile: &str) -> PathBuf {
    let directory = if profile == "dev" { "debug" } else { profile };
    target().join(directory).join("narthex")
}

/// Returns the program's path, after building it unless that has just happened.
///
/// # Errors
///
/// When it does not build, or is not where [`BUILT`] says.
pub(crate) fn build(profile: &str) -> Result<PathBuf, String> {
    if let Some(built) = std::env::var_os(BUILT).map(PathBuf::from) {
        return match built.is_file() {
            true => Ok(built),
            false => Err(format!("{BUILT}: there is no {}", built.display())),
        };
    }
    let status = Command::new(env!("CARGO"))
        .args(["build", "-q", "--locked", "-p", "narthex", "--profile"])
        .arg(profile)
        .status();
    match status {
        Ok(status) if status.success() => Ok(path(profile)),
        Ok(status) => Err(format!("cargo build -p narthex: {status}")),
        Err(e) => Err(format!("cargo build -p narthex: {e}")),
    }
}
