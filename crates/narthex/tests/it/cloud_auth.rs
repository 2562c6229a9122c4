//! Remote ends in the clouds: what an agent asks for tokens, and what it sends then. AWS' token service, Azure's and the remote
//! end itself are one small server on loopback.

use crate::{
    support::{self, Running, until},
    target::Target,
};
use narthex_testkit::TempDir;
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

const CLIENT: &str = "11111111-2222-3333-4444-555555555555";
const TENANT: &str = "66666666-7777-8888-9999-000000000000";

/// A request: method and path, headers, body.
#[derive(Clone, Debug)]
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Answers everybody and keeps what was asked.
struct Cloud {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Cloud {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                // A connection that ends is no failure.
                thread::spawn(move || while answer(&stream, &kept).is_some() {});
            }
        });
        Self { url, requests }
    }

    /// Waits for a request whose line begins so.
    fn wait(&self, begin: &str) -> Request {
        until(begin, || {
            let requests = self.requests.lock().unwrap();
            let mut found = requests.iter().filter(|one| one.line.starts_with(begin));
            found.next().cloned()
        })
    }
}

/// Answers one request; `None` at the end of the connection.
fn answer(stream: &TcpStream, kept: &Mutex<Vec<Request>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = BTreeMap::new();
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok()?;
        let Some((name, value)) = field.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let len = headers
        .get("content-length")
        .map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let text = if line.contains("/api/v1/write") {
        String::new()
    } else if line.contains("token") {
        "{\"access_token\": \"azure-token\", \"token_type\": \"Bearer\", \"expires_in\": \"3600\"}"
            .to_owned()
    } else {
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
<SecretAccessKey>role-secret</SecretAccessKey><SessionToken>role-token</SessionToken>\
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
            .to_owned()
    };
    kept.lock().unwrap().push(Request {
        line: line.trim_end().to_owned(),
        headers,
        body,
    });
    let status = if text.is_empty() {
        "204 No Content"
    } else {
        "200 OK"
    };
    let kind = if text.starts_with('{') {
        "application/json"
    } else {
        "text/xml"
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()
}

/// Runs an agent whose remote end has `entry` until it has sent something; returns that.
fn sent(cloud: &Cloud, dir: &TempDir, entry: &str, variables: &[(&str, &str)]) -> Request {
    let target = Target::start(|n| format!("served_total {n}\n"));
    let text = format!(
        "global: {{scrape_interval: 50ms, scrape_timeout: 50ms}}\n\
remote_write: [{{url: '{}/api/v1/write', queue_config: {{batch_send_deadline: 20ms}}, {entry}}}]\n\
scrape_configs: [{{job_name: j, static_configs: [{{targets: ['{}']}}]}}]\n",
        cloud.url, target.address
    );
    let config = dir.write("agent.yml", text);
    cloud.requests.lock().unwrap().clear();
    let data = format!("--storage.agent.path={}", dir.join("agent").display());
    let none = dir.join("none").display().to_string();
    let spawn = support::narthex()
        .args(["agent", "--web.listen-address=127.0.0.1:0"])
        .args([&data, &support::config_flag(&config)])
        .env("AWS_SHARED_CREDENTIALS_FILE", none);
    let spawn = variables
        .iter()
        .fold(spawn, |spawn, (name, value)| spawn.env(name, value));
    let agent = Running::of(spawn);
    let request = cloud.wait("POST /api/v1/write");
    let log = agent.stop();
    for secret in ["role-secret", "long-secret", "role-token", "azure-token"] {
        assert!(!log.contains(secret), "{log}");
    }
    request
}

fn body(request: &Request) -> String {
    String::from_utf8(request.body.clone()).unwrap()
}

#[test]
fn requests_are_signed_for_aws_with_the_role_that_is_asked_for() {
    let (cloud, dir) = (Cloud::start(), TempDir::new("cloud-aws"));
    let role = "sigv4: {region: eu-1, access_key: AKIALONG, secret_key: long-secret, role_arn: 'arn:aws:iam::1:role/r', \
external_id: e1, session_name: ours, tags: {team: a b}}";
    let endpoint = [("AWS_ENDPOINT_URL_STS", cloud.url.as_str())];
    let request = sent(&cloud, &dir, role, &endpoint);
    assert_signed_by(&request, "ASIAROLE", "aps");
    assert_eq!(request.headers["x-amz-security-token"], "role-token");
    let asked = cloud.wait("POST / ");
    assert_signed_by(&asked, "AKIALONG", "sts");
    assert_eq!(
        body(&asked),
        "Version=2011-06-15&Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=ours&ExternalId=e1\
&Tags.member.1.Key=team&Tags.member.1.Value=a+b"
    );
    // Its credentials are asked for once, and used until shortly before they end.
    let requests = cloud.requests.lock().unwrap();
    let of = |begin: &str| {
        requests
            .iter()
            .filter(|one| one.line.starts_with(begin))
            .count()
    };
    assert_eq!(of("POST / "), 1);
    assert!(of("POST /api") >= 1);
}

fn assert_signed_by(request: &Request, id: &str, service: &str) {
    let text = &request.headers["authorization"];
    let day = request.headers["x-amz-date"].get(..8).unwrap();
    let begin = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{day}/eu-1/{service}/aws4_request, SignedHeaders="
    );
    let rest = text
        .strip_prefix(&begin)
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        rest.contains("content-type;") && rest.contains("host;x-amz-date"),
        "{text}"
    );
}

