//! Reads HTTP client settings from a tree.

use super::{ConfigError, access::Access as _};
use narthex_net::{
    Authorization, BasicAuth, HeaderSources, HttpClientConfig, NetError, OAuth2, ProxyConfig,
    ProxyUrl, Secret, TlsConfig, TlsVersion, TokenRequest,
};
use narthex_yaml::{Node, Value, Word};
use std::path::PathBuf;

/// Reads the HTTP client keys in `node`.
///
/// # Errors
/// Fails, in Prometheus' words, when they contradict each other.
pub(super) fn client(node: &Node) -> Result<HttpClientConfig, ConfigError> {
    let mut config = HttpClientConfig {
        basic_auth: node.given("basic_auth").map(basic_auth),
        authorization: node.given("authorization").map(authorization),
        oauth2: node
            .given("oauth2")
            .map(|oauth2| oauth2_of(oauth2).map(Box::new))
            .transpose()?,
        bearer_token: secret(node, "bearer_token"),
        bearer_token_file: path(node, "bearer_token_file"),
        tls: tls(node)?,
        follow_redirects: node.flag("follow_redirects"),
        enable_http2: node.flag("enable_http2"),
        proxy: proxy(node)?,
        headers: node
            .pairs("http_headers")
            .into_iter()
            .map(|(name, header)| (name.to_owned(), sources(header)))
            .collect(),
    };
    config.validate().map_err(|error| at(node, &error))?;
    Ok(config)
}

/// Turns the older keys of a token into the newer ones, as Prometheus prints them.
pub(super) fn settle(node: &mut Node) {
    let given = |key: &str| node.given(key).filter(|value| !value.as_text().is_empty());
    let credentials = given("bearer_token").cloned();
    let file = given("bearer_token_file").cloned();
    if credentials.is_none() && file.is_none() {
        return;
    }
    let mut authorization = Node::new(Value::Null);
    authorization.set("type", Node::text("Bearer"));
    for (key, value) in [("credentials", credentials), ("credentials_file", file)] {
        if let Some(value) = value {
            authorization.set(key, value);
        }
    }
    node.set("authorization", authorization);
    node.set("bearer_token", Node::new(Value::Null));
    node.set("bearer_token_file", Node::new(Value::Null));
}

fn at(node: &Node, error: &NetError) -> ConfigError {
    node.error(error.to_string())
}

fn secret(node: &Node, key: &str) -> Secret {
    Secret::new(node.text_of(key))
}

fn path(node: &Node, key: &str) -> Option<PathBuf> {
    let text = node.text_of(key);
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn basic_auth(node: &Node) -> BasicAuth {
    BasicAuth {
        username: node.text_of("username").to_owned(),
        username_file: path(node, "username_file"),
        password: secret(node, "password"),
        password_file: path(node, "password_file"),
    }
}

fn authorization(node: &Node) -> Authorization {
    Authorization {
        kind: node.text_of("type").to_owned(),
        credentials: secret(node, "credentials"),
        credentials_file: path(node, "credentials_file"),
    }
}

fn oauth2_of(node: &Node) -> Result<OAuth2, ConfigError> {
    let text = |key: &str| node.text_of(key).to_owned();
    Ok(OAuth2 {
        client_id: text("client_id"),
        client_secret: secret(node, "client_secret"),
        client_secret_file: path(node, "client_secret_file"),
        client_certificate_key_id: text("client_certificate_key_id"),
        client_certificate_key: secret(node, "client_certificate_key"),
        client_certificate_key_file: path(node, "client_certificate_key_file"),
        grant_type: text("grant_type"),
        signature_algorithm: text("signature_algorithm"),
        iss: text("iss"),
        audience: text("audience"),
        claims: node.get("claims").map(claims).unwrap_or_default(),
        scopes: node.texts("scopes"),
        token_url: text("token_url"),
        endpoint_params: node.labels("endpoint_params"),
        tls: tls(node)?,
        proxy: proxy(node)?,
        request: TokenRequest::Standard,
    })
}

fn claims(node: &Node) -> serde_json::Map<String, serde_json::Value> {
    match json(node) {
        serde_json::Value::Object(claims) => claims,
        _ => serde_json::Map::new(),
    }
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Scalar(scalar) => {
            let number = scalar
                .integer()
                .and_then(|number| i64::try_from(number).ok());
            scalar
                .boolean()
                .map(Into::into)
                .or_else(|| number.map(Into::into))
                .or_else(|| scalar.float().map(Into::into))
                .unwrap_or_else(|| scalar.text.as_str().into())
        }
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(pairs) => {
            let pair = |(word, value): &(Word, Node)| (word.text.clone(), json(value));
            pairs.iter().map(pair).collect()
        }
    }
}

fn tls(node: &Node) -> Result<TlsConfig, ConfigError> {
    let Some(node) = node.given("tls_config") else {
        return Ok(TlsConfig::default());
    };
    let version = |key: &str| match node.text_of(key) {
        "" => Ok(None),
        text => TlsVersion::parse(text)
            .map(Some)
            .map_err(|error| at(node, &error)),
    };
    Ok(TlsConfig {
        ca: node.text_of("ca").to_owned(),
        ca_file: path(node, "ca_file"),
        cert: node.text_of("cert").to_owned(),
        cert_file: path(node, "cert_file"),
        key: secret(node, "key"),
        key_file: path(node, "key_file"),
        server_name: node.text_of("server_name").to_owned(),
        insecure_skip_verify: node.flag("insecure_skip_verify"),
        min_version: version("min_version")?,
        max_version: version("max_version")?,
    })
}

fn proxy(node: &Node) -> Result<ProxyConfig, ConfigError> {
    let url = match node.text_of("proxy_url") {
        "" => None,
        text => Some(ProxyUrl::parse(text).map_err(|error| at(node, &error))?),
    };
    Ok(ProxyConfig {
        url,
        no_proxy: node.text_of("no_proxy").to_owned(),
        from_environment: node.flag("proxy_from_environment"),
        connect_headers: node
            .params("proxy_connect_header")
            .into_iter()
            .map(|(name, values)| (name, values.into_iter().map(Secret::new).collect()))
            .collect(),
    })
}

fn sources(node: &Node) -> HeaderSources {
    HeaderSources {
        values: node.texts("values"),
        secrets: node.texts("secrets").into_iter().map(Secret::new).collect(),
        files: node.texts("files").into_iter().map(PathBuf::from).collect(),
    }
}
