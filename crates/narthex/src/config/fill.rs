//! Fills defaults into a checked tree and resolves paths.
//!
//! **Invariant:** a default's node has line 0, which distinguishes it from a written one.

use super::keys::{KeyKind, Section, THERE, THERE_UNLESS_NULL};
use narthex_yaml::{Node, Value};
use std::path::{Component, Path, PathBuf};

/// Fills in the defaults of `section` below `node`; paths are relative to `directory`.
pub(super) fn fill(node: &mut Node, section: &Section, directory: &Path) {
    if node.is_null() {
        node.value = Value::Map(Vec::new());
    }
    for key in section.keys() {
        match node.get_mut(key.name) {
            Some(value) => {
                if key.default == THERE && value.is_null() {
                    value.value = Value::Map(Vec::new());
                }
                inner(value, key.kind, directory);
            }
            None if key.default == THERE || key.default == THERE_UNLESS_NULL => {
                let mut value = Node::new(Value::Map(Vec::new()));
                inner(&mut value, key.kind, directory);
                node.set(key.name, value);
            }
            None if !key.default.is_empty() => node.set(key.name, Node::text(key.default)),
            None => {}
        }
    }
}

fn inner(node: &mut Node, kind: KeyKind, directory: &Path) {
    match (kind, &mut node.value) {
        (KeyKind::Path, Value::Scalar(scalar)) => scalar.text = join(directory, &scalar.text),
        (KeyKind::Paths, Value::List(items)) => {
            let items = items.iter_mut();
            items.for_each(|item| inner(item, KeyKind::Path, directory));
        }
        (KeyKind::Section(section), Value::Map(_)) => fill(node, section, directory),
        (KeyKind::Sections(section), Value::List(items)) => {
            let items = items.iter_mut().filter(|item| !item.is_null());
            items.for_each(|item| fill(item, section, directory));
        }
        (KeyKind::Named(section), Value::Map(pairs)) => {
            let items = pairs.iter_mut();
            items.for_each(|(_, item)| fill(item, section, directory));
        }
        _ => {}
    }
}

/// Joins a path to a directory and cleans it, like Go's `filepath.Join`; absolute and empty paths stay.
fn join(directory: &Path, path: &str) -> String {
    if path.is_empty() || Path::new(path).is_absolute() {
        return path.to_owned();
    }
    let mut tidy = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match tidy.components().next_back() {
                Some(Component::Normal(_)) => {
                    tidy.pop();
                }
                Some(Component::RootDir) => {}
                _ => tidy.push(".."),
            },
            part => tidy.push(part),
        }
    }
    if tidy.as_os_str().is_empty() {
        tidy.push(".");
    }
    tidy.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_go_does() {
        for (directory, path, joined) in [
            ("/etc/p", "a.yml", "/etc/p/a.yml"),
            ("/etc/p", "./a/../b.yml", "/etc/p/b.yml"),
            ("/etc/p", "../a.yml", "/etc/a.yml"),
            ("", "a.yml", "a.yml"),
            (".", "../../a.yml", "../../a.yml"),
            ("x", "..", "."),
            ("/etc", "/a.yml", "/a.yml"),
            ("/etc", "", ""),
        ] {
            assert_eq!(
                join(Path::new(directory), path),
                joined,
                "{directory} {path}"
            );
        }
    }
}
