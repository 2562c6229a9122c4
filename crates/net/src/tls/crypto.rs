//! What both sides of a connection build their configuration from: the provider, certificates, keys, versions.

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::hash::Hash;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::client::config::TlsVersion;
use crate::error::{NetError, invalid, tls_error};

/// Returns the process's only provider.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

/// Returns the hash of a suite that TLS has: no other dependency has one.
pub(crate) fn sha256() -> &'static dyn Hash {
    match TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
        SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
    }
}

/// Returns bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], NetError> {
    let mut bytes = [0; N];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_failed| tls_error("no random numbers"))?;
    Ok(bytes)
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
        return Err(invalid(format!(
            "max_version {name}: versions below TLS 1.2 are not supported"
        )));
    }
    Ok(chosen)
}
