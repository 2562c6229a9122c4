//! Targets: where to scrape, and the labels of everything scraped there.
//!
//! **Invariant:** a target's own labels include `job` and `instance` and no name that begins with `__`.

use crate::config::JobConfig;
use narthex_discovery::LabelMap;
use narthex_model::{LabelSet, duration, relabel};
use narthex_net::{
    Url,
    percent::{escape_form, escape_path},
};
use std::{collections::BTreeMap, time::Duration};

const ADDRESS: &str = "__address__";
const SCHEME: &str = "__scheme__";
const METRICS_PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAM: &str = "__param_";
/// Labels that switch histogram handling, with their names in errors.
const HISTOGRAM_LABELS: [(&str, &str); 3] = [
    (
        "__convert_classic_histograms_to_nhcb__",
        "convert classic histograms to nhcb",
    ),
    (
        "__always_scrape_classic_histograms__",
        "always scrape classic histograms",
    ),
    ("__scrape_native_histograms__", "scrape native histograms"),
];

/// One place to scrape.
#[derive(Clone, Debug)]
pub struct Target {
    /// Labels of all its series.
    pub labels: LabelSet,
    /// Labels before relabelling, including `__address__` and the like.
    pub discovered: LabelSet,
    /// URL to scrape; `None` for a source inside the process.
    pub url: Option<Url>,
    /// URL shown to people.
    pub shown_url: String,
    /// Labels after relabelling, including those that begin with `__`.
    pub(crate) all: LabelSet,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) histograms: Histograms,
}

/// Histogram settings from a target's labels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Histograms {
    pub(crate) convert: bool,
    pub(crate) classic: bool,
    pub(crate) native: bool,
}

/// Result of relabelling discovered labels.
#[derive(Debug)]
pub(crate) enum Populated {
    Kept(Box<Target>),
    /// Relabelling dropped it.
    Dropped(Dropped),
}

/// A target that relabelling dropped.
#[derive(Clone, Debug)]
pub(crate) struct Dropped {
    /// Labels before relabelling.
    pub(crate) discovered: LabelSet,
    /// Index of the rule that dropped it.
    pub(crate) rule: usize,
}

/// Labels of an invalid target.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Labels before relabelling.
    pub(crate) discovered: LabelSet,
    /// Reason, in Prometheus' words.
    pub(crate) reason: String,
}

impl Target {
    /// Builds the target of a source inside the process.
    #[must_use]
    pub fn local(job_name: &str, instance: &str) -> Self {
        let labels = LabelSet::new([("job", job_name), ("instance", instance)]);
        Self {
            discovered: labels.clone(),
            all: labels.clone(),
            labels,
            url: None,
            shown_url: format!("inside this process: {job_name}"),
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            histograms: Histograms::default(),
        }
    }

    /// Adds labels; those it has already stay as they are.
    #[must_use]
    pub fn with_labels(mut self, labels: &LabelSet) -> Self {
        self.labels = labels.union(&self.labels);
        self.all = self.labels.clone();
        self
    }

    /// Builds a target from discovered labels and a job's settings.
    ///
    /// # Errors
    /// Returns the labels with the reason why they are invalid.
    pub(crate) fn populate(
        job: &JobConfig,
        own: &LabelMap,
        group: &LabelMap,
    ) -> Result<Populated, Failed> {
        let discovered = discovered(job, own, group);
        match relabel::outcome(&discovered, &job.relabel_configs) {
            Err(rule) => Ok(Populated::Dropped(Dropped { discovered, rule })),
            Ok(relabelled) => match Self::of_labels(job, &discovered, &relabelled) {
                Ok(target) => Ok(Populated::Kept(Box::new(target))),
                Err(reason) => Err(Failed { discovered, reason }),
            },
        }
    }

    fn of_labels(
        job: &JobConfig,
        discovered: &LabelSet,
        relabelled: &LabelSet,
    ) -> Result<Self, String> {
        let address = relabelled.get(ADDRESS).ok_or("no address")?;
        if address.contains('/') {
            return Err(format!("{address:?} is not a valid hostname"));
        }
        let interval = period(relabelled, INTERVAL, "interval")?;
        let timeout = period(relabelled, TIMEOUT, "timeout")?;
        if timeout > interval {
            return Err(format!(
                "scrape timeout cannot be greater than scrape interval ({:?} > {:?})",
                relabelled.get(TIMEOUT).unwrap_or_default(),
                relabelled.get(INTERVAL).unwrap_or_default()
            ));
        }
        let histograms = histograms(job, relabelled)?;
        let text = url_text(job, relabelled, address);
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        let without_meta = relabelled
            .iter()
            .filter(|label| !label.name().starts_with("__meta_"));
        let mut all = LabelSet::from_labels(without_meta.cloned()).to_builder();
        if all.get("instance").is_none() {
            all.set("instance", address);
        }
        let all = all.finish();
        let public = all.iter().filter(|label| !label.name().starts_with("__"));
        Ok(Self {
            labels: LabelSet::from_labels(public.cloned()),
            all,
            discovered: discovered.clone(),
            shown_url: url.to_string(),
            url: Some(url),
            interval,
            timeout,
            histograms,
        })
    }

