//! Certificates created for a single test.

use std::path::PathBuf;

use narthex_testkit::TempDir;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) cert: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key`; returns their paths.
    pub(crate) fn write(&self, dir: &TempDir, name: &str) -> (PathBuf, PathBuf) {
        (
            dir.write(format!("{name}.crt"), &self.cert),
            dir.write(format!("{name}.key"), &self.key),
        )
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) identity: Identity,
    params: CertificateParams,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let identity = self_signed(&params);
        Self { identity, params }
    }

    /// Issues a certificate for these names and addresses.
    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        self.issue_as(&params(names, "a leaf"))
    }

    pub(crate) fn issue_as(&self, params: &CertificateParams) -> Identity {
        let signer = KeyPair::from_pem(&self.identity.key).unwrap();
        let issuer = Issuer::from_params(&self.params, signer);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap();
        identity(&cert, &key)
    }

    /// Returns an intermediate authority below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        let mut params = params(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let identity = self.issue_as(&params);
        Self { identity, params }
    }
}

pub(crate) fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
}

pub(crate) fn for_clients(names: &[&str]) -> CertificateParams {
    let mut params = params(names, "a client");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(crate) fn self_signed(params: &CertificateParams) -> Identity {
    let key = KeyPair::generate().unwrap();
    identity(&params.self_signed(&key).unwrap(), &key)
}

fn identity(cert: &rcgen::Certificate, key: &KeyPair) -> Identity {
    Identity {
        cert: cert.pem(),
        key: key.serialize_pem(),
        der: cert.der().to_vec(),
    }
}
