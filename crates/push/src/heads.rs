//! Checks of the text format 0.0.4 beyond a scraper's, like those of the Pushgateway's Go parser.
//!
//! **Invariant:** the result does not depend on earlier pushes.

use crate::grouping::quoted;
use std::collections::HashMap;

/// Facts about a family from earlier comment lines and samples.
#[derive(Default)]
struct Known<'a> {
    helped: bool,
    /// Word of its TYPE line; `untyped` once a sample came without one.
    word: Option<&'a str>,
}

/// Fails, with the line's number, on a repeated or late HELP or TYPE line, on label syntax that only a scraper accepts,
/// and on a last line without a newline.
pub(crate) fn check(body: &str) -> Result<(), (usize, String)> {
    let mut families: HashMap<&str, Known<'_>> = HashMap::new();
    let mut last = "";
    for (at, line) in body.split_inclusive('\n').enumerate() {
        let number = at + 1;
        if !line.ends_with('\n') {
            return Err((number, "unexpected end of input stream".to_owned()));
        }
        let line = line.trim_start_matches([' ', '\t']);
        let Some(comment) = line.strip_prefix('#') else {
            let name = line
                .split(['{', ' ', '\t', '\n'])
                .next()
                .unwrap_or_default();
            if let Some(escape) = unknown_escape(line) {
                return Err((number, format!("invalid escape sequence '\\{escape}'")));
            }
            if !name.is_empty() && name != last {
                last = name;
                sampled(&mut families, name);
            }
            continue;
        };
        let mut words = comment
            .split([' ', '\t', '\n'])
            .filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (Some("HELP"), Some(name)) => {
                let known = families.entry(name).or_default();
                if std::mem::replace(&mut known.helped, true) {
                    let name = quoted(name);
                    return Err((number, format!("second HELP line for metric name {name}")));
                }
            }
            (Some("TYPE"), Some(name)) => {
                let known = families.entry(name).or_default();
                if known.word.is_some() {
                    let name = quoted(name);
                    return Err((
                        number,
                        format!(
                            "second TYPE line for metric name {name}, or TYPE reported after samples"
                        ),
                    ));
                }
                known.word = Some(words.next().unwrap_or("untyped"));
                last = "";
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the character of an invalid escape in a label value.
fn unknown_escape(line: &str) -> Option<char> {
    let mut rest = line;
    while let Some((_, behind)) = rest.split_once('\\') {
        let escaped = behind.chars().next()?;
        if !matches!(escaped, '\\' | '"' | 'n') {
            return Some(escaped);
        }
        rest = &behind[1..];
    }
    None
}

/// Records a sample: its family becomes untyped unless it has a type.
fn sampled<'a>(families: &mut HashMap<&'a str, Known<'a>>, name: &'a str) {
    let is_part = |families: &HashMap<&str, Known<'_>>, suffixes: &[&str], word: &str| {
        suffixes.iter().any(|suffix| {
            let base = name
                .strip_suffix(suffix)
                .and_then(|base| families.get(base));
            base.and_then(|known| known.word)
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    };
    if !families.contains_key(name)
        && (is_part(families, &["_count", "_sum"], "summary")
            || is_part(families, &["_count", "_sum", "_bucket"], "histogram"))
    {
        return;
    }
    families
        .entry(name)
        .or_default()
        .word
        .get_or_insert("untyped");
}

/// Returns a hint for a line whose labels look like JSON.
pub(crate) fn hint(line: &str) -> Option<String> {
    let (name, rest) = line.split_once('{')?;
    let rest = rest.trim_start();
    let (label, rest) = rest.strip_prefix('"')?.split_once('"')?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let value = value
        .split([',', '}'])
        .next()
        .unwrap_or_default()
        .trim()
        .trim_matches('"');
    Some(format!(
        "labels are written {name}{{{label}=\"{value}\"}}, not {name}{{\"{label}\":{value}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_come_twice_or_too_late_are_refused() {
        let second = |name: &str| {
            format!("second TYPE line for metric name \"{name}\", or TYPE reported after samples")
        };
        for (body, expected) in [
            ("", None),
            ("# TYPE a counter\na 1\n# HELP a b\n", None),
            ("a 1\na{b=\"c\"} 2\n# just talk\n#TYPE\n", None),
            ("a{x=\"\\\\ \\n \\\"\"} 1\n", None),
            (
                "a{x=\"\\q\"} 1\n",
                Some((1, "invalid escape sequence '\\q'".to_owned())),
            ),
            (
                "a 1",
                Some((1, "unexpected end of input stream".to_owned())),
            ),
            (
                "# HELP a b\n# HELP a b\n",
                Some((2, "second HELP line for metric name \"a\"".to_owned())),
            ),
            (
                "# TYPE a counter\n# TYPE a counter\n",
                Some((2, second("a"))),
            ),
            ("a 1\n# TYPE a counter\n", Some((2, second("a")))),
            (
                "# TYPE a histogram\na_count 1\n# TYPE a_count gauge\n",
                None,
            ),
            (
                "# TYPE a gauge\na_count 1\n# TYPE a_count gauge\n",
                Some((3, second("a_count"))),
            ),
        ] {
            assert_eq!(check(body).err(), expected, "{body}");
        }
    }

    #[test]
    fn labels_written_like_json_get_a_hint() {
        assert_eq!(
            hint("m{\"k\":1} 2").as_deref(),
            Some("labels are written m{k=\"1\"}, not m{\"k\":1}")
        );
        assert_eq!(hint("m{k=\"1\"} 2"), None);
        assert_eq!(hint("m{\"k\"} 2"), None);
        assert_eq!(hint("m 2"), None);
    }
}
