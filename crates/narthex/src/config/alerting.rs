//! Reads where alerts are sent.

use super::{
    ConfigError, access::Access as _, cloud, discovery, http, job::check_addresses, rules::rules,
};
use narthex_model::NameScheme;
use narthex_notify::{AlertingConfig, AlertmanagerConfig};
use narthex_yaml::Node;

/// Reads the section `alerting` and completes it in place.
///
/// # Errors
/// Fails, in Prometheus' words, at the first unusable setting.
pub(super) fn read(root: &mut Node, scheme: NameScheme) -> Result<AlertingConfig, ConfigError> {
    let Some(node) = root.get_mut("alerting").filter(|node| !node.is_null()) else {
        return Ok(AlertingConfig::default());
    };
    let what = "empty or null alert relabeling rule";
    let mut config = AlertingConfig {
        alert_relabel_configs: rules(node, "alert_relabel_configs", scheme, what)?,
        sets: Vec::new(),
    };
    for item in node.items_mut("alertmanagers") {
        config.sets.push(alertmanagers(item, scheme)?);
        http::settle(item);
    }
    Ok(config)
}

fn alertmanagers(node: &Node, scheme: NameScheme) -> Result<AlertmanagerConfig, ConfigError> {
    let client = http::client(node)?;
    let authenticates =
        client.basic_auth.is_some() || client.authorization.is_some() || client.oauth2.is_some();
    if authenticates && node.given("sigv4").is_some() {
        return Err(node.error(
            "at most one of basic_auth, authorization, oauth2, & sigv4 must be configured",
        ));
    }
    let version = node.text_of("api_version");
    if version != "v2" {
        return Err(node.error(format!(
            "expected Alertmanager api version to be one of [v2] but got {version}"
        )));
    }
    let mechanisms = discovery::mechanisms(node)?;
    if node.items("relabel_configs").is_empty() {
        check_addresses(node)?;
    }
    let what = "empty or null Alertmanager target relabeling rule";
    let relabel_configs = rules(node, "relabel_configs", scheme, what)?;
    let what = "empty or null Alertmanager alert relabeling rule";
    let alert_relabel_configs = rules(node, "alert_relabel_configs", scheme, what)?;
    Ok(AlertmanagerConfig {
        scheme: node.text_of("scheme").to_owned(),
        path_prefix: node.text_of("path_prefix").to_owned(),
        timeout: node.period("timeout"),
        relabel_configs,
        alert_relabel_configs,
        http: client,
        sigv4: cloud::sigv4(node)?,
        discovery: mechanisms,
    })
}
