//! `prometheus.yml`.
//!
//! A text becomes a tree with positions (`narthex_yaml`), is compared with the tables of keys (`keys`, `check`), completed with
//! defaults (`fill`), validated (`job`, `other`) and printed as it is in effect (`print`).
//!
//! **Invariant:** a file is accepted or rejected as a whole, with the position of the first error. A key that
//! Prometheus knows and this version does not support is rejected by name, never silently ignored.

mod access;
mod alerting;
mod check;
mod cloud;
mod discovery;
mod error;
mod expand;
mod files;
mod fill;
mod host;
mod http;
mod job;
mod keys;
mod other;
mod print;
mod reference;
mod remote;
mod rules;

pub(crate) use access::show_period;
pub(crate) use error::ConfigError;
pub(crate) use host::Host;
pub(crate) use job::Job;
pub(crate) use reference::markdown;

use access::Access as _;
use check::Unsupported;
use keys::{FILE_ROOT, HTTP_FILE, SCRAPE_FILE};
use narthex_files::FilesConfig;
use narthex_model::{LabelSet, NameScheme};
use narthex_net::HttpClientConfig;
use narthex_notify::AlertingConfig;
use narthex_promql::ReadLimits;
use narthex_scrape::StartTimes;
use narthex_yaml::{Node, Value, Word};
use remote::RemoteWrite;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// A parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// Labels that identify this server to other systems.
    pub(crate) external_labels: LabelSet,
    /// Jobs to scrape, those from `scrape_config_files` included.
    pub(crate) jobs: Vec<Job>,
    /// Files of metrics to read.
    pub(crate) metric_files: Vec<FilesConfig>,
    /// How far a sample may be behind its series' newest one; `None` for no limit.
    pub(crate) out_of_order_window: Option<Duration>,
    /// Retention, if the file sets it.
    pub(crate) retention: Option<Retention>,
    /// Most exemplars held in memory.
    pub(crate) max_exemplars: Option<usize>,
    /// What queries may read, and how long they may take; zero means no limit.
    pub(crate) query_costs: (ReadLimits, Duration),
    /// Where queries are logged.
    pub(crate) query_log: Option<PathBuf>,
    /// Where alerts are sent.
    pub(crate) alerting: AlertingConfig,
    /// Where samples are sent.
    pub(crate) remote_write: RemoteWrite,
    /// Metrics of this host, if they are read.
    pub(crate) host: Option<Host>,
    /// Rules to evaluate.
    pub(crate) rules: RuleSettings,
    /// Segments to read.
    pub(crate) segments: Option<Segments>,
    /// The configuration in effect, as YAML without secrets.
    pub(crate) shown: String,
    /// A sentence for each key that is accepted but has no effect.
    pub(crate) warnings: Vec<String>,
    /// All files that were read.
    pub(crate) files: Vec<PathBuf>,
}

/// Limits of age and size of stored data; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Retention {
    pub(crate) time: Option<Duration>,
    pub(crate) bytes: Option<u64>,
}

/// A directory of segments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Segments {
    pub(crate) dir: PathBuf,
    pub(crate) interval: Duration,
    pub(crate) merge: bool,
    pub(crate) job_name: String,
    /// Most bytes in use of all segments.
    pub(crate) max_bytes: u64,
    /// And of those of one user.
    pub(crate) max_bytes_per_user: Option<u64>,
}

/// Files of rules, and how their groups are evaluated.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RuleSettings {
    /// Patterns of paths.
    pub(crate) patterns: Vec<String>,
    /// Files that match them, each once.
    pub(crate) files: Vec<PathBuf>,
    /// Interval of groups that name none.
    pub(crate) interval: Duration,
    /// Query offset of groups that name none.
    pub(crate) query_offset: Duration,
    pub(crate) scheme: NameScheme,
}

/// Returns the value of an environment variable.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the value of an environment variable unless it is empty.
fn named(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).filter(|value| !value.is_empty())
}

