//! Labels as the text format writes them: `a="x",b="y\n"`.

use narthex_model::METRIC_NAME;

/// Maximum number of labels of a series.
const LABELS_MAX: usize = 64;

/// Parses pre-rendered labels; `None` unless every name is valid and given once.
pub(crate) fn parse(text: &str, reserved: &str) -> Option<Vec<(String, String)>> {
    let mut labels: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"")?;
        let is_name = narthex_model::labels::is_legacy_name(name);
        let is_known = labels.iter().any(|(known, _)| known == name);
        if !is_name || is_known || name == reserved || name == METRIC_NAME {
            return None;
        }
        let (value, after) = unescape(value)?;
        labels.push((name.to_owned(), value));
        rest = match after.strip_prefix(',') {
            Some(more) if !more.is_empty() => more,
            Some(_) => return None,
            None if after.is_empty() => after,
            None => return None,
        };
        if labels.len() > LABELS_MAX {
            return None;
        }
    }
    Some(labels)
}

/// Returns a value up to its closing quote, and what follows the quote.
fn unescape(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                plain @ ('\\' | '"') => plain,
                _ => return None,
            }),
            '\n' => return None,
            _ => value.push(char),
        }
    }
    None
}

/// Appends labels as `parse` reads them.
pub(crate) fn write<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>, out: &mut String) {
    for (at, (name, value)) in labels.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for char in value.chars() {
            match char {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                _ => out.push(char),
            }
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back() {
        let labels = parse("a=\"x\\\\\\\"\\n,=\",b_1=\"\"", "le").unwrap();
        let pairs: Vec<(&str, &str)> = labels.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(pairs, [("a", "x\\\"\n,="), ("b_1", "")]);
        let mut out = String::new();
        write(pairs, &mut out);
        assert_eq!(out, "a=\"x\\\\\\\"\\n,=\",b_1=\"\"");
        assert_eq!(parse("", "le"), Some(Vec::new()));
    }

    #[test]
    fn malformed_labels_are_refused() {
        for bad in [
            "a",
            "a=",
            "a=\"",
            "a=\"x",
            "a=\"x\\",
            "a=\"x\\t\"",
            "a=\"x\",",
            "a=\"x\"b=\"y\"",
            "a=\"x\",a=\"y\"",
            "=\"x\"",
            "1=\"x\"",
            "a b=\"x\"",
            "le=\"1\"",
            "__name__=\"x\"",
            ",a=\"x\"",
            "a=\"\n\"",
        ] {
            assert_eq!(parse(bad, "le"), None, "{bad}");
        }
        assert!(parse("le=\"1\"", "quantile").is_some());
    }
}
