//! Tests of TLS between our client and our server: which peers are trusted, and the error texts.

use narthex_net::axum::routing::get;
use narthex_net::{
    Client, ClientConfig, HttpClientConfig, NetError, ProxyConfig, ProxyUrl, Request, Router,
    Secret, TlsConfig, TlsVersion,
};
use narthex_testkit::TempDir;
use rcgen::{BasicConstraints, IsCa};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::certs::{Authority, Identity, for_clients, params, self_signed};
use crate::support::{Running, patient, read_to_close, read_until};

/// Starts a server with this certificate, and further lines in `tls_server_config`.
async fn server_with(dir: &TempDir, identity: &Identity, more: &str) -> Running {
    identity.write(dir, "server");
    let text =
        format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{more}");
    let file = dir.write("web.yml", text);
    Running::start_web(hello(), &file).await
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn client(tls: TlsConfig) -> Client {
    let http = HttpClientConfig {
        tls,
        ..HttpClientConfig::default()
    };
    Client::with_http(ClientConfig::default(), http).unwrap()
}

fn trusting(ca: &str) -> TlsConfig {
    TlsConfig {
        ca: ca.to_owned(),
        ..TlsConfig::default()
    }
}

async fn fetch(client: &Client, server: &Running) -> Result<String, String> {
    let request = Request::new(server.https_url("/"));
    let mut body = Vec::new();
    match patient(client.get(&request, &mut body)).await {
        Ok(_head) => Ok(String::from_utf8(body).unwrap()),
        Err(error) => Err(error.failure().to_string()),
    }
}

#[tokio::test]
async fn chains_to_a_configured_authority_are_believed() {
    let dir = TempDir::new("tls");
    let authority = Authority::new("Root");
    let server = server_with(&dir, &authority.issue(&["127.0.0.1"]), "").await;
    let trusted = client(trusting(&authority.identity.cert));
    assert_eq!(fetch(&trusted, &server).await.unwrap(), "hello");
    assert_eq!(fetch(&trusted, &server).await.unwrap(), "hello");
    let stats = trusted.stats();
    assert_eq!(stats.connections_opened_total, 1, "kept alive");
    assert_eq!(stats.connections_reused_total, 1);

    let stranger = Authority::new("Another root");
    assert_eq!(
        fetch(&client(trusting(&stranger.identity.cert)), &server).await,
        Err(
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                .into()
        )
    );
}

#[tokio::test]
async fn intermediates_that_the_server_sends_are_used() {
    let dir = TempDir::new("tls");
    let root = Authority::new("Root");
    let middle = root.below("Middle");
    let mut leaf = middle.issue(&["127.0.0.1"]);
    leaf.cert.push_str(&middle.identity.cert);
    let server = server_with(&dir, &leaf, "").await;
    let trusted = client(trusting(&root.identity.cert));
    assert_eq!(fetch(&trusted, &server).await.unwrap(), "hello");
}

/// `openssl req -x509` creates CA certificates, other tools do not; Go trusts both when they are configured, and
/// rustls alone neither.
#[tokio::test]
async fn self_signed_certificates_are_their_own_authority() {
    for is_ca in [
        IsCa::NoCa,
        IsCa::ExplicitNoCa,
        IsCa::Ca(BasicConstraints::Unconstrained),
    ] {
        let dir = TempDir::new("tls");
        let mut params = params(&["127.0.0.1", "web.example"], "web.example");
        params.is_ca = is_ca;
        let identity = self_signed(&params);
        let server = server_with(&dir, &identity, "").await;
        let trusted = client(trusting(&identity.cert));
        assert_eq!(
            fetch(&trusted, &server).await.as_deref(),
            Ok("hello"),
            "{is_ca:?}"
        );
        // A trusted certificate is still not valid for another server.
        let elsewhere = client(TlsConfig {
            server_name: "db.example".to_owned(),
            ..trusting(&identity.cert)
        });
        assert_eq!(
            fetch(&elsewhere, &server).await,
            Err("tls: failed to verify certificate: x509: certificate is valid for web.example, not db.example".into())
        );
        // A lookalike with another key is not trusted.
        let twin = self_signed(&params);
        let fooled = fetch(&client(trusting(&twin.cert)), &server).await;
        assert_eq!(
            fooled,
            Err(
                "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                    .into()
            ),
            "{is_ca:?}"
        );
    }
}

#[tokio::test]
async fn an_authoritys_certificate_may_serve_when_another_issued_it() {
    let dir = TempDir::new("tls");
    let root = Authority::new("Root");
    let middle = root.below("Middle");
    let mut serving = params(&["127.0.0.1"], "a CA that serves");
    serving.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut leaf = middle.issue_as(&serving);
    leaf.cert.push_str(&middle.identity.cert);
    let server = server_with(&dir, &leaf, "").await;
    let trusted = client(trusting(&root.identity.cert));
    assert_eq!(fetch(&trusted, &server).await.as_deref(), Ok("hello"));
    let stranger = Authority::new("Root");
    let fooled = fetch(&client(trusting(&stranger.identity.cert)), &server).await;
    assert!(fooled.unwrap_err().contains("unknown authority"));
}

#[tokio::test]
async fn names_usage_and_time_are_checked_in_gos_words() {
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    };
    let nothing = |_params: &mut rcgen::CertificateParams| {};
    let clients = |params: &mut rcgen::CertificateParams| {
        *params = for_clients(&["127.0.0.1"]);
    };
    type Change = fn(&mut rcgen::CertificateParams);
    let cases: [(&[&str], &str, Change, &str); 6] = [
        (
            &[],
            "127.0.0.1",
            nothing,
            "certificate relies on legacy Common Name field, use SANs instead",
        ),
        (
            &["a.example"],
            "x",
            nothing,
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            &["10.0.0.1"],
            "x",
            nothing,
            "certificate is valid for 10.0.0.1, not 127.0.0.1",
        ),
        (
            &["127.0.0.1"],
            "x",
            expired,
            "certificate has expired or is not yet valid: current time is after its validity ends",
        ),
        (
            &["127.0.0.1"],
            "x",
            clients,
            "certificate specifies an incompatible key usage",
        ),
        (&["127.0.0.1"], "x", nothing, ""),
    ];
    for (names, common_name, change, want) in cases {
        let dir = TempDir::new("tls");
        let mut params = params(names, common_name);
        change(&mut params);
        let identity = self_signed(&params);
        let server = server_with(&dir, &identity, "").await;
        let got = fetch(&client(trusting(&identity.cert)), &server).await;
        if want.is_empty() {
            assert_eq!(got.as_deref(), Ok("hello"));
        } else {
            let want = format!("tls: failed to verify certificate: x509: {want}");
            assert_eq!(got, Err(want));
        }
        let careless = client(TlsConfig {
            insecure_skip_verify: true,
            ..TlsConfig::default()
        });
        assert_eq!(fetch(&careless, &server).await.as_deref(), Ok("hello"));
    }
}