/// Features that change what a configuration means.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    /// Whether `extra_scrape_metrics` is on unless the file says otherwise.
    pub(crate) extra_scrape_metrics: bool,
    /// What becomes of start times; if anything does, protobuf, which has most of them, is the first format unless the file has a
    /// list.
    pub(crate) start_times: StartTimes,
    /// Whether series get labels with the type and unit of their family.
    pub(crate) type_and_unit_labels: bool,
    /// Whether targets may answer in zstd.
    pub(crate) zstd: bool,
    /// Whether the files of jobs that it names are left out.
    pub(crate) skips_job_files: bool,
}

impl Features {
    fn apply(self, global: &mut Node) {
        if self.extra_scrape_metrics && !global.is_written("extra_scrape_metrics") {
            global.set("extra_scrape_metrics", Node::text("true"));
        }
        if self.start_times.are_read() && global.given("scrape_protocols").is_none() {
            global.set("scrape_protocols", job::texts(&job::PROTO_FIRST));
        }
    }
}

impl Config {
    /// Reads a file and the files it names, for a process with these features.
    ///
    /// # Errors
    /// Fails when a file cannot be read, is not YAML, or has an unusable setting.
    pub(crate) fn load(
        path: &Path,
        environment: Environment<'_>,
        features: Features,
    ) -> Result<Self, ConfigError> {
        let mut config = read_file(path, |text, directory| {
            Self::parse(text, directory, environment, features)
        })?;
        config.files.insert(0, path.to_owned());
        config.files.extend(config.rules.files.iter().cloned());
        Ok(config)
    }

    /// Parses a file's text; its paths are relative to `directory`.
    ///
    /// # Errors
    /// As `load`, without the path.
    pub(crate) fn parse(
        text: &str,
        directory: &Path,
        environment: Environment<'_>,
        features: Features,
    ) -> Result<Self, ConfigError> {
        let mut root = narthex_yaml::read(text)?;
        check::shape(&root, &FILE_ROOT)?;
        Unsupported::collect_from(&root, &FILE_ROOT).refuse_unchecked()?;
        other::check_patterns(&root)?;
        let global_is_written = root.given("global").is_some();
        fill::fill(&mut root, &FILE_ROOT, directory);
        let mut global = root
            .get("global")
            .cloned()
            .unwrap_or(Node::new(Value::Null));
        let (scheme, warnings) = complete_global(&mut global, global_is_written, environment)?;
        features.apply(&mut global);
        root.set("global", global.clone());
        other::check(&root, scheme)?;
        let alerting = alerting::read(&mut root, scheme)?;
        let mut jobs = Jobs::default();
        for item in root.items_mut("scrape_configs") {
            jobs.add(item, &global, None)?;
        }
        let mut config = Self {
            alerting,
            warnings,
            metric_files: files::read(&root, scheme)?,
            host: host::read(&root, scheme)?,
            ..Self::default()
        };
        let patterns = root.texts("scrape_config_files");
        for pattern in patterns.into_iter().filter(|_| !features.skips_job_files) {
            config.read_more_jobs(&pattern, &global, &mut jobs)?;
        }
        config.remote_write = remote::read(&mut root, scheme, environment)?;
        other::tidy_otlp(&mut root);
        config.settle(&root, &FILE_ROOT)?;
        config.shown = print::print(&root, &FILE_ROOT);
        config.rules = RuleSettings {
            patterns: root.texts("rule_files"),
            files: matching_rule_files(&root)?,
            interval: global.period("evaluation_interval"),
            query_offset: global.period("rule_query_offset"),
            scheme,
        };
        for job in &mut jobs.list {
            job.scrape.start_times = features.start_times;
            job.scrape.accept_zstd = features.zstd;
            job.scrape.type_and_unit_labels = features.type_and_unit_labels;
        }
        config.jobs = jobs.list;
        config.read_rest(&root);
        Ok(config)
    }

