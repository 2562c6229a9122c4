//! Archives of node_exporter's fixture trees, a text format.

use std::fs;
use std::path::{Path, PathBuf};

/// Unpacks an archive: directories, symbolic links and text with escapes.
///
/// # Panics
///
/// Panics if the archive is malformed or can't be read, or a file can't be written.
pub fn unpack(archive: &Path, into: &Path) {
    let text = fs::read_to_string(archive).expect("the archive is text");
    let mut lines = text.lines();
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("Directory: ") {
            fs::create_dir_all(into.join(name)).expect("writable");
        } else if let Some(name) = line.strip_prefix("Path: ") {
            path = into.join(name);
            fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
        } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
            std::os::unix::fs::symlink(target, &path).expect("writable");
        } else if let Some(count) = line.strip_prefix("Lines: ") {
            let mut content = String::new();
            for _ in 0..count.parse().expect("a count") {
                content += &unescape(lines.next().expect("as many lines as announced"));
            }
            fs::write(&path, content).expect("writable");
        }
    }
}

/// Makes `into` a directory with the entries of a fixture's procfs. Its `self`, a file that names the process where the
/// corpus could not keep the symbolic link, becomes that link.
///
/// # Panics
///
/// Panics if the tree can't be read, or a link can't be made.
pub fn link_procfs(procfs: &Path, into: &Path) {
    fs::create_dir_all(into).expect("writable");
    for entry in fs::read_dir(procfs).expect("the tree is a directory") {
        let entry = entry.expect("readable");
        let (name, path) = (entry.file_name(), entry.path());
        let target = match fs::read_to_string(&path) {
            Ok(process) if name == "self" => PathBuf::from(process.trim()),
            _ => path,
        };
        std::os::unix::fs::symlink(target, into.join(name)).expect("writable");
    }
}

/// Replaces `NULLBYTE` by a zero byte and `EOF` by no newline, unless a backslash precedes it.
fn unescape(line: &str) -> String {
    let line = line
        .replace("\\NULLBYTE", "\u{1}")
        .replace("NULLBYTE", "\0")
        .replace('\u{1}', "NULLBYTE");
    let line = line.replace("\\EOF", "\u{1}");
    let (line, newline) = match line.strip_suffix("EOF") {
        Some(line) => (line.to_owned(), ""),
        None => (line, "\n"),
    };
    line.replace('\u{1}', "EOF") + newline
}
