//! Tests of configured clients: credentials, headers, redirects, proxies, tokens.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use narthex_net::axum::body::Bytes;
use narthex_net::axum::extract::State;
use narthex_net::axum::response::{IntoResponse, Redirect, Response};
use narthex_net::axum::routing::{get, post};
use narthex_net::{
    Authorization, BasicAuth, Client, ClientConfig, HeaderSources, HttpClientConfig, NetError,
    OAuth2, ProxyConfig, ProxyEnvironment, ProxyUrl, Request, Router, Secret, ServerConfig,
    TlsConfig, Url,
};
use narthex_testkit::TempDir;

use crate::certs::{params, self_signed};
use crate::support::{Running, patient};

/// Responds with the request's headers, one per line.
async fn echo(headers: http::HeaderMap) -> String {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap())
    };
    headers.iter().map(line).collect()
}

async fn echo_server() -> Running {
    let router = Router::new().route("/", get(echo));
    Running::start(router, ServerConfig::default()).await
}

fn client(http: HttpClientConfig) -> Client {
    Client::with_http(ClientConfig::default(), http).unwrap()
}

async fn fetch(client: &Client, url: Url) -> Result<String, NetError> {
    let mut body = Vec::new();
    let head = patient(client.get(&Request::new(url), &mut body)).await?;
    head.require_ok()?;
    Ok(String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn credentials_are_sent_and_files_are_read_again() {
    let dir = TempDir::new("http-config");
    let server = echo_server().await;
    let password_file = dir.write("password", "secret\n");
    let basic = client(HttpClientConfig {
        basic_auth: Some(BasicAuth {
            username: "user".to_owned(),
            password_file: Some(password_file),
            ..BasicAuth::default()
        }),
        ..HttpClientConfig::default()
    });
    let told = fetch(&basic, server.url("/")).await.unwrap();
    assert!(
        told.contains("authorization: Basic dXNlcjpzZWNyZXQ=\n"),
        "{told}"
    );
    dir.write("password", "other");
    let told = fetch(&basic, server.url("/")).await.unwrap();
    assert!(
        told.contains("authorization: Basic dXNlcjpvdGhlcg==\n"),
        "{told}"
    );
    std::fs::remove_file(dir.join("password")).unwrap();
    let error = fetch(&basic, server.url("/")).await.unwrap_err();
    assert!(
        error
            .failure()
            .to_string()
            .starts_with("unable to read basic auth password: open "),
        "{error}"
    );

    let token = client(HttpClientConfig {
        authorization: Some(Authorization {
            kind: "Token".to_owned(),
            credentials: Secret::from("abc"),
            ..Authorization::default()
        }),
        ..HttpClientConfig::default()
    });
    let told = fetch(&token, server.url("/")).await.unwrap();
    assert!(told.contains("authorization: Token abc\n"), "{told}");

    let bearer_file = dir.write("bearer", "xyz\n");
    let bearer = client(HttpClientConfig {
        bearer_token_file: Some(bearer_file),
        ..HttpClientConfig::default()
    });
    let told = fetch(&bearer, server.url("/")).await.unwrap();
    assert!(told.contains("authorization: Bearer xyz\n"), "{told}");
    dir.write("bearer", "two\nlines");
    let error = fetch(&bearer, server.url("/")).await.unwrap_err();
    assert_eq!(
        error.failure().to_string(),
        "authorization credentials: not a header's value"
    );
}

#[tokio::test]
async fn a_requests_own_authorization_stands() {
    let server = echo_server().await;
    let client = client(HttpClientConfig {
        bearer_token: Secret::from("configured"),
        ..HttpClientConfig::default()
    });
    let mut request = Request::new(server.url("/"));
    let own = http::HeaderValue::from_static("Own");
    request.headers.insert(http::header::AUTHORIZATION, own);
    let mut body = Vec::new();
    patient(client.get(&request, &mut body)).await.unwrap();
    let told = String::from_utf8(body).unwrap();
    assert!(
        told.contains("authorization: Own\n") && !told.contains("configured"),
        "{told}"
    );
}

#[tokio::test]
async fn headers_are_added_in_order() {
    let dir = TempDir::new("http-config");
    let server = echo_server().await;
    let file = dir.write("tenant", " blue \n");
    let client = client(HttpClientConfig {
        headers: vec![(
            "X-Scope".to_owned(),
            HeaderSources {
                values: vec!["a".to_owned(), "b".to_owned()],
                secrets: vec![Secret::from("c")],
                files: vec![file],
            },
        )],
        ..HttpClientConfig::default()
    });
    let told = fetch(&client, server.url("/")).await.unwrap();
    assert!(
        told.contains("x-scope: a\nx-scope: b\nx-scope: c\nx-scope: blue\n"),
        "{told}"
    );
}

/// The headers that each hop of a redirect chain may receive.
#[tokio::test]
async fn private_headers_do_not_leave_the_first_domain() {
    let end = echo_server().await;
    let port = end.address.port();
    let back = format!("http://127.0.0.1:{port}/");
    let away = Router::new().route(
        "/",
        get(move || {
            let back = back.clone();
            async move { Redirect::temporary(&back) }
        }),
    );
    // `localhost` is another host than `127.0.0.1`, whatever it resolves to.
    let away = Running::start(away, ServerConfig::default()).await;
    let leave = format!("http://localhost:{}/", away.address.port());
    let stay = format!("http://127.0.0.1:{port}/");
    let first = Router::new()
        .route(
            "/leave",
            get(move || async move { Redirect::temporary(&leave) }),
        )
        .route(
            "/stay",
            get(move || async move { Redirect::temporary(&stay) }),
        );
    let first = Running::start(first, ServerConfig::default()).await;
    let client = client(HttpClientConfig {
        bearer_token: Secret::from("token"),
        headers: vec![(
            "X-Mixed".to_owned(),
            HeaderSources {
                values: vec!["public".to_owned()],
                secrets: vec![Secret::from("hidden")],
                files: Vec::new(),
            },
        )],
        ..HttpClientConfig::default()
    });
    let kept = fetch(&client, first.url("/stay")).await.unwrap();
    for line in [
        "authorization: Bearer token\n",
        "x-mixed: public\n",
        "x-mixed: hidden\n",
    ] {
        assert!(kept.contains(line), "{line} in {kept}");
    }
    // Trust does not return with the first host: the other one chose the URL.
    let stripped = fetch(&client, first.url("/leave")).await.unwrap();
    assert!(stripped.contains("x-mixed: public\n"), "{stripped}");
    assert!(
        !stripped.contains("token") && !stripped.contains("hidden"),
        "{stripped}"
    );
}

/// Starts a server that always redirects.
async fn redirecting(to: Url, web: Option<&Path>) -> Running {
    let answer = move || async move { Redirect::temporary(to.as_str()) };
    let router = Router::new().route("/", get(answer));
    match web {
        None => Running::start(router, ServerConfig::default()).await,
        Some(web) => Running::start_web(router, web).await,
    }
}

/// An eavesdropper can turn an unencrypted response into a redirect; Go sends credentials after one that leads from
/// `https` to `http` on the same host.
#[tokio::test]
async fn credentials_do_not_survive_the_end_of_encryption() {
    let dir = TempDir::new("http-config");
    let identity = self_signed(&params(&["127.0.0.1"], "x"));
    identity.write(&dir, "server");
    let text = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n";
    let web = dir.write("web.yml", text);
    let end = echo_server().await;
    let client = client(HttpClientConfig {
        bearer_token: Secret::from("token"),
        tls: TlsConfig {
            ca: identity.cert.clone(),
            ..TlsConfig::default()
        },
        ..HttpClientConfig::default()
    });
    let downgrading = redirecting(end.url("/"), Some(&web)).await;
    let told = fetch(&client, downgrading.https_url("/")).await.unwrap();
    assert!(!told.contains("authorization"), "{told}");

    // Credentials are kept on an upgrade to `https` on the same host, but not on a downgrade.
    let encrypted = Running::start_web(Router::new().route("/", get(echo)), &web).await;
    let upgrading = redirecting(encrypted.https_url("/"), None).await;
    let told = fetch(&client, upgrading.url("/")).await.unwrap();
    assert!(told.contains("authorization: Bearer token\n"), "{told}");
    let there_and_back = redirecting(downgrading.https_url("/"), None).await;
    let told = fetch(&client, there_and_back.url("/")).await.unwrap();
    assert!(!told.contains("authorization"), "{told}");
}

#[tokio::test]
async fn redirects_are_not_followed_when_told_so() {
    let router = Router::new().route("/", get(|| async { Redirect::temporary("/x") }));
    let server = Running::start(router, ServerConfig::default()).await;
    let client = client(HttpClientConfig {
        follow_redirects: false,
        ..HttpClientConfig::default()
    });
    let error = fetch(&client, server.url("/")).await.unwrap_err();
    assert!(matches!(error, NetError::Status { code: 307 }), "{error}");
}

#[tokio::test]
async fn plain_requests_are_handed_to_a_proxy_whole() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let (address, seen) = recording(answer).await;
    let through = |proxy: ProxyConfig| {
        client(HttpClientConfig {
            proxy,
            ..HttpClientConfig::default()
        })
    };
    let url = Some(ProxyUrl::parse(&format!("http://me:pw@{address}")).unwrap());
    let always = through(ProxyConfig {
        url: url.clone(),
        ..ProxyConfig::default()
    });
    let target = Url::parse("http://metrics.example:8080/a?b").unwrap();
    assert_eq!(fetch(&always, target).await.unwrap(), "ok");
    let head = seen.lock().await.pop().unwrap();
    assert!(
        head.starts_with("GET http://metrics.example:8080/a?b HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("host: metrics.example:8080\r\n"), "{head}");
    assert!(
        head.contains("proxy-authorization: Basic bWU6cHc=\r\n"),
        "{head}"
    );

    let server = echo_server().await;
    let exempt = through(ProxyConfig {
        url,
        no_proxy: "other.example".to_owned(),
        ..ProxyConfig::default()
    });
    let told = fetch(&exempt, server.url("/")).await.unwrap();
    assert!(
        told.starts_with("host: 127.0.0.1"),
        "loopback goes directly: {told}"
    );

    let variables = |name: &str| (name == "http_proxy").then(|| address.to_string());
    let mut config = ClientConfig::default();
    config.environment = ProxyEnvironment::read(variables);
    let http = HttpClientConfig {
        proxy: ProxyConfig {
            from_environment: true,
            ..ProxyConfig::default()
        },
        ..HttpClientConfig::default()
    };
    let environment = Client::with_http(config, http).unwrap();
    let target = Url::parse("http://metrics.example/").unwrap();
    assert_eq!(fetch(&environment, target).await.unwrap(), "ok");
}

/// Starts a peer that sends the same response to every request and records the heads.
async fn recording(answer: Vec<u8>) -> (SocketAddr, Arc<tokio::sync::Mutex<Vec<String>>>) {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _peer)) = listener.accept().await {
            let head = crate::support::read_until(&mut stream, "\r\n\r\n").await;
            kept.lock().await.push(head);
            let _gone = stream.write_all(&answer).await;
        }
    });
    (address, heads)
}

