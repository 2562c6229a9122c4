//! Tests the web configuration against the behaviour of the exporter-toolkit.

use narthex_net::axum::routing::get;
use narthex_net::{
    BasicAuth, Client, ClientConfig, HttpClientConfig, Request, Router, Secret, WebConfig,
};
use narthex_testkit::TempDir;
use tokio::io::AsyncWriteExt;

use crate::certs::{params, self_signed};
use crate::support::{Running, patient, read_to_close};

/// bcrypt of `dave123` at cost 4, by libxcrypt 4.4.
const DAVE: &str = "$2y$04$abcdefghijklmnopqrstuuT.VdioudKiCP.wBnKnIyRNAu9yUSXv2";

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" })).route(
        "/framed",
        get(|| async { ([("x-frame-options", "sameorigin")], "framed") }),
    )
}

async fn serve(dir: &TempDir, text: &str) -> Running {
    let file = dir.write("web.yml", text);
    Running::start_web(hello(), &file).await
}

/// Sends a request over a plain socket, to see the raw headers.
async fn ask(server: &Running, path: &str, headers: &str) -> String {
    let mut stream = server.connect().await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read_to_close(&mut stream).await
}

#[tokio::test]
async fn without_users_everybody_is_served() {
    let dir = TempDir::new("web");
    let server = serve(&dir, "# nothing\n").await;
    let answer = ask(&server, "/", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
}

async fn status_as(server: &Running, user: &str, password: &str) -> u16 {
    let http = HttpClientConfig {
        basic_auth: Some(BasicAuth {
            username: user.to_owned(),
            password: Secret::from(password),
            ..BasicAuth::default()
        }),
        ..HttpClientConfig::default()
    };
    let client = Client::with_http(ClientConfig::default(), http).unwrap();
    let request = Request::new(server.url("/"));
    let mut body = Vec::new();
    patient(client.get(&request, &mut body))
        .await
        .unwrap()
        .status
}

#[tokio::test]
async fn users_are_told_from_strangers() {
    let dir = TempDir::new("web");
    let text = format!("basic_auth_users:\n  dave: {DAVE}\n");
    let server = serve(&dir, &text).await;
    let answer = ask(&server, "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"),
        "{answer}"
    );
    assert!(answer.contains("www-authenticate: Basic\r\n"), "{answer}");
    assert!(answer.ends_with("Unauthorized\n"), "{answer}");
    // Twice each: the second result is cached.
    for _ in 0..2 {
        assert_eq!(status_as(&server, "dave", "dave123").await, 200);
        assert_eq!(status_as(&server, "dave", "bad").await, 401);
        assert_eq!(status_as(&server, "nobody", "dave123").await, 401);
        // The password of the placeholder hash for unknown users.
        assert_eq!(status_as(&server, "nobody", "fakepassword").await, 401);
    }
    for malformed in ["Basic", "Basic !", "Basic ZGF2ZQ==", "Bearer x"] {
        let answer = ask(&server, "/", &format!("Authorization: {malformed}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{malformed}: {answer}");
    }
}

#[tokio::test]
async fn the_file_is_read_again_and_a_broken_one_admits_nobody() {
    let dir = TempDir::new("web");
    let server = serve(&dir, "basic_auth_users: {}\n").await;
    assert!(ask(&server, "/", "").await.starts_with("HTTP/1.1 200 "));
    dir.write("web.yml", format!("basic_auth_users:\n  dave: {DAVE}\n"));
    assert!(ask(&server, "/", "").await.starts_with("HTTP/1.1 401 "));
    assert_eq!(status_as(&server, "dave", "dave123").await, 200);
    dir.write("web.yml", "basic_auth_users: [\n");
    let answer = ask(&server, "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("Internal Server Error\n"), "{answer}");
    dir.write("web.yml", "");
    assert!(ask(&server, "/", "").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn headers_are_added() {
    let dir = TempDir::new("web");
    let text = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Content-Security-Policy: default-src 'self'\n";
    let server = serve(&dir, text).await;
    let answer = ask(&server, "/", "").await;
    assert!(answer.contains("x-frame-options: deny\r\n"), "{answer}");
    assert!(
        answer.contains("content-security-policy: default-src 'self'\r\n"),
        "{answer}"
    );
    // A handler sets its own header after the toolkit.
    let answer = ask(&server, "/framed", "").await;
    assert!(
        answer.contains("x-frame-options: sameorigin\r\n"),
        "{answer}"
    );
    assert!(!answer.contains("deny"), "{answer}");
}

#[tokio::test]
async fn requests_above_the_rate_are_refused() {
    let dir = TempDir::new("web");
    let server = serve(&dir, "rate_limit:\n  interval: 1h\n  burst: 2\n").await;
    for _ in 0..2 {
        assert!(ask(&server, "/", "").await.starts_with("HTTP/1.1 200 "));
    }
    let answer = ask(&server, "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("Too Many Requests\n"), "{answer}");
    let server = serve(&dir, "rate_limit:\n  interval: 0s\n  burst: 0\n").await;
    for _ in 0..5 {
        assert!(ask(&server, "/", "").await.starts_with("HTTP/1.1 200 "));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn unusable_files_are_refused_with_the_reason() {
    let dir = TempDir::new("web");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    identity.write(&dir, "good");
    let tls = |more: &str| {
        format!("tls_server_config:\n  cert_file: good.crt\n  key_file: good.key\n{more}")
    };
    let inline = format!(
        "tls_server_config:\n  cert: |\n{}\n  key: |\n{}\n",
        indented(&identity.cert),
        indented(&identity.key)
    );
    for (text, want) in [
        (String::new(), ""),
        (tls(""), ""),
        (inline, ""),
        (tls("  min_version: TLS10\n  max_version: TLS13\n"), ""),
        (
            tls(
                "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]\n",
            ),
            "",
        ),
        (tls("  curve_preferences: [CurveP521, X25519]\n"), ""),
        (
            tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: good.crt\n"),
            "",
        ),
        ("hWkNKCp3fvIX3jKnsaBI".to_owned(), "line 1, column 1: "),
        ("cert_filse: x\n".to_owned(), "unknown field `cert_filse`"),
        (
            "tls_server_config:\n  bad: 1\n".to_owned(),
            "line 2, column 3: unknown field `bad`",
        ),
        (
            "tls_server_config:\n  key_file: good.key\n".to_owned(),
            "missing one of cert or cert_file",
        ),
        (
            "tls_server_config:\n  cert_file: good.crt\n".to_owned(),
            "missing one of key or key_file",
        ),
        (
            "tls_server_config: {cert_file: none.crt, key_file: good.key}\n".to_owned(),
            "none.crt: no such file or directory",
        ),
        (
            "tls_server_config: {cert_file: good.crt, key_file: none.key}\n".to_owned(),
            "none.key: no such file or directory",
        ),
        (
            "tls_server_config: {cert_file: good.key, key_file: good.key}\n".to_owned(),
            "failed to load X509KeyPair: failed to find any certificate",
        ),
        (
            "tls_server_config: {cert_file: good.crt, key_file: good.crt}\n".to_owned(),
            "failed to find any private key in PEM data",
        ),
        (
            tls("  client_ca_file: good.crt\n"),
            "client CA's have been configured without a Client Auth Policy",
        ),
        (tls("  client_auth_type: Foo\n"), "invalid ClientAuth: Foo"),
        (
            tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: none.crt\n"),
            "none.crt: no such file",
        ),
        (
            tls("  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA2048]\n"),
            "unknown cipher: TLS_RSA_WITH_AES_128_CBC_SHA2048",
        ),
        (
            tls("  curve_preferences: [CurveP257]\n"),
            "unknown curve: CurveP257",
        ),
        (
            tls("  curve_preferences: [CurveP521]\n"),
            "none of the curves is supported",
        ),
        (
            tls("  min_version: TLS111\n"),
            "unknown TLS version: TLS111",
        ),
        (
            "basic_auth_users:\n  john: doe\n".to_owned(),
            "basic_auth_users: john: crypto/bcrypt: hashedSecret too short to be a bcrypted password",
        ),
        (
            "http_server_config: {headers: {X-Content-Type-Options: sniff}}\n".to_owned(),
            "invalid value for X-Content-Type-Options. Expected one of: [\"nosniff\"], but got: \"sniff\"",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: always}}\n".to_owned(),
            "invalid value for X-Frame-Options. Expected one of: [\"deny\" \"sameorigin\"], but got: \"always\"",
        ),
        (
            "http_server_config: {headers: {Foo: bar}}\n".to_owned(),
            "HTTP header \"Foo\" can not be configured",
        ),
        (
            "rate_limit: {interval: 1x, burst: 1}\n".to_owned(),
            "time: invalid duration \"1x\"",
        ),
    ] {
        let file = dir.write("web.yml", &text);
        let got = WebConfig::check_file(&file);
        if want.is_empty() {
            assert!(got.is_ok(), "{text}: {got:?}");
            continue;
        }
        let error = got.expect_err(&text).to_string();
        assert!(error.contains(want), "{text}: {error}");
        assert!(
            !error.contains('\n') && !error.contains("PRIVATE"),
            "{error}"
        );
    }
    let missing = WebConfig::check_file(&dir.join("none.yml")).unwrap_err();
    assert!(
        missing.to_string().ends_with("no such file or directory"),
        "{missing}"
    );
}

fn indented(pem: &str) -> String {
    let lines: Vec<_> = pem.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
