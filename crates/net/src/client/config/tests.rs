//! Tests of versions, names, directories. Combinations are tested with the clients in `tests/it`.

use super::*;

#[test]
fn versions_have_names() {
    for name in ["TLS10", "TLS11", "TLS12", "TLS13"] {
        assert_eq!(TlsVersion::parse(name).expect(name).name(), name);
    }
    let error = TlsVersion::parse("TLS14").expect_err("unknown");
    assert_eq!(error.to_string(), "unknown TLS version: TLS14");
    let crossed = TlsConfig {
        min_version: Some(TlsVersion::Tls13),
        max_version: Some(TlsVersion::Tls12),
        ..TlsConfig::default()
    };
    assert!(crossed.validate().is_err());
}

#[test]
fn bearer_tokens_become_authorizations() {
    let mut config = HttpClientConfig {
        bearer_token: Secret::from("t"),
        ..HttpClientConfig::default()
    };
    config.validate().expect("usable");
    let authorization = config.authorization.clone().expect("made of the token");
    assert_eq!(authorization.kind, "Bearer");
    assert_eq!(authorization.credentials.expose(), "t");
    assert!(config.bearer_token.is_empty());
    config.validate().expect("still usable");
}
