//! The server side of TLS: a configuration from settings and files, rebuilt when a file changes.
//!
//! Invariant: a connection uses the contents that the files have when it arrives; a required verification of a
//! client's certificate happens on every path, including resumption, because a new configuration forgets its
//! sessions.

use crate::sync::Whole as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error, ServerConfig};

use super::chain::{Distrust, Roots};
use super::crypto::{certificates, private_key, provider, versions};
use super::der::{CLIENT_AUTH, Certificate};
use super::verify::handshake_signatures;
use crate::client::config::TlsVersion;
use crate::error::{NetError, invalid, tls_error};
use crate::file_cache::TextSource;
use crate::secret::Secret;

/// Client authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuthType {
    None,
    /// Requests a certificate and accepts any.
    Request,
    RequireAny,
    VerifyIfGiven,
    RequireAndVerify,
}

/// `tls_server_config`, parsed and checked.
#[derive(Debug)]
pub(crate) struct ServerTlsConfig {
    pub(crate) cert: String,
    pub(crate) cert_file: Option<PathBuf>,
    pub(crate) key: Secret,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) client_ca: String,
    pub(crate) client_ca_file: Option<PathBuf>,
    pub(crate) client_auth: ClientAuthType,
    pub(crate) allowed_sans: Option<Vec<String>>,
    pub(crate) cipher_suites: Vec<String>,
    pub(crate) curves: Vec<String>,
    pub(crate) min_version: Option<TlsVersion>,
    pub(crate) max_version: Option<TlsVersion>,
    pub(crate) prefer_server_order: bool,
}

/// Settings, and the configuration built from them last.
#[derive(Debug)]
pub(crate) struct ServerTls {
    config: ServerTlsConfig,
    cert: TextSource,
    key: TextSource,
    client_ca: Option<TextSource>,
    made: Mutex<Option<Made>>,
}

struct Made {
    config: Arc<ServerConfig>,
    texts: [Option<Arc<str>>; 3],
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl ServerTls {
    pub(crate) fn new(config: ServerTlsConfig) -> Result<Self, NetError> {
        // If both are given, the toolkit uses the file.
        let text = |inline: &str, file: &Option<PathBuf>, what| {
            let inline = if file.is_some() { "" } else { inline };
            TextSource::new(inline, file.as_deref(), what)
        };
        let missing = || tls_error("no certificate or key");
        Ok(Self {
            cert: text(&config.cert, &config.cert_file, "cert_file").ok_or_else(missing)?,
            key: text(config.key.expose(), &config.key_file, "key_file").ok_or_else(missing)?,
            client_ca: text(&config.client_ca, &config.client_ca_file, "client_ca_file"),
            config,
            made: Mutex::new(None),
        })
    }

    /// Returns the configuration for a connection arriving now.
    pub(crate) fn current(&self) -> Result<Arc<ServerConfig>, NetError> {
        let client_ca = self.client_ca.as_ref().map(TextSource::get).transpose()?;
        let texts = [Some(self.cert.get()?), Some(self.key.get()?), client_ca];
        let mut made = self.made.lock().whole();
        if let Some(made) = made.as_ref()
            && made.texts == texts
        {
            return Ok(Arc::clone(&made.config));
        }
        let [cert, key, client_ca] = &texts;
        let config = self.make(
            cert.as_deref().unwrap_or_default(),
            key.as_deref().unwrap_or_default(),
            client_ca.as_deref(),
        )?;
        let config = Arc::new(config);
        *made = Some(Made {
            config: Arc::clone(&config),
            texts,
        });
        Ok(config)
    }

    fn make(
        &self,
        cert: &str,
        key: &str,
        client_ca: Option<&str>,
    ) -> Result<ServerConfig, NetError> {
        let versions = versions(self.config.min_version, self.config.max_version)?;
        let provider = self.provider()?;
        let verifier = self.client_verifier(client_ca)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|error| tls_error(error.to_string()))?;
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let unusable = |reason: String| tls_error(format!("failed to load X509KeyPair: {reason}"));
        let chain = certificates(cert);
        if chain.is_empty() {
            let reason = "failed to find any certificate in PEM data";
            return Err(unusable(reason.to_owned()));
        }
        let key = private_key(key)?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| unusable(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ignore_client_order = self.config.prefer_server_order;
        Ok(config)
    }

    /// Returns the process' provider, restricted to the configured suites and curves.
    fn provider(&self) -> Result<CryptoProvider, NetError> {
        let mut chosen = provider().as_ref().clone();
        if !self.config.cipher_suites.is_empty() {
            let all = std::mem::take(&mut chosen.cipher_suites);
            // Go's list does not apply to TLS 1.3 either.
            let (newer, older): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|suite| suite.tls13().is_some());
            chosen.cipher_suites = newer;
            for name in &self.config.cipher_suites {
                // Both libraries use the same names.
                let found = older.iter().find(|s| format!("{:?}", s.suite()) == *name);
                match found {
                    Some(suite) => chosen.cipher_suites.push(*suite),
                    None if name.starts_with("TLS_ECDHE") => {
                        tracing::warn!(cipher = name, "Cipher suite is not supported.");
                    }
                    None => {}
                }
            }
        }
        if !self.config.curves.is_empty() {
            chosen.kx_groups.clear();
            for name in &self.config.curves {
                match name.as_str() {
                    "CurveP256" => chosen.kx_groups.push(kx_group::SECP256R1),
                    "CurveP384" => chosen.kx_groups.push(kx_group::SECP384R1),
                    "X25519" => chosen.kx_groups.push(kx_group::X25519),
                    other => tracing::warn!(curve = other, "Curve is not supported."),
                }
            }
            if chosen.kx_groups.is_empty() {
                return Err(invalid(
                    "curve_preferences: none of the curves is supported",
                ));
            }
        }
        Ok(chosen)
    }

