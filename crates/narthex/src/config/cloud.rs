//! Reads how remote ends in the clouds authenticate senders: `sigv4`, `azuread` and `google_iam`.

use super::{ConfigError, Environment, access::Access as _};
use narthex_model::Pattern;
use narthex_net::{GRANT_JWT_BEARER, OAuth2, Secret, SigV4Config, TokenRequest};
use narthex_yaml::Node;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// Clouds, each with the domain whose `login` gives tokens and the one whose `monitor` they are for.
const AZURE: [(&str, &str, &str); 3] = [
    ("AzurePublic", "microsoftonline.com", "azure.com"),
    ("AzureGovernment", "microsoftonline.us", "azure.us"),
    ("AzureChina", "chinacloudapi.cn", "azure.cn"),
];

/// The service that gives a machine its tokens.
const AZURE_METADATA: &str = "http://169.254.169.254";
/// Where a pod's token is unless the environment says otherwise.
const WORKLOAD_TOKEN: &str = "/var/run/secrets/azure/tokens/azure-identity-token";
/// As `AZURE_METADATA` is asked.
const METADATA_VERSION: &str = "2018-02-01";

/// What tokens of Google are for, as Prometheus asks for them.
const GOOGLE_SCOPE: &str = "https://www.googleapis.com/auth/monitoring.write";
const GOOGLE_METADATA: &str = "169.254.169.254";
const GOOGLE_TOKENS: &str = "https://oauth2.googleapis.com/token";

/// Reads `sigv4` of a remote end.
///
/// # Errors
/// Fails, in Prometheus' words, when its keys contradict each other.
pub(super) fn sigv4(node: &Node) -> Result<Option<SigV4Config>, ConfigError> {
    let Some(node) = node.given("sigv4") else {
        return Ok(None);
    };
    let text = |key: &str| node.text_of(key).to_owned();
    let config = SigV4Config {
        region: text("region"),
        access_key: text("access_key"),
        secret_key: Secret::new(text("secret_key")),
        profile: text("profile"),
        role_arn: text("role_arn"),
        external_id: text("external_id"),
        session_name: text("session_name"),
        tags: node.labels("tags"),
        use_fips_sts_endpoint: node.flag("use_fips_sts_endpoint"),
        service_name: text("service_name"),
    };
    config
        .validate()
        .map_err(|error| node.error(error.to_string()))?;
    Ok(Some(config))
}

