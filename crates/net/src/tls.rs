//! TLS on both sides: rustls configurations from settings, with certificates verified as in Go.
//!
//! Invariant: one crypto provider, aws-lc-rs, passed explicitly; nothing depends on a process-wide default. No peer
//! is trusted without verification unless the configuration says so.

pub(crate) mod chain;
pub(crate) mod client;
pub(crate) mod der;
mod names;
pub(crate) mod server;
pub(crate) mod verify;

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::client::config::TlsVersion;
use crate::error::NetError;

/// Returns the process's only provider.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

/// Parses every certificate in a PEM text; other and broken blocks are skipped, as in Go.
pub(crate) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .filter_map(Result::ok)
        .collect()
}

/// Parses the first private key in a PEM text (PKCS #8, PKCS #1 or SEC 1).
pub(crate) fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, NetError> {
    // The cause is not shown: it could quote the text.
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_cause| tls_error(NO_KEY))
}

const NO_KEY: &str = "failed to find any private key in PEM data";

/// Returns the versions between two bounds that rustls supports.
///
/// # Errors
/// Fails if there are none: TLS 1.0 and 1.1 are not supported.
pub(crate) fn versions(
    min: Option<TlsVersion>,
    max: Option<TlsVersion>,
) -> Result<Vec<&'static SupportedProtocolVersion>, NetError> {
    let spoken = [
        (TlsVersion::Tls13, &rustls::version::TLS13),
        (TlsVersion::Tls12, &rustls::version::TLS12),
    ];
    let chosen: Vec<_> = spoken
        .into_iter()
        .filter(|(version, _)| min.is_none_or(|min| *version >= min))
        .filter(|(version, _)| max.is_none_or(|max| *version <= max))
        .map(|(_, supported)| supported)
        .collect();
    if chosen.is_empty() {
        let name = max.map_or("", TlsVersion::name);
        return Err(NetError::Config {
            message: format!("max_version {name}: versions below TLS 1.2 are not supported"),
        });
    }
    Ok(chosen)
}

pub(crate) fn tls_error(message: impl Into<String>) -> NetError {
    NetError::Tls {
        message: message.into(),
    }
}

/// Go's prefix for errors reported by the peer.
pub(crate) const REMOTE: &str = "remote error: tls: ";

/// Converts a handshake error, with Go's text if it has one.
pub(crate) fn handshake_error(error: io::Error) -> NetError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => NetError::Closed { received_bytes: 0 },
        _ => read_error(error),
    }
}

/// Converts a read error; a peer that requires a certificate reports that only after the handshake.
pub(crate) fn read_error(error: io::Error) -> NetError {
    let inner = error.get_ref();
    let cause = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause.map(text_of) {
        Some(text) => tls_error(text),
        None => NetError::read(error),
    }
}

pub(crate) fn text_of(error: &rustls::Error) -> String {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            format!("failed to verify certificate: x509: {other}")
        }
        // An authority with the same name but another key is a different authority.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
        }
        Error::InvalidCertificate(cause) => {
            format!("failed to verify certificate: x509: {cause}")
        }
        Error::AlertReceived(alert) => {
            let text = match alert {
                AlertDescription::UnknownCA => "unknown certificate authority".to_owned(),
                AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
                other => spaced(&format!("{other:?}")),
            };
            format!("{REMOTE}{text}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "first record does not look like a TLS handshake".to_owned()
        }
        Error::PeerIncompatible(
            PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::ServerDoesNotSupportTls12Or13,
        ) => "protocol version not supported".to_owned(),
        other => other.to_string(),
    }
}

/// Splits words: `BadCertificate` becomes `bad certificate`.
fn spaced(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push(' ');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}
