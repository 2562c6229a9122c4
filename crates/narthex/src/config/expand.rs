//! Expands environment variables in external labels: `$NAME`, `${NAME}`, `$$`, like Go's `os.Expand`.

/// Replaces references in `text` by the results of `lookup` for their names.
pub(super) fn expand(text: &str, mut lookup: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if after.is_empty() {
            out.push('$');
            return out;
        }
        let (name, length) = name(after);
        match (name, length) {
            // Not a reference: the `$` stays.
            ("", 0) => out.push('$'),
            // A malformed reference expands to nothing.
            ("", _) => {}
            ("$", _) => out.push('$'),
            (name, _) => out.push_str(&lookup(name)),
        }
        rest = after.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Returns the name in a reference, and the reference's length after the `$`.
fn name(text: &str) -> (&str, usize) {
    let special = |c: char| "*#$@!?-0123456789".contains(c);
    if let Some(inner) = text.strip_prefix('{') {
        return match inner.find('}') {
            None => ("", 1),
            Some(0) => ("", 2),
            Some(end) => (&inner[..end], end + 2),
        };
    }
    if text.starts_with(special) {
        return (&text[..1], 1);
    }
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let length = text.find(|c| !word(c)).unwrap_or(text.len());
    (&text[..length], length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_as_go_does() {
        for (text, expanded) in [
            ("a", "a"),
            ("$X", "<X>"),
            ("${X}y", "<X>y"),
            ("$X-y$Y", "<X>-y<Y>"),
            ("$$X", "$X"),
            ("a$", "a$"),
            ("$ ", "$ "),
            ("${}", ""),
            ("${X", "X"),
            ("$1x", "<1>x"),
            ("${*}", "<*>"),
        ] {
            let result = expand(text, |name| format!("<{name}>"));
            assert_eq!(result, expanded, "{text}");
        }
    }
}
