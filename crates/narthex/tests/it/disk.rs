//! Small and read-only disks, mounted for a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system in memory. It goes when it is dropped.
pub(crate) struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Creates the directory `at` and mounts a file system there.
    pub(crate) fn mount(at: PathBuf, options: &str) -> Self {
        fs::create_dir(&at).unwrap();
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&at);
        let output = command.output().expect("mount is installed");
        assert!(
            output.status.success(),
            "this test needs the right to mount a tmpfs (run it as root, in a container with CAP_SYS_ADMIN): {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self(at)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a server that is still being killed may have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
