//! TLS with other implementations: Go's server and client, Debian's Prometheus and `node_exporter`.

use crate::{
    client,
    support::{self, PATIENCE, Running, until},
};
use narthex_testkit::{
    LineServer, TempDir, go_program,
    process::{Server, Spawn},
    tool,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

/// bcrypt hash of `dave123`, at the lowest cost.
const DAVE: &str = "$2y$04$abcdefghijklmnopqrstuuT.VdioudKiCP.wBnKnIyRNAu9yUSXv2";

/// Certificates issued by Go.
struct Certificates(TempDir);

impl Certificates {
    fn issue(name: &str) -> Self {
        let dir = TempDir::new(name);
        let issued = Spawn::new(go_program("gopeer"))
            .arg("certificates")
            .arg(dir.path())
            .run(PATIENCE);
        assert_eq!(issued.exit.code, Some(0), "{}", issued.stderr);
        Self(dir)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Returns a path as text.
    fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    /// Starts Go's server with the certificate `name`; returns it with its port.
    fn serve(&self, name: &str, more: &[&str]) -> (Server, u16) {
        let mut process = Spawn::new(go_program("gopeer"))
            .arg("serve")
            .arg(self.path(&format!("{name}.pem")))
            .arg(self.path(&format!("{name}.key")))
            .args(more)
            .start();
        let port = process.wait_port("Listening on", PATIENCE);
        (process, port)
    }
}

/// Expected result of scraping a Go server: `Ok` with what the server saw, or a part of the error.
type Expected<'a> = Result<[(&'a str, &'a str); 3], &'a str>;

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn scrapes_of_gos_servers_do_what_gos_own_would() {
    let certificates = Certificates::issue("tls-go-servers");
    let text = |file: &str| certificates.text(file);
    let ca = text("ca.pem");
    let (_plain, plain) = certificates.serve("server", &[]);
    let (_guarded, guarded) = certificates.serve("server", &[&ca]);
    let (_old, old) = certificates.serve("server", &["", "1.0", "1.1"]);
    let (_newest, newest) = certificates.serve("server", &["", "1.3"]);
    let (_second, second) = certificates.serve("server", &["", "1.2", "1.2"]);
    let (_own, own) = certificates.serve("self", &[]);
    let trusting = format!("ca_file: {ca}");
    let as_client = |name: &str| {
        let (cert, key) = (text(&format!("{name}.pem")), text(&format!("{name}.key")));
        format!("{trusting}, cert_file: {cert}, key_file: {key}")
    };
    let own_ca = format!("ca_file: {}", text("self.pem"));
    let other_ca = format!("ca_file: {}", text("other.pem"));
    let named = format!("{trusting}, server_name: metrics.example");
    let misnamed = format!("{trusting}, server_name: other.example");
    let saw = |version, name, client| {
        Ok([
            ("version", version),
            ("server_name", name),
            ("client", client),
        ])
    };
    let cases: Vec<(&str, u16, String, Expected<'_>)> = vec![
        ("plain", plain, trusting.clone(), saw("TLS 1.3", "", "")),
        ("named", plain, named, saw("TLS 1.3", "metrics.example", "")),
        (
            "misnamed",
            plain,
            misnamed,
            Err("x509: certificate is valid for metrics.example"),
        ),
        (
            "untrusted",
            plain,
            other_ca,
            Err("x509: certificate signed by unknown authority"),
        ),
        (
            "unchecked",
            plain,
            "insecure_skip_verify: true".into(),
            saw("TLS 1.3", "", ""),
        ),
        (
            "client",
            guarded,
            as_client("client"),
            saw("TLS 1.3", "", "client"),
        ),
        (
            "anonymous",
            guarded,
            trusting.clone(),
            Err(": remote error: tls: certificate required"),
        ),
        (
            "stranger",
            guarded,
            as_client("stranger"),
            Err(": remote error: tls: "),
        ),
        ("too-old", old, trusting.clone(), Err("tls: ")),
        ("newest", newest, trusting.clone(), saw("TLS 1.3", "", "")),
        (
            "at-most",
            newest,
            format!("{trusting}, max_version: TLS12"),
            Err("tls: "),
        ),
        ("second", second, trusting.clone(), saw("TLS 1.2", "", "")),
        (
            "at-least",
            second,
            format!("{trusting}, min_version: TLS13"),
            Err("tls: "),
        ),
        (
            "limited",
            plain,
            format!("{trusting}, max_version: TLS12"),
            saw("TLS 1.2", "", ""),
        ),
        // A server that presents a CA certificate as its own.
        ("self-signed", own, own_ca, saw("TLS 1.3", "", "")),
    ];
    let mut written =
        String::from("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n");
    for (job, port, tls, _) in &cases {
        let _ = writeln!(
            written,
            "- {{job_name: {job}, scheme: https, tls_config: {{{tls}}}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}"
        );
    }
    let dir = TempDir::new("tls-go-scraped");
    let config = dir.write("p.yml", written);
    let server = Running::start(&dir.join("data"), &config);
    let targets = until("every target has been scraped", || {
        let data = server.data("/api/v1/targets", &[]);
        let targets = data["activeTargets"].as_array().unwrap().clone();
        targets
            .iter()
            .all(|target| target["health"] != "unknown")
            .then_some(targets)
    });
    let of_job = |job: &str| {
        let found = targets.iter().find(|target| target["scrapePool"] == job);
        found.unwrap()["lastError"].as_str().unwrap().to_owned()
    };
    for (job, _, _, expected) in &cases {
        let error = of_job(job);
        match expected {
            Err(part) => assert!(error.contains(part), "{job}: {error:?}, not {part:?}"),
            Ok(labels) => {
                assert_eq!(error, "", "{job}");
                let pairs: Vec<String> = labels
                    .iter()
                    .map(|(name, value)| format!("{name}=\"{value}\""))
                    .collect();
                let query = format!("connection{{job=\"{job}\",{}}}", pairs.join(","));
                server.wait_vector(&query, |vector| vector.len() == 1);
            }
        }
    }
    server.stop();
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn gos_client_gets_from_us_what_the_web_configuration_allows() {
    let certificates = Certificates::issue("tls-go-client");
    let dir = TempDir::new("tls-served");
    let config = dir.write("p.yml", "scrape_configs: []\n");
    let mut go = LineServer::start_with(&go_program("gopeer"), &["get"]);
    let modes: [(&str, [bool; 3]); 5] = [
        // Whether a client gets in without a certificate, with one of the CA, and with one of another CA.
        ("NoClientCert", [true, true, true]),
        ("RequestClientCert", [true, true, true]),
        ("RequireAnyClientCert", [false, true, true]),
        ("VerifyClientCertIfGiven", [true, true, false]),
        ("RequireAndVerifyClientCert", [false, true, false]),
    ];
    for (mode, welcome) in modes {
        let authorities = if mode.contains("Verify") {
            format!(", client_ca_file: {}", certificates.text("ca.pem"))
        } else {
            String::new()
        };
        let web = dir.write(
            format!("{mode}.yml"),
            format!(
                "tls_server_config: {{cert_file: {}, key_file: {}, client_auth_type: {mode}{authorities}}}\nbasic_auth_users: {{dave: {DAVE}}}\n",
                certificates.text("server.pem"),
                certificates.text("server.key")
            ),
        );
        let mut process = support::server_in(&dir.join(mode))
            .arg(support::config_flag(&config))
            .arg(format!("--web.config.file={}", web.display()))
            .start();
        let port = process.wait_port("Listening on", PATIENCE);
        let mut get = |client: &str, more: Value| -> Value {
            let mut question = json!({
                "url": format!("https://127.0.0.1:{port}/-/healthy"),
                "ca": certificates.text("ca.pem"),
                "user": "dave",
                "password": "dave123",
            });
            let asked = question.as_object_mut().unwrap();
            if !client.is_empty() {
                asked.insert(
                    "cert".into(),
                    certificates.text(&format!("{client}.pem")).into(),
                );
                asked.insert(
                    "key".into(),
                    certificates.text(&format!("{client}.key")).into(),
                );
            }
            asked.extend(more.as_object().unwrap().clone());
            serde_json::from_str(&go.ask(&question.to_string())).unwrap()
        };
        for (client, welcome) in ["", "client", "stranger"].into_iter().zip(welcome) {
            let answer = get(client, json!({}));
            if welcome {
                // HTTP/2 is not offered, so Go uses HTTP/1.1.
                let expected = json!({"status": 200, "proto": "HTTP/1.1", "version": "TLS 1.3"});
                assert_eq!(answer, expected, "{mode}, {client:?}");
            } else {
                assert_eq!(answer["status"], 0, "{mode}, {client:?}: {answer}");
                let error = answer["error"].as_str().unwrap();
                assert!(
                    error.contains("remote error: tls: "),
                    "{mode}, {client:?}: {error}"
                );
            }
        }
        let second = get("client", json!({"max": "1.2"}));
        assert_eq!(
            (&second["status"], &second["version"]),
            (&200.into(), &"TLS 1.2".into())
        );
        let oldest = get("client", json!({"max": "1.1"}));
        assert_eq!(oldest["status"], 0, "{oldest}");
        assert_eq!(get("client", json!({"password": "bad"}))["status"], 401);
        process.terminate(PATIENCE);
    }
}

/// Writes the web configuration of both exporters: TLS and a password.
fn guarded(certificates: &Certificates, dir: &TempDir) -> PathBuf {
    dir.write(
        "web.yml",
        format!(
            "tls_server_config: {{cert_file: {}, key_file: {}}}\nbasic_auth_users: {{dave: {DAVE}}}\n",
            certificates.text("server.pem"),
            certificates.text("server.key")
        ),
    )
}

/// Writes a configuration that scrapes a guarded target.
fn scraping(certificates: &Certificates, dir: &TempDir, name: &str, port: u16) -> PathBuf {
    dir.write(
        name,
        format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n\
- {{job_name: guarded, scheme: https, tls_config: {{ca_file: {}}}, basic_auth: {{username: dave, password: dave123}}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n",
            certificates.text("ca.pem")
        ),
    )
}

#[test]
fn debians_programs_and_ours_meet_behind_tls_and_passwords() {
    let certificates = Certificates::issue("tls-debian");
    let dir = TempDir::new("tls-debian-data");
    let web = guarded(&certificates, &dir);
    let up = |server: &Running| {
        server.wait_vector("up{job=\"guarded\"} == 1", |vector| vector.len() == 1);
    };
    let count = |server: &Running, metric: &str| {
        let found: BTreeMap<_, _> = client::vector(&server.url, metric, None);
        assert!(!found.is_empty(), "{metric}");
    };

    let idle = dir.write("idle.yml", "scrape_configs: []\n");
    let mut ours = support::server_in(&dir.join("ours"))
        .arg(support::config_flag(&idle))
        .arg(format!("--web.config.file={}", web.display()))
        .start();
    let port = ours.wait_port("Listening on", PATIENCE);
    let config = scraping(&certificates, &dir, "theirs.yml", port);
    let theirs = Running::prometheus(&dir.join("theirs"), &config, &[]);
    up(&theirs);
    count(&theirs, "narthex_build_info");
    theirs.stop();
    ours.terminate(PATIENCE);

    let program = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let mut exporter = Spawn::new(program)
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(format!("--web.config.file={}", web.display()))
        .start();
    let port = exporter.wait_port("Listening on", PATIENCE);
    let config = scraping(&certificates, &dir, "node.yml", port);
    let server = Running::start(&dir.join("node"), &config);
    up(&server);
    count(&server, "node_exporter_build_info");
    server.stop();
    exporter.terminate(PATIENCE);
}
