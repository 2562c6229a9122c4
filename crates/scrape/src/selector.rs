//! Target selectors: `{job="api",zone=~"eu-.*"}`.
//!
//! ```text
//! SELECTOR := NAME? '{' ( MATCHER ( ',' MATCHER )* ','? )? '}' | NAME
//! MATCHER  := ( NAME | STRING ) ( '=' | '!=' | '=~' | '!~' ) STRING | STRING
//! ```

use narthex_model::{LabelSet, METRIC_NAME, MatchOp, Matcher, storage::Context};

/// Matchers on targets' labels; the default matches all.
#[derive(Debug, Default)]
pub(crate) struct Selector(Vec<Matcher>);

impl Selector {
    /// Reports whether the selector matches these labels.
    pub(crate) fn takes(&self, labels: &LabelSet) -> bool {
        let value = |matcher: &Matcher| labels.get(&matcher.name).unwrap_or_default();
        self.0.iter().all(|matcher| matcher.matches(value(matcher)))
    }
}

/// Parses a selector; its patterns take memory from the budget of `ctx`.
///
/// # Errors
/// The message says what was expected, and before which text.
pub(crate) fn parse(text: &str, ctx: &Context) -> Result<Selector, String> {
    let mut reader = Reader {
        rest: text.trim(),
        ctx,
    };
    let mut matchers = Vec::new();
    if let Some(name) = reader.name() {
        matchers.push(Matcher::equal(METRIC_NAME, name));
    }
    if reader.take_token("{") {
        while !reader.take_token("}") {
            matchers.push(reader.matcher()?);
            if !reader.take_token(",") && !reader.rest.starts_with('}') {
                return Err(reader.expected("\",\" or \"}\""));
            }
        }
    }
    if !reader.rest.is_empty() || matchers.is_empty() {
        return Err(reader.expected("a selector with at least one matcher"));
    }
    Ok(Selector(matchers))
}

struct Reader<'a> {
    rest: &'a str,
    ctx: &'a Context,
}

impl<'a> Reader<'a> {
    fn expected(&self, what: &str) -> String {
        format!("parse error: expected {what} before {:?}", self.rest)
    }

    fn take_token(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn name(&mut self) -> Option<&'a str> {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let end = self.rest.find(|c| !letter(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest.trim_start();
        Some(name)
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        let (name, quoted) = match self.name() {
            Some(name) => (name.to_owned(), false),
            None => (self.string()?, true),
        };
        let op = [
            ("=~", MatchOp::Regex),
            ("!~", MatchOp::NotRegex),
            ("!=", MatchOp::NotEqual),
            ("=", MatchOp::Equal),
        ]
        .into_iter()
        .find(|(token, _)| self.take_token(token));
        match op {
            Some((_, op)) => {
                let value = self.string()?;
                Matcher::within(op, &name, &value, &self.ctx.clone().into())
                    .map_err(|error| error.to_string())
            }
            None if quoted => Ok(Matcher::equal(METRIC_NAME, &name)),
            None => Err(self.expected("\"=\", \"!=\", \"=~\" or \"!~\"")),
        }
    }

    /// Parses a string in double, single or back quotes.
    fn string(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let quote = match chars.next() {
            Some((_, quote @ ('"' | '\'' | '`'))) => quote,
            _ => return Err(self.expected("a quoted string")),
        };
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = self.rest[at + c.len_utf8()..].trim_start();
                return Ok(text);
            }
            match (c, quote) {
                ('\\', '"' | '\'') => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                _ => text.push(c),
            }
        }
        Err(self.expected("a closing quote"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::storage::Budget;

    #[test]
    fn selectors_are_read() {
        let shown = |text: &str| -> Vec<String> {
            let selector = parse(text, &Context::unlimited()).unwrap();
            let matchers = selector.0;
            matchers
                .iter()
                .map(|matcher| format!("{}:{}", matcher.name, matcher.value))
                .collect()
        };
        assert_eq!(shown("{job=\"a\"}"), ["job:a"]);
        assert_eq!(
            shown(" up { job =~ 'a|b' , \"z.n\" != `x`, } "),
            ["__name__:up", "job:a|b", "z.n:x"]
        );
        assert_eq!(shown("{\"a.b\",c=\"q\\\"\"}"), ["__name__:a.b", "c:q\""]);
        for bad in [
            "",
            "{}",
            "{job}",
            "{job=}",
            "{job=\"a",
            "{job=\"a\"} x",
            "9",
            "{job=~\"(\"}",
        ] {
            assert!(parse(bad, &Context::unlimited()).is_err(), "{bad}");
        }
    }

    /// `match_target` compiled one unbounded pattern per matcher.
    #[test]
    fn patterns_take_memory_of_a_budget() {
        let within = |budget: &Budget| Context {
            budget: budget.clone(),
            ..Context::unlimited()
        };
        let tiny = Budget::new("the selector", 16);
        assert!(parse("{a=~'x.*y|z'}", &within(&tiny)).is_err());
        let budget = Budget::new("the selector", 1 << 20);
        let ctx = within(&budget);
        let kept = parse("{a=~'x.*y|z'}", &ctx).unwrap();
        assert!(budget.used_bytes() > 0);
        assert!(kept.takes(&LabelSet::new([("a", "z")])));
        drop(kept);
        assert_eq!(budget.used_bytes(), 0);
    }
}