/// A token URL that counts requests and accepts one secret at a time.
#[derive(Default)]
struct Issuer {
    issued: AtomicU32,
    /// Whether credentials are accepted only in the form.
    form_only: bool,
    expires_in: u32,
    forms: tokio::sync::Mutex<Vec<String>>,
}

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn issue(
    State(issuer): State<Arc<Issuer>>,
    headers: http::HeaderMap,
    body: Bytes,
) -> Response {
    let form = String::from_utf8(body.to_vec()).unwrap();
    let by_header = headers.get("authorization");
    let by_header = by_header.is_some_and(|value| value == "Basic aWQ6cyUyNmNyZXQ=");
    let by_form = form.contains("client_id=id&client_secret=s%26cret");
    issuer.forms.lock().await.push(form);
    let known = if issuer.form_only { by_form } else { by_header };
    if !known {
        let error = r#"{"error":"invalid_client","error_description":"s&cret"}"#;
        return (http::StatusCode::UNAUTHORIZED, JSON, error).into_response();
    }
    let nth = issuer.issued.fetch_add(1, SeqCst) + 1;
    let expires = issuer.expires_in;
    let token =
        format!(r#"{{"access_token":"t{nth}","token_type":"bearer","expires_in":{expires}}}"#);
    (JSON, token).into_response()
}

async fn issuer(form_only: bool, expires_in: u32) -> (Arc<Issuer>, Running) {
    let issuer = Arc::new(Issuer {
        form_only,
        expires_in,
        ..Issuer::default()
    });
    let router = Router::new()
        .route("/token", post(issue))
        .with_state(Arc::clone(&issuer));
    (
        issuer,
        Running::start(router, ServerConfig::default()).await,
    )
}

fn oauth2(server: &Running, change: impl FnOnce(&mut OAuth2)) -> Client {
    let mut oauth2 = OAuth2 {
        client_id: "id".to_owned(),
        client_secret: Secret::from("s&cret"),
        token_url: server.url("/token").to_string(),
        ..OAuth2::default()
    };
    change(&mut oauth2);
    client(HttpClientConfig {
        oauth2: Some(Box::new(oauth2)),
        ..HttpClientConfig::default()
    })
}

#[tokio::test]
async fn tokens_are_fetched_once_and_kept() {
    let server = echo_server().await;
    for form_only in [false, true] {
        let (issuer, tokens) = issuer(form_only, 3600).await;
        let client = oauth2(&tokens, |oauth2| {
            oauth2.scopes = vec!["a".to_owned(), "b c".to_owned()];
            oauth2.endpoint_params = vec![("audience".to_owned(), "x/y".to_owned())];
        });
        for _ in 0..3 {
            let told = fetch(&client, server.url("/")).await.unwrap();
            assert!(told.contains("authorization: Bearer t1\n"), "{told}");
        }
        assert_eq!(issuer.issued.load(SeqCst), 1);
        let form = issuer.forms.lock().await.last().unwrap().clone();
        assert!(
            form.starts_with("grant_type=client_credentials&scope=a+b+c&audience=x%2Fy"),
            "{form}"
        );
    }
}

/// Regression: a 307 from a token URL had the form, including the secret, sent to any host.
#[tokio::test]
async fn secrets_are_not_posted_after_a_redirect_to_another_host() {
    let server = echo_server().await;
    for form_only in [false, true] {
        let (issuer, tokens) = issuer(form_only, 3600).await;
        let port = tokens.address.port();
        let redirected = |host: &str| {
            let to = format!("http://{host}:{port}/token");
            let to = move || async move { Redirect::temporary(&to) };
            Running::start(
                Router::new().route("/token", post(to)),
                ServerConfig::default(),
            )
        };
        // `localhost` is another host than `127.0.0.1`, whatever it resolves to.
        let away = redirected("localhost").await;
        let error = fetch(&oauth2(&away, |_| {}), server.url("/")).await;
        let error = error.unwrap_err().failure().to_string();
        let refused =
            format!("redirected to http://localhost:{port}, which the request's body is not for");
        assert!(error.ends_with(&refused), "{error}");
        assert!(issuer.forms.lock().await.is_empty(), "{form_only}");
        let home = redirected("127.0.0.1").await;
        let told = fetch(&oauth2(&home, |_| {}), server.url("/")).await;
        assert!(told.unwrap().contains("Bearer t1\n"), "{form_only}");
    }
}

#[tokio::test]
async fn tokens_about_to_expire_are_replaced() {
    let server = echo_server().await;
    // Less than the expiry margin: each request fetches its own token.
    let (issuer, tokens) = issuer(false, 9).await;
    let client = oauth2(&tokens, |_| {});
    for nth in 1..=3 {
        let told = fetch(&client, server.url("/")).await.unwrap();
        assert!(told.contains(&format!("Bearer t{nth}\n")), "{told}");
    }
    assert_eq!(issuer.issued.load(SeqCst), 3);
}

#[tokio::test]
async fn another_secret_is_another_token() {
    let dir = TempDir::new("http-config");
    let server = echo_server().await;
    let (issuer, tokens) = issuer(false, 3600).await;
    let file = dir.write("secret", "s&cret\n");
    let client = oauth2(&tokens, |oauth2| {
        oauth2.client_secret = Secret::default();
        oauth2.client_secret_file = Some(file);
    });
    let told = fetch(&client, server.url("/")).await.unwrap();
    assert!(told.contains("Bearer t1\n"), "{told}");
    dir.write("secret", "wrong");
    let error = fetch(&client, server.url("/")).await.unwrap_err();
    assert_eq!(
        error.failure().to_string(),
        "oauth2: cannot fetch token: 401 Unauthorized: invalid_client"
    );
    dir.write("secret", "s&cret");
    let told = fetch(&client, server.url("/")).await.unwrap();
    assert!(
        told.contains("Bearer t1\n"),
        "the kept token is its own: {told}"
    );
    assert_eq!(issuer.issued.load(SeqCst), 1);
}

#[tokio::test]
async fn concurrent_requests_share_one_token() {
    let server = echo_server().await;
    let (issuer, tokens) = issuer(false, 3600).await;
    let client = oauth2(&tokens, |_| {});
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, url) = (client.clone(), server.url("/"));
        all.spawn(async move { fetch(&client, url).await.unwrap() });
    }
    while let Some(told) = all.join_next().await {
        assert!(told.unwrap().contains("Bearer t1\n"));
    }
    assert_eq!(issuer.issued.load(SeqCst), 1);
}