/// Reads `azuread` of a remote end: where and how tokens are asked for.
///
/// # Errors
/// Fails, in Prometheus' words, on a setting that cannot be used.
pub(super) fn azuread(
    node: &Node,
    environment: Environment<'_>,
) -> Result<Option<Box<OAuth2>>, ConfigError> {
    let Some(node) = node.given("azuread") else {
        return Ok(None);
    };
    let cloud = node.text_of("cloud");
    let Some((_, login, audience)) = AZURE.iter().find(|(name, ..)| *name == cloud) else {
        return Err(node.error("must provide a cloud in the Azure AD config"));
    };
    let ways = [
        "managed_identity",
        "workload_identity",
        "oauth",
        "certificate",
        "sdk",
    ];
    let given: Vec<(&str, &Node)> = ways
        .iter()
        .filter_map(|way| Some((*way, node.given(way)?)))
        .collect();
    let [(way, identity)] = given.as_slice() else {
        return Err(node.error(if given.is_empty() {
            "must provide an Azure Managed Identity, Azure Workload Identity, Azure OAuth, Azure Certificate or Azure SDK in the Azure AD config"
        } else {
            "cannot provide multiple authentication methods in the Azure AD config"
        }));
    };
    // An empty section, which the table of keys lets pass, would send without tokens.
    if matches!(*way, "certificate" | "sdk") {
        return Err(identity.error(format!(
            "remote_write.azuread.{way} is not supported: this version does not have it"
        )));
    }
    let scope = match node.text_of("scope") {
        "" => format!("https://monitor.{audience}//.default"),
        scope if fits(scope, r"[\w\s:/.\-]+") => scope.to_owned(),
        _ => return Err(node.error("the provided scope contains invalid characters")),
    };
    let named = |name| super::named(environment, name);
    if *way == "managed_identity" {
        let host = named("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        let host = host.unwrap_or_else(|| AZURE_METADATA.to_owned());
        return managed(identity, &host, &scope).map(Some);
    }
    let host = named("AZURE_AUTHORITY_HOST").unwrap_or_else(|| format!("https://login.{login}"));
    let (who, request) = if *way == "oauth" {
        ("OAuth", TokenRequest::Standard)
    } else {
        let path = match identity.text_of("token_file_path") {
            "" => named("AZURE_FEDERATED_TOKEN_FILE").unwrap_or_else(|| WORKLOAD_TOKEN.to_owned()),
            path => path.to_owned(),
        };
        let request = TokenRequest::AssertionFile(PathBuf::from(path));
        ("Workload Identity", request)
    };
    application(identity, who, (&host, &scope), request).map(Some)
}

/// Returns how an application asks for tokens.
fn application(
    node: &Node,
    who: &str,
    (host, scope): (&str, &str),
    request: TokenRequest,
) -> Result<Box<OAuth2>, ConfigError> {
    let mut needed = vec!["client_id", "tenant_id"];
    if request == TokenRequest::Standard {
        needed.insert(1, "client_secret");
    }
    for key in needed {
        if node.text_of(key).is_empty() {
            let text = format!("must provide an Azure {who} {key} in the Azure AD config");
            return Err(node.error(text));
        }
    }
    let tenant = node.text_of("tenant_id");
    check_id(node, who, "client_id")?;
    if request != TokenRequest::Standard {
        check_id(node, who, "tenant_id")?;
    } else if !fits(tenant, r"[0-9a-zA-Z\-.]+") {
        return Err(node.error(format!("the provided Azure {who} tenant_id is invalid")));
    }
    Ok(Box::new(OAuth2 {
        client_id: node.text_of("client_id").to_owned(),
        client_secret: Secret::new(node.text_of("client_secret")),
        token_url: format!("{}/{tenant}/oauth2/v2.0/token", host.trim_end_matches('/')),
        scopes: vec![scope.to_owned()],
        request,
        ..OAuth2::default()
    }))
}

/// Returns how a machine asks for tokens of its own identity.
fn managed(node: &Node, host: &str, scope: &str) -> Result<Box<OAuth2>, ConfigError> {
    let client = node.text_of("client_id");
    let resource = scope.trim_end_matches("/.default");
    let mut url = format!(
        "{}/metadata/identity/oauth2/token?api-version={METADATA_VERSION}&resource={}",
        host.trim_end_matches('/'),
        narthex_net::percent::escape_form(resource)
    );
    if !client.is_empty() {
        check_id(node, "Managed Identity", "client_id")?;
        url.push_str(&format!("&client_id={client}"));
    }
    Ok(Box::new(OAuth2 {
        client_id: "managed identity".to_owned(),
        token_url: url,
        request: TokenRequest::Metadata,
        ..OAuth2::default()
    }))
}

/// Reads `google_iam` of a remote end: where and how tokens are asked for.
///
/// # Errors
/// Fails on a file of credentials that cannot be read or is not of a service account.
pub(super) fn google_iam(
    node: &Node,
    environment: Environment<'_>,
) -> Result<Option<Box<OAuth2>>, ConfigError> {
    let Some(node) = node.given("google_iam") else {
        return Ok(None);
    };
    let named = |name| super::named(environment, name);
    let own = Some(node.text_of("credentials_file").to_owned()).filter(|path| !path.is_empty());
    let file = own.or_else(|| named("GOOGLE_APPLICATION_CREDENTIALS"));
    // Google's own tools leave a file here.
    let left = || {
        let home = PathBuf::from(named("HOME")?);
        let path = home.join(".config/gcloud/application_default_credentials.json");
        path.exists().then(|| path.display().to_string())
    };
    if let Some(path) = file.or_else(left) {
        let account = service_account(&path);
        return account.map(Some).map_err(|reason| {
            node.error(format!("google_iam: credentials file {path}: {reason}"))
        });
    }
    let host = named("GCE_METADATA_HOST").unwrap_or_else(|| GOOGLE_METADATA.to_owned());
    Ok(Some(Box::new(OAuth2 {
        client_id: "service account".to_owned(),
        token_url: format!(
            "http://{host}/computeMetadata/v1/instance/service-accounts/default/token?scopes={}",
            narthex_net::percent::escape_form(GOOGLE_SCOPE)
        ),
        request: TokenRequest::GoogleMetadata,
        ..OAuth2::default()
    })))
}

/// Returns how the service account of a file asks for tokens.
fn service_account(path: &str) -> Result<Box<OAuth2>, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let fields: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    match text("type").as_str() {
        "service_account" => {}
        other => return Err(format!("credentials of type {other:?} are not supported")),
    }
    let (email, key) = (text("client_email"), text("private_key"));
    if email.is_empty() || key.is_empty() {
        return Err("it has no client_email or no private_key".to_owned());
    }
    let token_url = Some(text("token_uri")).filter(|url| !url.is_empty());
    Ok(Box::new(OAuth2 {
        iss: email,
        grant_type: GRANT_JWT_BEARER.to_owned(),
        client_certificate_key: Secret::new(key),
        client_certificate_key_id: text("private_key_id"),
        token_url: token_url.unwrap_or_else(|| GOOGLE_TOKENS.to_owned()),
        scopes: vec![GOOGLE_SCOPE.to_owned()],
        ..OAuth2::default()
    }))
}

fn check_id(node: &Node, who: &str, key: &str) -> Result<(), ConfigError> {
    let form = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
    if fits(node.text_of(key), form) {
        return Ok(());
    }
    Err(node.error(format!("the provided Azure {who} {key} is invalid")))
}

fn fits(text: &str, pattern: &str) -> bool {
    Pattern::anchored(pattern).is_ok_and(|pattern| pattern.is_match(text))
}