    /// Returns the target's identity.
    ///
    /// How and how often it is scraped are not part of it: they may change while the target stays the same.
    pub(crate) fn key(&self) -> (LabelSet, String) {
        let [(convert, _), (classic, _), (native, _)] = HISTOGRAM_LABELS;
        let ways = [INTERVAL, TIMEOUT, convert, classic, native];
        (self.all.without(&ways), self.shown_url.clone())
    }
}

/// Formats a period as the configuration has it, such as `1m30s`.
pub(crate) fn format(period: Duration) -> String {
    duration::format(i64::try_from(period.as_millis()).unwrap_or(i64::MAX))
}

/// Merges a target's labels before relabelling: its own take precedence over the group's, and those over the job's.
fn discovered(job: &JobConfig, own: &LabelMap, group: &LabelMap) -> LabelSet {
    let mut labels = LabelSet::default().to_builder();
    for (name, value) in group.iter().filter(|(name, _)| !own.contains_key(*name)) {
        labels.set(name, value);
    }
    for (name, value) in own {
        labels.set(name, value);
    }
    let interval = format(job.scrape_interval);
    let timeout = format(job.scrape_timeout);
    let defaults = [
        ("job", job.job_name.as_str()),
        (INTERVAL, &interval),
        (TIMEOUT, &timeout),
        (METRICS_PATH, &job.metrics_path),
        (SCHEME, &job.scheme),
    ];
    let switches = HISTOGRAM_LABELS.iter().zip(switches(job));
    let switches = switches.map(|((name, _), on)| (*name, if on { "true" } else { "false" }));
    for (name, value) in defaults.into_iter().chain(switches) {
        if labels.get(name).is_none() {
            labels.set(name, value);
        }
    }
    for (name, values) in &job.params {
        let name = format!("{PARAM}{name}");
        if let (Some(first), None) = (values.first(), labels.get(&name)) {
            labels.set(&name, first);
        }
    }
    labels.finish()
}

fn period(labels: &LabelSet, name: &str, what: &str) -> Result<Duration, String> {
    let text = labels.get(name).unwrap_or_default();
    let ms =
        duration::parse(text).map_err(|error| format!("error parsing scrape {what}: {error}"))?;
    match u64::try_from(ms) {
        Ok(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("scrape {what} cannot be 0")),
    }
}

/// Returns what a job says of histograms, in the order of [`HISTOGRAM_LABELS`].
fn switches(job: &JobConfig) -> [bool; 3] {
    [
        job.convert_classic_histograms_to_nhcb,
        job.always_scrape_classic_histograms,
        job.scrape_native_histograms,
    ]
}

fn histograms(job: &JobConfig, labels: &LabelSet) -> Result<Histograms, String> {
    let mut switches = switches(job);
    for (switch, (name, what)) in switches.iter_mut().zip(HISTOGRAM_LABELS) {
        match labels.get(name) {
            None => {}
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => *switch = true,
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => *switch = false,
            Some(other) => {
                return Err(format!(
                    "error parsing {what}: strconv.ParseBool: parsing {other:?}: invalid syntax"
                ));
            }
        }
    }
    let [convert, classic, native] = switches;
    Ok(Histograms {
        convert,
        classic,
        native,
    })
}

