//! Settings of one entry: which files, how often, with which labels.

use narthex_expfmt::Format;
use narthex_model::{LabelSet, Pattern, PatternError, Template};
use std::{sync::Arc, time::Duration};

/// What the files of an entry are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FileKind {
    /// Each file is a page of metrics.
    #[default]
    Metrics,
    /// Directories with `*.prom` files, read as node_exporter reads them.
    Textfile,
    /// Directories with the `*.db` files of the Python client's multiprocess mode.
    PythonMultiprocess,
}

/// Settings of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesConfig {
    /// Value of the label `job`, and the name of the entry.
    pub job_name: String,
    /// Patterns of paths, with Go's syntax.
    pub paths: Vec<String>,
    /// What they are.
    pub kind: FileKind,
    /// Time between two looks.
    pub interval: Duration,
    /// Labels of all series, without `job`.
    pub labels: Vec<(String, String)>,
    /// Labels from the path. Files whose path does not match are left out.
    pub path_labels: Option<PathLabels>,
    /// Age of a file's last change from which its series end; zero for never.
    pub stale_after: Duration,
    /// Whether a file without `# EOF` at its end is half-written.
    pub require_eof: bool,
    /// Whether labels in a file win over those given here; otherwise they become `exported_<name>`.
    pub honor_labels: bool,
    /// Whether samples keep timestamps of their own.
    pub honor_timestamps: bool,
    /// Longest file, in bytes.
    pub file_size_limit: u64,
    /// Most samples of a file, 0 for no limit.
    pub sample_limit: usize,
    /// Format of the files; `None` to see it by their content.
    pub format: Option<Format>,
    /// Whether the processes that wrote `*.db` files are looked for.
    pub check_processes: bool,
}

/// Named groups of a pattern that become labels of the files whose path it matches.
#[derive(Clone, Debug, PartialEq)]
pub struct PathLabels {
    pattern: Arc<Pattern>,
    groups: Arc<[(String, Template)]>,
}

impl FilesConfig {
    /// Returns the default settings of an entry without paths.
    #[must_use]
    pub fn new(job_name: &str) -> Self {
        Self {
            job_name: job_name.to_owned(),
            paths: Vec::new(),
            kind: FileKind::default(),
            interval: Duration::from_mins(1),
            labels: Vec::new(),
            path_labels: None,
            stale_after: Duration::ZERO,
            require_eof: false,
            honor_labels: false,
            honor_timestamps: true,
            file_size_limit: 64 << 20,
            sample_limit: 0,
            format: None,
            check_processes: true,
        }
    }

    /// Returns the labels that all files of the entry have, `job` included.
    #[must_use]
    pub fn common(&self) -> LabelSet {
        let own = self.labels.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        LabelSet::new([("job", self.job_name.as_str())].into_iter().chain(own))
    }

    /// Returns the labels of a file, or `None` if it is not of this entry.
    #[must_use]
    pub fn labels_of(&self, path: &str) -> Option<LabelSet> {
        let common = self.common();
        let Some(path_labels) = &self.path_labels else {
            return Some(common);
        };
        let mut labels = common.to_builder();
        for (name, value) in path_labels.labels(path)? {
            labels.set(name, &value);
        }
        Some(labels.finish())
    }
}

impl PathLabels {
    /// Compiles a pattern, which has to match the whole path.
    ///
    /// # Errors
    /// Fails on an invalid pattern.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let pattern = Pattern::anchored(pattern)?;
        let groups = pattern.group_names().map(|name| {
            let template = Template::parse(&format!("${{{name}}}"));
            (name.to_owned(), template)
        });
        let groups = groups.collect();
        Ok(Self {
            pattern: Arc::new(pattern),
            groups,
        })
    }

    /// Returns the names of the labels.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the labels of a path, or `None` if the pattern does not match it.
    fn labels<'a>(&'a self, path: &str) -> Option<Vec<(&'a str, String)>> {
        if !self.pattern.is_match(path) {
            return None;
        }
        let each = self.groups.iter().map(|(name, template)| {
            let value = self.pattern.expand(path, template);
            (name.as_str(), value.unwrap_or_default())
        });
        Some(each.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_from_the_entry_and_the_path() {
        let config = FilesConfig {
            labels: vec![
                ("zone".to_owned(), "x".to_owned()),
                ("game".to_owned(), "y".to_owned()),
            ],
            path_labels: Some(
                PathLabels::new("/run/(?P<game>[^/]+)/(?P<instance>\\d+)\\.prom").unwrap(),
            ),
            ..FilesConfig::new("j")
        };
        let labels = config.labels_of("/run/chess/7.prom").unwrap();
        let expected = [
            ("game", "chess"),
            ("instance", "7"),
            ("job", "j"),
            ("zone", "x"),
        ];
        assert_eq!(labels, LabelSet::new(expected));
        for path in [
            "/run/chess/7.prom.tmp",
            "/run/chess/x.prom",
            "x/run/chess/7.prom",
        ] {
            assert_eq!(config.labels_of(path), None, "{path}");
        }
        let names: Vec<&str> = config.path_labels.as_ref().unwrap().names().collect();
        assert_eq!(names, ["game", "instance"]);
        assert!(PathLabels::new("(").is_err());
    }
}
