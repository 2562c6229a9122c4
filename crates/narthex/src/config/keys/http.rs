//! Keys for authentication, TLS and proxies that scrapes, discovery and remote ends share.

use super::{Key, KeyKind, NOT_HERE, Section, key, section};

#[rustfmt::skip]
pub(super) static CLIENT: &[Key] = &[
    key("basic_auth", KeyKind::Section(&BASIC_AUTH), "", "User and password."),
    key("authorization", KeyKind::Section(&AUTHORIZATION), "", "Contents of the Authorization header."),
    key("oauth2", KeyKind::Section(&OAUTH2), "", "How to obtain a token."),
    key("bearer_token", KeyKind::Secret, "", "Deprecated form of authorization.credentials."),
    key("bearer_token_file", KeyKind::Path, "", "Deprecated form of authorization.credentials_file."),
    key("tls_config", KeyKind::Section(&TLS), "", "TLS settings: trusted certificates and the client's own."),
    key("follow_redirects", KeyKind::Bool, "true", "Whether to follow redirects.").always(),
];

/// Whether HTTP/2 may be used; it follows `CLIENT`. Remote write has a default of its own.
#[rustfmt::skip]
pub(super) static HTTP2: &[Key] = &[http2("true")];
#[rustfmt::skip]
pub(super) static NO_HTTP2: &[Key] = &[http2("false")];

const fn http2(default: &'static str) -> Key {
    key(
        "enable_http2",
        KeyKind::Bool,
        default,
        "Whether HTTP/2 may be used.",
    )
    .always()
    .no_effect("requests are HTTP/1.1, which every server speaks")
}

/// Proxy keys; they follow `HTTP2`.
#[rustfmt::skip]
pub(super) static PROXY: &[Key] = &[
    key("proxy_url", KeyKind::Url, "", "Proxy used for requests."),
    key("no_proxy", KeyKind::Text, "", "Comma-separated hosts, domains, addresses and networks that bypass the proxy."),
    key("proxy_from_environment", KeyKind::Bool, "", "Whether to use the proxy named by HTTP_PROXY, HTTPS_PROXY and NO_PROXY."),
    key("proxy_connect_header", KeyKind::SecretParams, "", "Headers sent to the proxy in CONNECT requests."),
];

/// The last key; it follows `PROXY`.
#[rustfmt::skip]
pub(super) static HEADERS: &[Key] = &[key("http_headers", KeyKind::Named(&HEADER), "", "Additional request headers, by name.")];

/// A file of HTTP client settings, as commands accept it.
#[rustfmt::skip]
pub(crate) static HTTP_FILE: Section = section("http_config", "HTTP client settings.", &[CLIENT, HTTP2, PROXY, HEADERS]);

#[rustfmt::skip]
static BASIC_AUTH: Section = section("basic_auth", "User and password of HTTP basic authentication.", &[&[
    key("username", KeyKind::Text, "", "User."),
    key("username_file", KeyKind::Path, "", "File with the user."),
    key("username_ref", KeyKind::Text, "", "Name of the user in a secret manager.").refused(NOT_HERE),
    key("password", KeyKind::Secret, "", "Password."),
    key("password_file", KeyKind::Path, "", "File with the password."),
    key("password_ref", KeyKind::Text, "", "Name of the password in a secret manager.").refused(NOT_HERE),
]]);

#[rustfmt::skip]
static AUTHORIZATION: Section = section("authorization", "Contents of the Authorization header.", &[&[
    key("type", KeyKind::Text, "Bearer", "Authentication scheme."),
    key("credentials", KeyKind::Secret, "", "Credentials."),
    key("credentials_file", KeyKind::Path, "", "File with the credentials."),
    key("credentials_ref", KeyKind::Text, "", "Name of the credentials in a secret manager.").refused(NOT_HERE),
]]);

#[rustfmt::skip]
static OAUTH2: Section = section("oauth2", "How to obtain a token: client_credentials, or an assertion according to RFC 7523.", &[
    &[
        key("client_id", KeyKind::Text, "", "Client ID."),
        key("client_secret", KeyKind::Secret, "", "Its secret."),
        key("client_secret_file", KeyKind::Path, "", "File with its secret."),
        key("client_secret_ref", KeyKind::Text, "", "Name of the client's secret in a secret manager.").refused(NOT_HERE),
        key("client_certificate_key_id", KeyKind::Text, "", "ID of the key that signs the assertion."),
        key("client_certificate_key", KeyKind::Secret, "", "RSA key in PEM."),
        key("client_certificate_key_file", KeyKind::Path, "", "File with the key."),
        key("client_certificate_key_ref", KeyKind::Text, "", "Name of the key in a secret manager.").refused(NOT_HERE),
        key("grant_type", KeyKind::Text, "", "client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer."),
        key("signature_algorithm", KeyKind::Text, "", "RS256, RS384 or RS512."),
        key("iss", KeyKind::Text, "", "Issuer of the assertion; the client ID if empty."),
        key("audience", KeyKind::Text, "", "Audience of the assertion; the token URL if empty."),
        key("claims", KeyKind::Any, "", "Additional claims of the assertion."),
        key("scopes", KeyKind::Texts, "", "Scopes to request."),
        key("token_url", KeyKind::Text, "", "URL of the token endpoint."),
        key("endpoint_params", KeyKind::Labels, "", "Additional request parameters."),
        key("tls_config", KeyKind::Section(&TLS), "", "TLS settings: trusted certificates and the client's own."),
    ],
    PROXY,
]);

#[rustfmt::skip]
pub(super) static TLS: Section = section("tls_config", "Trusted certificates and the client's own. TLS 1.2 and 1.3 are supported.", &[&[
    key("ca", KeyKind::Text, "", "Trusted certificates in PEM."),
    key("cert", KeyKind::Text, "", "The client's certificate in PEM."),
    key("key", KeyKind::Secret, "", "The client's key in PEM."),
    key("ca_file", KeyKind::Path, "", "File with trusted certificates."),
    key("cert_file", KeyKind::Path, "", "File with the client's certificate."),
    key("key_file", KeyKind::Path, "", "File with the client's key."),
    key("ca_ref", KeyKind::Text, "", "Name in a secret manager.").refused(NOT_HERE),
    key("cert_ref", KeyKind::Text, "", "Name in a secret manager.").refused(NOT_HERE),
    key("key_ref", KeyKind::Text, "", "Name in a secret manager.").refused(NOT_HERE),
    key("server_name", KeyKind::Text, "", "Name expected in the server's certificate; the URL's host if empty."),
    key("insecure_skip_verify", KeyKind::Bool, "false", "Whether to skip verification of the server's certificate.").always(),
    key("min_version", KeyKind::Text, "", "Minimum version: TLS10, TLS11, TLS12, TLS13."),
    key("max_version", KeyKind::Text, "", "Maximum version."),
]]);

#[rustfmt::skip]
static HEADER: Section = section("http_header", "Values of one header; each entry is sent as a line of its own.", &[&[
    key("values", KeyKind::Texts, "", "Values."),
    key("secrets", KeyKind::Secrets, "", "Values that are kept secret."),
    key("files", KeyKind::Paths, "", "Files with values."),
]]);
