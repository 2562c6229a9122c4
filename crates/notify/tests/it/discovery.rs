//! Every mechanism that finds targets finds Alertmanagers.

use crate::notifier::{LIMIT, alert, alerting, names, notifier};
use narthex_discovery::{
    DnsSdConfig, FileSdConfig, HttpSdConfig, KubernetesSdConfig, RecordType, Role, SdConfig,
    TargetGroup,
};
use narthex_model::LabelSet;
use narthex_notify::{AlertmanagerConfig, NotifierOptions};
use narthex_rules::AlertSink as _;
use narthex_testkit::{Alertmanager, TempDir};
use std::{collections::BTreeMap, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
};

/// Answers HTTP: a list of targets, and a cluster's API with one pod, of which nothing changes.
async fn http_server(by_http: SocketAddr, pod: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let list = format!(r#"[{{"targets": ["{by_http}"]}}]"#);
    let (ip, port) = (pod.ip(), pod.port());
    let pods = format!(
        r#"{{"kind": "PodList", "apiVersion": "v1", "metadata": {{"resourceVersion": "1"}}, "items": [{{
            "metadata": {{"name": "am", "namespace": "monitoring", "uid": "u", "resourceVersion": "1"}},
            "spec": {{"nodeName": "n", "containers": [{{"name": "c", "ports": [{{"containerPort": {port}, "protocol": "TCP"}}]}}]}},
            "status": {{"podIP": "{ip}", "phase": "Running"}}}}]}}"#
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (list, pods) = (list.clone(), pods.clone());
            tokio::spawn(async move {
                let mut request = Vec::new();
                while stream
                    .read_buf(&mut request)
                    .await
                    .is_ok_and(|count| count > 0)
                {
                    let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n")
                    else {
                        continue;
                    };
                    let head = String::from_utf8(request.drain(..end + 4).collect()).unwrap();
                    if head.contains("watch=") {
                        // The connection stays open, and nothing comes.
                        let begin = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
                        let _gone = stream.write_all(begin.as_bytes()).await;
                        continue;
                    }
                    let body = if head.starts_with("GET /list ") {
                        &list
                    } else {
                        &pods
                    };
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let _gone = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    address
}

/// Answers every question with the address 127.0.0.1.
async fn dns_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let name = &buffer[12..length];
            let end = 12 + name.iter().position(|byte| *byte == 0).unwrap() + 5;
            let mut answer = buffer[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend(&buffer[12..end]);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, 1]);
            let _gone = socket.send_to(&answer, peer).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mechanism_finds_alertmanagers() {
    let servers: [Alertmanager; 5] = std::array::from_fn(|_| Alertmanager::start());
    let [listed, in_file, by_http, by_dns, pod] = servers
        .each_ref()
        .map(|server| server.address().parse::<SocketAddr>().unwrap());
    let dir = TempDir::new("notify-discovery");
    let text = format!(r#"[{{"targets": ["{in_file}"]}}]"#);
    let file = dir.write("targets.json", text);
    let http = http_server(by_http, pod).await;
    let resolv_conf = format!("nameserver {}\n", dns_server().await);
    let mut options = NotifierOptions::default();
    options.discovery.resolv_conf = dir.write("resolv.conf", resolv_conf);
    let mechanisms = [
        SdConfig::Static(vec![TargetGroup::of_addresses(
            "0",
            [listed.to_string()],
            BTreeMap::new(),
        )]),
        SdConfig::File(FileSdConfig {
            files: vec![file.to_str().unwrap().to_owned()],
            ..FileSdConfig::default()
        }),
        SdConfig::Http(Box::new(HttpSdConfig {
            url: format!("http://{http}/list"),
            ..HttpSdConfig::default()
        })),
        SdConfig::Dns(DnsSdConfig {
            names: vec!["alertmanager.example.".to_owned()],
            record_type: RecordType::A,
            port: by_dns.port(),
            ..DnsSdConfig::default()
        }),
        SdConfig::Kubernetes(Box::new(KubernetesSdConfig {
            role: Some(Role::Pod),
            api_server: Some(format!("http://{http}")),
            ..KubernetesSdConfig::default()
        })),
    ];
    let sets = mechanisms.map(|mechanism| AlertmanagerConfig {
        discovery: vec![mechanism],
        ..AlertmanagerConfig::default()
    });
    let one = notifier(options, alerting(sets), &LabelSet::empty(), servers.len()).await;
    one.send(vec![alert("A")]);
    for server in &servers {
        assert_eq!(names(server, 1), ["A"]);
    }
    one.end(LIMIT).await;
}
