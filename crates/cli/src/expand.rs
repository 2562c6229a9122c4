//! `@FILE` arguments, which are replaced by the file's lines.

use crate::UsageError;
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Most files of arguments; stops files that include themselves.
const MAX_FILES: usize = 16;
/// Most bytes of all argument files together.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Files, as seen by a command line.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Reads a file.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

impl Surroundings<'static> {
    /// Returns the surroundings of this process.
    #[must_use]
    pub fn process() -> Self {
        Self {
            read: &|path| fs::read(path),
        }
    }
}

/// Replaces `@FILE` with the file's lines, nested ones included, up to a `--`.
pub(crate) fn expand(
    arguments: &[OsString],
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Vec<OsString>, UsageError> {
    let mut expanded = Vec::new();
    // A stack: the next argument is at the end.
    let mut waiting: Vec<OsString> = arguments.iter().rev().cloned().collect();
    let (mut files, mut total_bytes) = (0, 0);
    while let Some(argument) = waiting.pop() {
        let Some(path) = argument.as_bytes().strip_prefix(b"@") else {
            let ends = argument == "--";
            expanded.push(argument);
            if ends {
                expanded.extend(waiting.drain(..).rev());
            }
            continue;
        };
        let path = Path::new(OsStr::from_bytes(path));
        let bytes = read(path).map_err(|source| UsageError::File {
            path: path.to_owned(),
            source,
        })?;
        files += 1;
        total_bytes += bytes.len();
        if files > MAX_FILES || total_bytes > MAX_FILE_BYTES {
            return Err(UsageError::Files);
        }
        let lines = bytes.split(|byte| *byte == b'\n').rev();
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        waiting.extend(lines.map(|line| OsString::from_vec(line.to_vec())));
    }
    Ok(expanded)
}