#[test]
fn alerts_are_signed_for_aws_too() {
    let (cloud, dir) = (Cloud::start(), TempDir::new("cloud-aws-alerts"));
    dir.write(
        "rules.yml",
        "groups: [{name: g, rules: [{alert: A, expr: vector(1)}]}]\n",
    );
    let manager = format!(
        "{{static_configs: [{{targets: ['{}']}}], sigv4: {{region: eu-1, access_key: AKIALONG, secret_key: long-secret}}}}",
        cloud.url.trim_start_matches("http://")
    );
    let text = format!(
        "global: {{evaluation_interval: 100ms}}\nrule_files: [rules.yml]\nalerting: {{alertmanagers: [{manager}]}}\n"
    );
    let config = dir.write("server.yml", text);
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config));
    let server = Running::of(spawn);
    let request = cloud.wait("POST /api/v2/alerts");
    assert_signed_by(&request, "AKIALONG", "aps");
    assert!(body(&request).contains("\"alertname\":\"A\""));
    let log = server.stop();
    assert!(!log.contains("long-secret"), "{log}");
}

#[test]
fn a_web_identity_of_the_environment_stands_for_a_role() {
    let (cloud, dir) = (Cloud::start(), TempDir::new("cloud-aws-web"));
    let token = dir.write("token", "web-token\n").display().to_string();
    let variables = [
        ("AWS_ENDPOINT_URL_STS", cloud.url.as_str()),
        ("AWS_REGION", "eu-1"),
        ("AWS_ROLE_ARN", "arn:r"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
    ];
    let request = sent(&cloud, &dir, "sigv4: {service_name: other}", &variables);
    assert_signed_by(&request, "ASIAROLE", "other");
    let asked = cloud.wait("POST / ");
    assert_eq!(asked.headers.get("authorization"), None);
    let said = body(&asked);
    assert!(
        said.contains("Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ar&"),
        "{said}"
    );
    assert!(said.ends_with("&WebIdentityToken=web-token"), "{said}");
}

#[test]
fn tokens_of_azure_are_asked_for_as_each_identity_does() {
    let (cloud, dir) = (Cloud::start(), TempDir::new("cloud-azure"));
    let token = dir.write("pod-token", "pod\n").display().to_string();
    let variables = [
        ("AZURE_AUTHORITY_HOST", cloud.url.as_str()),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", cloud.url.as_str()),
        ("AZURE_FEDERATED_TOKEN_FILE", &token),
    ];
    let try_one = |entry: &str| {
        let request = sent(&cloud, &dir, &format!("azuread: {{{entry}}}"), &variables);
        assert_eq!(
            request.headers["authorization"], "Bearer azure-token",
            "{entry}"
        );
    };
    let path = format!("POST /{TENANT}/oauth2/v2.0/token");
    try_one(&format!(
        "oauth: {{client_id: {CLIENT}, client_secret: s, tenant_id: {TENANT}}}"
    ));
    let asked = cloud.wait(&path);
    let scope = "scope=https%3A%2F%2Fmonitor.azure.com%2F%2F.default";
    assert!(body(&asked).contains(scope), "{}", body(&asked));

    try_one(&format!(
        "cloud: AzureChina, workload_identity: {{client_id: {CLIENT}, tenant_id: {TENANT}}}"
    ));
    let said = body(&cloud.wait(&path));
    let jwt = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=pod&";
    assert!(
        said.contains(jwt) && said.contains("monitor.azure.cn"),
        "{said}"
    );

    try_one(&format!("managed_identity: {{client_id: {CLIENT}}}"));
    let asked = cloud.wait("GET /metadata/identity/oauth2/token");
    assert_eq!(asked.headers["metadata"], "true");
    let query = format!(
        "api-version=2018-02-01&resource=https%3A%2F%2Fmonitor.azure.com%2F&client_id={CLIENT} "
    );
    assert!(asked.line.contains(&query), "{}", asked.line);
}

/// Without a file the machine is asked; Google's service refuses those that don't name it in a header.
#[test]
fn tokens_of_google_are_those_of_the_machine() {
    let (cloud, dir) = (Cloud::start(), TempDir::new("cloud-google"));
    let nowhere = dir.join("none").display().to_string();
    let host = cloud.url.trim_start_matches("http://");
    let variables = [("GCE_METADATA_HOST", host), ("HOME", &nowhere)];
    let request = sent(&cloud, &dir, "google_iam: {}", &variables);
    assert_eq!(request.headers["authorization"], "Bearer azure-token");
    let asked = cloud.wait("GET /computeMetadata/v1/instance/service-accounts/default/token?");
    assert_eq!(asked.headers["metadata-flavor"], "Google");
    let scope = "scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fmonitoring.write ";
    assert!(asked.line.contains(scope), "{}", asked.line);
}
