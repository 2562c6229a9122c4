//! Chains from a certificate to a configured authority, as Go's `crypto/x509` builds and judges them.
//!
//! webpki is not asked: it knows neither path lengths of trust anchors nor key usage, refuses an
//! authority's certificate that serves and one that is its own authority, which scrape targets have,
//! and takes no "any" usage. A chain is believed exactly when Go's `Certificate.Verify` believes it;
//! `testkit/gopeer` makes the chains that the tests compare. Two exceptions are stricter: policy
//! constraints are refused because policies are not evaluated, and what our provider has no
//! algorithm for (RSA below 2,048 bits) signs nothing.
//!
//! Invariant: every certificate of a chain is valid at the time, is understood in all that is
//! critical, is signed by the next one, which may sign certificates and so many of them, and allows
//! the usage; every name below a constraint keeps to it. The work is bounded by the signatures.

use rustls::pki_types::CertificateDer;

use super::der::{Certificate, KeyUsage};
use super::names::are_permitted;
use super::provider;

/// Most candidates looked at for one chain; Go's figure.
const MAX_CANDIDATES: usize = 100;

/// Why a certificate is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// No chain leads to an authority.
    Unknown,
    /// A chain does, but not for this usage.
    Usage,
    /// A chain does, but not for these names.
    Names,
    /// Something critical in it, or in the one above it, is not understood.
    Critical,
    /// It, or the one above it, is not valid at this time.
    Early,
    Late,
}

/// Authorities that chains may end at.
#[derive(Debug)]
pub(crate) struct Roots {
    all: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    subject: Vec<u8>,
    der: CertificateDer<'static>,
}

impl Roots {
    /// Keeps the certificates that can be read.
    pub(crate) fn new(all: Vec<CertificateDer<'static>>) -> Self {
        let root = |der: CertificateDer<'static>| {
            let subject = Certificate::parse(&der)?.subject.to_vec();
            Some(Root { subject, der })
        };
        Self {
            all: all.into_iter().filter_map(root).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Lists the authorities' names, the content of their sequences.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(|root| root.subject.as_slice())
    }

    /// Decides whether a certificate may be used so at this time, in seconds since the epoch.
    ///
    /// # Errors
    /// Why not; of several chains, what the best of them lacks.
    pub(crate) fn verify(
        &self,
        (der, certificate): (&CertificateDer<'_>, &Certificate<'_>),
        sent: &[CertificateDer<'_>],
        now: i64,
        usage: &[u8],
    ) -> Result<(), Distrust> {
        check_alone(certificate, now)?;
        let mut search = Search {
            roots: self,
            sent: sent
                .iter()
                .filter_map(|der| Certificate::parse(der))
                .collect(),
            now,
            usage,
            candidates: 0,
            reason: Distrust::Unknown,
        };
        // What is itself configured needs nobody to vouch for it, whatever it may sign.
        let known = if self.all.iter().any(|root| root.der == *der) {
            search.ends(&[certificate])
        } else {
            search.extend(&[certificate])
        };
        if known { Ok(()) } else { Err(search.reason) }
    }
}

/// Checks what a certificate says by itself.
///
/// # Errors
/// [`Distrust::Critical`], [`Distrust::Early`] and [`Distrust::Late`].
pub(super) fn check_alone(certificate: &Certificate<'_>, now: i64) -> Result<(), Distrust> {
    if certificate.has_unhandled {
        Err(Distrust::Critical)
    } else if now < certificate.not_before {
        Err(Distrust::Early)
    } else if now > certificate.not_after {
        Err(Distrust::Late)
    } else {
        Ok(())
    }
}

struct Search<'a> {
    roots: &'a Roots,
    sent: Vec<Certificate<'a>>,
    now: i64,
    usage: &'a [u8],
    candidates: usize,
    reason: Distrust,
}

impl Search<'_> {
    /// Looks for a chain that begins with this one.
    fn extend(&mut self, chain: &[&Certificate<'_>]) -> bool {
        let Some(last) = chain.last() else {
            return false;
        };
        let roots = self.roots;
        for root in &roots.all {
            if root.subject == last.issuer
                && let Some(parent) = Certificate::parse(&root.der)
                && self.accepts(chain, &parent, true)
                && self.ends(&with(chain, &parent))
            {
                return true;
            }
        }
        for at in 0..self.sent.len() {
            let Some(parent) = self.sent.get(at).cloned() else {
                continue;
            };
            if parent.subject == last.issuer
                && self.accepts(chain, &parent, false)
                && self.extend(&with(chain, &parent))
            {
                return true;
            }
        }
        false
    }

    /// Returns whether a certificate may stand above a chain.
    fn accepts(
        &mut self,
        chain: &[&Certificate<'_>],
        parent: &Certificate<'_>,
        root: bool,
    ) -> bool {
        self.candidates += 1;
        let Some(last) = chain.last() else {
            return false;
        };
        if self.candidates > MAX_CANDIDATES || chain.iter().any(|one| is_same(one, parent)) {
            return false;
        }
        let authority = match parent.basic_constraints {
            Some(constraints) => constraints.is_authority,
            // Before version 3 there was no way to say so; being configured says it.
            None => root && parent.version < 3,
        };
        if !authority || parent.key_usage == KeyUsage::Other || !is_signed_by(last, parent) {
            return false;
        }
        if let Err(reason) = check_alone(parent, self.now) {
            if self.reason == Distrust::Unknown {
                self.reason = reason;
            }
            return false;
        }
        let below = chain.len() - 1;
        parent
            .basic_constraints
            .and_then(|constraints| constraints.path_length)
            .is_none_or(|most| below as u64 <= most)
    }

    /// Judges a whole chain.
    fn ends(&mut self, chain: &[&Certificate<'_>]) -> bool {
        if !chain.iter().all(|one| one.allows(self.usage)) {
            if self.reason == Distrust::Unknown {
                self.reason = Distrust::Usage;
            }
            return false;
        }
        let permitted = are_permitted(chain);
        if !permitted {
            self.reason = Distrust::Names;
        }
        permitted
    }
}

fn with<'a, 'b>(
    chain: &[&'a Certificate<'b>],
    parent: &'a Certificate<'b>,
) -> Vec<&'a Certificate<'b>> {
    let mut longer = chain.to_vec();
    longer.push(parent);
    longer
}

/// Authorities that sign each other's keys must not make a chain without end.
fn is_same(one: &Certificate<'_>, other: &Certificate<'_>) -> bool {
    one.subject == other.subject
        && one.key_algorithm == other.key_algorithm
        && one.key == other.key
        && one.names_value == other.names_value
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