#[tokio::test]
async fn assertions_are_signed() {
    let (sender, receiver) = tokio::sync::oneshot::channel::<String>();
    let sender = Arc::new(std::sync::Mutex::new(Some(sender)));
    let router = Router::new().route(
        "/token",
        post(move |body: Bytes| async move {
            let form = String::from_utf8(body.to_vec()).unwrap();
            let sender = sender.lock().unwrap().take().unwrap();
            sender.send(form).unwrap();
            (JSON, r#"{"access_token":"signed"}"#)
        }),
    );
    let tokens = Running::start(router, ServerConfig::default()).await;
    let server = echo_server().await;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let client = oauth2(&tokens, |oauth2| {
        oauth2.grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
        oauth2.client_certificate_key = Secret::new(key.serialize_pem());
        oauth2.client_certificate_key_id = "k1".to_owned();
        oauth2.client_secret = Secret::default();
    });
    let told = fetch(&client, server.url("/")).await.unwrap();
    assert!(told.contains("authorization: Bearer signed\n"), "{told}");
    let form = patient(receiver).await.unwrap();
    let (grant, assertion) = form.split_once("&assertion=").unwrap();
    assert_eq!(
        grant,
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    );
    assert_eq!(assertion.split('.').count(), 3);
}

#[test]
fn combinations_are_refused_in_prometheus_words() {
    let basic = || Some(BasicAuth::default());
    let refused = |change: &dyn Fn(&mut HttpClientConfig)| {
        let mut http = HttpClientConfig::default();
        change(&mut http);
        http.validate().unwrap_err().to_string()
    };
    for (change, want) in [
        (
            (&|c: &mut HttpClientConfig| {
                c.bearer_token = Secret::from("a");
                c.bearer_token_file = Some("b".into());
            }) as &dyn Fn(&mut HttpClientConfig),
            "at most one of bearer_token & bearer_token_file must be configured",
        ),
        (
            &|c: &mut HttpClientConfig| {
                c.bearer_token = Secret::from("a");
                c.basic_auth = basic();
            },
            "at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured",
        ),
        (
            &|c: &mut HttpClientConfig| {
                c.authorization = Some(Authorization {
                    kind: " Basic ".to_owned(),
                    ..Authorization::default()
                });
            },
            "authorization type cannot be set to \"basic\", use \"basic_auth\" instead",
        ),
        (
            &|c: &mut HttpClientConfig| {
                c.authorization = Some(Authorization::default());
                c.basic_auth = basic();
            },
            "at most one of basic_auth, oauth2 & authorization must be configured",
        ),
        (
            &|c: &mut HttpClientConfig| c.oauth2 = Some(Box::default()),
            "oauth2 client_id must be configured",
        ),
        (
            &|c: &mut HttpClientConfig| c.proxy.no_proxy = "a".to_owned(),
            "if no_proxy is configured, proxy_url must also be configured",
        ),
        (
            &|c: &mut HttpClientConfig| {
                c.headers = vec![("user-agent".to_owned(), HeaderSources::default())];
            },
            "setting header \"User-Agent\" is not allowed",
        ),
        (
            &|c: &mut HttpClientConfig| c.tls.cert = "x".to_owned(),
            "exactly one of key or key_file must be configured when a client certificate is configured",
        ),
    ] {
        assert_eq!(refused(change), want);
    }
}

#[test]
fn secrets_are_not_shown() {
    let http = HttpClientConfig {
        bearer_token: Secret::from("hush"),
        basic_auth: Some(BasicAuth {
            password: Secret::from("hush"),
            ..BasicAuth::default()
        }),
        oauth2: Some(Box::new(OAuth2 {
            client_secret: Secret::from("hush"),
            client_certificate_key: Secret::from("hush"),
            ..OAuth2::default()
        })),
        headers: vec![(
            "X".to_owned(),
            HeaderSources {
                secrets: vec![Secret::from("hush")],
                ..HeaderSources::default()
            },
        )],
        proxy: ProxyConfig {
            url: Some(ProxyUrl::parse("http://u:hush@h:1").unwrap()),
            connect_headers: vec![("X".to_owned(), vec![Secret::from("hush")])],
            ..ProxyConfig::default()
        },
        ..HttpClientConfig::default()
    };
    assert!(!format!("{http:#?}").contains("hush"));
    let error = Url::parse("http://u:hush@h/").unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid URL \"http://xxxxx@h/\": credentials in a URL are not supported"
    );
    for url in [
        "socks5://u:hush@h:1",
        "http://u:hush@h:99999",
        "http://u:%zzhush@h",
    ] {
        let error = ProxyUrl::parse(url).unwrap_err().to_string();
        assert!(!error.contains("hush"), "{error}");
    }
}
