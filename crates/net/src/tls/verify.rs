//! Whether a server's certificate is believed, as Go's `crypto/x509` decides it.
//!
//! webpki does the work. It refuses some certificates that Go accepts and that are common on
//! scrape targets, and these are judged here: a certificate that is itself configured as an
//! authority (self-signed, whatever its basic constraints), and an authority's certificate used by
//! a server.
//!
//! Invariant: time, name and usage are checked on every path; only `insecure_skip_verify` skips
//! them, and even then the server proves that it has the certificate's key.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::der::Certificate;
use super::{provider, tls_error};
use crate::error::NetError;

/// Longest chain built here, and the most signatures checked for it.
const MAX_DEPTH: usize = 6;
const MAX_SIGNATURES: usize = 32;
/// Most names shown in an error.
const MAX_NAMES_SHOWN: usize = 20;

/// Judges servers by configured authorities.
#[derive(Debug)]
pub(crate) struct Verifier {
    roots: Vec<CertificateDer<'static>>,
    webpki: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// Returns none inside when no certificate is usable.
    pub(crate) fn new(roots: Vec<CertificateDer<'static>>) -> Result<Option<Self>, NetError> {
        let mut store = RootCertStore::empty();
        let (usable, _broken) = store.add_parsable_certificates(roots.iter().cloned());
        if usable == 0 {
            return Ok(None);
        }
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider()));
        let webpki = builder.build().map_err(|e| tls_error(e.to_string()))?;
        Ok(Some(Self { roots, webpki }))
    }

    /// Builds a chain for an authority's certificate, which webpki takes for no server's.
    fn chain(
        &self,
        certificate: &Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: i64,
        depth: usize,
        signatures: &mut usize,
    ) -> bool {
        let known = self.roots.iter().map(|root| (root, true));
        let sent = intermediates.iter().map(|sent| (sent, false));
        for (der, is_root) in known.chain(sent) {
            let Some(issuer) = Certificate::parse(der) else {
                continue;
            };
            let fits = issuer.subject == certificate.issuer
                && issuer.is_valid_at(now)
                && !issuer.has_name_constraints
                && (issuer.is_authority || (is_root && issuer.version < 3));
            if !fits || *signatures >= MAX_SIGNATURES {
                continue;
            }
            *signatures += 1;
            if !is_signed_by(certificate, &issuer) {
                continue;
            }
            let trusted = is_root
                || (depth < MAX_DEPTH
                    && self.chain(&issuer, intermediates, now, depth + 1, signatures));
            if trusted {
                return true;
            }
        }
        false
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(certificate) = Certificate::parse(end_entity) else {
            return Err(CertificateError::BadEncoding.into());
        };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        check_time(&certificate, seconds)?;
        check_name(end_entity, &certificate, server_name)?;
        if self.roots.iter().any(|root| root == end_entity) {
            check_usage(&certificate)?;
            return Ok(ServerCertVerified::assertion());
        }
        if certificate.is_authority {
            check_usage(&certificate)?;
            let known = self.chain(&certificate, intermediates, seconds, 1, &mut 0);
            return if known {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(CertificateError::UnknownIssuer.into())
            };
        }
        self.webpki
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        proves_key(message, certificate, signature, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        proves_key(message, certificate, signature, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Believes any certificate whose key the server has (`insecure_skip_verify`).
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

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        proves_key(message, certificate, signature, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        proves_key(message, certificate, signature, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Checks a handshake's signature, with the key of an old (version 1) certificate too.
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
    // webpki reads no such certificate, but a signature needs only its key.
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

fn is_signed_by(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> bool {
    let algorithms = provider().signature_verification_algorithms.all;
    algorithms.iter().any(|algorithm| {
        algorithm.signature_alg_id().as_ref() == certificate.signature_algorithm
            && algorithm.public_key_alg_id().as_ref() == issuer.key_algorithm
            && algorithm
                .verify_signature(issuer.key, certificate.signed, certificate.signature)
                .is_ok()
    })
}

fn check_time(certificate: &Certificate<'_>, now: i64) -> Result<(), Error> {
    let when = if now < certificate.not_before {
        "before its validity begins"
    } else if now > certificate.not_after {
        "after its validity ends"
    } else {
        return Ok(());
    };
    Err(refusal(format!(
        "certificate has expired or is not yet valid: current time is {when}"
    )))
}

fn check_usage(certificate: &Certificate<'_>) -> Result<(), Error> {
    if certificate.is_for_servers() {
        Ok(())
    } else {
        Err(refusal(
            "certificate specifies an incompatible key usage".to_owned(),
        ))
    }
}

fn check_name(
    der: &CertificateDer<'_>,
    certificate: &Certificate<'_>,
    wanted: &ServerName<'_>,
) -> Result<(), Error> {
    let matches = ParsedCertificate::try_from(der)
        .and_then(|parsed| rustls::client::verify_server_name(&parsed, wanted));
    if matches.is_ok() {
        return Ok(());
    }
    let wanted = wanted.to_str();
    let common_name = certificate.common_name.as_deref().unwrap_or_default();
    if certificate.names.is_none() && common_name.eq_ignore_ascii_case(&wanted) {
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
        names.addresses.iter().map(ToString::to_string).collect()
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
