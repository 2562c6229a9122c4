//! Keys for authentication, TLS and proxies that scrapes, discovery and remote ends share.

use super::{Key, KeyKind, NOT_HERE, Section, key};

#[rustfmt::skip]
pub(super) static CLIENT: &[Key] = &[
    key("basic_auth", KeyKind::Section(&BASIC_AUTH), "", "User and password."),
    key("authorization", KeyKind::Section(&AUTHORIZATION), "", "What the Authorization header says."),
    key("oauth2", KeyKind::Section(&OAUTH2), "", "How to get a token."),
    key("bearer_token", KeyKind::Secret, "", "Older form of authorization.credentials."),
    key("bearer_token_file", KeyKind::Path, "", "Older form of authorization.credentials_file."),
    key("tls_config", KeyKind::Section(&TLS), "", "Whom to trust and as whom to appear."),
    key("follow_redirects", KeyKind::Bool, "true", "Whether to follow redirects.").always(),
    key("enable_http2", KeyKind::Bool, "true", "Whether HTTP/2 may be spoken.").always().no_effect("requests are HTTP/1.1, which every server speaks"),
];

/// Proxy keys; they follow `CLIENT`.
#[rustfmt::skip]
pub(super) static PROXY: &[Key] = &[
    key("proxy_url", KeyKind::Url, "", "Proxy that requests go through."),
    key("no_proxy", KeyKind::Text, "", "Hosts, domains, addresses and networks that are reached directly, separated by commas."),
    key("proxy_from_environment", KeyKind::Bool, "", "Whether to take the proxy from HTTP_PROXY, HTTPS_PROXY and NO_PROXY."),
    key("proxy_connect_header", KeyKind::SecretParams, "", "Headers to send to the proxy with CONNECT."),
];

/// The last key; it follows `PROXY`.
#[rustfmt::skip]
pub(super) static HEADERS: &[Key] = &[key("http_headers", KeyKind::Named(&HEADER), "", "Headers to send, by name.")];

/// A file of HTTP client settings, as commands accept it.
#[rustfmt::skip]
pub(crate) static HTTP_FILE: Section = Section {
    name: "http_config",
    about: "How to speak HTTP.",
    parts: &[CLIENT, PROXY, HEADERS],
};

#[rustfmt::skip]
static BASIC_AUTH: Section = Section {
    name: "basic_auth",
    about: "User and password of HTTP basic authentication.",
    parts: &[&[
        key("username", KeyKind::Text, "", "User."),
        key("username_file", KeyKind::Path, "", "File with the user."),
        key("username_ref", KeyKind::Text, "", "Name of the user in a store of secrets.").refused(NOT_HERE),
        key("password", KeyKind::Secret, "", "Password."),
        key("password_file", KeyKind::Path, "", "File with the password."),
        key("password_ref", KeyKind::Text, "", "Name of the password in a store of secrets.").refused(NOT_HERE),
    ]],
};

#[rustfmt::skip]
static AUTHORIZATION: Section = Section {
    name: "authorization",
    about: "What the Authorization header says.",
    parts: &[&[
        key("type", KeyKind::Text, "Bearer", "Its first word."),
        key("credentials", KeyKind::Secret, "", "What follows."),
        key("credentials_file", KeyKind::Path, "", "File with what follows."),
        key("credentials_ref", KeyKind::Text, "", "Name of what follows in a store of secrets.").refused(NOT_HERE),
    ]],
};

#[rustfmt::skip]
static OAUTH2: Section = Section {
    name: "oauth2",
    about: "How to get a token: client_credentials, or an assertion as RFC 7523 has it.",
    parts: &[
        &[
            key("client_id", KeyKind::Text, "", "Client."),
            key("client_secret", KeyKind::Secret, "", "Its secret."),
            key("client_secret_file", KeyKind::Path, "", "File with its secret."),
            key("client_secret_ref", KeyKind::Text, "", "Name of its secret in a store of secrets.").refused(NOT_HERE),
            key("client_certificate_key_id", KeyKind::Text, "", "Id of the key that signs the assertion."),
            key("client_certificate_key", KeyKind::Secret, "", "RSA key in PEM."),
            key("client_certificate_key_file", KeyKind::Path, "", "File with the key."),
            key("client_certificate_key_ref", KeyKind::Text, "", "Name of the key in a store of secrets.").refused(NOT_HERE),
            key("grant_type", KeyKind::Text, "", "client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer."),
            key("signature_algorithm", KeyKind::Text, "", "RS256, RS384 or RS512."),
            key("iss", KeyKind::Text, "", "Issuer of the assertion; the client when empty."),
            key("audience", KeyKind::Text, "", "Audience of the assertion; the token's URL when empty."),
            key("claims", KeyKind::Any, "", "More claims of the assertion."),
            key("scopes", KeyKind::Texts, "", "Scopes to ask for."),
            key("token_url", KeyKind::Text, "", "Where to get the token."),
            key("endpoint_params", KeyKind::Labels, "", "More parameters of the request."),
            key("tls_config", KeyKind::Section(&TLS), "", "Whom to trust and as whom to appear."),
        ],
        PROXY,
    ],
};

#[rustfmt::skip]
pub(super) static TLS: Section = Section {
    name: "tls_config",
    about: "Whom to trust and as whom to appear. TLS 1.2 and 1.3 are spoken.",
    parts: &[&[
        key("ca", KeyKind::Text, "", "Certificates to trust, in PEM."),
        key("cert", KeyKind::Text, "", "The client's certificate in PEM."),
        key("key", KeyKind::Secret, "", "The client's key in PEM."),
        key("ca_file", KeyKind::Path, "", "File with certificates to trust."),
        key("cert_file", KeyKind::Path, "", "File with the client's certificate."),
        key("key_file", KeyKind::Path, "", "File with the client's key."),
        key("ca_ref", KeyKind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("cert_ref", KeyKind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("key_ref", KeyKind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("server_name", KeyKind::Text, "", "Name the server's certificate must have; the URL's host when empty."),
        key("insecure_skip_verify", KeyKind::Bool, "false", "Whether to trust anyone.").always(),
        key("min_version", KeyKind::Text, "", "Least version: TLS10, TLS11, TLS12, TLS13."),
        key("max_version", KeyKind::Text, "", "Greatest version."),
    ]],
};

#[rustfmt::skip]
static HEADER: Section = Section {
    name: "http_header",
    about: "What one header says; a line for each entry.",
    parts: &[&[
        key("values", KeyKind::Texts, "", "Values."),
        key("secrets", KeyKind::Secrets, "", "Values that are not shown."),
        key("files", KeyKind::Paths, "", "Files with values."),
    ]],
};
