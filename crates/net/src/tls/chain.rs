//! Chains from a certificate to a configured authority, built and verified as in Go's `crypto/x509`.
//!
//! webpki does not fit: it ignores path lengths and key usage of trust anchors, rejects a CA certificate used by a
//! server and a certificate that is its own authority, both of which scrape targets have, and does not support the
//! "any" usage. A chain is valid exactly when Go's `Certificate.Verify` accepts it; `testkit/gopeer` makes the chains
//! that the tests compare. Two exceptions are stricter: policy constraints are rejected because policies are not
//! evaluated, and keys for which our provider has no algorithm (RSA below 2,048 bits) cannot sign.
//!
//! Invariant: every certificate of a chain is valid at the time, has no unknown critical extension, is signed by the
//! next one, which may sign certificates at this depth, and allows the usage; every name satisfies the constraints
//! above it. The number of signature checks bounds the work.

use std::collections::HashSet;

use rustls::pki_types::CertificateDer;

use super::crypto::provider;
use super::der::{Certificate, KeyUsage};
use super::names::are_permitted;

/// Most candidates tried for one chain; Go's value.
const MAX_CANDIDATES: usize = 100;

/// Reason for not trusting a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// No chain leads to an authority.
    Unknown,
    /// A chain exists, but not for this usage.
    Usage,
    /// A chain exists, but not for these names.
    Names,
    /// It, or the one above it, has an unsupported critical extension.
    Critical,
    /// It, or the one above it, is not valid yet.
    Early,
    Late,
}

/// Trusted authorities, at which chains end.
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
    /// Keeps the certificates that parse, each once.
    pub(crate) fn new(all: Vec<CertificateDer<'static>>) -> Self {
        let mut roots: Vec<Root> = Vec::new();
        let mut seen = HashSet::new();
        for der in all {
            if let Some(certificate) = Certificate::parse(&der)
                && seen.insert(der.clone())
            {
                let subject = certificate.subject.to_vec();
                roots.push(Root { subject, der });
            }
        }
        Self { all: roots }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Lists the authorities' names, as the contents of their sequences.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(|root| root.subject.as_slice())
    }

    /// Decides whether a certificate is valid for a usage at this time, in seconds since the epoch.
    ///
    /// # Errors
    /// Fails with the reason; if there are several chains, with that of the best one.
    pub(crate) fn verify(
        &self,
        (der, certificate): (&CertificateDer<'_>, &Certificate<'_>),
        sent: &[CertificateDer<'_>],
        now: i64,
        usage: &[u8],
    ) -> Result<(), Distrust> {
        check_alone(certificate, now)?;
        // A certificate that is sent again is not tried again.
        let mut seen = HashSet::new();
        let fresh = sent.iter().filter(|der| seen.insert(&***der));
        let mut search = Search {
            roots: self,
            sent: fresh.filter_map(|der| Certificate::parse(der)).collect(),
            now,
            usage,
            candidates: 0,
            reason: Distrust::Unknown,
        };
        // A certificate that is itself configured needs no signature, whatever it may sign.
        let known = if self.all.iter().any(|root| root.der == *der) {
            search.ends(&[certificate])
        } else {
            search.extend(&[certificate])
        };
        if known { Ok(()) } else { Err(search.reason) }
    }
}

/// Checks a certificate by itself.
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
    /// Searches for a chain that begins with this one.
    fn extend(&mut self, chain: &[&Certificate<'_>]) -> bool {
        let Some(last) = chain.last() else {
            return false;
        };
        let roots = self.roots;
        let named = roots.all.iter().filter(|root| root.subject == last.issuer);
        let parents = named.filter_map(|root| Certificate::parse(&root.der));
        for parent in by_plausibility(last, parents.collect()) {
            if self.accepts(chain, &parent, true) && self.ends(&with(chain, &parent)) {
                return true;
            }
        }
        let named = self.sent.iter().filter(|one| one.subject == last.issuer);
        for parent in by_plausibility(last, named.cloned().collect()) {
            if self.accepts(chain, &parent, false) && self.extend(&with(chain, &parent)) {
                return true;
            }
        }
        false
    }

    /// Returns whether a certificate may be the next one of a chain.
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
            // Before version 3 there was no such field; being configured suffices.
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

    /// Checks a complete chain.
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

/// Sorts possible issuers as Go does, so that the right one is among the candidates that are tried: those whose key the
/// certificate names, those of which that is not known, then others.
fn by_plausibility<'a>(
    certificate: &Certificate<'_>,
    mut parents: Vec<Certificate<'a>>,
) -> Vec<Certificate<'a>> {
    let wanted = certificate.issuer_key_id;
    parents.sort_by_key(|parent| {
        let matches = parent.key_id == wanted;
        let unknown = parent.key_id.is_empty() != wanted.is_empty();
        (!matches, !unknown)
    });
    parents
}

/// Authorities that sign each other's keys must not make an endless chain.
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
