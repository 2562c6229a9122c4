//! Errors of the parser, word for word and with their positions.
//!
//! `tests/parser_errors.txt` has queries with what Prometheus' parser says of them; `NARTHEX_UPDATE=1` writes it anew.
//! The other test changes queries at random and asks Prometheus' parser itself.
//!
//! ```text
//! file  = { query "\n" "  " error "\n" }
//! query = a string as JSON writes it
//! ```

use crate::oracle::Oracle;
use narthex_promql::parse;
use narthex_testkit::{rng::SplitMix64, scaled};
use std::{env, fmt::Write as _, fs};

/// Valid queries, which changes make invalid.
const VALID: [&str; 52] = [
    "up",
    "up{job=\"a\"}",
    "{__name__=~\"a|b\", x!=\"y\"}",
    "{\"ä.b\", \"c d\"='x'}",
    "rate(http_requests_total{code!~\"5..\"}[5m])",
    "sum by (job, instance) (rate(x[1m]))",
    "sum(rate(x[1m])) without (le)",
    "topk(3, x)",
    "quantile by (a) (0.9, x)",
    "count_values(\"v\", x)",
    "a + on (x) group_left (y) b",
    "a / ignoring (x, y) group_right () b",
    "a * fill_left (1) fill_right (-2) b",
    "a - on (x) fill (0) b",
    "a and b or c unless d",
    "a == bool 1",
    "a > bool on (x) b",
    "-a ^ 2 * b % 3 atan2 c",
    "x offset 5m",
    "x offset -1h @ 30",
    "x @ start() offset 1w",
    "x @ end()",
    "x[5m] offset 1m",
    "x[5m:1m]",
    "x[5m:] @ 1.5",
    "max_over_time((a + b)[1h:5m] offset 1d)",
    "x[1h30m]",
    "x[5m] anchored",
    "x smoothed",
    "rate(x[5m] smoothed)",
    "x[step() * 2 + 1m]",
    "x[max_of(1m, range()):min_of(step(), 5s)]",
    "x offset (5m + step())",
    "histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))",
    "label_replace(x, \"a\", \"$1\", \"b\", \"(.*)\")",
    "label_join(x, \"a\", \"-\", \"b\", \"c\")",
    "clamp(x, 0, 1)",
    "round(x, 0.5)",
    "vector(time())",
    "scalar(x) + 1",
    "absent(x{a=\"b\"})",
    "day_of_week(timestamp(x))",
    "\"text\"",
    "1 + 0x1f - .5e3 * Inf / NaN",
    "1h + 30s",
    "info(x, {version=~\".+\"})",
    "limitk(2, x)",
    "limit_ratio(-0.5, x)",
    "h </ 5 >/ 1",
    "predict_linear(x[1h], 3600)",
    "sum(x) # comment\n + 1",
    "start + offset(x)",
];

/// What a change may put into a query.
const WORDS: [&str; 80] = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "==",
    "!=",
    "=~",
    "!~",
    "!",
    "~",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "@",
    "&",
    "|",
    "\\",
    "#",
    "\"",
    "'",
    "`",
    "\"a\"",
    "'\\q'",
    "\"\\xff\"",
    "5",
    "0.5",
    "1e",
    "0x",
    "5m",
    "1y2w",
    "2m1h",
    "5mm",
    "Inf",
    "NaN",
    "up",
    "job",
    "__name__",
    "a:b",
    "é",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "and",
    "or",
    "unless",
    "atan2",
    "sum",
    "topk",
    "count_values",
    "rate",
    "time",
    "absent",
    "label_replace",
    "histogram_quantile",
    "nosuch",
    "start",
    "end",
    "step",
    "range",
    "min_of",
    "max_of",
    "anchored",
    "smoothed",
    "fill",
    "fill_left",
];

