//! From discovered labels to the URL of an Alertmanager.

use crate::config::AlertmanagerConfig;
use narthex_discovery::{ADDRESS_LABEL, LabelMap, TargetGroup};
use narthex_model::{LabelSet, relabel};
use narthex_net::{Url, percent::escape_path};

const SCHEME: &str = "__scheme__";
const PATH: &str = "__alerts_path__";

/// What a discovered target comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Discovered {
    /// An Alertmanager, by the URL that alerts are posted to.
    Active(Url),
    /// Relabelling dropped it; its URL before that.
    Dropped(String),
    /// It is no Alertmanager; why.
    Invalid(String),
}

impl AlertmanagerConfig {
    /// Checks that the targets of a group are Alertmanagers, those that relabelling drops aside.
    ///
    /// # Errors
    /// Says what is wrong with the first that is none.
    pub fn check_group(&self, group: &TargetGroup) -> Result<(), String> {
        for target in &group.targets {
            if let Discovered::Invalid(reason) = discovered(self, target, &group.labels) {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// Applies a set's settings and relabelling to a target's own labels and those of its group.
pub(crate) fn discovered(
    config: &AlertmanagerConfig,
    own: &LabelMap,
    group: &LabelMap,
) -> Discovered {
    let mut labels = LabelSet::default().to_builder();
    for (name, value) in own {
        labels.set(name, value);
    }
    labels.set(SCHEME, &config.scheme);
    labels.set(PATH, &alerts_path(&config.path_prefix));
    // A group's labels win over the settings, as in Prometheus, though a target's own do not.
    for (name, value) in group.iter().filter(|(name, _)| !own.contains_key(*name)) {
        labels.set(name, value);
    }
    let before = labels.finish();
    let Some(after) = relabel::process(&before, &config.relabel_configs) else {
        return Discovered::Dropped(url_text(&before));
    };
    let address = after.get(ADDRESS_LABEL).unwrap_or_default();
    if address.contains('/') {
        return Discovered::Invalid(format!("{address:?} is not a valid hostname"));
    }
    match Url::parse(&url_text(&after)) {
        Ok(url) => Discovered::Active(url),
        Err(error) => Discovered::Invalid(error.to_string()),
    }
}

/// Returns the URL that labels say, as Go's `url.URL` prints it.
fn url_text(labels: &LabelSet) -> String {
    let label = |name: &str| labels.get(name).unwrap_or_default();
    let (scheme, address, path) = (label(SCHEME), label(ADDRESS_LABEL), label(PATH));
    let slash = if path.is_empty() || path.starts_with('/') {
        ""
    } else {
        "/"
    };
    format!("{scheme}://{address}{slash}{}", escape_path(path))
}

/// Returns the path of the API behind a prefix, cleaned as Go's `path.Join` does.
fn alerts_path(prefix: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in prefix.split('/').chain(["api", "v2", "alerts"]) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        NameScheme,
        relabel::{Action, RelabelConfig, Rule},
    };

    /// Prometheus' TestPostPath.
    #[test]
    fn paths_are_joined() {
        for (prefix, path) in [
            ("", "/api/v2/alerts"),
            ("/", "/api/v2/alerts"),
            ("prefix", "/prefix/api/v2/alerts"),
            ("/prefix//", "/prefix/api/v2/alerts"),
            ("prefix//", "/prefix/api/v2/alerts"),
            ("/a/../b/.", "/b/api/v2/alerts"),
            ("..", "/api/v2/alerts"),
        ] {
            assert_eq!(alerts_path(prefix), path, "{prefix:?}");
        }
    }

    fn map(pairs: &[(&str, &str)]) -> LabelMap {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    fn url(config: &AlertmanagerConfig, own: &[(&str, &str)], group: &[(&str, &str)]) -> String {
        match discovered(config, &map(own), &map(group)) {
            Discovered::Active(url) => url.as_str().to_owned(),
            Discovered::Dropped(url) => format!("dropped {url}"),
            Discovered::Invalid(reason) => format!("invalid: {reason}"),
        }
    }

    fn rule(config: RelabelConfig) -> Rule {
        Rule::new(config, NameScheme::Utf8).unwrap()
    }

    #[test]
    fn labels_say_where() {
        let mut config = AlertmanagerConfig {
            scheme: "https".to_owned(),
            path_prefix: "/a b/".to_owned(),
            ..AlertmanagerConfig::default()
        };
        let own = [("__address__", "h:9093")];
        assert_eq!(
            url(&config, &own, &[]),
            "https://h:9093/a%20b/api/v2/alerts"
        );
        // A group's labels win over the settings, a target's own do not.
        let plain = [("__scheme__", "http")];
        assert_eq!(
            url(&config, &own, &plain),
            "http://h:9093/a%20b/api/v2/alerts"
        );
        let both = [("__address__", "h:9093"), ("__scheme__", "http")];
        assert_eq!(
            url(&config, &both, &[]),
            "https://h:9093/a%20b/api/v2/alerts"
        );
        config.relabel_configs = vec![rule(RelabelConfig {
            source_labels: vec!["path".to_owned()],
            regex: Some("(.+)".to_owned()),
            target_label: PATH.to_owned(),
            ..RelabelConfig::default()
        })];
        let path = [("path", "x/y")];
        assert_eq!(url(&config, &own, &path), "https://h:9093/x/y");
    }

    #[test]
    fn what_is_dropped_shows_its_url_before_relabelling() {
        let config = AlertmanagerConfig {
            relabel_configs: vec![
                rule(RelabelConfig {
                    target_label: "__address__".to_owned(),
                    replacement: "other:1".to_owned(),
                    ..RelabelConfig::default()
                }),
                rule(RelabelConfig {
                    source_labels: vec!["zone".to_owned()],
                    regex: Some("b".to_owned()),
                    action: Some(Action::Drop),
                    ..RelabelConfig::default()
                }),
            ],
            ..AlertmanagerConfig::default()
        };
        let own = [("__address__", "h:1")];
        assert_eq!(
            url(&config, &own, &[("zone", "b")]),
            "dropped http://h:1/api/v2/alerts"
        );
        assert_eq!(
            url(&config, &own, &[("zone", "a")]),
            "http://other:1/api/v2/alerts"
        );
    }

    #[test]
    fn what_is_no_host_is_invalid() {
        let config = AlertmanagerConfig::default();
        for (address, reason) in [
            (
                "http://h:1",
                r#"invalid: "http://h:1" is not a valid hostname"#,
            ),
            ("", "invalid: "),
            ("h:x", "invalid: "),
        ] {
            let found = url(&config, &[("__address__", address)], &[]);
            assert!(found.starts_with(reason), "{found}");
        }
    }
}
