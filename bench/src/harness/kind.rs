//! Kinds of server: what to start, how to configure it, where to reach it and when it is ready.
//!
//! Each scenario has built-in kinds; a scenario file may declare others. Arguments, configuration and URL may contain
//! these placeholders: `{config}` (the configuration's file), `{data}` (the data directory), `{dir}` (the parent of
//! both), `{listen}` (address and port), `{port}`, and in the configuration those that the scenario defines, such as
//! `{scrape}`.

use super::yaml;
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;

/// Reads a list whose items may be lists.
fn flat<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Item {
        One(String),
        More(Vec<Item>),
    }
    fn flatten(items: Vec<Item>) -> Vec<String> {
        let flat = |item| match item {
            Item::One(text) => vec![text],
            Item::More(items) => flatten(items),
        };
        items.into_iter().flat_map(flat).collect()
    }
    Vec::deserialize(from).map(flatten)
}

/// Names of kinds that several scenarios use.
pub(crate) const NARTHEX: &str = "narthex";
pub(crate) const PROMETHEUS: &str = "prometheus";
pub(crate) const VICTORIA_METRICS: &str = "victoria-metrics";

/// A kind, built in or declared by a scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerKind {
    pub(crate) name: String,
    /// Searched beside this program and on PATH; empty if it has the kind's name.
    program: String,
    /// The Debian package to install; empty for programs that come with this one.
    pub(crate) package: String,
    #[serde(deserialize_with = "flat")]
    pub(crate) arguments: Vec<String>,
    /// Arguments that print its version.
    pub(crate) version: Vec<String>,
    /// Contents of the configuration's file; empty for none.
    pub(crate) config: String,
    /// The base URL, without a trailing slash.
    pub(crate) url: String,
    /// The path that answers 200 once it is ready.
    pub(crate) ready: String,
}

impl Default for ServerKind {
    fn default() -> Self {
        Self {
            name: String::new(),
            program: String::new(),
            package: String::new(),
            arguments: Vec::new(),
            version: vec!["--version".to_owned()],
            config: String::new(),
            url: "http://{listen}".to_owned(),
            ready: String::new(),
        }
    }
}

impl ServerKind {
    /// Returns the kinds that a scenario has built in, ours first.
    pub(crate) fn built_in(scenario: &str) -> Vec<Self> {
        const FILE: &str = "bench/scenarios/servers.yml";
        let text = include_str!("../../scenarios/servers.yml");
        let kinds: Result<HashMap<String, Vec<Self>>, _> = yaml::parse(text, FILE);
        kinds.expect(FILE).remove(scenario).unwrap_or_default()
    }

    /// Whether it writes segments, which a server of ours can read.
    pub(crate) fn has_segments(&self) -> bool {
        self.config.contains("{segments}")
    }

    /// Adds arguments separated by spaces.
    pub(crate) fn with_arguments(mut self, arguments: &str) -> Self {
        let words = arguments.split_whitespace().map(str::to_owned);
        self.arguments.extend(words);
        self
    }

    /// Returns the name or the path of its program.
    pub(crate) fn program(&self) -> &str {
        match self.program.as_str() {
            "" => &self.name,
            program => program,
        }
    }

    /// Checks a declared kind.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        const HERE: [&str; 3] = [
            "http://{listen}",
            "http://127.0.0.1:{port}",
            "http://localhost:{port}",
        ];
        let rest = HERE.iter().find_map(|start| self.url.strip_prefix(start));
        if self.name.is_empty() || self.name.contains(['=', '@', '/']) {
            return Err("a server needs a `name` without =, @ and /");
        }
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Err(
                "a server's `url` begins with http://{listen}: only this machine is measured",
            );
        }
        if !self.ready.starts_with('/') {
            return Err("a server needs `ready`: a path that answers 200 when it is");
        }
        Ok(())
    }
}
