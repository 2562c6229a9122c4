//! Looks at a file: whether it changed, whether it is complete, what is in it.
//!
//! **Invariant:** a page that is handed out was the same before and after it was read, and ends as it should.

use crate::{config::FilesConfig, stamp::FileStamp};
use std::{fs::File, io::Read as _, path::Path};

/// What a look at a file found.
#[derive(Debug)]
pub(crate) enum Look {
    /// Nothing new since the last page.
    Unchanged,
    /// The file's content.
    Page { text: Vec<u8>, modified_ms: i64 },
    /// Somebody is writing it.
    Unfinished,
    /// It cannot be used, for this reason.
    Failed(String),
}

/// Reads one file.
#[derive(Debug, Default)]
pub(crate) struct FileReader {
    stamp: Option<FileStamp>,
}

/// Asks for memory for so many bytes of a page.
pub(crate) type Room<'a> = &'a mut dyn FnMut(u64) -> Result<(), String>;

impl FileReader {
    pub(crate) fn look(&mut self, path: &Path, config: &FilesConfig, room: Room<'_>) -> Look {
        let look = self.read(path, config, room);
        look.unwrap_or_else(|error| Look::Failed(error.to_string()))
    }

    /// Returns whether the last look found a page.
    pub(crate) fn has_page(&self) -> bool {
        self.stamp.is_some()
    }

    /// Forgets the last page, so that the next look reads the file.
    pub(crate) fn forget(&mut self) {
        self.stamp = None;
    }

    fn read(&mut self, path: &Path, config: &FilesConfig, room: Room<'_>) -> std::io::Result<Look> {
        let before = FileStamp::read(path)?;
        if before.is_unchanged_since(self.stamp.as_ref()) {
            return Ok(Look::Unchanged);
        }
        self.forget();
        if before.bytes() > config.file_size_limit {
            let (bytes, limit) = (before.bytes(), config.file_size_limit);
            let reason = format!("it has {bytes} bytes, more than file_size_limit allows: {limit}");
            return Ok(Look::Failed(reason));
        }
        if let Err(reason) = room(before.bytes()) {
            return Ok(Look::Failed(reason));
        }
        let mut text = Vec::new();
        // A file that grows meanwhile is not read further than it was.
        File::open(path)?
            .take(before.bytes().saturating_add(1))
            .read_to_end(&mut text)?;
        let after = FileStamp::read(path)?;
        let is_same = before.is_like(&after) && text.len() as u64 == before.bytes();
        if !is_same || !is_complete(&text, &before, config) {
            return Ok(Look::Unfinished);
        }
        self.stamp = Some(before);
        Ok(Look::Page {
            text,
            modified_ms: before.modified_ms(),
        })
    }
}

/// Reports whether a page ends as it should.
fn is_complete(text: &[u8], stamp: &FileStamp, config: &FilesConfig) -> bool {
    let ends_with_eof = || {
        let text = text.trim_ascii_end();
        text.ends_with(b"# EOF")
    };
    if config.require_eof {
        return ends_with_eof();
    }
    match text.last() {
        // A writer that begins anew leaves an empty file for a moment.
        None => stamp.has_settled(),
        Some(last) => *last == b'\n' || ends_with_eof(),
    }
}