    fn client_verifier(
        &self,
        client_ca: Option<&str>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, NetError> {
        let auth = self.config.client_auth;
        if auth == ClientAuthType::None {
            return Ok(None);
        }
        let verify = matches!(
            auth,
            ClientAuthType::VerifyIfGiven | ClientAuthType::RequireAndVerify
        );
        let mut roots = None;
        if verify {
            let usable = Roots::new(match client_ca {
                Some(pem) => certificates(pem),
                None => rustls_native_certs::load_native_certs().certs,
            });
            if usable.is_empty() {
                return Err(tls_error("client_ca_file holds no usable certificate"));
            }
            roots = Some(usable);
        }
        let subjects = roots.iter().flat_map(Roots::subjects);
        let hints = subjects.map(DistinguishedName::in_sequence).collect();
        Ok(Some(Arc::new(ClientVerifier {
            roots,
            hints,
            mandatory: matches!(
                auth,
                ClientAuthType::RequireAny | ClientAuthType::RequireAndVerify
            ),
            allowed_sans: self.config.allowed_sans.clone(),
        })))
    }
}

/// Rejects names unknown to Go.
pub(crate) fn check_ciphers<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    for name in names {
        if !GO_CIPHERS.contains(&name) {
            return Err(format!("unknown cipher: {name}"));
        }
    }
    Ok(())
}

pub(crate) fn check_curves<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    for name in names {
        if !["CurveP256", "CurveP384", "CurveP521", "X25519"].contains(&name) {
            return Err(format!("unknown curve: {name}"));
        }
    }
    Ok(())
}

/// The suites that Go considers secure.
const GO_CIPHERS: [&str; 13] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];

#[derive(Debug)]
struct ClientVerifier {
    /// `None` if any certificate is accepted.
    roots: Option<Roots>,
    /// The authorities' names, sent to clients.
    hints: Vec<DistinguishedName>,
    mandatory: bool,
    allowed_sans: Option<Vec<String>>,
}

impl ClientVerifier {
    fn check_names(&self, certificate: &Certificate<'_>) -> Result<(), Error> {
        let Some(allowed) = &self.allowed_sans else {
            return Ok(());
        };
        let names = certificate.names.clone().unwrap_or_default();
        let addresses = names
            .addresses
            .iter()
            .map(|one| one.to_canonical().to_string());
        let mut all = names
            .dns
            .into_iter()
            .chain(names.emails)
            .chain(addresses)
            .chain(names.uris);
        if all.any(|name| allowed.contains(&name)) {
            Ok(())
        } else {
            // Go's alert for a rejected certificate, which does not reveal the allowed names.
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let certificate = Certificate::parse(end_entity).ok_or(CertificateError::BadEncoding)?;
        if let Some(roots) = &self.roots {
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            let leaf = (end_entity, &certificate);
            roots
                .verify(leaf, intermediates, now, CLIENT_AUTH)
                .map_err(|distrust| match distrust {
                    Distrust::Unknown => CertificateError::UnknownIssuer,
                    Distrust::Usage => CertificateError::InvalidPurpose,
                    Distrust::Early => CertificateError::NotValidYet,
                    Distrust::Late => CertificateError::Expired,
                    Distrust::Names | Distrust::Critical => {
                        CertificateError::ApplicationVerificationFailure
                    }
                })?;
        }
        self.check_names(&certificate)?;
        Ok(ClientCertVerified::assertion())
    }

    handshake_signatures!();
}
