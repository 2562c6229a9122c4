//! Verification of server certificates, as in Go's `crypto/x509`.
//!
//! Invariant: time, name, usage and chain are checked on every path; only `insecure_skip_verify` skips them, and even
//! then the server proves that it has the certificate's key.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError};

use super::chain::{self, Distrust, Roots};
use super::crypto::provider;
use super::der::{Certificate, SERVER_AUTH};
use super::names;

/// Most names shown in an error.
const MAX_NAMES_SHOWN: usize = 20;

/// Methods common to all verifiers: every accepted server proves that it has its certificate's key.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            $crate::tls::verify::proves_key(message, certificate, signature, false)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            $crate::tls::verify::proves_key(message, certificate, signature, true)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            $crate::tls::crypto::provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    };
}
pub(crate) use handshake_signatures;

/// Verifies servers against configured authorities.
impl ServerCertVerifier for Roots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        judge(self, end_entity, intermediates, &server_name.to_str(), now)?;
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

/// Decides whether a certificate is valid for a server.
pub(crate) fn judge(
    roots: &Roots,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    host: &str,
    now: UnixTime,
) -> Result<(), Error> {
    let certificate = Certificate::parse(end_entity).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    chain::check_alone(&certificate, now).map_err(error_of)?;
    check_name(&certificate, host)?;
    let leaf = (end_entity, &certificate);
    roots
        .verify(leaf, intermediates, now, SERVER_AUTH)
        .map_err(error_of)
}

/// Returns Go's error for an untrusted server.
fn error_of(distrust: Distrust) -> Error {
    let text = match distrust {
        Distrust::Unknown => return CertificateError::UnknownIssuer.into(),
        Distrust::Usage => "certificate specifies an incompatible key usage",
        Distrust::Names => {
            "a root or intermediate certificate is not authorized to sign for this name"
        }
        Distrust::Critical => "unhandled critical extension",
        Distrust::Early => {
            "certificate has expired or is not yet valid: current time is before its validity begins"
        }
        Distrust::Late => {
            "certificate has expired or is not yet valid: current time is after its validity ends"
        }
    };
    refusal(text.to_owned())
}

/// Accepts any certificate whose key the server has (`insecure_skip_verify`).
#[derive(Debug)]
pub(crate) struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

/// Checks a handshake's signature, including with the key of an old (version 1) certificate.
pub(crate) fn proves_key(
    message: &[u8],
    der: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    tls13: bool,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider().signature_verification_algorithms;
    let certificate = Certificate::parse(der).ok_or(CertificateError::BadEncoding)?;
    if certificate.version >= 3 {
        return if tls13 {
            verify_tls13_signature(message, der, signature, algorithms)
        } else {
            verify_tls12_signature(message, der, signature, algorithms)
        };
    }
    // webpki does not parse such a certificate, but a signature needs only its key.
    let candidates = algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == signature.scheme)
        .map(|(_, candidates)| *candidates)
        .unwrap_or_default();
    let tried = if tls13 { 1 } else { candidates.len() };
    let holds = candidates.iter().take(tried).any(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == certificate.key_algorithm
            && algorithm
                .verify_signature(certificate.key, message, signature.signature())
                .is_ok()
    });
    if holds {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}

fn check_name(certificate: &Certificate<'_>, wanted: &str) -> Result<(), Error> {
    if names::is_for_host(certificate, wanted) {
        return Ok(());
    }
    let common_name = certificate.common_name.as_deref().unwrap_or_default();
    if certificate.names.is_none() && common_name.eq_ignore_ascii_case(wanted) {
        return Err(refusal(
            "certificate relies on legacy Common Name field, use SANs instead".to_owned(),
        ));
    }
    let names = certificate.names.clone().unwrap_or_default();
    let valid: Vec<String> = if wanted.parse::<IpAddr>().is_ok() {
        if names.addresses.is_empty() {
            return Err(refusal(format!(
                "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
            )));
        }
        let addresses = names.addresses.iter().map(IpAddr::to_canonical);
        addresses.map(|address| address.to_string()).collect()
    } else {
        names.dns
    };
    if valid.is_empty() {
        return Err(refusal(format!(
            "certificate is not valid for any names, but wanted to match {wanted}"
        )));
    }
    let shown = valid[..valid.len().min(MAX_NAMES_SHOWN)].join(", ");
    Err(refusal(format!(
        "certificate is valid for {shown}, not {wanted}"
    )))
}

fn refusal(message: String) -> Error {
    let other = OtherError(Arc::new(Refusal(message)));
    CertificateError::Other(other).into()
}

#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}
