//! Path patterns in configurations (target files, rule files, directories of the textfile collector), with the syntax
//! of Go's `filepath.Glob`: `*`, `?`, `[a-z]`, `[^a-z]`, `\` before a letter.
//!
//! Invariant: a pattern without these is the path itself, if it exists; matches within one directory are in byte
//! order.

use std::path::Path;

/// Returns the matching paths, relative or absolute like the pattern.
///
/// # Errors
/// Fails on a malformed pattern. Unreadable directories match nothing.
pub fn glob(pattern: &str) -> Result<Vec<String>, &'static str> {
    glob_noting(pattern, &mut |_directory| {})
}

/// Like [`glob`]; calls `note` with each directory whose entries decide, before it is read, as matching paths in it
/// begin: empty for the working directory, else with a slash at the end.
///
/// # Errors
/// As [`glob`].
pub fn glob_noting(pattern: &str, note: &mut dyn FnMut(&str)) -> Result<Vec<String>, &'static str> {
    matches("", pattern)?;
    let split = pattern.rfind('/').map_or(0, |at| at + 1);
    let (directory, name) = pattern.split_at(split);
    if !has_meta(pattern) {
        note(directory);
        let exists = Path::new(pattern).symlink_metadata().is_ok();
        return Ok(exists.then(|| pattern.to_owned()).into_iter().collect());
    }
    let parents = if has_meta(directory) {
        let parents = glob_noting(directory.trim_end_matches('/'), note)?;
        parents.into_iter().map(|parent| parent + "/").collect()
    } else {
        vec![directory.to_owned()]
    };
    let mut found = Vec::new();
    for parent in parents {
        note(&parent);
        let opened = if parent.is_empty() { "." } else { &parent };
        let Ok(entries) = std::fs::read_dir(opened) else {
            continue;
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        for entry in names {
            if matches(&entry, name)? {
                found.push(format!("{parent}{entry}"));
            }
        }
    }
    Ok(found)
}

fn has_meta(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '\\'])
}

/// Returns whether the whole text matches; `*` and `?` do not match slashes.
///
/// # Errors
/// Fails on a malformed pattern, whatever the text.
pub fn matches(text: &str, pattern: &str) -> Result<bool, &'static str> {
    let tokens = parse(pattern)?;
    let letters: Vec<char> = text.chars().collect();
    // The last star and the text it matches so far: the classic matcher without recursion.
    let (mut at, mut token) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let letter = letters.get(at);
        match (tokens.get(token), letter) {
            (None, None) => return Ok(true),
            (Some(Token::Star), _) => {
                star = Some((token, at));
                token += 1;
                continue;
            }
            (Some(one), Some(letter)) if one.takes(*letter) => {
                at += 1;
                token += 1;
                continue;
            }
            _ => {}
        }
        match star {
            Some((star_token, swallowed))
                if letters.get(swallowed).is_some_and(|letter| *letter != '/') =>
            {
                star = Some((star_token, swallowed + 1));
                at = swallowed + 1;
                token = star_token + 1;
            }
            _ => return Ok(false),
        }
    }
}

#[derive(Debug)]
enum Token {
    Star,
    Any,
    Letter(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => letter != '/',
            Self::Letter(wanted) => *wanted == letter,
            Self::Class { negated, ranges } => {
                let inside = ranges.iter().any(|(a, b)| (*a..=*b).contains(&letter));
                inside != *negated
            }
        }
    }
}

const BAD: &str = "syntax error in pattern";

fn parse(pattern: &str) -> Result<Vec<Token>, &'static str> {
    let mut letters = pattern.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(letter) = letters.next() {
        tokens.push(match letter {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::Letter(letters.next().ok_or(BAD)?),
            '[' => {
                let negated = letters.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while letters.next_if_eq(&']').is_none() || ranges.is_empty() {
                    let low = class_letter(&mut letters)?;
                    let high = if letters.next_if_eq(&'-').is_some() {
                        class_letter(&mut letters)?
                    } else {
                        low
                    };
                    ranges.push((low, high));
                }
                Token::Class { negated, ranges }
            }
            letter => Token::Letter(letter),
        });
    }
    Ok(tokens)
}

fn class_letter(letters: &mut impl Iterator<Item = char>) -> Result<char, &'static str> {
    match letters.next() {
        None | Some('-' | ']') => Err(BAD),
        Some('\\') => letters.next().ok_or(BAD),
        Some(letter) => Ok(letter),
    }
}

#[cfg(test)]
mod tests;