/// Mistakes that people make, and those that have a message of their own.
const MISTAKES: [&str; 60] = [
    "",
    "   ",
    "# only a comment",
    "sum(",
    "sum)",
    "sum by job (x)",
    "sum(x) by",
    "rate(x)",
    "rate(sum(x)[5m])",
    "rate(x[5m], 1)",
    "rate(rate(x[5m]))",
    "x[5m",
    "x[]",
    "x[:]",
    "x[5m:1m",
    "x[0s]",
    "x[-1m]",
    "x[5]m",
    "x[5m][1m]",
    "(a + b)[5m]",
    "sum(x)[5m]",
    "x[5m] offset",
    "x offset x",
    "x offset 1m offset 2m",
    "x @ 1 @ 2",
    "x @ a",
    "x @ Inf",
    "1 offset 5m",
    "sum(x) offset 5m",
    "{}",
    "{x=\"\"}",
    "{x=~\".*\"}",
    "x{a=b}",
    "x{a=\"b\"",
    "x{a=~\"(\"}",
    "x{__name__=\"y\"}",
    "x{a\"b\"}",
    "x{,}",
    "x{a=\"b\",,}",
    "\"unterminated",
    "'a\\z'",
    "1 == 2",
    "1 and 2",
    "x and 1",
    "x + bool y",
    "x == bool \"a\"",
    "a + on (x) group_left (x) b",
    "a and on (x) group_left () b",
    "a and fill (1) b",
    "a + group_left b",
    "-\"a\"",
    "-x[5m]",
    "topk(x)",
    "topk(\"a\", x)",
    "count_values(1, x)",
    "quantile(0.5)",
    "nosuch(x)",
    "foo bar",
    "rate",
    "x{a=\"b\"} {c=\"d\"}",
];

/// Splits a query into words, signs and blanks.
fn words(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        let end = if in_word(first) {
            rest.find(|c| !in_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, behind) = rest.split_at(end);
        all.push(word);
        rest = behind;
    }
    all
}

/// Returns a query with one to three changes.
fn changed(rng: &mut SplitMix64) -> String {
    let query: &&str = rng.pick(&VALID);
    let mut all = words(query);
    for _ in 0..=rng.below(3) {
        let at = rng.index(all.len().max(1));
        match rng.below(6) {
            0 => all.insert(at, *rng.pick(&WORDS)),
            1 if at < all.len() => all[at] = *rng.pick(&WORDS),
            2 if at < all.len() => {
                all.remove(at);
            }
            3 if at < all.len() => {
                let other = rng.index(all.len());
                all.swap(at, other);
            }
            4 if at < all.len() => all.insert(at, all[at]),
            _ => all.truncate(at.max(1)),
        }
    }
    all.concat()
}

/// What is said of a query: how it prints, or its error.
fn ours(query: &str) -> Result<String, String> {
    parse(query)
        .map(|expr| expr.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn recorded_errors_are_ours() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parser_errors.txt");
    if env::var_os("NARTHEX_UPDATE").is_some() {
        fs::write(path, record()).unwrap();
    }
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    for pair in lines.chunks(2) {
        let query: String = serde_json::from_str(pair[0]).unwrap();
        let expected = pair[1].strip_prefix("  ").unwrap();
        ran += 1;
        match ours(&query) {
            Err(error) if error == expected => {}
            other => wrong.push(format!("{query}\n  {other:?}, not\n  {expected}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {ran}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(ran > 400, "only {ran} queries");
}

/// Asks Prometheus' parser about all mistakes and some hundred changed queries.
fn record() -> String {
    let (mut oracle, mut rng) = (Oracle::start(), SplitMix64::new(0x0070_6172));
    let changed = (0..600).map(|_| changed(&mut rng));
    let mut queries: Vec<String> = MISTAKES
        .map(str::to_owned)
        .into_iter()
        .chain(changed)
        .collect();
    let mut seen = std::collections::HashSet::new();
    queries.retain(|query| seen.insert(query.clone()));
    let mut text = String::new();
    for query in queries {
        if let Err(error) = oracle.parse(&query)
            && !is_excepted(&query)
        {
            writeln!(
                text,
                "{}\n  {error}",
                serde_json::to_string(&query).unwrap()
            )
            .unwrap();
        }
    }
    text
}

/// Differences that `docs/conformance.md` lists.
fn is_excepted(query: &str) -> bool {
    // Text that is not UTF-8 is an error where it stands; there it is found after other errors.
    query.contains("\\xff")
}

#[test]
fn changed_queries_are_parsed_as_by_prometheus() {
    let (mut oracle, mut rng) = (Oracle::start(), SplitMix64::new(0x6572_726f));
    let (mut wrong, mut errors, cases) = (Vec::new(), 0, scaled(4_000));
    for _ in 0..cases {
        let query = changed(&mut rng);
        let (theirs, ours) = (oracle.parse(&query), ours(&query));
        errors += u64::from(theirs.is_err());
        if ours != theirs && !is_excepted(&query) {
            wrong.push(format!("{query}\n  {ours:?}, not\n  {theirs:?}"));
        }
    }
    let shown = wrong
        .iter()
        .take(60)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} of {cases} differ:\n{shown}",
        wrong.len()
    );
    assert!(
        errors * 2 > cases && errors < cases,
        "{errors} of {cases} are errors"
    );
}
