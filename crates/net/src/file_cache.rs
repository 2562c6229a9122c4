//! Secrets and certificates, inline or in files that are reread when they change.
//!
//! Invariant: the returned contents are current as of the last `stat`. A file written less than two seconds before it
//! was read is not trusted to change its timestamp on the next write.

use crate::sync::Whole as _;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::NetError;

/// Largest file read: the certificates of all public authorities take a quarter of it.
const MAX_BYTES: u64 = 1 << 20;
/// Coarsest timestamp resolution of a file system.
const COARSE_SECONDS: i64 = 2;

/// A text in the configuration or in a file. `Debug` does not show it.
pub(crate) enum TextSource {
    Inline(Arc<str>),
    File(CachedFile),
}

impl TextSource {
    /// Returns `None` if neither is configured.
    pub(crate) fn new(inline: &str, file: Option<&Path>, what: &'static str) -> Option<Self> {
        if !inline.is_empty() {
            return Some(Self::Inline(inline.into()));
        }
        file.map(|path| Self::File(CachedFile::new(path, what)))
    }

    /// Returns the text, without surrounding white space if it comes from a file.
    pub(crate) fn get(&self) -> Result<Arc<str>, NetError> {
        match self {
            Self::Inline(text) => Ok(Arc::clone(text)),
            Self::File(file) => file.get(),
        }
    }

    /// Returns `inline`, or `file` and its path, as Go describes a secret's origin.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Inline(_) => "inline".to_owned(),
            Self::File(file) => format!("file {}", file.path.display()),
        }
    }
}

impl std::fmt::Debug for TextSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.description())
    }
}

/// What was made of some texts, made again when one of them changes. `Debug` shows where they come from.
pub(crate) struct Rebuilt<T, const N: usize> {
    sources: [Option<TextSource>; N],
    made: Mutex<Option<Made<T, N>>>,
}

/// Texts, and what was made of them.
type Made<T, const N: usize> = ([Option<Arc<str>>; N], Arc<T>);

impl<T, const N: usize> Rebuilt<T, N> {
    pub(crate) fn new(sources: [Option<TextSource>; N]) -> Self {
        let made = Mutex::new(None);
        Self { sources, made }
    }

    /// Returns what `make` makes of the texts as they are, and whether it replaces what was made of others.
    pub(crate) fn current(
        &self,
        make: impl FnOnce([Option<&str>; N]) -> Result<T, NetError>,
    ) -> Result<(Arc<T>, bool), NetError> {
        let mut texts = [const { None }; N];
        for (text, source) in texts.iter_mut().zip(&self.sources) {
            *text = source.as_ref().map(TextSource::get).transpose()?;
        }
        let mut made = self.made.lock().whole();
        if let Some((of, made)) = made.as_ref()
            && *of == texts
        {
            return Ok((Arc::clone(made), false));
        }
        let current = Arc::new(make(texts.each_ref().map(Option::as_deref))?);
        let replaced = made.replace((texts, Arc::clone(&current)));
        Ok((current, replaced.is_some()))
    }

    /// Returns where a text comes from, nothing if it is not configured.
    pub(crate) fn origin(&self, at: usize) -> String {
        let source = self.sources.get(at).and_then(Option::as_ref);
        source.map(TextSource::description).unwrap_or_default()
    }
}

impl<T, const N: usize> std::fmt::Debug for Rebuilt<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sources.fmt(f)
    }
}

/// A file cached while it looks unchanged.
pub(crate) struct CachedFile {
    path: PathBuf,
    /// Description of the contents, for errors.
    what: &'static str,
    cached: Mutex<Option<Contents>>,
}

impl std::fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CachedFile({})", self.path.display())
    }
}

struct Contents {
    stamp: Stamp,
    settled: bool,
    text: Arc<str>,
}

/// File metadata that changes when the file is written or replaced, or its link is redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl CachedFile {
    pub(crate) fn new(path: &Path, what: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            what,
            cached: Mutex::new(None),
        }
    }

    /// Returns the contents; the same allocation as before while unchanged.
    pub(crate) fn get(&self) -> Result<Arc<str>, NetError> {
        self.read().map_err(|source| NetError::ReadFile {
            what: self.what,
            path: self.path.clone(),
            source,
        })
    }

    fn read(&self) -> io::Result<Arc<str>> {
        let mut cached = self.cached.lock().whole();
        if let Some(contents) = cached.as_ref()
            && contents.settled
            && Stamp::from_metadata(&std::fs::metadata(&self.path)?) == contents.stamp
        {
            return Ok(Arc::clone(&contents.text));
        }
        let file = std::fs::File::open(&self.path)?;
        let stamp = Stamp::from_metadata(&file.metadata()?);
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("longer than 1 MiB"));
        }
        let text: Arc<str> = match cached.as_ref() {
            Some(before) if *before.text == *text.trim() => Arc::clone(&before.text),
            _ => text.trim().into(),
        };
        *cached = Some(Contents {
            stamp,
            settled: stamp.is_settled(),
            text: Arc::clone(&text),
        });
        Ok(text)
    }
}

impl Stamp {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Reports whether any later write will get a different timestamp.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_seconds = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        now_seconds.saturating_sub(self.changed.0.max(self.modified.0)) > COARSE_SECONDS
    }
}

#[cfg(test)]
mod tests;
