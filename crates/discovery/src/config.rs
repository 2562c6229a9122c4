//! Settings of each mechanism as plain data, with Prometheus' defaults and checks.
//!
//! Invariant: two equal configurations find the same targets, so jobs may share one discoverer.

use std::path::PathBuf;
use std::time::Duration;

use narthex_net::HttpClientConfig;

use crate::dns::record_type::RecordType;
use crate::error::{DiscoveryError, invalid};
use crate::group::TargetGroup;
use crate::kubernetes::selector::check_selector;

/// One entry of a `…_sd_configs` list, or all of a `static_configs`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SdConfig {
    /// `static_configs`
    Static(Vec<TargetGroup>),
    /// `file_sd_configs`
    File(FileSdConfig),
    /// `http_sd_configs`
    Http(Box<HttpSdConfig>),
    /// `dns_sd_configs`
    Dns(DnsSdConfig),
    /// `kubernetes_sd_configs`
    Kubernetes(Box<KubernetesSdConfig>),
}

impl SdConfig {
    /// Returns the mechanism's name in metrics and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::File(_) => "file",
            Self::Http(_) => "http",
            Self::Dns(_) => "dns",
            Self::Kubernetes(_) => "kubernetes",
        }
    }

    /// Checks the settings and converts those of an HTTP client to their newer form.
    ///
    /// # Errors
    /// [`DiscoveryError::Config`] in Prometheus' words.
    pub fn validate(&mut self) -> Result<(), DiscoveryError> {
        match self {
            Self::Static(_) => Ok(()),
            Self::File(config) => config.validate(),
            Self::Http(config) => config.validate(),
            Self::Dns(config) => config.validate(),
            Self::Kubernetes(config) => config.validate(),
        }
    }
}

/// `file_sd_configs`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSdConfig {
    /// `files`: paths that end in `.json`, `.yml` or `.yaml`; the last segment may contain a `*`.
    pub files: Vec<String>,
    /// `refresh_interval`: how often files are read even if no change was seen. 5 min.
    pub refresh_interval: Duration,
}

impl Default for FileSdConfig {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            refresh_interval: Duration::from_mins(5),
        }
    }
}

impl FileSdConfig {
    fn validate(&self) -> Result<(), DiscoveryError> {
        if self.files.is_empty() {
            return Err(invalid(
                "file service discovery config must contain at least one path name",
            ));
        }
        match self.files.iter().find(|file| !is_file_pattern(file)) {
            Some(file) => Err(invalid(format!(
                "path name {file:?} is not valid for file discovery"
            ))),
            None => Ok(()),
        }
    }
}

/// Reports whether a path has a known extension, and at most one `*`, in the last segment, as Prometheus requires.
fn is_file_pattern(file: &str) -> bool {
    let endings = [".json", ".yml", ".yaml", ".JSON", ".YML", ".YAML"];
    let Some(stem) = endings.iter().find_map(|end| file.strip_suffix(end)) else {
        return false;
    };
    match stem.split_once('*') {
        None => true,
        Some((_before, after)) => !after.contains('/'),
    }
}

/// `http_sd_configs`
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSdConfig {
    /// `url`
    pub url: String,
    /// `refresh_interval`. 1 min.
    pub refresh_interval: Duration,
    /// How to reach the URL.
    pub http: HttpClientConfig,
}

impl Default for HttpSdConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            refresh_interval: Duration::from_mins(1),
            http: HttpClientConfig::default(),
        }
    }
}

impl HttpSdConfig {
    fn validate(&mut self) -> Result<(), DiscoveryError> {
        if self.url.is_empty() {
            return Err(invalid("URL is missing"));
        }
        let (scheme, rest) = self.url.split_once(':').unwrap_or(("", &self.url));
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(invalid("URL scheme must be 'http' or 'https'"));
        }
        let authority = rest.strip_prefix("//").unwrap_or_default();
        if authority.is_empty() || authority.starts_with(['/', '?', '#']) {
            return Err(invalid("host is missing in URL"));
        }
        self.http.validate().map_err(DiscoveryError::from)
    }
}

/// `dns_sd_configs`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsSdConfig {
    /// `names`
    pub names: Vec<String>,
    /// `type`. SRV.
    pub record_type: RecordType,
    /// `port`: of the targets; SRV records have their own.
    pub port: u16,
    /// `refresh_interval`. 30 s.
    pub refresh_interval: Duration,
}

impl Default for DnsSdConfig {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            record_type: RecordType::Srv,
            port: 0,
            refresh_interval: Duration::from_secs(30),
        }
    }
}

impl DnsSdConfig {
    fn validate(&self) -> Result<(), DiscoveryError> {
        if self.names.is_empty() {
            return Err(invalid(
                "DNS-SD config must contain at least one SRV record name",
            ));
        }
        if self.port == 0 && self.record_type != RecordType::Srv {
            return Err(invalid(
                "a port is required in DNS-SD configs for all record types except SRV",
            ));
        }
        Ok(())
    }
}

