//! Keys for authentication, TLS and proxies that scrapes, discovery and remote ends share.

use super::{Key, Kind, NOT_HERE, Section, key};

#[rustfmt::skip]
pub(super) static CLIENT: &[Key] = &[
    key("basic_auth", Kind::Section(&BASIC_AUTH), "", "User and password."),
    key("authorization", Kind::Section(&AUTHORIZATION), "", "What the Authorization header says."),
    key("oauth2", Kind::Section(&OAUTH2), "", "How to get a token."),
    key("bearer_token", Kind::Secret, "", "Older form of authorization.credentials."),
    key("bearer_token_file", Kind::Path, "", "Older form of authorization.credentials_file."),
    key("tls_config", Kind::Section(&TLS), "", "Whom to trust and as whom to appear."),
    key("follow_redirects", Kind::Bool, "true", "Whether to follow redirects.").always(),
    key("enable_http2", Kind::Bool, "true", "Whether HTTP/2 may be spoken.").always().no_effect("requests are HTTP/1.1, which every server speaks"),
];

/// Proxy keys; they follow `CLIENT`.
#[rustfmt::skip]
pub(super) static PROXY: &[Key] = &[
    key("proxy_url", Kind::Url, "", "Proxy that requests go through."),
    key("no_proxy", Kind::Text, "", "Hosts, domains, addresses and networks that are reached directly, separated by commas."),
    key("proxy_from_environment", Kind::Bool, "", "Whether to take the proxy from HTTP_PROXY, HTTPS_PROXY and NO_PROXY."),
    key("proxy_connect_header", Kind::SecretParams, "", "Headers to send to the proxy with CONNECT."),
];

/// The last key; it follows `PROXY`.
#[rustfmt::skip]
pub(super) static HEADERS: &[Key] = &[key("http_headers", Kind::Named(&HEADER), "", "Headers to send, by name.")];

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
        key("username", Kind::Text, "", "User."),
        key("username_file", Kind::Path, "", "File with the user."),
        key("username_ref", Kind::Text, "", "Name of the user in a store of secrets.").refused(NOT_HERE),
        key("password", Kind::Secret, "", "Password."),
        key("password_file", Kind::Path, "", "File with the password."),
        key("password_ref", Kind::Text, "", "Name of the password in a store of secrets.").refused(NOT_HERE),
    ]],
};

#[rustfmt::skip]
static AUTHORIZATION: Section = Section {
    name: "authorization",
    about: "What the Authorization header says.",
    parts: &[&[
        key("type", Kind::Text, "Bearer", "Its first word."),
        key("credentials", Kind::Secret, "", "What follows."),
        key("credentials_file", Kind::Path, "", "File with what follows."),
        key("credentials_ref", Kind::Text, "", "Name of what follows in a store of secrets.").refused(NOT_HERE),
    ]],
};

#[rustfmt::skip]
static OAUTH2: Section = Section {
    name: "oauth2",
    about: "How to get a token: client_credentials, or an assertion as RFC 7523 has it.",
    parts: &[
        &[
            key("client_id", Kind::Text, "", "Client."),
            key("client_secret", Kind::Secret, "", "Its secret."),
            key("client_secret_file", Kind::Path, "", "File with its secret."),
            key("client_secret_ref", Kind::Text, "", "Name of its secret in a store of secrets.").refused(NOT_HERE),
            key("client_certificate_key_id", Kind::Text, "", "Id of the key that signs the assertion."),
            key("client_certificate_key", Kind::Secret, "", "RSA key in PEM."),
            key("client_certificate_key_file", Kind::Path, "", "File with the key."),
            key("client_certificate_key_ref", Kind::Text, "", "Name of the key in a store of secrets.").refused(NOT_HERE),
            key("grant_type", Kind::Text, "", "client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer."),
            key("signature_algorithm", Kind::Text, "", "RS256, RS384 or RS512."),
            key("iss", Kind::Text, "", "Issuer of the assertion; the client when empty."),
            key("audience", Kind::Text, "", "Audience of the assertion; the token's URL when empty."),
            key("claims", Kind::Any, "", "More claims of the assertion."),
            key("scopes", Kind::Texts, "", "Scopes to ask for."),
            key("token_url", Kind::Text, "", "Where to get the token."),
            key("endpoint_params", Kind::Labels, "", "More parameters of the request."),
            key("tls_config", Kind::Section(&TLS), "", "Whom to trust and as whom to appear."),
        ],
        PROXY,
    ],
};

#[rustfmt::skip]
pub(super) static TLS: Section = Section {
    name: "tls_config",
    about: "Whom to trust and as whom to appear. TLS 1.2 and 1.3 are spoken.",
    parts: &[&[
        key("ca", Kind::Text, "", "Certificates to trust, in PEM."),
        key("cert", Kind::Text, "", "The client's certificate in PEM."),
        key("key", Kind::Secret, "", "The client's key in PEM."),
        key("ca_file", Kind::Path, "", "File with certificates to trust."),
        key("cert_file", Kind::Path, "", "File with the client's certificate."),
        key("key_file", Kind::Path, "", "File with the client's key."),
        key("ca_ref", Kind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("cert_ref", Kind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("key_ref", Kind::Text, "", "Name in a store of secrets.").refused(NOT_HERE),
        key("server_name", Kind::Text, "", "Name the server's certificate must have; the URL's host when empty."),
        key("insecure_skip_verify", Kind::Bool, "false", "Whether to trust anyone.").always(),
        key("min_version", Kind::Text, "", "Least version: TLS10, TLS11, TLS12, TLS13."),
        key("max_version", Kind::Text, "", "Greatest version."),
    ]],
};

#[rustfmt::skip]
static HEADER: Section = Section {
    name: "http_header",
    about: "What one header says; a line for each entry.",
    parts: &[&[
        key("values", Kind::Texts, "", "Values."),
        key("secrets", Kind::Secrets, "", "Values that are not shown."),
        key("files", Kind::Paths, "", "Files with values."),
    ]],
};