#[tokio::test]
async fn files_that_change_are_read_again() {
    let dir = TempDir::new("tls");
    let first = self_signed(&params(&["127.0.0.1"], "first"));
    let second = self_signed(&params(&["127.0.0.1"], "second"));
    let server = server_with(&dir, &first, "").await;
    let ca_file = dir.write("ca.crt", &first.cert);
    let client = client(TlsConfig {
        ca_file: Some(ca_file),
        ..TlsConfig::default()
    });
    assert_eq!(fetch(&client, &server).await.as_deref(), Ok("hello"));
    second.write(&dir, "server");
    // An existing connection continues; a changed authority closes it.
    dir.write("ca.crt", &second.cert);
    assert_eq!(fetch(&client, &server).await.as_deref(), Ok("hello"));
    assert_eq!(client.stats().connections_opened_total, 2);
    dir.write("ca.crt", "no certificate");
    let broken = fetch(&client, &server).await.unwrap_err();
    assert!(
        broken.contains("unable to use specified CA cert file"),
        "{broken}"
    );
    std::fs::remove_file(dir.join("ca.crt")).unwrap();
    let missing = fetch(&client, &server).await.unwrap_err();
    assert!(
        missing.starts_with("unable to read CA cert: open "),
        "{missing}"
    );
    assert!(missing.ends_with("no such file or directory"), "{missing}");
}