    /// Reads the remaining settings after jobs and sections have been checked.
    fn read_rest(&mut self, root: &Node) {
        let global = root.get("global");
        let labels = global.map(|global| global.labels("external_labels"));
        let labels = labels.unwrap_or_default();
        let pairs = labels.iter();
        self.external_labels = LabelSet::new(pairs.map(|(name, value)| (&**name, &**value)));
        self.query_costs = global.map_or_else(Default::default, |global| {
            let reads = ReadLimits {
                series: global.count("query_max_series"),
                samples: global.count("query_max_samples_read"),
            };
            (reads, global.period("query_max_duration"))
        });
        let query_log = global.map(|global| global.text_of("query_log_file"));
        let query_log = query_log.filter(|path| !path.is_empty());
        self.query_log = query_log.map(PathBuf::from);
        self.segments = root.given("segments").map(|segments| Segments {
            dir: segments.text_of("dir").into(),
            interval: segments.own_or_scrape_interval(root),
            merge: segments.flag("merge"),
            job_name: segments.text_of("job_name").to_owned(),
            max_bytes: segments.bytes_of("max_bytes"),
            max_bytes_per_user: segments
                .given("max_bytes_per_user")
                .map(|_| segments.bytes_of("max_bytes_per_user")),
        });
        let storage = root.get("storage");
        let exemplars = storage.and_then(|storage| storage.given("exemplars"));
        let exemplars = exemplars.filter(|exemplars| exemplars.given("max_exemplars").is_some());
        let held = exemplars.map(|exemplars| exemplars.whole("max_exemplars"));
        self.max_exemplars = held.map(|held| usize::try_from(held).unwrap_or_default());
        let Some(tsdb) = storage.and_then(|storage| storage.given("tsdb")) else {
            return;
        };
        let window = tsdb.given("out_of_order_time_window");
        self.out_of_order_window = window.map(|_| tsdb.period("out_of_order_time_window"));
        if let Some(retention) = tsdb.given("retention") {
            self.retention = Some(Retention {
                time: Some(retention.period("time")).filter(|time| !time.is_zero()),
                bytes: Some(retention.bytes_of("size")).filter(|bytes| *bytes > 0),
            })
            .filter(|retention| *retention != Retention::default());
        }
    }

    /// Rejects unsupported keys and warns about keys without effect.
    fn settle(&mut self, root: &Node, section: &keys::Section) -> Result<(), ConfigError> {
        let mut unsupported = Unsupported::collect_from(root, section);
        unsupported.refuse()?;
        for (key, reason, line) in unsupported.without_effect {
            let warning = format!("line {line}: {key} has no effect: {reason}");
            self.warnings.push(warning);
        }
        Ok(())
    }

    /// Reads the jobs of the files that match `pattern`.
    fn read_more_jobs(
        &mut self,
        pattern: &str,
        global: &Node,
        jobs: &mut Jobs,
    ) -> Result<(), ConfigError> {
        let paths = narthex_net::glob::glob(pattern).map_err(|reason| {
            ConfigError::invalid(format!(
                "error retrieving scrape config files for {pattern:?}: {reason}"
            ))
        })?;
        for path in paths.into_iter().map(PathBuf::from) {
            read_file(&path, |text, directory| {
                let mut file = narthex_yaml::read(text)?;
                check::shape(&file, &SCRAPE_FILE)?;
                Unsupported::collect_from(&file, &SCRAPE_FILE).refuse_unchecked()?;
                fill::fill(&mut file, &SCRAPE_FILE, directory);
                for item in file.items_mut("scrape_configs") {
                    jobs.add(item, global, Some(&path))?;
                }
                self.settle(&file, &SCRAPE_FILE)
            })?;
            self.files.push(path);
        }
        Ok(())
    }
}

