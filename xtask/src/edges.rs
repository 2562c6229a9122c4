//! Allowed dependencies between crates, as data. ARCHITECTURE.md shows the same table and tidy compares the two.
//!
//! Invariant: the table is a DAG, checked by a test, so that "promql never sees tsdb" cannot be undone in passing.

/// A crate of the workspace and the workspace crates it may name in `[dependencies]`.
///
/// Every crate may also use `narthex-client`, and `narthex-testkit` in `[dev-dependencies]`.
pub(crate) const ALLOWED: &[(&str, &[&str])] = &[
    ("narthex-model", &[]),
    ("narthex-client-derive", &[]),
    ("narthex-client", &["narthex-client-derive"]),
    ("narthex-client-http", &[]),
    ("narthex-net", &[]),
    ("narthex-profile", &["narthex-model"]),
    ("narthex-ui", &[]),
    ("narthex-allocator", &[]),
    ("narthex-yaml", &[]),
    ("narthex-cli", &["narthex-model"]),
    ("narthex-expfmt", &["narthex-model"]),
    ("narthex-chunks", &["narthex-model"]),
    ("narthex-promql", &["narthex-model"]),
    ("narthex-tsdb", &["narthex-model", "narthex-chunks"]),
    ("narthex-segment", &["narthex-model"]),
    ("narthex-discovery", &["narthex-net"]),
    (
        "narthex-host",
        &[
            "narthex-cli",
            "narthex-model",
            "narthex-expfmt",
            "narthex-net",
        ],
    ),
    (
        "narthex-scrape",
        &[
            "narthex-model",
            "narthex-expfmt",
            "narthex-net",
            "narthex-discovery",
        ],
    ),
    (
        "narthex-api",
        &[
            "narthex-model",
            "narthex-promql",
            "narthex-expfmt",
            "narthex-net",
            "narthex-profile",
        ],
    ),
    (
        "narthex-files",
        &["narthex-model", "narthex-expfmt", "narthex-net"],
    ),
    (
        "narthex-push",
        &["narthex-model", "narthex-expfmt", "narthex-net"],
    ),
    (
        "narthex-remote",
        &["narthex-model", "narthex-chunks", "narthex-net"],
    ),
    (
        "narthex-rules",
        &[
            "narthex-model",
            "narthex-promql",
            "narthex-net",
            "narthex-yaml",
        ],
    ),
    (
        "narthex-notify",
        &[
            "narthex-model",
            "narthex-net",
            "narthex-discovery",
            "narthex-rules",
        ],
    ),
    (
        "narthex",
        &[
            "narthex-allocator",
            "narthex-cli",
            "narthex-model",
            "narthex-expfmt",
            "narthex-chunks",
            "narthex-tsdb",
            "narthex-promql",
            "narthex-net",
            "narthex-discovery",
            "narthex-host",
            "narthex-files",
            "narthex-scrape",
            "narthex-api",
            "narthex-push",
            "narthex-remote",
            "narthex-rules",
            "narthex-notify",
            "narthex-segment",
            "narthex-ui",
            "narthex-yaml",
        ],
    ),
    ("narthex-testkit", &[]),
    (
        "narthex-bench",
        &[
            "narthex-cli",
            "narthex-net",
            "narthex-expfmt",
            "narthex-testkit",
        ],
    ),
    ("xtask", &["narthex-testkit"]),
];

/// Edges that only tests and benches may have: they check how two crates work together.
const TESTS_ONLY: &[(&str, &str)] = &[
    ("narthex-remote", "narthex-tsdb"),
    ("narthex-rules", "narthex-tsdb"),
    ("narthex-segment", "narthex-expfmt"),
    ("narthex-tsdb", "narthex-promql"),
    ("narthex-bench", "narthex-model"),
];

/// The crate that instruments everything, itself included.
pub(crate) const EVERYWHERE: &str = "narthex-client";
/// The crate that only tests may use.
pub(crate) const DEV_ONLY: &str = "narthex-testkit";
/// Crates that are not part of the product: their dependencies do not count against its budget.
pub(crate) const NOT_PRODUCT: &[&str] = &[
    "narthex-bench",
    "narthex-client-http",
    FUZZ,
    "narthex-testkit",
    "xtask",
];
/// The crate that runs the fuzz functions of all others. Its manifest is generated.
const FUZZ: &str = "narthex-fuzz";
/// Maximum third-party crates that the product may name directly.
pub(crate) const DIRECT_BUDGET: usize = 47;

