//! Guides: every flag or metric they name exists, every default they give is the flag's, and the one on security has
//! every limit.
//!
//! Invariant: the reference is not written by hand: the page of flags is generated from the flags' table.

use super::{Finding, Tree};

const GUIDES: &str = "docs/guides/";
const FLAGS: &str = "docs/cli.md";
/// The guide that lists limits, and what names of flags that set one contain.
const SECURITY: &str = "docs/guides/security.md";
const LIMITS: [&str; 8] = [
    ".max-",
    ".min-",
    "limit",
    "timeout",
    "retention",
    "too-far-",
    "-rate",
    "-size",
];
/// Headings of commands that serve others, without what begins them.
const SERVERS: [&str; 2] = ["narthex server`", "narthex pushgateway`"];
/// Prefixes of our metrics' names.
const METRICS: [&str; 2] = ["narthex_", "prometheus_"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let flags = tree.text(FLAGS).unwrap_or_default();
    let flags: Vec<(&str, &str)> = flags.lines().filter_map(flag_and_default).collect();
    let mut findings = unlisted(tree);
    let guides = tree.with_suffix(".md");
    for (path, text) in guides.filter(|(path, _)| path.starts_with(GUIDES)) {
        for (i, line) in text.lines().enumerate() {
            let mut find = |text: String| findings.push(Finding::new(path, i + 1, text));
            for span in line.split('`').skip(1).step_by(2) {
                if let Some(unknown) = unknown_flag(&flags, span) {
                    find(format!("no such flag: {unknown}"));
                }
                if METRICS.iter().any(|begin| span.starts_with(begin)) && !is_metric(tree, span) {
                    find(format!("no such metric: {span}"));
                }
            }
            if let Some((flag, given)) = row(line) {
                let known = flags.iter().find(|(name, _)| *name == flag);
                if let Some((_, default)) = known.filter(|(_, default)| *default != given) {
                    find(format!("{flag} has the default {default:?}, not {given:?}"));
                }
            }
        }
    }
    findings
}

/// Finds limits that the guide on security does not list.
fn unlisted(tree: &Tree) -> Vec<Finding> {
    let Some(guide) = tree.text(SECURITY) else {
        return Vec::new();
    };
    let sections = tree.text(FLAGS).unwrap_or_default().split("\n## `");
    let servers = sections.filter(|section| SERVERS.iter().any(|name| section.starts_with(name)));
    let is_set = |line: &&str| {
        let without = ["Accepted without effect", "Refused", "Deprecated name"];
        !without
            .iter()
            .any(|text| line.contains(&format!("| {text}")))
    };
    let rows = servers.flat_map(str::lines).filter(is_set);
    let flags = rows.filter_map(flag_and_default).map(|(flag, _)| flag);
    let limits = flags.filter(|flag| LIMITS.iter().any(|part| flag.contains(part)));
    let missing = limits.filter(|flag| !guide.contains(&format!("| `{flag}` |")));
    missing
        .map(|flag| Finding::of_file(SECURITY, format!("the limit {flag} is not listed")))
        .collect()
}

/// Parses a row of the page of flags: its flag and its default.
fn flag_and_default(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let flag = cells.next()?.trim_matches('`');
    let default = cells.nth(1)?.trim_matches('`');
    flag.starts_with("--").then_some((flag, default))
}

/// Parses a row of a guide that begins with a flag and its default; `none` means no default.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let flag = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let default = cells.next()?.trim_matches('`');
    let default = if default == "none" { "" } else { default };
    flag.starts_with("--").then_some((flag, default))
}

fn unknown_flag<'a>(flags: &[(&str, &str)], span: &'a str) -> Option<&'a str> {
    let flag = span.split([' ', '=']).next()?;
    let named = flag.starts_with("--") && flag.len() > 2;
    let switch = flag.strip_prefix("--no-");
    let is_known = flags.iter().any(|(name, default)| {
        let is_negated = switch.is_some() && name.strip_prefix("--") == switch;
        *name == flag || is_negated && matches!(*default, "true" | "false")
    });
    (named && !is_known).then_some(flag)
}

fn is_metric(tree: &Tree, span: &str) -> bool {
    let name = span.split('{').next().unwrap_or(span);
    let quoted = format!("\"{name}\"");
    let mut sources = tree.with_suffix(".rs");
    sources.any(|(path, source)| path.starts_with("crates/") && source.contains(&quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_defaults_and_metrics_of_a_guide_exist() {
        let texts = |guide: &str| {
            let files = [
                ("docs/guides/a.md", guide),
                (
                    FLAGS,
                    "| flag | value | default | meaning |\n| `--a.b` | size | `1MB` | X. |\n| `--c` | text |  | Y. |\n| `--s` | switch | `true` | S. |\n",
                ),
                (
                    "crates/a/src/lib.rs",
                    "const NAME: &str = \"narthex_x_total\";",
                ),
            ];
            let files = files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
            let tree = Tree {
                files: files.collect(),
            };
            check(&tree).into_iter().map(|f| f.text).collect::<Vec<_>>()
        };
        let good =
            "| `--a.b` | `1MB` | x |\n| `--c` | none | `narthex_x_total{task}` |\n`--a.b=2MB`\n";
        assert_eq!(texts(good), Vec::<String>::new());
        assert_eq!(texts("use `--d=1`"), ["no such flag: --d"]);
        assert_eq!(texts("`--no-s` negates"), Vec::<String>::new());
        assert_eq!(texts("`--no-c`"), ["no such flag: --no-c"], "no switch");
        assert_eq!(texts("`narthex_y`"), ["no such metric: narthex_y"]);
        assert_eq!(
            texts("| `--a.b` | `2MB` | x |"),
            ["--a.b has the default \"1MB\", not \"2MB\""]
        );
    }
    #[test]
    fn the_guide_on_security_lists_every_limit_of_a_server() {
        let texts = |guide: &str| {
            let flags = "# Command line\n\n## `narthex server`\n\n| `--a.max-b` | size | `1MB` | X. |\n\
                | `--a.max-c` | size |  | Accepted without effect: Y. |\n| `--d` | text |  | Z. |\n\n\
                ## `narthex server-like`\n\n| `--e.timeout` | text |  | Z. |\n";
            let files = [(SECURITY, guide), (FLAGS, flags)];
            let files = files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
            let tree = Tree {
                files: files.collect(),
            };
            check(&tree).into_iter().map(|f| f.text).collect::<Vec<_>>()
        };
        assert_eq!(texts("| `--a.max-b` | `1MB` | x |\n"), Vec::<String>::new());
        let missing = ["the limit --a.max-b is not listed"];
        assert_eq!(texts("`--a.max-b` bounds something"), missing);
    }
}
