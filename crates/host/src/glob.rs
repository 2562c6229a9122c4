//! Paths with wildcards, as Go's `filepath.Glob` expands them: `*`, `?`, classes in brackets, escapes.
//!
//! Invariant: a wildcard never matches a slash; a pattern that is malformed or matches nothing gives no paths.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::sysdir;

/// Returns the paths that `pattern` matches, sorted. A pattern without wildcards matches itself if it is there.
pub(crate) fn expand(pattern: &str) -> Vec<PathBuf> {
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None => ("", pattern),
    };
    let mut found = vec![PathBuf::from(root)];
    for component in rest.split('/').filter(|component| !component.is_empty()) {
        let next = if has_wildcard(component) {
            let Some(component) = compile(component) else {
                return Vec::new();
            };
            found
                .iter()
                .flat_map(|directory| matching(directory, &component))
                .collect()
        } else {
            found
                .iter()
                .map(|directory| directory.join(component))
                .filter(|path| path.exists())
                .collect()
        };
        found = next;
    }
    found.retain(|path| path.as_os_str() != "");
    found
}

fn has_wildcard(component: &str) -> bool {
    component.contains(['*', '?', '[', '\\'])
}

fn matching(directory: &Path, component: &Regex) -> Vec<PathBuf> {
    let shown = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let names = sysdir::list(shown).unwrap_or_default();
    names
        .iter()
        .filter(|name| component.is_match(name))
        .map(|name| directory.join(name))
        .collect()
}

/// Turns one component into a regular expression; `None` if a bracket is not closed.
fn compile(component: &str) -> Option<Regex> {
    let mut text = String::from("^(?s:");
    let mut chars = component.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '\\' => text.push_str(&regex::escape(&chars.next()?.to_string())),
            '[' => {
                text.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    text.push('^');
                }
                let mut is_empty = true;
                loop {
                    match chars.next()? {
                        ']' if !is_empty => break,
                        '-' => text.push('-'),
                        '\\' => text.push_str(&regex::escape(&chars.next()?.to_string())),
                        other => text.push_str(&regex::escape(&other.to_string())),
                    }
                    is_empty = false;
                }
                text.push(']');
            }
            other => text.push_str(&regex::escape(&other.to_string())),
        }
    }
    text.push_str(")$");
    Regex::new(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_within_a_component() {
        let cases = [
            ("*", "metrics", true),
            ("m*s", "metrics", true),
            ("m?trics", "metrics", true),
            ("m?trics", "mtrics", false),
            ("[a-m]etrics", "metrics", true),
            ("[^m]*", "metrics", false),
            ("a.b", "axb", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
        ];
        for (pattern, name, expected) in cases {
            let compiled = compile(pattern).expect("well formed");
            assert_eq!(compiled.is_match(name), expected, "{pattern} {name}");
        }
        assert!(compile("[a").is_none() && compile("a\\").is_none() && compile("[z-a]").is_none());
    }

    #[test]
    fn components_are_expanded_one_after_the_other() {
        let dir = narthex_testkit::TempDir::new("glob");
        for name in ["a1/x/f", "a2/x/f", "b1/x/f", "a3/y/f"] {
            dir.write(name, "");
        }
        let root = dir.path().display().to_string();
        let names = |pattern: &str| {
            let found = expand(&format!("{root}/{pattern}"));
            let names = found
                .iter()
                .map(|path| path.strip_prefix(dir.path()).expect("below"));
            names
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("a*/x"), ["a1/x", "a2/x"]);
        assert_eq!(names("b1/x"), ["b1/x"]);
        assert_eq!(names("c*"), [] as [&str; 0]);
        assert_eq!(names("[/x"), [] as [&str; 0]);
    }
}
