//! Credentials of containers, machines and profiles, from small services on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use narthex_testkit::TempDir;

use super::{NOW_MS, client, id_of};
use crate::client::config::SigV4Config;
use crate::client::request::ClientConfig;
use crate::client::sigv4::SigV4;
use crate::sync::Whole as _;

/// Decides, by a request's first line, on the status and body of the answer.
type Answer = Arc<dyn Fn(&str) -> (u16, String) + Send + Sync>;

/// Everything that AWS' tools may ask, and what was asked: heads and bodies.
struct Cloud {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Cloud {
    fn start(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (kept, answer): (_, Answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                // A connection that ends is no failure.
                thread::spawn(move || while serve(&stream, &kept, &answer).is_some() {});
            }
        });
        Self { url, requests }
    }

    /// Returns what was asked since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().whole())
    }
}

fn serve(mut stream: &TcpStream, kept: &Mutex<Vec<String>>, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut body_bytes) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            body_bytes = length.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body).ok()?;
    let line = head.lines().next().unwrap_or_default().to_owned();
    kept.lock()
        .whole()
        .push(head + &String::from_utf8_lossy(&body));
    let (status, text) = answer(&line);
    let length = text.len();
    let head = format!("HTTP/1.1 {status} It\r\ncontent-length: {length}\r\n\r\n{text}");
    stream.write_all(head.as_bytes()).ok()
}

/// Returns the credentials `id` in the form of containers and machines.
fn json(id: &str) -> (u16, String) {
    let text = format!(
        "{{\"Code\": \"Success\", \"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \
\"Expiration\": \"2015-08-30T14:36:00Z\"}}"
    );
    (200, text)
}

/// Returns the credentials `id` in the form of the token service.
fn xml(id: &str) -> (u16, String) {
    let text = format!(
        "<A><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
<Expiration>2015-08-30T14:36:00Z</Expiration></A>"
    );
    (200, text)
}

/// Answers as the metadata service of a machine with the role `ours`.
fn machine(line: &str) -> (u16, String) {
    match line.trim_end_matches(" HTTP/1.1") {
        "PUT /latest/api/token" => (200, "machine-token".to_owned()),
        "GET /latest/meta-data/iam/security-credentials/" => (200, "ours\nother\n".to_owned()),
        "GET /latest/meta-data/iam/security-credentials/ours" => json("MACHINE"),
        "POST /" => xml("ROLE"),
        other => (404, other.to_owned()),
    }
}

/// Returns the settings of a client whose environment is `variables`, a region, and no files unless they are given.
fn within(dir: &TempDir, variables: &[(&str, &str)]) -> ClientConfig {
    let nowhere = dir.join("none").display().to_string();
    let mut all: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        all.push((name, nowhere.clone()));
    }
    all.push(("AWS_REGION", "eu-1".to_owned()));
    client(&all)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

async fn error_of(client: &ClientConfig) -> String {
    let signer = SigV4::new(client, &SigV4Config::default());
    let signer = match signer {
        Ok(signer) => signer,
        Err(error) => return error.to_string(),
    };
    let found = signer.provider.credentials(NOW_MS).await;
    found.unwrap_err().to_string()
}

