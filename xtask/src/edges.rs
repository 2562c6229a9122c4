//! Allowed dependencies between crates: the table in ARCHITECTURE.md, and what is no matter of single edges.
//!
//! Invariant: the table is a DAG, checked by a test, so that "promql never sees tsdb" cannot be undone in passing.

/// The file with the table.
pub(crate) const FILE: &str = "ARCHITECTURE.md";

/// Edges that only tests and benches may have: they check how two crates work together.
const TESTS_ONLY: &[(&str, &str)] = &[
    ("remote", "tsdb"),
    ("rules", "tsdb"),
    ("segment", "expfmt"),
    ("tsdb", "promql"),
    ("bench", "model"),
];

/// The crate that instruments everything, itself included.
const EVERYWHERE: &str = "client";
/// The crate that only tests may use.
const DEV_ONLY: &str = "testkit";
/// Crates that are not part of the product: their dependencies do not count against its budget.
pub(crate) const NOT_PRODUCT: &[&str] = &["bench", "client-http", FUZZ, "testkit", "xtask"];
/// The crate that runs the fuzz functions of all others. Its manifest is generated.
const FUZZ: &str = "fuzz";
/// Maximum third-party crates that the product may name directly.
pub(crate) const DIRECT_BUDGET: usize = 47;

/// Heavy or risky dependencies, the crates that may name them (tests and benches of others may too), and why.
const ONLY: &[(&str, &str, &str)] = &[
    ("hyper", "net", "HTTP lives in net"),
    ("hyper-util", "net", "HTTP lives in net"),
    ("rustls", "net", "TLS lives in net"),
    (
        "axum",
        "net api scrape ui narthex",
        "only crates that mount handlers",
    ),
    (
        "tokio",
        "net api discovery scrape files push notify remote rules narthex bench",
        "storage, queries and formats have no async and no network",
    ),
    (
        "serde-saphyr",
        "net discovery bench",
        "only crates with YAML documents of their own, each behind one function",
    ),
    (
        "granit-parser",
        "yaml",
        "trees with places are built in one crate",
    ),
];

/// Returns a crate's name as the tables have it.
pub(crate) fn short(package: &str) -> &str {
    package.strip_prefix("narthex-").unwrap_or(package)
}

/// The crates of the workspace, and those of them that each may name in `[dependencies]`.
pub(crate) struct Edges<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> Edges<'a> {
    /// Reads the table between the two marks of ARCHITECTURE.md.
    pub(crate) fn read(architecture: &'a str) -> Self {
        let below = architecture.split("<!-- edges -->").nth(1);
        let table = below.and_then(|below| below.split("<!-- /edges -->").next());
        let rows = table.unwrap_or_default().lines().filter_map(|line| {
            let mut names = line.split('`').skip(1).step_by(2);
            Some((names.next()?, names.collect()))
        });
        Self(rows.collect())
    }

    /// Returns whether a package is one of the workspace's.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.allowed(package).is_some()
    }

    fn allowed(&self, package: &str) -> Option<&[&'a str]> {
        let own = package.starts_with("narthex") || package == "xtask";
        let mut rows = self.0.iter().filter(|_| own);
        let row = rows.find(|(name, _)| *name == short(package))?;
        Some(&row.1)
    }

    /// Returns what is wrong with one dependency, if anything.
    pub(crate) fn objection(&self, package: &str, dependency: &str, dev: bool) -> Option<String> {
        let (from, to) = (short(package), short(dependency));
        if from == FUZZ {
            return None;
        }
        let Some(allowed) = self.allowed(package) else {
            return Some(format!("crate {package} is not in the table of {FILE}"));
        };
        if !self.has(dependency) {
            let rule = ONLY.iter().find(|(name, ..)| *name == dependency);
            let (_, crates, why) = rule.filter(|_| !dev)?;
            let is_named = crates.split(' ').any(|name| name == from);
            return (!is_named).then(|| format!("{package} must not name {dependency}: {why}"));
        }
        if allowed.contains(&to) || to == EVERYWHERE || dev && TESTS_ONLY.contains(&(from, to)) {
            return None;
        }
        match to == DEV_ONLY {
            true if dev => None,
            true => Some(format!("{dependency} belongs into [dev-dependencies]")),
            false => Some(format!(
                "{package} must not depend on {dependency} ({FILE})"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCHITECTURE: &str = include_str!("../../ARCHITECTURE.md");

    #[test]
    fn the_table_is_a_dag() {
        let Edges(table) = Edges::read(ARCHITECTURE);
        assert!(table.len() > 20);
        // Each crate's dependencies precede it, so a cycle cannot be expressed.
        for (i, (name, allowed)) in table.iter().enumerate() {
            for dependency in allowed {
                let at = table.iter().position(|(n, _)| n == dependency);
                assert!(at.is_some_and(|at| at < i), "{name} -> {dependency}");
            }
        }
    }

    #[test]
    fn edges_are_judged() {
        let edges = Edges::read(ARCHITECTURE);
        let objection = |from, to, dev| edges.objection(from, to, dev);
        assert_eq!(objection("narthex-tsdb", "narthex-chunks", false), None);
        assert_eq!(objection("narthex-tsdb", "narthex-client", false), None);
        assert_eq!(objection("narthex-tsdb", "roaring", false), None);
        assert_eq!(objection("narthex-promql", "narthex-testkit", true), None);
        assert_eq!(objection("narthex-remote", "narthex-tsdb", true), None);
        assert_eq!(objection("narthex-net", "tokio", false), None);
        assert_eq!(objection("xtask", "narthex-testkit", false), None);
        for (from, to, dev) in [
            ("narthex-promql", "narthex-tsdb", false),
            ("narthex-promql", "narthex-tsdb", true),
            ("narthex-remote", "narthex-tsdb", false),
            ("narthex-promql", "tokio", false),
            ("narthex-model", "narthex-testkit", false),
            ("narthex-unheard-of", "memchr", false),
        ] {
            assert!(objection(from, to, dev).is_some(), "{from} -> {to}");
        }
    }
}