/// Object type that a Kubernetes discovery turns into targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `node`
    Node,
    /// `pod`
    Pod,
    /// `service`
    Service,
    /// `endpoints`
    Endpoints,
    /// `endpointslice`
    EndpointSlice,
    /// `ingress`
    Ingress,
}

impl Role {
    /// Every role, in Prometheus' order.
    pub const ALL: [Self; 6] = [
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::Endpoints,
        Self::EndpointSlice,
        Self::Ingress,
    ];

    /// Parses a role's name.
    ///
    /// # Errors
    /// [`DiscoveryError::Config`] for any other text.
    pub fn parse(text: &str) -> Result<Self, DiscoveryError> {
        let named = Self::ALL.into_iter().find(|role| role.name() == text);
        named.ok_or_else(|| invalid(format!("unknown Kubernetes SD role {text:?}")))
    }

    /// Returns the role's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Service => "service",
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslice",
            Self::Ingress => "ingress",
        }
    }

    /// Returns the roles whose objects a selector may restrict.
    fn selectable(self) -> &'static [Self] {
        match self {
            Self::Node => &[Self::Node],
            Self::Pod => &[Self::Pod, Self::Node],
            Self::Service => &[Self::Service],
            Self::Endpoints => &[Self::Pod, Self::Service, Self::Endpoints],
            Self::EndpointSlice => &[Self::Pod, Self::Service, Self::EndpointSlice],
            Self::Ingress => &[Self::Ingress],
        }
    }
}

/// `kubernetes_sd_configs`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubernetesSdConfig {
    /// `role`; required.
    pub role: Option<Role>,
    /// `api_server`: the API's URL. If neither it nor a kubeconfig is set, the pod's service account is used.
    pub api_server: Option<String>,
    /// `kubeconfig_file`
    pub kubeconfig_file: Option<PathBuf>,
    /// How to reach `api_server`.
    pub http: HttpClientConfig,
    /// `namespaces`
    pub namespaces: Namespaces,
    /// `selectors`
    pub selectors: Vec<Selector>,
    /// `attach_metadata`
    pub attach_metadata: AttachMetadata,
}

/// Namespaces to look in; if neither field is set, all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// `own_namespace`: the namespace of this process' pod.
    pub own_namespace: bool,
    /// `names`
    pub names: Vec<String>,
}

/// Restricts which objects of a role the API reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// `role`
    pub role: Role,
    /// `label`: a label selector, such as `app=web,tier!=cache`.
    pub label: String,
    /// `field`: a field selector, such as `status.phase=Running`.
    pub field: String,
}

/// Labels of related objects to add to targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttachMetadata {
    /// `node`: labels and annotations of the target's node.
    pub node: bool,
    /// `namespace`: labels and annotations of the target's namespace.
    pub namespace: bool,
    /// `deployment`: the name of the pod's deployment.
    pub deployment: bool,
    /// `job`: the name of the pod's job.
    pub job: bool,
    /// `cronjob`: the name of the cron job of the pod's job.
    pub cronjob: bool,
}

impl KubernetesSdConfig {
    fn validate(&mut self) -> Result<(), DiscoveryError> {
        let Some(role) = self.role else {
            return Err(invalid(
                "role missing (one of: pod, service, endpoints, endpointslice, node, ingress)",
            ));
        };
        let custom_http = self.http != HttpClientConfig::default();
        self.http.validate()?;
        let (server, kubeconfig) = (self.api_server.is_some(), self.kubeconfig_file.is_some());
        let own = self.namespaces.own_namespace;
        let refusal = match (server, kubeconfig) {
            (true, true) => "cannot use 'kubeconfig_file' and 'api_server' simultaneously",
            (_, true) if custom_http => {
                "cannot use a custom HTTP client configuration together with 'kubeconfig_file'"
            }
            (false, _) if custom_http => {
                "to use custom HTTP client configuration please provide the 'api_server' URL explicitly"
            }
            (true, _) if own => {
                "cannot use 'api_server' and 'namespaces.own_namespace' simultaneously"
            }
            (_, true) if own => {
                "cannot use 'kubeconfig_file' and 'namespaces.own_namespace' simultaneously"
            }
            _ => "",
        };
        if !refusal.is_empty() {
            return Err(invalid(refusal));
        }
        for (at, selector) in self.selectors.iter().enumerate() {
            let earlier = self.selectors.iter().take(at);
            if earlier.into_iter().any(|e| e.role == selector.role) {
                return Err(invalid(format!(
                    "duplicated selector role: {}",
                    selector.role.name()
                )));
            }
            if !role.selectable().contains(&selector.role) {
                let names: Vec<_> = role.selectable().iter().map(|r| r.name()).collect();
                return Err(invalid(format!(
                    "{} role supports only {} selectors",
                    role.name(),
                    names.join(", ")
                )));
            }
            check_selector(&selector.label, &selector.field)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
