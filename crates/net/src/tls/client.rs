//! The client side of TLS: a configuration from settings and files, rebuilt when a file changes.
//!
//! Invariant: a connection uses the contents that the files have when it is made.

use crate::sync::Whole as _;
use std::sync::{Arc, Mutex, OnceLock};

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;

use super::crypto::{certificates, private_key, provider, versions};
use super::verify::{Anyone, Verifier};
use crate::client::config::TlsConfig;
use crate::error::{NetError, tls_error};
use crate::file_cache::TextSource;

/// Settings, and the configuration built from them last.
#[derive(Debug)]
pub(crate) struct ClientTls {
    config: TlsConfig,
    ca: Option<TextSource>,
    cert: Option<TextSource>,
    key: Option<TextSource>,
    made: Mutex<Option<Made>>,
}

struct Made {
    config: Arc<ClientConfig>,
    ca: Option<Arc<str>>,
    cert: Option<Arc<str>>,
    key: Option<Arc<str>>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

/// A configuration, and whether it changed since last time.
pub(crate) struct Current {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) changed: bool,
}

impl ClientTls {
    /// Checks the settings and reads the files once.
    pub(crate) fn new(config: &TlsConfig) -> Result<Self, NetError> {
        config.validate()?;
        let tls = Self {
            ca: TextSource::new(&config.ca, config.ca_file.as_deref(), "CA cert"),
            cert: TextSource::new(
                &config.cert,
                config.cert_file.as_deref(),
                "specified client cert",
            ),
            key: TextSource::new(
                config.key.expose(),
                config.key_file.as_deref(),
                "specified client key",
            ),
            config: config.clone(),
            made: Mutex::new(None),
        };
        versions(config.min_version, config.max_version)?;
        // The system's authorities are read at the first connection: most clients need none.
        if tls.ca.is_some() || tls.cert.is_some() {
            tls.current()?;
        }
        Ok(tls)
    }

    /// Returns the name to verify instead of the URL's host.
    pub(crate) fn server_name(&self) -> Option<&str> {
        Some(self.config.server_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the configuration for a connection to be made or reused now.
    pub(crate) fn current(&self) -> Result<Current, NetError> {
        let read = |text: &Option<TextSource>| text.as_ref().map(TextSource::get).transpose();
        let (ca, cert, key) = (read(&self.ca)?, read(&self.cert)?, read(&self.key)?);
        let mut made = self.made.lock().whole();
        if let Some(made) = made.as_ref()
            && (&made.ca, &made.cert, &made.key) == (&ca, &cert, &key)
        {
            return Ok(Current {
                config: Arc::clone(&made.config),
                changed: false,
            });
        }
        let config = Arc::new(self.make(ca.as_deref(), cert.as_deref().zip(key.as_deref()))?);
        let changed = made.is_some();
        *made = Some(Made {
            config: Arc::clone(&config),
            ca,
            cert,
            key,
        });
        Ok(Current { config, changed })
    }

    fn make(
        &self,
        ca: Option<&str>,
        identity: Option<(&str, &str)>,
    ) -> Result<ClientConfig, NetError> {
        let versions = versions(self.config.min_version, self.config.max_version)?;
        let verifier: Arc<dyn ServerCertVerifier> = match ca {
            _ if self.config.insecure_skip_verify && ca.is_none() => Arc::new(Anyone),
            Some(pem) => {
                let verifier = Verifier::new(certificates(pem));
                let usable = verifier.ok_or_else(|| {
                    let origin = self
                        .ca
                        .as_ref()
                        .map(TextSource::description)
                        .unwrap_or_default();
                    tls_error(format!("unable to use specified CA cert {origin}"))
                })?;
                if self.config.insecure_skip_verify {
                    Arc::new(Anyone)
                } else {
                    Arc::new(usable)
                }
            }
            None => system_verifier()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_protocol_versions(&versions)
            .map_err(|error| tls_error(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            Some((cert, key)) => {
                let unusable = |reason: String| {
                    let of = |text: &Option<TextSource>| {
                        text.as_ref()
                            .map(TextSource::description)
                            .unwrap_or_default()
                    };
                    let (cert, key) = (of(&self.cert), of(&self.key));
                    tls_error(format!(
                        "unable to use specified client cert ({cert}) & key ({key}): {reason}"
                    ))
                };
                let chain = certificates(cert);
                if chain.is_empty() {
                    return Err(unusable("no certificate in PEM data".to_owned()));
                }
                let key = private_key(key).map_err(|error| unusable(error.to_string()))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable(error.to_string()))?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Returns the verifier with the system's authorities, which are read once per process.
fn system_verifier() -> Result<Arc<Verifier>, NetError> {
    static SYSTEM: OnceLock<Option<Arc<Verifier>>> = OnceLock::new();
    let verifier = SYSTEM.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "Reading the system's certificates.");
        }
        let roots: Vec<CertificateDer<'static>> = found.certs;
        Verifier::new(roots).map(Arc::new)
    });
    verifier
        .clone()
        .ok_or_else(|| tls_error("the system has no certificates of authorities"))
}
