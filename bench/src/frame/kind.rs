//! Kinds of server: what to start, how to configure it, where to reach it and how to tell that it is ready.
//!
//! Presets are a scenario's static table; a scenario file may declare others. In arguments, configuration and URL
//! these places are filled: `{config}` (the configuration's file), `{data}` (the data directory), `{dir}` (the one
//! around both), `{listen}` (address and port), `{port}`, and in the configuration whatever the scenario defines,
//! such as `{scrape}`.

use serde::Deserialize;

/// A kind that is built in.
#[derive(Debug)]
pub(crate) struct Preset {
    /// What `--server` calls it.
    pub(crate) name: &'static str,
    /// The program looked for beside this one and on PATH.
    pub(crate) program: &'static str,
    /// The Debian package to install; empty for what comes with this program.
    pub(crate) package: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// What a scenario adds to the arguments.
    pub(crate) more: &'static [&'static str],
    /// The arguments that make it say its version.
    pub(crate) version: &'static [&'static str],
    /// The configuration's file; nothing is written when it is empty.
    pub(crate) config: &'static str,
    /// The path that answers 200 when it is ready.
    pub(crate) ready: &'static str,
}

/// Servers that several scenarios know; a scenario adds a configuration, and arguments where it needs them.
impl Preset {
    pub(crate) const NARTHEX: Self = Self {
        name: "narthex",
        program: "narthex",
        package: "",
        arguments: &[
            "server",
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        more: &[],
        version: &["server", "--version"],
        config: "",
        ready: "/-/ready",
    };

    pub(crate) const PROMETHEUS: Self = Self {
        name: "prometheus",
        program: "prometheus",
        package: "prometheus",
        arguments: &[
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        more: &[],
        version: &["--version"],
        config: "",
        ready: "/-/ready",
    };

    /// Its answers lag half a minute behind what it stored unless told otherwise.
    pub(crate) const VICTORIA_METRICS: Self = Self {
        name: "victoria-metrics",
        program: "victoria-metrics",
        package: "victoria-metrics",
        arguments: &[
            "-storageDataPath={data}",
            "-httpListenAddr={listen}",
            "-loggerLevel=WARN",
            "-search.latencyOffset=0s",
        ],
        more: &[],
        version: &["-version"],
        config: "",
        ready: "/health",
    };
}

/// A kind, built in or declared by a scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerKind {
    pub(crate) name: String,
    /// Empty where it is called as the kind.
    program: String,
    pub(crate) package: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) version: Vec<String>,
    pub(crate) config: String,
    /// The base URL, without a slash behind it.
    pub(crate) url: String,
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

impl From<&Preset> for ServerKind {
    fn from(preset: &Preset) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            name: preset.name.to_owned(),
            program: preset.program.to_owned(),
            package: preset.package.to_owned(),
            arguments: [owned(preset.arguments), owned(preset.more)].concat(),
            version: owned(preset.version),
            config: preset.config.to_owned(),
            ready: preset.ready.to_owned(),
            ..Self::default()
        }
    }
}

impl ServerKind {
    /// Returns the name or the path of its program.
    pub(crate) fn program(&self) -> &str {
        match self.program.as_str() {
            "" => &self.name,
            program => program,
        }
    }

    /// Says what is wrong with a declared kind.
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
