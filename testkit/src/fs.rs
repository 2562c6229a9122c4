//! Temporary directories and the workspace's root. A directory belongs to one [`TempDir`] and is removed with it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A fresh, empty directory that is removed on drop (kept when `NARTHEX_KEEP_TMP` is set).
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates `<tmp>/narthex-<label>-<pid>-<n>`.
    ///
    /// # Panics
    ///
    /// When the system's temporary directory cannot be written.
    #[must_use]
    pub fn new(label: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let base = std::env::temp_dir();
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("narthex-{label}-{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self { path },
                // Left over from a killed process with the same pid.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => panic!("create {}: {e}", path.display()),
            }
        }
    }

    /// Returns the directory's absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `name` inside the directory; creates nothing.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file inside the directory, with its parent directories, and returns its path.
    ///
    /// # Panics
    ///
    /// When writing fails.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the temporary directory is writable");
        }
        fs::write(&path, content).expect("the temporary directory is writable");
        path
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os("NARTHEX_KEEP_TMP").is_none() {
            // A test may have removed it, or made it read-only: a drop can do nothing about either.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the root of the workspace this crate was built in.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}
