//! Fuzz targets for everything that parses untrusted bytes.
//!
//! Invariant: none panics, hangs, or lets memory grow past the given limit, on any input.

use crate::dns::message;
use crate::dns::record_type::RecordType;
use crate::dns::resolver::ResolvConf;
use crate::group::{Notation, read_groups};
use crate::kubernetes;

/// Fuzzes target groups in both notations.
pub fn fuzz_groups(data: &[u8]) {
    for notation in [Notation::Json, Notation::Yaml] {
        match read_groups(data, notation, "__meta_x", "x") {
            Ok(groups) => {
                for (at, group) in groups.iter().enumerate() {
                    assert_eq!(group.source, format!("x:{at}"));
                    assert_eq!(group.labels["__meta_x"], "x");
                }
            }
            Err(error) => assert!(!error.contains('\n'), "{error}"),
        }
    }
}

/// Fuzzes answers of DNS servers.
pub fn fuzz_dns_answer(data: &[u8]) {
    let id = data
        .get(..2)
        .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let question = message::question(id, "a.example.", RecordType::Srv, true).expect("a name");
    if let Some(answer) = message::answer(data, &question) {
        assert!(answer.records.len() <= data.len() / 11);
    }
}

/// Fuzzes the resolver's configuration and the names tried with it.
pub fn fuzz_resolv_conf(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let conf = ResolvConf::parse(&text);
    for name in conf.candidates("web") {
        assert!(name.ends_with('.') && name.starts_with("web"), "{name}");
    }
}

/// Fuzzes lists and watches of a Kubernetes API, of every kind.
pub fn fuzz_kubernetes(data: &[u8]) {
    kubernetes::fuzz_read(data);
}

/// Fuzzes watches as they arrive: lines are the same in pieces of any size.
pub fn fuzz_watch(data: &[u8]) {
    kubernetes::fuzz_watch(data);
}

/// Fuzzes label selectors.
pub fn fuzz_selector(data: &[u8]) {
    kubernetes::fuzz_selector(&String::from_utf8_lossy(data));
}

/// Fuzzes kubeconfigs: rejected, or converted to a URL and settings that show no secret.
pub fn fuzz_kubeconfig(data: &[u8]) {
    kubernetes::fuzz_kubeconfig(&String::from_utf8_lossy(data));
}
