//! The server side of TLS: a configuration from settings and files, rebuilt when a file changes.
//!
//! Invariant: a connection uses the contents that the files have when it arrives; a required verification of a
//! client's certificate happens on every path, including resumption, because a new configuration forgets its
//! sessions.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error, ServerConfig};
use serde::Deserialize;

use super::chain::{Distrust, Roots};
use super::crypto::{certificates, private_key, provider, versions};
use super::der::{CLIENT_AUTH, Certificate};
use super::verify::handshake_signatures;
use crate::client::config::TlsVersion;
use crate::error::{NetError, invalid, tls_error};
use crate::file_cache::{Rebuilt, TextSource};
use crate::secret::Secret;

/// Client authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientAuthType {
    None,
    /// Requests a certificate and accepts any.
    Request,
    RequireAny,
    VerifyIfGiven,
    RequireAndVerify,
}

/// `tls_server_config`, as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerTlsConfig {
    cert: String,
    key: Secret,
    client_ca: String,
    cert_file: String,
    key_file: String,
    client_auth_type: String,
    client_ca_file: String,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    prefer_server_cipher_suites: Option<bool>,
    client_allowed_sans: Option<Vec<String>>,
}

impl ServerTlsConfig {
    /// Reports whether there is anything that only a server with TLS has.
    pub(crate) fn is_enabled(&self) -> bool {
        let texts = [
            &self.cert,
            &self.cert_file,
            &self.key_file,
            &self.client_ca,
            &self.client_ca_file,
            &self.client_auth_type,
        ];
        texts.iter().any(|text| !text.is_empty()) || !self.key.is_empty()
    }

    /// Resolves relative paths against `directory`.
    pub(crate) fn set_directory(&mut self, directory: &Path) {
        for file in [
            &mut self.cert_file,
            &mut self.key_file,
            &mut self.client_ca_file,
        ] {
            if !file.is_empty() {
                *file = directory.join(&*file).to_string_lossy().into_owned();
            }
        }
    }

    /// Checks the names of versions, suites and curves.
    pub(crate) fn check(&self) -> Result<(), String> {
        for version in [&self.min_version, &self.max_version].into_iter().flatten() {
            TlsVersion::parse(version).map_err(|error| error.to_string())?;
        }
        let unknown = |names: &Option<Vec<String>>, known: &[&str]| {
            let mut names = names.iter().flatten();
            names.find(|name| !known.contains(&name.as_str())).cloned()
        };
        if let Some(name) = unknown(&self.cipher_suites, &GO_CIPHERS) {
            return Err(format!("unknown cipher: {name}"));
        }
        if let Some(name) = unknown(&self.curve_preferences, &GO_CURVES) {
            return Err(format!("unknown curve: {name}"));
        }
        Ok(())
    }

    fn client_auth(&self) -> Result<ClientAuthType, NetError> {
        let client_auth = match self.client_auth_type.as_str() {
            "" | "NoClientCert" => ClientAuthType::None,
            "RequestClientCert" => ClientAuthType::Request,
            "RequireAnyClientCert" | "RequireClientCert" => ClientAuthType::RequireAny,
            "VerifyClientCertIfGiven" => ClientAuthType::VerifyIfGiven,
            "RequireAndVerifyClientCert" => ClientAuthType::RequireAndVerify,
            other => return Err(invalid(format!("invalid ClientAuth: {other}"))),
        };
        let has_ca = !self.client_ca.is_empty() || !self.client_ca_file.is_empty();
        if has_ca && client_auth == ClientAuthType::None {
            return Err(invalid(
                "client CA's have been configured without a Client Auth Policy",
            ));
        }
        Ok(client_auth)
    }
}

/// Settings, and the configuration built from them last.
#[derive(Debug)]
pub(crate) struct ServerTls {
    config: ServerTlsConfig,
    client_auth: ClientAuthType,
    /// Made of the certificate, the key and the clients' authorities.
    made: Rebuilt<ServerConfig, 3>,
}

impl ServerTls {
    pub(crate) fn new(config: ServerTlsConfig) -> Result<Self, NetError> {
        let text = |inline: &str, file: &str, what| match file {
            "" => TextSource::new(inline, None, what),
            // If both are given, the toolkit uses the file.
            file => TextSource::new("", Some(Path::new(file)), what),
        };
        let cert = text(&config.cert, &config.cert_file, "cert_file");
        let key = text(config.key.expose(), &config.key_file, "key_file");
        if cert.is_none() {
            return Err(invalid("missing one of cert or cert_file"));
        }
        if key.is_none() {
            return Err(invalid("missing one of key or key_file"));
        }
        let client_ca = text(&config.client_ca, &config.client_ca_file, "client_ca_file");
        Ok(Self {
            client_auth: config.client_auth()?,
            config,
            made: Rebuilt::new([cert, key, client_ca]),
        })
    }

    /// Returns the configuration for a connection arriving now.
    pub(crate) fn current(&self) -> Result<Arc<ServerConfig>, NetError> {
        let (config, _is_new) = self.made.current(|texts| self.make(texts))?;
        Ok(config)
    }

    fn make(&self, [cert, key, client_ca]: [Option<&str>; 3]) -> Result<ServerConfig, NetError> {
        let version = |text: &Option<String>| text.as_deref().map(TlsVersion::parse).transpose();
        let (min, max) = (&self.config.min_version, &self.config.max_version);
        let versions = versions(version(min)?, version(max)?)?;
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
        let chain = certificates(cert.unwrap_or_default());
        if chain.is_empty() {
            let reason = "failed to find any certificate in PEM data";
            return Err(unusable(reason.to_owned()));
        }
        let key = private_key(key.unwrap_or_default())?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| unusable(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ignore_client_order = self.config.prefer_server_cipher_suites.unwrap_or(true);
        Ok(config)
    }

    /// Returns the process' provider, restricted to the configured suites and curves.
    fn provider(&self) -> Result<CryptoProvider, NetError> {
        let mut chosen = provider().as_ref().clone();
        let names = self.config.cipher_suites.as_ref();
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            let all = std::mem::take(&mut chosen.cipher_suites);
            // Go's list does not apply to TLS 1.3 either.
            let (newer, older): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|suite| suite.tls13().is_some());
            chosen.cipher_suites = newer;
            for name in names {
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
        let names = self.config.curve_preferences.as_ref();
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            chosen.kx_groups.clear();
            for name in names {
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
        let auth = self.client_auth;
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
            allowed_sans: self.config.client_allowed_sans.clone(),
        })))
    }
}

/// The curves that Go has.
const GO_CURVES: [&str; 4] = ["CurveP256", "CurveP384", "CurveP521", "X25519"];

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