#[tokio::test]
async fn versions_are_bounded() {
    let dir = TempDir::new("tls");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let server = server_with(&dir, &identity, "  max_version: TLS12\n").await;
    let at_least = |min_version| TlsConfig {
        min_version: Some(min_version),
        ..trusting(&identity.cert)
    };
    for accepted in [TlsVersion::Tls10, TlsVersion::Tls12] {
        let got = fetch(&client(at_least(accepted)), &server).await;
        assert_eq!(got.as_deref(), Ok("hello"), "{accepted:?}");
    }
    let refused = fetch(&client(at_least(TlsVersion::Tls13)), &server).await;
    assert!(refused.is_err());
    let old = HttpClientConfig {
        tls: TlsConfig {
            max_version: Some(TlsVersion::Tls11),
            ..TlsConfig::default()
        },
        ..HttpClientConfig::default()
    };
    let error = Client::with_http(ClientConfig::default(), old).unwrap_err();
    assert_eq!(
        error.to_string(),
        "max_version TLS11: versions below TLS 1.2 are not supported"
    );
}

#[tokio::test]
async fn clients_are_asked_for_certificates() {
    let authority = Authority::new("Root");
    let known = authority.issue_as(&for_clients(&["client.example"]));
    let stranger = self_signed(&for_clients(&["client.example"]));
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let as_client = |who: Option<&Identity>| {
        let mut tls = trusting(&identity.cert);
        if let Some(who) = who {
            tls.cert.clone_from(&who.cert);
            tls.key = Secret::new(who.key.clone());
        }
        client(tls)
    };
    let verified =
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.crt\n";
    let sans = format!("{verified}  client_allowed_sans: [other.example, client.example]\n");
    let no_sans = format!("{verified}  client_allowed_sans: [other.example]\n");
    for (settings, nobody, by_stranger, by_known) in [
        ("", true, true, true),
        ("  client_auth_type: RequestClientCert\n", true, true, true),
        (
            "  client_auth_type: RequireAnyClientCert\n",
            false,
            true,
            true,
        ),
        (
            "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: clients.crt\n",
            true,
            false,
            true,
        ),
        (verified, false, false, true),
        (&sans, false, false, true),
        (&no_sans, false, false, false),
    ] {
        let dir = TempDir::new("tls");
        dir.write("clients.crt", &authority.identity.cert);
        let server = server_with(&dir, &identity, settings).await;
        for (who, want) in [
            (None, nobody),
            (Some(&stranger), by_stranger),
            (Some(&known), by_known),
        ] {
            let got = fetch(&as_client(who), &server).await;
            assert_eq!(got.is_ok(), want, "{settings}: {got:?}");
        }
    }
}

#[tokio::test]
async fn a_self_signed_client_may_be_its_own_authority() {
    let dir = TempDir::new("tls");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let visitor = self_signed(&for_clients(&["client.example"]));
    dir.write("clients.crt", &visitor.cert);
    let settings =
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.crt\n";
    let server = server_with(&dir, &identity, settings).await;
    let (cert_file, key_file) = visitor.write(&dir, "visitor");
    let visiting = client(TlsConfig {
        cert_file: Some(cert_file),
        key_file: Some(key_file),
        ..trusting(&identity.cert)
    });
    assert_eq!(fetch(&visiting, &server).await.as_deref(), Ok("hello"));
}

#[tokio::test]
async fn plain_http_to_an_encrypted_port_gets_gos_answer() {
    let dir = TempDir::new("tls");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let server = server_with(&dir, &identity, "").await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(
        read_to_close(&mut stream).await,
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    );
    // And vice versa.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _peer) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let _hello = stream.read(&mut [0; 1024]).await;
    });
    let url = narthex_net::Url::parse(&format!("https://{address}/")).unwrap();
    let trusted = client(trusting(&identity.cert));
    let error = patient(trusted.get(&Request::new(url), &mut Vec::new())).await;
    assert_eq!(
        error.unwrap_err().failure().to_string(),
        "tls: first record does not look like a TLS handshake"
    );
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_cut() {
    let dir = TempDir::new("tls");
    self_signed(&params(&["127.0.0.1"], "x")).write(&dir, "server");
    let file = dir.write(
        "web.yml",
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n",
    );
    let mut config = narthex_net::ServerConfig::default();
    config.header_read_timeout = std::time::Duration::from_millis(50);
    let server = narthex_net::Server::bind(&["127.0.0.1:0"], config).await;
    let server = server.unwrap().with_web_config(&file).unwrap();
    assert!(server.is_https());
    let address = server.local_addrs()[0];
    let (stopper, stop) = narthex_net::Stopper::new();
    let serving = tokio::spawn(server.serve(hello(), stop));
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(read_to_close(&mut silent).await, "");
    stopper.stop();
    assert_eq!(patient(serving).await.unwrap().slow_clients_total, 1);
}

