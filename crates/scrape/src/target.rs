//! Targets: where to scrape, and the labels everything from there carries.
//!
//! **Invariant:** a target's labels have `job` and `instance` and no name that begins with `__`.

use crate::{JobConfig, ScrapeError};
use narthex_model::LabelSet;
use narthex_net::Url;

/// One place to scrape.
#[derive(Clone, Debug)]
pub struct Target {
    /// The labels of all its series.
    pub labels: LabelSet,
    /// The labels before the defaults, `__address__` and its kin included.
    pub discovered: LabelSet,
    /// Where; `None` for a source inside the process.
    pub url: Option<Url>,
    /// Where, as shown to people.
    pub shown_url: String,
}

impl Target {
    /// Builds the targets of a job.
    ///
    /// # Errors
    /// Fails when an address makes no URL or the scheme is not `http`.
    pub fn of_job(job: &JobConfig) -> Result<Vec<Self>, ScrapeError> {
        if job.scheme != "http" {
            return Err(ScrapeError::Scheme {
                job: job.job_name.clone(),
                scheme: job.scheme.clone(),
            });
        }
        let mut targets = Vec::new();
        for group in &job.static_configs {
            for address in &group.targets {
                targets.push(Self::new(job, address, &group.labels)?);
            }
        }
        Ok(targets)
    }

    /// Builds the target of a source inside the process.
    #[must_use]
    pub fn local(job_name: &str, instance: &str) -> Self {
        let labels = LabelSet::new([("job", job_name), ("instance", instance)]);
        Self {
            discovered: labels.clone(),
            labels,
            url: None,
            shown_url: format!("inside this process: {job_name}"),
        }
    }

    fn new(
        job: &JobConfig,
        address: &str,
        labels: &[(String, String)],
    ) -> Result<Self, ScrapeError> {
        let path = &job.metrics_path;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let text = format!(
            "{}://{address}{slash}{path}{}",
            job.scheme,
            query(&job.params)
        );
        let url = Url::parse(&text).map_err(|source| ScrapeError::Address {
            job: job.job_name.clone(),
            address: address.to_owned(),
            source,
        })?;
        let mut discovered = LabelSet::default().to_builder();
        let seconds = |duration: std::time::Duration| {
            narthex_model::duration::format(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
        };
        discovered
            .set("__address__", address)
            .set("__scheme__", &job.scheme)
            .set("__metrics_path__", path)
            .set("__scrape_interval__", &seconds(job.scrape_interval))
            .set("__scrape_timeout__", &seconds(job.scrape_timeout))
            .set("job", &job.job_name);
        for (name, value) in labels {
            discovered.set(name, value);
        }
        let discovered = discovered.finish();
        let mut own = LabelSet::from_labels(
            discovered
                .iter()
                .filter(|label| !label.name().starts_with("__"))
                .cloned(),
        )
        .to_builder();
        if own.get("instance").is_none() {
            own.set("instance", url.authority());
        }
        Ok(Self {
            labels: own.finish(),
            discovered,
            shown_url: url.to_string(),
            url: Some(url),
        })
    }
}

fn query(params: &[(String, Vec<String>)]) -> String {
    let pairs: Vec<String> = params
        .iter()
        .flat_map(|(name, values)| {
            values
                .iter()
                .map(move |value| format!("{}={}", escape(name), escape(value)))
        })
        .collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("?{}", pairs.join("&"))
    }
}

/// Escapes a query component as Go's `url.QueryEscape` does.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_urls_follow_prometheus() {
        let mut job = JobConfig::new("api");
        job.params = vec![("collect[]".into(), vec!["cpu".into(), "a b".into()])];
        job.metrics_path = "probe".into();
        job.static_configs = vec![crate::StaticGroup {
            targets: vec!["h:80".into(), "[::1]:9".into()],
            labels: vec![("zone".into(), "z".into()), ("__tmp".into(), "x".into())],
        }];
        let targets = Target::of_job(&job).unwrap();
        assert_eq!(
            targets[0].shown_url,
            "http://h:80/probe?collect%5B%5D=cpu&collect%5B%5D=a+b"
        );
        assert_eq!(
            targets[0].labels.to_string(),
            r#"{instance="h:80", job="api", zone="z"}"#
        );
        assert_eq!(targets[1].labels.get("instance"), Some("[::1]:9"));
        assert_eq!(targets[0].discovered.get("__scrape_interval__"), Some("1m"));
        job.static_configs[0].targets = vec!["bad host".into()];
        assert!(Target::of_job(&job).is_err());
        job.scheme = "ftp".into();
        assert!(matches!(
            Target::of_job(&job),
            Err(ScrapeError::Scheme { .. })
        ));
    }
}