fn url_text(job: &JobConfig, labels: &LabelSet, address: &str) -> String {
    let mut params: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, values) in &job.params {
        params.insert(name, values.iter().map(String::as_str).collect());
    }
    for label in labels {
        if let Some(name) = label.name().strip_prefix(PARAM) {
            let values = params.entry(name).or_default();
            match values.first_mut() {
                Some(first) => *first = label.value(),
                None => values.push(label.value()),
            }
        }
    }
    let pairs: Vec<String> = params
        .iter()
        .flat_map(|(name, values)| {
            values
                .iter()
                .map(move |value| format!("{}={}", escape_form(name), escape_form(value)))
        })
        .collect();
    let scheme = labels.get(SCHEME).unwrap_or_default();
    let path = labels.get(METRICS_PATH).unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let question = if pairs.is_empty() { "" } else { "?" };
    format!(
        "{scheme}://{address}{slash}{}{question}{}",
        escape_path(path),
        pairs.join("&")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        labels::NameScheme,
        relabel::{Action, RelabelConfig, Rule},
    };

    fn map(pairs: &[(&str, &str)]) -> LabelMap {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    fn kept(job: &JobConfig, own: &[(&str, &str)]) -> Target {
        match Target::populate(job, &map(own), &map(&[("zone", "z"), ("__tmp", "x")])) {
            Ok(Populated::Kept(target)) => *target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn labels_and_urls_follow_prometheus() {
        let mut job = JobConfig::new("api");
        job.params = vec![("collect[]".into(), vec!["cpu".into(), "a b".into()])];
        job.metrics_path = "probe/a b".into();
        let target = kept(&job, &[("__address__", "h:80"), ("__meta_x", "m")]);
        assert_eq!(
            target.shown_url,
            "http://h:80/probe/a%20b?collect%5B%5D=cpu&collect%5B%5D=a+b"
        );
        assert_eq!(
            target.labels.to_string(),
            r#"{instance="h:80", job="api", zone="z"}"#
        );
        assert_eq!(target.discovered.get("__meta_x"), Some("m"));
        assert_eq!(target.all.get("__meta_x"), None);
        assert_eq!(target.discovered.get("__scrape_interval__"), Some("1m"));
        assert_eq!(target.discovered.get("__param_collect[]"), Some("cpu"));
        assert_eq!(
            target.discovered.get("__scrape_native_histograms__"),
            Some("false")
        );
        let own = kept(
            &job,
            &[
                ("__address__", "h:80"),
                ("__param_collect[]", "disk"),
                ("__param_new", "1"),
                ("__scheme__", "https"),
                ("__scrape_interval__", "5s"),
                ("__scrape_timeout__", "1500ms"),
                ("__scrape_native_histograms__", "true"),
                ("instance", "own"),
                ("zone", "mine"),
            ],
        );
        assert_eq!(
            own.shown_url,
            "https://h:80/probe/a%20b?collect%5B%5D=disk&collect%5B%5D=a+b&new=1"
        );
        assert_eq!((own.interval.as_secs(), own.timeout.as_millis()), (5, 1500));
        assert_eq!(own.labels.get("zone"), Some("mine"));
        assert!(own.histograms.native && !own.histograms.convert);
    }

    #[test]
    fn labels_that_make_no_target_are_told() {
        let job = JobConfig::new("api");
        let cases = [
            (vec![], "no address"),
            (
                vec![("__address__", "h/x")],
                "\"h/x\" is not a valid hostname",
            ),
            (
                vec![("__address__", "h"), ("__scrape_interval__", "x")],
                "error parsing scrape interval: not a valid duration string: \"x\"",
            ),
            (
                vec![("__address__", "h"), ("__scrape_timeout__", "0s")],
                "scrape timeout cannot be 0",
            ),
            (
                vec![("__address__", "h"), ("__scrape_interval__", "1s")],
                "scrape timeout cannot be greater than scrape interval (\"10s\" > \"1s\")",
            ),
        ];
        for (own, reason) in cases {
            let error = Target::populate(&job, &map(&own), &LabelMap::new()).unwrap_err();
            assert_eq!(error.reason, reason);
        }
    }

    #[test]
    fn relabelling_drops_and_rewrites() {
        let rule = |action, source: &str, regex: &str, target: &str, replacement: &str| {
            let config = RelabelConfig {
                source_labels: vec![source.into()],
                regex: Some(regex.into()),
                target_label: target.into(),
                replacement: replacement.into(),
                action: Some(action),
                ..RelabelConfig::default()
            };
            Rule::new(config, NameScheme::Utf8).unwrap()
        };
        let mut job = JobConfig::new("api");
        job.relabel_configs = vec![
            rule(Action::Drop, "__address__", "bad.*", "", "$1"),
            rule(
                Action::Replace,
                "__address__",
                "(.*):.*",
                "__address__",
                "$1:9100",
            ),
        ];
        assert_eq!(
            kept(&job, &[("__address__", "h:80")])
                .labels
                .get("instance"),
            Some("h:9100")
        );
        let dropped = Target::populate(&job, &map(&[("__address__", "bad:80")]), &LabelMap::new());
        assert!(
            matches!(dropped, Ok(Populated::Dropped(Dropped { discovered, rule: 0 })) if discovered.get("__address__") == Some("bad:80"))
        );
    }
}
