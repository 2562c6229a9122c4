//! Small and read-only disks, mounted for a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A tmpfs, unmounted on drop.
pub(crate) struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Creates the directory `at` and mounts a tmpfs there.
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
        // Lazily, because a server that is still dying may have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// An ext4 file system in a file, unmounted on drop.
pub(crate) struct Loop(PathBuf);

impl Loop {
    /// Creates `image` of `bytes` with an ext4 file system, and mounts it at the directory `at`, which it creates.
    pub(crate) fn ext4(image: &Path, at: PathBuf, bytes: u64) -> Self {
        fs::create_dir(&at).unwrap();
        let file = fs::File::create(image).unwrap();
        file.set_len(bytes).unwrap();
        // No blocks are reserved for root, who runs this: a full disk must be full.
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image));
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(image)
            .arg(&at));
        Self(at)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("mkfs.ext4 and mount are installed");
    assert!(
        output.status.success(),
        "this test needs a loop device (run it as root, on a machine or in a privileged container): {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