/// Starts a proxy that accepts one `CONNECT`, reports its head, and forwards bytes.
async fn connecting_proxy() -> (std::net::SocketAddr, tokio::sync::oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut client, _peer) = listener.accept().await.unwrap();
        let head = read_until(&mut client, "\r\n\r\n").await;
        let target = head.split(' ').nth(1).unwrap().to_owned();
        sender.send(head).unwrap();
        let mut server = TcpStream::connect(target).await.unwrap();
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await
            .unwrap();
        let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    (address, receiver)
}

#[tokio::test]
async fn encrypted_requests_go_through_a_proxys_tunnel() {
    let dir = TempDir::new("tls");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let server = server_with(&dir, &identity, "").await;
    let (address, head) = connecting_proxy().await;
    let http = HttpClientConfig {
        tls: trusting(&identity.cert),
        proxy: ProxyConfig {
            url: Some(ProxyUrl::parse(&format!("http://user:p%40ss@{address}")).unwrap()),
            connect_headers: vec![("X-Tenant".to_owned(), vec![Secret::from("blue")])],
            ..ProxyConfig::default()
        },
        ..HttpClientConfig::default()
    };
    let shown = format!("{http:?}");
    assert!(
        !shown.contains("p@ss") && !shown.contains("p%40ss"),
        "{shown}"
    );
    let client = Client::with_http(ClientConfig::default(), http).unwrap();
    assert_eq!(fetch(&client, &server).await.as_deref(), Ok("hello"));
    let head = patient(head).await.unwrap().to_ascii_lowercase();
    assert!(head.starts_with(&format!("connect {} http/1.1\r\n", server.address)));
    assert!(head.contains("x-tenant: blue\r\n"), "{head}");
    assert!(
        head.contains("proxy-authorization: basic dxnlcjpwqhnz\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_by_its_status() {
    let refusing = crate::support::scripted(vec![
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n".to_vec(),
    ])
    .await;
    let http = HttpClientConfig {
        proxy: ProxyConfig {
            url: Some(ProxyUrl::parse(&format!("http://{refusing}")).unwrap()),
            ..ProxyConfig::default()
        },
        ..HttpClientConfig::default()
    };
    let client = Client::with_http(ClientConfig::default(), http).unwrap();
    let request = Request::new(narthex_net::Url::parse("https://a.example/").unwrap());
    let error = patient(client.get(&request, &mut Vec::new())).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error.failure(), NetError::Proxy { code: 407 }),
        "{error}"
    );
}

#[tokio::test]
async fn large_bodies_and_stalls_are_handled_under_encryption() {
    let dir = TempDir::new("tls");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    let (_cert, _key) = identity.write(&dir, "server");
    let file = dir.write(
        "web.yml",
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n",
    );
    let body = "0123456789abcdef".repeat(1 << 16);
    let sent = body.clone();
    let router = Router::new().route("/", get(move || async move { sent }));
    let server = Running::start_web(router, &file).await;
    let trusted = client(trusting(&identity.cert));
    assert_eq!(fetch(&trusted, &server).await.as_deref(), Ok(body.as_str()));
    // A client that disconnects during a handshake does no harm.
    let mut half = server.connect().await;
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    drop(half);
    assert_eq!(fetch(&trusted, &server).await.as_deref(), Ok(body.as_str()));
    let mut nothing = [0; 1];
    let mut other = server.connect().await;
    other.write_all(b"\x16\x03\x01\x00\x05hello").await.unwrap();
    let _alert = patient(other.read(&mut nothing)).await;
}
