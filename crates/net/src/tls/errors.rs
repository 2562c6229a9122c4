//! Errors of connections in Go's words.

use std::io;

use crate::error::{NetError, REMOTE_TLS, tls_error};

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
            format!("{REMOTE_TLS}{text}")
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