/// A third-party dependency that only some crates may name, and why.
pub(crate) struct Only {
    pub(crate) name: &'static str,
    pub(crate) crates: &'static [&'static str],
    pub(crate) why: &'static str,
}

/// Heavy or risky dependencies and the crates that may name them (tests and benches of others may too).
pub(crate) const ONLY: &[Only] = &[
    Only {
        name: "hyper",
        crates: &["narthex-net"],
        why: "HTTP lives in net",
    },
    Only {
        name: "hyper-util",
        crates: &["narthex-net"],
        why: "HTTP lives in net",
    },
    Only {
        name: "rustls",
        crates: &["narthex-net"],
        why: "TLS lives in net",
    },
    Only {
        name: "axum",
        crates: &[
            "narthex-net",
            "narthex-api",
            "narthex-scrape",
            "narthex-ui",
            "narthex",
        ],
        why: "only crates that mount handlers",
    },
    Only {
        name: "tokio",
        crates: &[
            "narthex-net",
            "narthex-api",
            "narthex-discovery",
            "narthex-scrape",
            "narthex-files",
            "narthex-push",
            "narthex-notify",
            "narthex-remote",
            "narthex-rules",
            "narthex",
            "narthex-bench",
        ],
        why: "storage, queries and formats have no async and no network",
    },
    Only {
        name: "clap",
        crates: &["narthex", "narthex-bench"],
        why: "argv is read in the binaries only",
    },
    Only {
        name: "serde-saphyr",
        crates: &["narthex-net", "narthex-discovery", "narthex-bench"],
        why: "only crates with YAML documents of their own, each behind one function",
    },
    Only {
        name: "granit-parser",
        crates: &["narthex-yaml"],
        why: "trees with places are built in one crate",
    },
];

/// Renders the table as ARCHITECTURE.md holds it.
pub(crate) fn table() -> String {
    let mut out = String::from("| crate | may depend on |\n|---|---|\n");
    for (name, allowed) in ALLOWED {
        let short = |name: &str| format!("`{}`", name.strip_prefix("narthex-").unwrap_or(name));
        let list = if allowed.is_empty() {
            "nothing of ours".to_owned()
        } else {
            allowed
                .iter()
                .map(|n| short(n))
                .collect::<Vec<_>>()
                .join(", ")
        };
        out.push_str(&format!("| {} | {list} |\n", short(name)));
    }
    out
}

/// Returns what is wrong with one dependency, if anything.
pub(crate) fn objection(from: &str, to: &str, dev: bool) -> Option<String> {
    if from == FUZZ {
        return None;
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == from) else {
        return Some(format!(
            "crate {from} is not in the table of edges (xtask/src/edges.rs)"
        ));
    };
    let ours = ALLOWED.iter().any(|(name, _)| *name == to);
    if to == DEV_ONLY && !dev && !allowed.contains(&to) {
        return Some(format!("{DEV_ONLY} belongs into [dev-dependencies]"));
    }
    if dev && TESTS_ONLY.contains(&(from, to)) {
        return None;
    }
    if ours && to != EVERYWHERE && to != DEV_ONLY && !allowed.contains(&to) {
        return Some(format!(
            "{from} must not depend on {to} (xtask/src/edges.rs)"
        ));
    }
    if !ours
        && !dev
        && let Some(rule) = ONLY.iter().find(|rule| rule.name == to)
        && !rule.crates.contains(&from)
    {
        return Some(format!("{from} must not name {to}: {}", rule.why));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_a_dag() {
        // Each crate's dependencies precede it, so a cycle cannot be expressed.
        for (i, (name, allowed)) in ALLOWED.iter().enumerate() {
            for dependency in *allowed {
                let at = ALLOWED.iter().position(|(n, _)| n == dependency);
                assert!(at.is_some_and(|at| at < i), "{name} -> {dependency}");
            }
        }
    }

    #[test]
    fn edges_are_judged() {
        assert_eq!(objection("narthex-tsdb", "narthex-chunks", false), None);
        assert_eq!(objection("narthex-tsdb", "narthex-client", false), None);
        assert_eq!(objection("narthex-tsdb", "roaring", false), None);
        assert_eq!(objection("narthex-promql", "narthex-testkit", true), None);
        assert_eq!(objection("narthex-remote", "narthex-tsdb", true), None);
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
