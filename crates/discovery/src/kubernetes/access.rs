//! Access to a cluster's API: by URL, kubeconfig, or the pod's service account.
//!
//! Invariant: credentials stay in the client's configuration, whose `Debug` hides them.

use std::path::{Path, PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use narthex_net::{
    Authorization, BasicAuth, Client, HttpClientConfig, ProxyConfig, ProxyUrl, Secret, TlsConfig,
    read_yaml,
};
use serde::Deserialize;

use super::api::Api;
use crate::config::KubernetesSdConfig;
use crate::discoverer::Options;
use crate::dns::join_host_port;
use crate::error::{DiscoveryError, invalid};

/// Returns the API, and the pod's own namespace if it is needed.
pub(super) fn connect(
    config: &KubernetesSdConfig,
    options: &Options,
) -> Result<(Api, Option<String>), DiscoveryError> {
    let mut own_namespace = None;
    let (base, http) = if let Some(file) = &config.kubeconfig_file {
        let text = std::fs::read_to_string(file).map_err(|source| DiscoveryError::Read {
            path: file.clone(),
            source,
        })?;
        from_kubeconfig(&text, file)?
    } else if let Some(server) = &config.api_server {
        (server.clone(), config.http.clone())
    } else {
        if config.namespaces.own_namespace {
            own_namespace = Some(own_namespace_of(&options.service_account)?);
        }
        in_cluster(options)?
    };
    let client = Client::with_http(options.client.clone(), http)?;
    let api = Api {
        client,
        base: base.trim_end_matches('/').to_owned(),
    };
    Ok((api, own_namespace))
}

fn own_namespace_of(service_account: &Path) -> Result<String, DiscoveryError> {
    let path = service_account.join("namespace");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| invalid(format!("could not determine the pod's namespace: {error}")))?;
    match text.trim() {
        "" => Err(invalid("could not read own namespace name (empty file)")),
        name => Ok(name.to_owned()),
    }
}

fn in_cluster(options: &Options) -> Result<(String, HttpClientConfig), DiscoveryError> {
    let (host, port) = options.kubernetes_service.as_ref().ok_or_else(|| {
        invalid(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        )
    })?;
    let account = &options.service_account;
    let (token, ca) = (account.join("token"), account.join("ca.crt"));
    if let Err(source) = std::fs::metadata(&token) {
        return Err(DiscoveryError::Read {
            path: token,
            source,
        });
    }
    let http = HttpClientConfig {
        authorization: Some(Authorization {
            kind: "Bearer".to_owned(),
            credentials_file: Some(token),
            ..Authorization::default()
        }),
        tls: TlsConfig {
            // Without this file, the system's authorities are used.
            ca_file: ca.exists().then_some(ca),
            ..TlsConfig::default()
        },
        proxy: of_environment(),
        ..HttpClientConfig::default()
    };
    Ok((format!("https://{}", join_host_port(host, port)), http))
}

/// Returns the environment's proxy settings, which Kubernetes' own client uses unless a proxy is configured.
fn of_environment() -> ProxyConfig {
    ProxyConfig {
        from_environment: true,
        ..ProxyConfig::default()
    }
}

/// The parts of a kubeconfig that a server process can use.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct KubeConfig {
    current_context: Option<String>,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<serde::de::IgnoredAny>,
    auth_provider: Option<serde::de::IgnoredAny>,
}

/// Returns the API's URL and its client settings.
pub(crate) fn from_kubeconfig(
    text: &str,
    file: &Path,
) -> Result<(String, HttpClientConfig), DiscoveryError> {
    let refuse = |message: String| DiscoveryError::Parse {
        what: file.display().to_string(),
        message,
    };
    let (cluster, mut user) = chosen(text).map_err(refuse)?;
    if user.exec.is_some() || user.auth_provider.is_some() {
        return Err(refuse(
            "users with exec or auth-provider are not supported: use a token or a certificate"
                .to_owned(),
        ));
    }
    if cluster.server.is_empty() {
        return Err(refuse("the cluster has no server".to_owned()));
    }
    let directory = file.parent().unwrap_or_else(|| Path::new("."));
    let decode = |what: &str, data: &Option<String>| -> Result<String, DiscoveryError> {
        let Some(data) = data.as_ref().filter(|data| !data.is_empty()) else {
            return Ok(String::new());
        };
        let bytes = BASE64_STANDARD.decode(data.split_whitespace().collect::<String>());
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| refuse(format!("{what} is not base64 of PEM")))
    };
    let ca = decode(
        "certificate-authority-data",
        &cluster.certificate_authority_data,
    )?;
    let cert = decode("client-certificate-data", &user.client_certificate_data)?;
    let key = decode("client-key-data", &user.client_key_data)?;
    // Inline data takes precedence over files, as in kubectl.
    let beside = |file: Option<PathBuf>, data: &str| {
        file.filter(|file| data.is_empty() && !file.as_os_str().is_empty())
            .map(|file| directory.join(file))
    };
    let mut http = HttpClientConfig {
        tls: TlsConfig {
            ca_file: beside(cluster.certificate_authority, &ca),
            cert_file: beside(user.client_certificate.take(), &cert),
            key_file: beside(user.client_key.take(), &key),
            ca,
            cert,
            key: Secret::new(key),
            server_name: cluster.tls_server_name.unwrap_or_default(),
            insecure_skip_verify: cluster.insecure_skip_tls_verify,
            ..TlsConfig::default()
        },
        ..HttpClientConfig::default()
    };
    http.proxy = match cluster.proxy_url.filter(|url| !url.is_empty()) {
        Some(url) => ProxyConfig {
            url: Some(ProxyUrl::parse(&url)?),
            ..ProxyConfig::default()
        },
        None => of_environment(),
    };
    authenticate(user, directory, &mut http);
    Ok((cluster.server, http))
}

/// Returns the current context's cluster and user.
fn chosen(text: &str) -> Result<(Cluster, User), String> {
    let config: KubeConfig = read_yaml(text)?.unwrap_or_default();
    let wanted = config.current_context.unwrap_or_default();
    let absent = |what: &str, name: &str| format!("{what} {name:?} does not exist");
    let context = config.contexts.into_iter().find(|c| c.name == wanted);
    let Context { cluster, user } = context.ok_or_else(|| absent("context", &wanted))?.context;
    let found = config.clusters.into_iter().find(|c| c.name == cluster);
    let cluster = found.ok_or_else(|| absent("cluster", &cluster))?.cluster;
    let Some(name) = user.filter(|name| !name.is_empty()) else {
        return Ok((cluster, User::default()));
    };
    let user = config.users.into_iter().find(|u| u.name == name);
    Ok((cluster, user.ok_or_else(|| absent("user", &name))?.user))
}

/// Sets the user's credentials; a token takes precedence over a name with a password.
fn authenticate(user: User, directory: &Path, http: &mut HttpClientConfig) {
    let token = user.token.filter(|token| !token.is_empty());
    let token_file = user.token_file.filter(|file| !file.as_os_str().is_empty());
    if token.is_some() || token_file.is_some() {
        http.authorization = Some(Authorization {
            kind: "Bearer".to_owned(),
            // A token file is more recent than an inline token, so it takes precedence.
            credentials: Secret::new(match &token_file {
                Some(_) => String::new(),
                None => token.unwrap_or_default(),
            }),
            credentials_file: token_file.map(|file| directory.join(file)),
        });
    } else if let Some(username) = user.username.filter(|name| !name.is_empty()) {
        http.basic_auth = Some(BasicAuth {
            username,
            password: Secret::new(user.password.unwrap_or_default()),
            ..BasicAuth::default()
        });
    }
}