/// Returns the files that match `rule_files`, each once.
fn matching_rule_files(root: &Node) -> Result<Vec<PathBuf>, ConfigError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for pattern in root.texts("rule_files") {
        let found = narthex_net::glob::glob(&pattern).map_err(ConfigError::invalid)?;
        for file in found.into_iter().map(PathBuf::from) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Reads a file that holds only HTTP client settings.
///
/// # Errors
/// Fails when the file cannot be read or has an unusable setting.
pub(crate) fn load_http(path: &Path) -> Result<HttpClientConfig, ConfigError> {
    read_file(path, |text, directory| {
        let mut root = narthex_yaml::read(text)?;
        check::shape(&root, &HTTP_FILE)?;
        Unsupported::collect_from(&root, &HTTP_FILE).refuse()?;
        fill::fill(&mut root, &HTTP_FILE, directory);
        http::client(&root)
    })
}

/// Jobs, and where each was first found.
#[derive(Default)]
struct Jobs {
    list: Vec<Job>,
    found_in: BTreeMap<String, Option<PathBuf>>,
}

impl Jobs {
    fn add(
        &mut self,
        node: &mut Node,
        global: &Node,
        file: Option<&Path>,
    ) -> Result<(), ConfigError> {
        let job = job::read(node, global)?;
        let before = self
            .found_in
            .insert(job.scrape.job_name.clone(), file.map(Path::to_owned));
        if let Some(before) = before {
            let name = &job.scrape.job_name;
            let mut message = format!("found multiple scrape configs with job name {name:?}");
            if file.is_some() {
                let first =
                    before.map_or("main config file".to_owned(), |path| format!("{path:?}"));
                message.push_str(&format!(", first found in {first}"));
            }
            return Err(node.error(message));
        }
        self.list.push(job);
        Ok(())
    }
}

/// Reads what `read` makes of a file's text and directory; an error about the text names the file.
fn read_file<T>(
    path: &Path,
    read: impl FnOnce(&str, &Path) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    read(&text, directory).map_err(|error| error.in_file(path))
}

/// Checks and completes the global section; returns its name validation scheme and warnings.
fn complete_global(
    global: &mut Node,
    written: bool,
    environment: Environment<'_>,
) -> Result<(NameScheme, Vec<String>), ConfigError> {
    let scheme = job::scheme(global)?;
    check_labels(global, scheme)?;
    for (key, default) in [("scrape_interval", "1m"), ("evaluation_interval", "1m")] {
        if global.period(key).is_zero() {
            global.set(key, Node::text(default));
        }
    }
    let interval = global.period("scrape_interval");
    let timeout = global.period("scrape_timeout");
    let given = global.is_written("scrape_timeout") && !timeout.is_zero();
    if given && timeout > interval {
        return Err(global.error("global scrape timeout greater than scrape interval"));
    }
    if !given {
        let shown = show_period(interval.min(Duration::from_secs(10)));
        global.set("scrape_timeout", Node::text(shown));
    }
    if global.given("scrape_protocols").is_some() {
        job::check_protocols(global)
            .map_err(|message| global.error(format!("{message} for global config")))?;
    }
    if !written {
        global.set("metric_name_escaping_scheme", Node::text("allow-utf-8"));
    }
    let warnings = expand_labels(global, environment);
    Ok((scheme, warnings))
}

fn check_labels(global: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    let labels = global.get("external_labels");
    for (word, value) in labels.map_or(&[][..], Node::entries) {
        let Word { text, bytes, .. } = word;
        if bytes.is_some() || !scheme.allows_label(text) {
            let message = format!(
                "{} is not a valid label name",
                quoted(text, bytes.as_deref())
            );
            return Err(ConfigError::at(word.line, word.column, message));
        }
        if let Some(bytes) = value.scalar().and_then(|scalar| scalar.bytes.as_deref()) {
            let shown = quoted(value.as_text(), Some(bytes));
            return Err(value.error(format!("{shown} is not a valid label value")));
        }
    }
    Ok(())
}

/// Quotes a text, or bytes that are not UTF-8.
fn quoted(text: &str, bytes: Option<&[u8]>) -> String {
    match bytes {
        None => format!("{text:?}"),
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
    }
}

/// Expands environment variables in external labels; returns a warning for each empty one.
fn expand_labels(global: &mut Node, environment: Environment<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let labels = global.get_mut("external_labels");
    for (_, value) in labels.map_or(&mut [][..], Node::entries_mut) {
        if let Value::Scalar(scalar) = &mut value.value {
            scalar.text = expand::expand(&scalar.text, |name| {
                named(environment, name).unwrap_or_else(|| {
                    warnings.push(format!("environment variable {name} is empty"));
                    String::new()
                })
            });
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
