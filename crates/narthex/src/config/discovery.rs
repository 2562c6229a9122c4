//! Reads service discovery from a tree.

use super::{ConfigError, access::Access as _, http};
use narthex_discovery::{
    AttachMetadata, DiscoveryError, DnsSdConfig, FileSdConfig, HttpSdConfig, KubernetesSdConfig,
    LabelMap, Namespaces, RecordType, Role, SdConfig, Selector, TargetGroup,
};
use narthex_yaml::{Node, Value};
use std::path::PathBuf;

/// Reads all discovery mechanisms of the section `node`.
///
/// # Errors
/// Fails, in Prometheus' words, at the first unusable setting.
pub(super) fn mechanisms(node: &Node) -> Result<Vec<SdConfig>, ConfigError> {
    let mut configs = Vec::new();
    for (key, read) in MECHANISMS {
        for item in node.items(key) {
            if item.is_null() {
                return Err(item.error(format!("empty or null section in {key}")));
            }
            let mut config = read(item)?;
            config.validate().map_err(|error| at(item, &error))?;
            configs.push(config);
        }
    }
    let groups = static_groups(node)?;
    if !groups.is_empty() {
        configs.push(SdConfig::Static(groups));
    }
    Ok(configs)
}

type Read = fn(&Node) -> Result<SdConfig, ConfigError>;

const MECHANISMS: [(&str, Read); 4] = [
    ("dns_sd_configs", dns),
    ("file_sd_configs", file),
    ("http_sd_configs", http_sd),
    ("kubernetes_sd_configs", kubernetes),
];

fn at(node: &Node, error: &DiscoveryError) -> ConfigError {
    node.error(error.to_string())
}

fn static_groups(node: &Node) -> Result<Vec<TargetGroup>, ConfigError> {
    let mut groups = Vec::new();
    for (number, item) in node.items("static_configs").iter().enumerate() {
        if item.is_null() || matches!(&item.value, Value::Map(pairs) if pairs.is_empty()) {
            return Err(item.error("empty or null section in static_configs"));
        }
        if let Some((name, _)) = item
            .labels("labels")
            .iter()
            .find(|(name, _)| name.is_empty())
        {
            return Err(item.error(format!("{name:?} is not a valid label name")));
        }
        groups.push(TargetGroup::of_addresses(
            number.to_string(),
            item.texts("targets"),
            item.labels("labels").into_iter().collect::<LabelMap>(),
        ));
    }
    Ok(groups)
}

fn dns(node: &Node) -> Result<SdConfig, ConfigError> {
    let record_type = node.text_of("type");
    Ok(SdConfig::Dns(DnsSdConfig {
        names: node.texts("names"),
        record_type: RecordType::parse(record_type).map_err(|error| at(node, &error))?,
        port: u16::try_from(node.whole("port"))
            .map_err(|_| node.error(format!("{} is not a port", node.whole("port"))))?,
        refresh_interval: node.period("refresh_interval"),
    }))
}

fn file(node: &Node) -> Result<SdConfig, ConfigError> {
    Ok(SdConfig::File(FileSdConfig {
        files: node.texts("files"),
        refresh_interval: node.period("refresh_interval"),
    }))
}

fn http_sd(node: &Node) -> Result<SdConfig, ConfigError> {
    Ok(SdConfig::Http(Box::new(HttpSdConfig {
        url: node.text_of("url").to_owned(),
        refresh_interval: node.period("refresh_interval"),
        http: http::client(node)?,
    })))
}

fn kubernetes(node: &Node) -> Result<SdConfig, ConfigError> {
    let role = |node: &Node| Role::parse(node.text_of("role")).map_err(|error| at(node, &error));
    let absent = node.text_of("role").is_empty();
    let selectors = node.items("selectors").iter().map(|selector| {
        Ok(Selector {
            role: role(selector)?,
            label: selector.text_of("label").to_owned(),
            field: selector.text_of("field").to_owned(),
        })
    });
    let text = |key: &str| match node.text_of(key) {
        "" => None,
        text => Some(text.to_owned()),
    };
    let empty = Node::new(Value::Null);
    let namespaces = node.get("namespaces").unwrap_or(&empty);
    let attach = node.get("attach_metadata").unwrap_or(&empty);
    Ok(SdConfig::Kubernetes(Box::new(KubernetesSdConfig {
        role: (!absent).then(|| role(node)).transpose()?,
        api_server: text("api_server"),
        kubeconfig_file: text("kubeconfig_file").map(PathBuf::from),
        http: http::client(node)?,
        namespaces: Namespaces {
            own_namespace: namespaces.flag("own_namespace"),
            names: namespaces.texts("names"),
        },
        selectors: selectors.collect::<Result<_, ConfigError>>()?,
        attach_metadata: AttachMetadata {
            node: attach.flag("node"),
            namespace: attach.flag("namespace"),
            deployment: attach.flag("deployment"),
            job: attach.flag("job"),
            cronjob: attach.flag("cronjob"),
        },
    })))
}
