//! Kinds of server: what to start, how to configure it, where to reach it and when it is ready.
//!
//! Each scenario has built-in kinds; a scenario file may declare others. Arguments, configuration and URL may contain
//! these placeholders: `{config}` (the configuration's file), `{data}` (the data directory), `{dir}` (the parent of
//! both), `{listen}` (address and port), `{port}`, and in the configuration those that the scenario defines, such as
//! `{scrape}`.

use serde::Deserialize;

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

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_owned)
}

impl ServerKind {
    /// Returns a built-in kind; arguments are separated by spaces.
    pub(crate) fn built_in(name: &str, program: &str, arguments: &str, ready: &str) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            package: program.to_owned(),
            arguments: words(arguments).collect(),
            ready: ready.to_owned(),
            ..Self::default()
        }
    }

    /// Returns a command of ours.
    pub(crate) fn narthex(command: &str, arguments: &str, ready: &str) -> Self {
        let kind = Self::built_in(NARTHEX, NARTHEX, command, ready).with_arguments(arguments);
        Self {
            package: String::new(),
            version: vec![command.to_owned(), "--version".to_owned()],
            ..kind
        }
    }

    /// Returns our server and Prometheus, which accept the same arguments.
    pub(crate) fn prometheus_alike() -> [Self; 2] {
        const ARGUMENTS: &str = "--config.file={config} --storage.tsdb.path={data} \
                                 --web.listen-address={listen} --log.level=warn";
        [
            Self::narthex("server", ARGUMENTS, "/-/ready"),
            Self::built_in(PROMETHEUS, PROMETHEUS, ARGUMENTS, "/-/ready"),
        ]
    }

    /// Whether it writes segments, which a server of ours can read.
    pub(crate) fn has_segments(&self) -> bool {
        self.config.contains("{segments}")
    }

    /// Returns VictoriaMetrics, whose answers by default lag half a minute behind its stored data.
    pub(crate) fn victoria_metrics() -> Self {
        let arguments = "-storageDataPath={data} -httpListenAddr={listen} -loggerLevel=WARN \
                         -search.latencyOffset=0s";
        let kind = Self::built_in(VICTORIA_METRICS, VICTORIA_METRICS, arguments, "/health");
        Self {
            version: vec!["-version".to_owned()],
            ..kind
        }
    }

    /// Adds arguments separated by spaces.
    pub(crate) fn with_arguments(mut self, arguments: &str) -> Self {
        self.arguments.extend(words(arguments));
        self
    }

    /// Sets the configuration.
    pub(crate) fn with_config(mut self, config: &str) -> Self {
        config.clone_into(&mut self.config);
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
