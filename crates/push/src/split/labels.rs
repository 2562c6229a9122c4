//! Labels of a sample's line, without anything else of it.
//!
//! ```text
//! LINE  := NAME [ "{" LABELS "}" ] REST  |  "{" STRING [ "," LABELS ] "}" REST
//! LABEL := ( NAME | STRING ) "=" STRING
//! ```

/// The labels of a line, one after the other.
pub(super) struct Labels<'a> {
    name: &'a str,
    /// What is left within the braces and behind them; `None` at their end.
    rest: Option<&'a str>,
}

const MALFORMED: &str = "the labels of a sample are malformed";

impl<'a> Labels<'a> {
    /// Reads the name of a line's metric.
    ///
    /// # Errors
    /// Returns what is wrong with the line.
    pub(super) fn new(line: &'a [u8]) -> Result<Self, &'static str> {
        let line = str::from_utf8(line).map_err(|_| "invalid UTF-8")?;
        let line = line.trim_start_matches([' ', '\t']);
        let end = line.find(['{', ' ', '\t', '\n']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let Some(labels) = rest.trim_start_matches([' ', '\t']).strip_prefix('{') else {
            return Ok(Self { name, rest: None });
        };
        if !name.is_empty() {
            let rest = Some(labels);
            return Ok(Self { name, rest });
        }
        // The name is the first of what is in braces.
        let labels = labels.trim_start_matches([' ', '\t']);
        let (name, rest) = string(labels.strip_prefix('"').ok_or(MALFORMED)?)?;
        let rest = Some(rest);
        Ok(Self { name, rest })
    }

    /// Returns the metric's name.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    fn label(&mut self) -> Result<Option<(&'a str, &'a str)>, &'static str> {
        // After an error there is nothing more to read.
        let Some(rest) = self.rest.take() else {
            return Ok(None);
        };
        let rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.starts_with('}') {
            return Ok(None);
        }
        let (name, rest) = match rest.strip_prefix('"') {
            Some(quoted) => string(quoted)?,
            None => rest.split_at(rest.find(['=', ' ', '\t', ',', '}']).ok_or(MALFORMED)?),
        };
        let rest = rest.trim_start_matches([' ', '\t']);
        let rest = rest.strip_prefix('=').ok_or(MALFORMED)?;
        let rest = rest.trim_start_matches([' ', '\t']);
        let (value, rest) = string(rest.strip_prefix('"').ok_or(MALFORMED)?)?;
        self.rest = Some(rest);
        Ok(Some((name, value)))
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = Result<(&'a str, &'a str), &'static str>;

    /// Returns the next label; its value is as it is written.
    fn next(&mut self) -> Option<Self::Item> {
        self.label().transpose()
    }
}

/// Returns a string behind its opening quote, as it is written, and what is behind its closing one.
fn string(text: &str) -> Result<(&str, &str), &'static str> {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'"', b'\\', &text.as_bytes()[from..]) {
        let at = from + at;
        if text.as_bytes()[at] == b'"' {
            return Ok((&text[..at], &text[at + 1..]));
        }
        from = (at + 2).min(text.len());
    }
    Err(MALFORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let labels = match Labels::new(line.as_bytes()) {
            Ok(labels) => labels,
            Err(error) => return error.to_owned(),
        };
        let name = labels.name();
        let each: Result<Vec<_>, _> = labels.collect();
        match each {
            Ok(each) => format!("{name} {each:?}"),
            Err(error) => error.to_owned(),
        }
    }

    #[test]
    fn labels_are_read_and_values_are_not() {
        for (line, expected) in [
            ("a 1\n", "a []"),
            ("a{} 1\n", "a []"),
            (
                "  a { b = \"c\" , d=\"\" , } x y z",
                r#"a [("b", "c"), ("d", "")]"#,
            ),
            (
                "a{b=\"}\",c=\"\\\"\\\\\"} 1",
                r#"a [("b", "}"), ("c", "\\\"\\\\")]"#,
            ),
            ("{\"a b\"} 1", "a b []"),
            ("{ \"a b\", \"c d\"=\"e\"} 1", r#"a b [("c d", "e")]"#),
            ("a{b=\"c\"", MALFORMED),
            ("a{b=\"c", MALFORMED),
            ("a{b=\"c\\\"", MALFORMED),
            ("a{b}", MALFORMED),
            ("a{\"k\":1} 1", MALFORMED),
            ("{b=\"c\"} 1", MALFORMED),
            ("{", MALFORMED),
            ("a{", MALFORMED),
            ("a{é\\=\"\\", MALFORMED),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
        assert_eq!(Labels::new(b"\xff").err(), Some("invalid UTF-8"));
    }
}
