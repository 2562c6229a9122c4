//! Finds programs that tests run but this workspace does not build.

use std::path::PathBuf;

/// Returns the path of `program`, looked up in `PATH` and the system's usual directories.
///
/// # Panics
///
/// When it is not installed; the message is the command that installs Debian's `package`.
#[must_use]
pub fn tool(program: &str, package: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("{program} is missing. Install it with:\napt-get install -y {package}")
    })
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}
