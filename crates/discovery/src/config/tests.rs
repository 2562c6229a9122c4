//! Settings that are rejected, in Prometheus' words.

use super::*;
use narthex_net::{BasicAuth, Secret};

fn refusal(mut config: SdConfig) -> String {
    config.validate().expect_err("must be refused").to_string()
}

fn files(names: &[&str]) -> SdConfig {
    SdConfig::File(FileSdConfig {
        files: names.iter().map(|name| (*name).to_owned()).collect(),
        ..FileSdConfig::default()
    })
}

#[test]
fn file_names_need_a_known_ending() {
    for good in [
        "a.json",
        "a.yml",
        "a.YAML",
        "/x/*.json",
        "x/nodes-*.yaml",
        "*.yml",
    ] {
        assert!(files(&[good]).validate().is_ok(), "{good}");
    }
    for bad in ["a.txt", "a", "*/a.json", "a*b/c.json", "json", "a.Json"] {
        assert_eq!(
            refusal(files(&["ok.json", bad])),
            format!("path name {bad:?} is not valid for file discovery")
        );
    }
    assert_eq!(
        refusal(files(&[])),
        "file service discovery config must contain at least one path name"
    );
}

#[test]
fn http_urls_are_checked() {
    for (url, want) in [
        ("", "URL is missing"),
        ("invalid", "URL scheme must be 'http' or 'https'"),
        ("ftp://h/", "URL scheme must be 'http' or 'https'"),
        ("http://", "host is missing in URL"),
        ("http:///x", "host is missing in URL"),
    ] {
        let config = HttpSdConfig {
            url: url.to_owned(),
            ..HttpSdConfig::default()
        };
        assert_eq!(refusal(SdConfig::Http(Box::new(config))), want, "{url}");
    }
}

#[test]
fn dns_needs_names_and_mostly_a_port() {
    assert_eq!(
        refusal(SdConfig::Dns(DnsSdConfig::default())),
        "DNS-SD config must contain at least one SRV record name"
    );
    let without_port = |record_type| DnsSdConfig {
        names: vec!["a".to_owned()],
        record_type,
        ..DnsSdConfig::default()
    };
    assert!(
        SdConfig::Dns(without_port(RecordType::Srv))
            .validate()
            .is_ok()
    );
    for (name, record_type) in [
        ("A", RecordType::A),
        ("aaaa", RecordType::Aaaa),
        ("Mx", RecordType::Mx),
        ("NS", RecordType::Ns),
    ] {
        assert_eq!(
            refusal(SdConfig::Dns(without_port(record_type))),
            "a port is required in DNS-SD configs for all record types except SRV"
        );
        assert_eq!(RecordType::parse(name).expect("its name"), record_type);
    }
    assert_eq!(
        RecordType::parse("TXT").expect_err("unknown").to_string(),
        "invalid DNS-SD records type TXT"
    );
}

fn kubernetes(change: impl FnOnce(&mut KubernetesSdConfig)) -> SdConfig {
    let mut config = KubernetesSdConfig {
        role: Some(Role::Pod),
        ..KubernetesSdConfig::default()
    };
    change(&mut config);
    SdConfig::Kubernetes(Box::new(config))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn kubernetes_settings_must_agree() {
    let basic = || {
        Some(BasicAuth {
            password: Secret::from("hush"),
            ..BasicAuth::default()
        })
    };
    let selector = |role, label: &str, field: &str| Selector {
        role,
        label: label.to_owned(),
        field: field.to_owned(),
    };
    for (config, want) in [
        (
            kubernetes(|c| c.role = None),
            "role missing (one of: pod, service, endpoints, endpointslice, node, ingress)",
        ),
        (
            kubernetes(|c| {
                c.api_server = Some("http://k".to_owned());
                c.kubeconfig_file = Some("k".into());
            }),
            "cannot use 'kubeconfig_file' and 'api_server' simultaneously",
        ),
        (
            kubernetes(|c| {
                c.kubeconfig_file = Some("k".into());
                c.http.basic_auth = basic();
            }),
            "cannot use a custom HTTP client configuration together with 'kubeconfig_file'",
        ),
        (
            kubernetes(|c| c.http.basic_auth = basic()),
            "to use custom HTTP client configuration please provide the 'api_server' URL explicitly",
        ),
        (
            kubernetes(|c| {
                c.api_server = Some("http://k".to_owned());
                c.namespaces.own_namespace = true;
            }),
            "cannot use 'api_server' and 'namespaces.own_namespace' simultaneously",
        ),
        (
            kubernetes(|c| {
                c.selectors = vec![selector(Role::Pod, "a", ""), selector(Role::Pod, "b", "")];
            }),
            "duplicated selector role: pod",
        ),
        (
            kubernetes(|c| c.selectors = vec![selector(Role::Service, "a", "")]),
            "pod role supports only pod, node selectors",
        ),
        (
            kubernetes(|c| c.selectors = vec![selector(Role::Pod, "", "metadata.status-Running")]),
            "invalid selector: 'metadata.status-Running'; can't understand 'metadata.status-Running'",
        ),
        (
            kubernetes(|c| c.selectors = vec![selector(Role::Pod, "a in (b", "")]),
            "unable to parse label selector \"a in (b\": expected a list between '(' and ')'",
        ),
    ] {
        assert_eq!(refusal(config), want);
    }
    for label in [
        "",
        "a",
        "!a",
        "a=b",
        "a==b,c!=d",
        "x.io/a in (b, c), d notin (e)",
        "n>1",
    ] {
        let fine = selector(Role::Pod, label, "metadata.name=x,spec.nodeName!=y");
        assert!(
            kubernetes(|c| c.selectors = vec![fine]).validate().is_ok(),
            "{label}"
        );
    }
    assert_eq!(
        Role::parse("vault").expect_err("unknown").to_string(),
        "unknown Kubernetes SD role \"vault\""
    );
}
