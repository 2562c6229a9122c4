//! Licence expressions: which licences of a crate's expression this project may choose.
//!
//! Invariant: an expression that cannot be satisfied from [`ALLOWED`] is an error, never a guess.

/// Licences we accept, in order of preference where a crate leaves the choice.
pub(crate) const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "MIT",
    "BSD-3-Clause",
    "BSD-2-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
    "Apache-2.0 WITH LLVM-exception",
];

/// Returns the licences to comply with: for `OR` the preferred side, for `AND` both.
///
/// # Errors
///
/// When the expression is malformed or needs a licence that is not allowed.
pub(crate) fn choose(expression: &str) -> Result<Vec<&'static str>, String> {
    // `MIT/Apache-2.0` is how old manifests write OR.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
    };
    let chosen = parser
        .or()
        .map_err(|e| format!("licence {expression:?}: {e}"))?;
    if parser.at != tokens.len() {
        return Err(format!(
            "licence {expression:?}: unexpected {:?}",
            tokens[parser.at]
        ));
    }
    let mut chosen =
        chosen.ok_or_else(|| format!("licence {expression:?} is not on the allowed list"))?;
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// What satisfies a part of the expression; `None` when nothing allowed does.
type Choice = Option<Vec<&'static str>>;

struct Parser<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Result<Choice, String> {
        let mut best = self.and()?;
        while self.take("OR") {
            let other = self.and()?;
            best = match (best, other) {
                (Some(a), Some(b)) => Some(if cost(&b) < cost(&a) { b } else { a }),
                (a, b) => a.or(b),
            };
        }
        Ok(best)
    }

    fn and(&mut self) -> Result<Choice, String> {
        let mut all = self.term()?;
        while self.take("AND") {
            let other = self.term()?;
            all = match (all, other) {
                (Some(mut a), Some(b)) => {
                    a.extend(b);
                    Some(a)
                }
                _ => None,
            };
        }
        Ok(all)
    }

    fn term(&mut self) -> Result<Choice, String> {
        if self.take("(") {
            let inner = self.or()?;
            return if self.take(")") {
                Ok(inner)
            } else {
                Err("a ) is missing".to_owned())
            };
        }
        let name = self.next().ok_or("ends early")?;
        let full = if self.take("WITH") {
            format!("{name} WITH {}", self.next().ok_or("ends after WITH")?)
        } else {
            name.to_owned()
        };
        Ok(ALLOWED
            .iter()
            .find(|allowed| **allowed == full)
            .map(|found| vec![*found]))
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }
}

/// Orders choices: fewer licences first, then the preferred one.
fn cost(licences: &[&str]) -> (usize, usize) {
    let rank = |name: &&str| {
        ALLOWED
            .iter()
            .position(|allowed| allowed == name)
            .unwrap_or(ALLOWED.len())
    };
    (licences.len(), licences.iter().map(rank).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_what_is_allowed() {
        assert_eq!(choose("MIT OR Apache-2.0"), Ok(vec!["Apache-2.0"]));
        assert_eq!(choose("MIT/Apache-2.0"), Ok(vec!["Apache-2.0"]));
        assert_eq!(choose("Unlicense OR MIT"), Ok(vec!["MIT"]));
        assert_eq!(
            choose("(MIT OR Apache-2.0) AND Unicode-3.0"),
            Ok(vec!["Apache-2.0", "Unicode-3.0"])
        );
        assert_eq!(choose("GPL-3.0 OR (ISC AND MIT)"), Ok(vec!["ISC", "MIT"]));
        assert_eq!(
            choose("Apache-2.0 WITH LLVM-exception"),
            Ok(vec!["Apache-2.0 WITH LLVM-exception"])
        );
    }

    #[test]
    fn refuses_what_is_not() {
        for expression in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "",
            "MIT OR",
            "(MIT",
            "MIT ISC",
            "MIT WITH",
        ] {
            assert!(choose(expression).is_err(), "{expression:?}");
        }
    }
}
