//! Fuzz targets for everything that parses untrusted bytes.
//!
//! Invariant: none panics, hangs, or lets memory grow past the given limit, on any input.

use crate::dns::message;
use crate::dns::record_type::RecordType;
use crate::dns::resolver::ResolvConf;
use crate::group::{Notation, read_groups};
use crate::kubernetes::objects::{EndpointSlice, Ingress, Pod};
use crate::kubernetes::{access, api, selector};

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

/// Fuzzes lists and watches of a Kubernetes API, of kinds that cover every sort of field.
pub fn fuzz_kubernetes(data: &[u8]) {
    api::fuzz_read::<Pod>(data);
    api::fuzz_read::<EndpointSlice>(data);
    api::fuzz_read::<Ingress>(data);
}

/// Fuzzes watches as they arrive: lines are the same in pieces of any size.
pub fn fuzz_watch(data: &[u8]) {
    let whole = api::fuzz_lines(data, data.len());
    assert_eq!(whole, api::fuzz_lines(data, 1));
    assert_eq!(whole, api::fuzz_lines(data, 7));
    let ends = data.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(whole.len(), ends);
    fuzz_kubernetes(data);
}

/// Fuzzes label selectors.
pub fn fuzz_selector(data: &[u8]) {
    if let Err(reason) = selector::check_labels(&String::from_utf8_lossy(data)) {
        assert!(!reason.is_empty());
    }
}

/// Fuzzes kubeconfigs: rejected, or converted to a URL and settings that show no secret.
pub fn fuzz_kubeconfig(data: &[u8]) {
    let file = std::path::Path::new("/nowhere/kubeconfig");
    if let Ok((server, _http)) = access::from_kubeconfig(&String::from_utf8_lossy(data), file) {
        assert!(!server.is_empty());
    }
}
