//! The client side of TLS: a configuration from settings and files, rebuilt when a file changes.
//!
//! Invariant: a connection uses the contents that the files have when it is made.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;

use super::chain::Roots;
use super::crypto::{certificates, private_key, provider, versions};
use super::verify::Anyone;
use crate::client::config::TlsConfig;
use crate::error::{NetError, tls_error};
use crate::file_cache::{Rebuilt, TextSource};

/// Settings, and the configuration built from them last.
#[derive(Debug)]
pub(crate) struct ClientTls {
    config: TlsConfig,
    /// Made of the authorities, the certificate and the key.
    made: Rebuilt<ClientConfig, 3>,
}

impl ClientTls {
    /// Checks the settings and reads the files once.
    pub(crate) fn new(config: &TlsConfig) -> Result<Self, NetError> {
        config.validate()?;
        let ca = TextSource::new(&config.ca, config.ca_file.as_deref(), "CA cert");
        let cert = TextSource::new(
            &config.cert,
            config.cert_file.as_deref(),
            "specified client cert",
        );
        let key = TextSource::new(
            config.key.expose(),
            config.key_file.as_deref(),
            "specified client key",
        );
        // The system's authorities are read at the first connection: most clients need none.
        let has_texts = ca.is_some() || cert.is_some();
        let tls = Self {
            config: config.clone(),
            made: Rebuilt::new([ca, cert, key]),
        };
        versions(config.min_version, config.max_version)?;
        if has_texts {
            tls.current()?;
        }
        Ok(tls)
    }

    /// Returns the name to verify instead of the URL's host.
    pub(crate) fn server_name(&self) -> Option<&str> {
        Some(self.config.server_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the configuration for a connection to be made or reused now, and whether it changed since last time.
    pub(crate) fn current(&self) -> Result<(Arc<ClientConfig>, bool), NetError> {
        self.made.current(|texts| self.make(texts))
    }

    fn make(&self, [ca, cert, key]: [Option<&str>; 3]) -> Result<ClientConfig, NetError> {
        let versions = versions(self.config.min_version, self.config.max_version)?;
        let skips = self.config.insecure_skip_verify;
        let roots = match ca {
            Some(pem) => Some(Arc::new(self.authorities(pem)?)),
            None if skips => None,
            None => Some(system_authorities()?),
        };
        let verifier: Arc<dyn ServerCertVerifier> = match roots {
            Some(roots) if !skips => roots,
            _ => Arc::new(Anyone),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_protocol_versions(&versions)
            .map_err(|error| tls_error(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match cert.zip(key) {
            Some((cert, key)) => {
                let unusable = |reason: String| {
                    let (cert, key) = (self.made.origin(1), self.made.origin(2));
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

    fn authorities(&self, pem: &str) -> Result<Roots, NetError> {
        let roots = Roots::new(certificates(pem));
        if roots.is_empty() {
            let origin = self.made.origin(0);
            return Err(tls_error(format!(
                "unable to use specified CA cert {origin}"
            )));
        }
        Ok(roots)
    }
}

/// Returns the system's authorities, which are read once per process.
fn system_authorities() -> Result<Arc<Roots>, NetError> {
    static SYSTEM: OnceLock<Arc<Roots>> = OnceLock::new();
    let roots = SYSTEM.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "Reading the system's certificates.");
        }
        Arc::new(Roots::new(found.certs))
    });
    if roots.is_empty() {
        return Err(tls_error("the system has no certificates of authorities"));
    }
    Ok(Arc::clone(roots))
}