#[tokio::test]
async fn a_container_asks_for_its_tasks_credentials_with_its_token() {
    let dir = TempDir::new("sigv4-container");
    let cloud = Cloud::start(|_line| json("TASK"));
    let token = dir.write("token", "pod-token\n");
    let url = format!("{}/v1/credentials", cloud.url);
    let token = text(&token);
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "unused"),
    ];
    let client = within(&dir, &variables);
    assert_eq!(id_of(&client, &SigV4Config::default()).await, "TASK");
    let asked = cloud.asked().concat();
    assert!(
        asked.starts_with("GET /v1/credentials HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("authorization: pod-token\r\n"), "{asked}");

    // A token in plain text would be everybody's on the way.
    let elsewhere = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/")];
    let said = error_of(&within(&dir, &elsewhere)).await;
    assert!(
        said.ends_with("only loopback/ecs/eks hosts are allowed"),
        "{said}"
    );
    // ECS gives a path alone.
    let relative = [(
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "/v2/credentials/1",
    )];
    let container = within(&dir, &relative).aws.container;
    assert_eq!(container.url, "http://169.254.170.2/v2/credentials/1");
    assert!(!container.is_restricted);
}

#[tokio::test]
async fn a_machine_is_asked_for_its_roles_credentials() {
    let dir = TempDir::new("sigv4-machine");
    let cloud = Cloud::start(machine);
    let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let client = within(&dir, &[endpoint]);
    let signer = SigV4::new(&client, &SigV4Config::default()).unwrap();
    let found = signer.provider.credentials(NOW_MS).await.unwrap();
    assert_eq!((found.id.as_str(), found.token.expose()), ("MACHINE", "t"));
    let asked = cloud.asked();
    assert!(asked[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 300\r\n"));
    for request in &asked[1..] {
        let header = "x-aws-ec2-metadata-token: machine-token\r\n";
        assert!(request.contains(header), "{request}");
    }
    // They are good for two hours, and asked for again within one.
    let minutes = |minutes: i64| NOW_MS + minutes * 60_000;
    signer.provider.credentials(minutes(54)).await.unwrap();
    assert_eq!(cloud.asked().len(), 0);
    signer.provider.credentials(minutes(56)).await.unwrap();
    assert_eq!(cloud.asked().len(), 3);
}

#[tokio::test]
async fn a_machine_without_tokens_is_asked_without_unless_that_is_forbidden() {
    let dir = TempDir::new("sigv4-machine-old");
    let cloud = Cloud::start(|line| match line.starts_with("PUT") {
        true => (405, String::new()),
        false => machine(line),
    });
    let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let old = within(&dir, &[endpoint]);
    assert_eq!(id_of(&old, &SigV4Config::default()).await, "MACHINE");
    let strict = within(&dir, &[endpoint, ("AWS_EC2_METADATA_V1_DISABLED", "true")]);
    let said = error_of(&strict).await;
    assert_eq!(
        said,
        "could not get SigV4 credentials: 405 Method Not Allowed"
    );
    let disabled = within(&dir, &[endpoint, ("AWS_EC2_METADATA_DISABLED", "true")]);
    let said = error_of(&disabled).await;
    assert!(said.contains("access disabled to EC2 IMDS"), "{said}");
    let without_role = Cloud::start(|line| match line.contains("security-credentials") {
        true => (404, String::new()),
        false => machine(line),
    });
    let endpoint = (
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        without_role.url.as_str(),
    );
    let said = error_of(&within(&dir, &[endpoint])).await;
    assert_eq!(said, "could not get SigV4 credentials: 404 Not Found");
}

#[tokio::test]
async fn credentials_are_used_until_they_end_while_no_others_can_be_had() {
    let dir = TempDir::new("sigv4-renewal");
    let works = Arc::new(Mutex::new(true));
    let switch = Arc::clone(&works);
    let cloud = Cloud::start(move |_line| match *works.lock().whole() {
        true => json("TASK"),
        false => (503, String::new()),
    });
    let url = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", cloud.url.as_str());
    let signer = SigV4::new(&within(&dir, &[url]), &SigV4Config::default()).unwrap();
    let seconds = |seconds: i64| NOW_MS + seconds * 1000;
    let get = async |at: i64| signer.provider.credentials(seconds(at)).await;
    get(0).await.unwrap();
    *switch.lock().whole() = false;
    cloud.asked();
    // They end after two hours.
    get(7200 - 301).await.unwrap();
    assert_eq!(cloud.asked().len(), 0);
    get(7200 - 299).await.unwrap();
    get(7200 - 298).await.unwrap();
    // Not every request asks again.
    assert_eq!(cloud.asked().len(), 1);
    get(7200 - 60).await.unwrap();
    assert_eq!(cloud.asked().len(), 1);
    let said = get(7200).await.unwrap_err().to_string();
    assert_eq!(
        said,
        "could not get SigV4 credentials: 503 Service Unavailable"
    );
    *switch.lock().whole() = true;
    get(7200).await.unwrap();
}

/// A configuration of AWS' tools.
const CONFIG: &str = "
[default]
region = eu-7
# Comments may stand anywhere.
[profile base]
aws_access_key_id = BASE
aws_secret_access_key = b ; its secret
[not-a-profile]
aws_access_key_id = NOBODY
aws_secret_access_key = n
[profile \"role\"]
role_arn = arn:role
role_session_name = named
source_profile = base
external_id = e
duration_seconds = 3600
  s3 =
    aws_access_key_id = nested
[profile machine]
role_arn = arn:machine
credential_source = Ec2InstanceMetadata
[profile web]
role_arn = arn:web
web_identity_token_file = TOKEN
[profile second]
role_arn = arn:second
source_profile = role
[profile circle]
role_arn = arn:circle
source_profile = circle
[profile person]
sso_session = s
[profile lonely]
source_profile = base
[profile program]
credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"PROGRAM\",\"SecretAccessKey\":\"s\",\"Expiration\":\"2015-08-30T13:36:00Z\"}'
[profile old]
credential_process = echo '{\"AccessKeyId\":\"OLD\",\"SecretAccessKey\":\"s\"}'
[profile failing]
credential_process = echo {}; exit 3
";

async fn of_profile(client: &ClientConfig, profile: &str) -> Result<String, String> {
    let config = SigV4Config {
        profile: profile.to_owned(),
        ..SigV4Config::default()
    };
    let signer = SigV4::new(client, &config).map_err(|error| error.to_string())?;
    let found = signer.provider.credentials(NOW_MS).await;
    found
        .map(|found| found.id)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_profile_says_where_its_credentials_come_from() {
    let dir = TempDir::new("sigv4-profiles");
    let cloud = Cloud::start(machine);
    let token = dir.write("token", "web-token\n");
    let config = dir.write("config", CONFIG.replace("TOKEN", &text(&token)));
    let keys = "[base]\naws_access_key_id = KEYS\naws_secret_access_key = k\n";
    let (config, keys) = (text(&config), text(&dir.write("credentials", keys)));
    let variables = [
        ("AWS_CONFIG_FILE", config.as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", &keys),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &cloud.url),
        ("AWS_ENDPOINT_URL_STS", &cloud.url),
        // A profile that is named is meant before these.
        ("AWS_ACCESS_KEY_ID", "ENVIRONMENT"),
        ("AWS_SECRET_ACCESS_KEY", "e"),
        ("AWS_REGION", "eu-1"),
    ];
    let client = client(&variables.map(|(name, value)| (name, value.to_owned())));

    assert_eq!(of_profile(&client, "base").await.unwrap(), "KEYS");
    assert_eq!(of_profile(&client, "role").await.unwrap(), "ROLE");
    let asked = cloud.asked().concat();
    assert!(asked.contains("Credential=KEYS/"), "{asked}");
    let body = "&RoleArn=arn%3Arole&RoleSessionName=named&ExternalId=e&DurationSeconds=3600";
    assert!(asked.ends_with(body), "{asked}");

    assert_eq!(of_profile(&client, "second").await.unwrap(), "ROLE");
    let asked = cloud.asked();
    assert!(asked[0].contains("RoleArn=arn%3Arole&") && asked[0].contains("Credential=KEYS/"));
    assert!(asked[1].contains("RoleArn=arn%3Asecond&") && asked[1].contains("Credential=ROLE/"));

    assert_eq!(of_profile(&client, "machine").await.unwrap(), "ROLE");
    let asked = cloud.asked();
    assert!(asked[3].contains("Credential=MACHINE/"), "{asked:?}");

    assert_eq!(of_profile(&client, "web").await.unwrap(), "ROLE");
    assert!(cloud.asked()[0].ends_with("&WebIdentityToken=web-token"));

    assert_eq!(of_profile(&client, "program").await.unwrap(), "PROGRAM");
    for (profile, reason) in [
        (
            "old",
            "the output of credential_process is not of version 1",
        ),
        ("failing", "credential_process: it failed: exit status: 3"),
    ] {
        let said = of_profile(&client, profile).await.unwrap_err();
        assert!(said.ends_with(reason), "{said}");
    }

    for (profile, reason) in [
        (
            "not-a-profile",
            "failed to get shared config profile, not-a-profile",
        ),
        ("circle", "profile \"circle\" has no credentials"),
        (
            "person",
            "profile \"person\" has sso_session, which is not supported",
        ),
        (
            "lonely",
            "profile \"lonely\" has source_profile, which needs role_arn",
        ),
    ] {
        let said = of_profile(&client, profile).await.unwrap_err();
        assert_eq!(said, format!("could not get SigV4 credentials: {reason}"));
    }
}

#[test]
fn the_region_may_be_that_of_the_profile() {
    let dir = TempDir::new("sigv4-region");
    let config = text(&dir.write("config", CONFIG));
    let client = client(&[("AWS_CONFIG_FILE", config)]);
    let signer = SigV4::new(&client, &SigV4Config::default()).unwrap();
    assert_eq!(signer.region, "eu-7");
}
