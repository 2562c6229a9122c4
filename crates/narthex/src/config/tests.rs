//! Configurations that are accepted or rejected, including those of the reference corpus.

use super::*;
use narthex_discovery::SdConfig;
use narthex_notify::AlertmanagerConfig;
use narthex_remote::{Message, RemoteWriteConfig};
use narthex_testkit::{LineServer, TempDir, corpora, go_program};
use serde_json::{Value as Json, json};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let environment = |name: &str| (name == "REGION").then(|| "eu".to_owned());
    Config::parse(text, Path::new("/etc"), &environment, Features::default())
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn defaults_and_globals_reach_the_jobs() {
    let config = parse(
        "global:\n  scrape_interval: 15s\n  sample_limit: 7\n  external_labels: {dc: '${REGION}-1'}\nscrape_configs:\n\
- job_name: a\n  static_configs:\n  - targets: [h:1, h:2]\n    labels: {zone: z}\n\
- job_name: b\n  scrape_interval: 5s\n  scrape_timeout: 2s\n  metrics_path: /m\n  honor_labels: yes\n  sample_limit: 1\n  params: {x: [1, 2]}\n",
    )
    .unwrap();
    let [a, b] = config.jobs.as_slice() else {
        panic!("{config:?}")
    };
    let (a, b) = (&a.scrape, &b.scrape);
    assert_eq!(
        (a.scrape_interval, a.scrape_timeout, a.limits.samples),
        (Duration::from_secs(15), Duration::from_secs(10), 7)
    );
    assert_eq!(
        (b.scrape_interval, b.scrape_timeout, b.limits.samples),
        (Duration::from_secs(5), Duration::from_secs(2), 1)
    );
    assert!(b.honor_labels && b.metrics_path == "/m");
    assert_eq!(
        b.params,
        [("x".to_owned(), vec!["1".to_owned(), "2".to_owned()])]
    );
    assert_eq!(config.external_labels.to_string(), "{dc=\"eu-1\"}");
    assert_eq!(config.jobs[0].discovery.len(), 1);
    let empty = parse("# nothing\n").unwrap();
    assert_eq!(empty, parse("").unwrap());
    assert!(empty.jobs.is_empty());
}

#[test]
fn a_global_timeout_shrinks_to_a_jobs_interval() {
    let config = parse("scrape_configs: [{job_name: a, scrape_interval: 3s}]").unwrap();
    assert_eq!(config.jobs[0].scrape.scrape_timeout, Duration::from_secs(3));
    assert_eq!(
        refused("scrape_configs: [{job_name: a, scrape_interval: 3s, scrape_timeout: 4s}]"),
        "line 1, column 18: scrape timeout greater than scrape interval for scrape config with job name \"a\""
    );
}

#[test]
fn faults_are_named_with_their_place() {
    for (text, error) in [
        (
            "scrape_configs: [{scheme: http}]",
            "line 1, column 18: job_name is empty",
        ),
        (
            "scrape_configs: [{job_name: a}, {job_name: a}]",
            "line 1, column 33: found multiple scrape configs with job name \"a\"",
        ),
        (
            "rule_files: ['*/x']\n",
            "line 1, column 14: invalid rule file path \"*/x\"",
        ),
        (
            "scrape_configs:\n- job_name: a\n  consult_sd_configs: []\n",
            "line 3, column 3: field consult_sd_configs not found in type scrape_config",
        ),
        (
            "nonsense: 1\n",
            "line 1, column 1: field nonsense not found in type configuration file",
        ),
        (
            "global: {scrape_interval: 5x}\n",
            "line 1, column 27: scrape_interval: not a valid duration string: \"5x\"",
        ),
        (
            "global: {body_size_limit: 100}\n",
            "line 1, column 27: body_size_limit: units: unknown unit  in 100",
        ),
        (
            "global: {sample_limit: many}\n",
            "line 1, column 24: sample_limit: cannot unmarshal !!str `many` into uint64",
        ),
        (
            "scrape_configs: [{job_name: a, static_configs: [{targets: ['http://h/']}]}]",
            "line 1, column 60: \"http://h/\" is not a valid hostname",
        ),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
    assert!(refused("a: [\n").contains("line"));
}

/// The file that Prometheus ships with uses nothing unsupported.
#[test]
fn the_stock_file_loads() {
    let stock = r#"
global:
  scrape_interval: 15s
  evaluation_interval: 15s
alerting:
  alertmanagers:
    - static_configs:
        - targets:
          # - alertmanager:9093
rule_files:
  # - "first_rules.yml"
scrape_configs:
  - job_name: "prometheus"
    static_configs:
      - targets: ["localhost:9090"]
        labels:
          app: "prometheus"
"#;
    let config = parse(stock).unwrap();
    assert_eq!(config.warnings, [""; 0]);
    let busy = stock.replace("# - alertmanager", "- alertmanager");
    let found = &parse(&busy).unwrap().alerting.sets[0].discovery;
    let SdConfig::Static(groups) = &found[0] else {
        panic!("{found:?}");
    };
    assert_eq!(groups[0].targets[0]["__address__"], "alertmanager:9093");
}

/// Everything an Alertmanager can be told, and what Prometheus says where it cannot be meant.
#[test]
fn alertmanagers_are_read() {
    let config = parse(
        "
alerting:
  alert_relabel_configs: [{regex: replica, action: labeldrop}]
  alertmanagers:
  - path_prefix: /am
    scheme: https
    timeout: 3s
    basic_auth: {username: u, password: hush}
    dns_sd_configs: [{names: [a.example.com]}]
    static_configs: [{targets: ['h:9093']}]
    relabel_configs: [{target_label: __alerts_path__, replacement: /x}]
    alert_relabel_configs: [{target_label: to, replacement: here}]
  - {}
",
    )
    .unwrap();
    assert!(!config.shown.contains("hush"), "{}", config.shown);
    let alerting = &config.alerting;
    assert_eq!(alerting.alert_relabel_configs.len(), 1);
    let [first, second] = &alerting.sets[..] else {
        panic!("{alerting:?}");
    };
    assert_eq!(first.path_prefix, "/am");
    assert_eq!(first.scheme, "https");
    assert_eq!(first.timeout, Duration::from_secs(3));
    assert_eq!(first.http.basic_auth.as_ref().unwrap().username, "u");
    assert_eq!(first.discovery.len(), 2);
    assert_eq!(first.relabel_configs.len(), 1);
    assert_eq!(first.alert_relabel_configs.len(), 1);
    assert_eq!(second, &AlertmanagerConfig::default());

    let one = |keys: &str| refused(&format!("alerting: {{alertmanagers: [{{{keys}}}]}}"));
    for (keys, error) in [
        (
            "api_version: v1",
            "line 1, column 28: expected Alertmanager api version to be one of [v2] but got v1",
        ),
        (
            "static_configs: [{targets: ['http://h']}]",
            "line 1, column 57: \"http://h\" is not a valid hostname",
        ),
        (
            "bearer_token: a, basic_auth: {username: u}",
            "line 1, column 28: at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured",
        ),
        (
            "sigv4: {}, oauth2: {client_id: a, client_secret: b, token_url: http://t}",
            "line 1, column 28: at most one of basic_auth, authorization, oauth2, & sigv4 must be configured",
        ),
        (
            "sigv4: {access_key: a}",
            "line 1, column 36: must provide a AWS SigV4 Access key and Secret Key if credentials are specified in the SigV4 config",
        ),
        (
            "relabel_configs: [null]",
            "line 1, column 47: empty or null Alertmanager target relabeling rule",
        ),
        (
            "alert_relabel_configs: [null]",
            "line 1, column 53: empty or null Alertmanager alert relabeling rule",
        ),
        (
            "path: /x",
            "line 1, column 29: field path not found in type alertmanager_config",
        ),
    ] {
        assert_eq!(one(keys), error, "{keys}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let config = parse(
        r#"
scrape_configs:
- job_name: a
  proxy_url: http://u:hush@p:1
  proxy_connect_header: {x: [hush]}
  http_headers: {X-A: {secrets: [hush]}}
  oauth2: {client_id: i, client_secret: hush, token_url: http://t}
- job_name: b
  bearer_token: hush
- job_name: c
  basic_auth: {username: u, password: hush}
"#,
    )
    .unwrap();
    assert!(!config.shown.contains("hush"), "{}", config.shown);
    assert!(!format!("{config:?}").contains("hush"));
    assert_eq!(config.shown.matches("<secret>").count(), 5);
    assert!(config.shown.contains("http://u:xxxxx@p:1"));
    let again = config.shown.replace("<secret>", "new");
    assert_eq!(
        parse(&again).unwrap().shown,
        config.shown,
        "what is shown can be read"
    );
}

#[test]
fn equal_texts_make_equal_jobs() {
    let text = "scrape_configs:\n- job_name: a\n  relabel_configs: [{target_label: x, replacement: y}]\n  file_sd_configs: [{files: [a.json]}]\n";
    assert_eq!(parse(text).unwrap(), parse(text).unwrap());
    let other = text.replace("replacement: y", "replacement: z");
    assert_ne!(parse(text).unwrap().jobs, parse(&other).unwrap().jobs);
}

#[test]
fn remote_ends_are_read() {
    let text = r#"
remote_write:
- url: http://h/w
- url: https://u%40:p@h:8443/w?x=y
  name: n
  remote_timeout: 5s
  headers: {X-Scope-OrgID: me}
  send_exemplars: true
  protobuf_message: io.prometheus.write.v2.Request
  write_relabel_configs: [{regex: replica, action: labeldrop}]
  queue_config: {max_shards: 3, retry_on_http_429: true, max_disk_size: 64MB, fresh_first: true}
  metadata_config: {send: false}
"#;
    let config = parse(text).unwrap();
    assert_eq!(config.remote_write.unusable, None);
    let [plain, rich] = config.remote_write.destinations.as_slice() else {
        panic!("{:?}", config.remote_write)
    };
    let url = |text: &str| narthex_net::Url::parse(text).unwrap();
    let defaults = RemoteWriteConfig::new(url("http://h/w"));
    assert_eq!(*plain, defaults, "defaults are those of the library");
    let http = HttpClientConfig {
        basic_auth: Some(narthex_net::BasicAuth {
            username: "u@".to_owned(),
            password: narthex_net::Secret::new("p"),
            ..narthex_net::BasicAuth::default()
        }),
        ..defaults.http
    };
    let mut expected = RemoteWriteConfig {
        name: "n".to_owned(),
        remote_timeout: Duration::from_secs(5),
        headers: vec![("X-Scope-OrgID".to_owned(), "me".to_owned())],
        send_exemplars: true,
        message: Message::V2,
        http,
        write_relabel_configs: rich.write_relabel_configs.clone(),
        ..RemoteWriteConfig::new(url("https://h:8443/w?x=y"))
    };
    expected.queue.max_shards = 3;
    expected.queue.retry_on_http_429 = true;
    expected.queue.max_disk_bytes = 64 << 20;
    expected.queue.fresh_first = true;
    expected.metadata.send = false;
    assert_eq!(*rich, expected);
    assert_eq!(rich.write_relabel_configs.len(), 1);
    assert!(!config.shown.contains("u%40:p@"), "{}", config.shown);
    let again = config.shown.replace("xxxxx", "p");
    assert_eq!(parse(&again).unwrap().remote_write, config.remote_write);
}

#[test]
fn the_service_account_of_a_file_asks_for_tokens_of_google() {
    let dir = TempDir::new("google-iam");
    let with = |path: &Path| {
        let path = path.display();
        parse(&format!(
            "remote_write:\n- {{url: 'http://h', google_iam: {{credentials_file: {path}}}}}\n"
        ))
    };
    let account = r#"{"type": "service_account", "client_email": "a@b", "private_key": "KEY", "private_key_id": "1"}"#;
    let remote = with(&dir.write("account.json", account))
        .unwrap()
        .remote_write;
    let oauth2 = remote.destinations[0].http.oauth2.as_deref().unwrap();
    let shown = [
        &oauth2.iss,
        &oauth2.token_url,
        &oauth2.client_certificate_key_id,
        &oauth2.client_id,
    ];
    assert_eq!(
        shown,
        ["a@b", "https://oauth2.googleapis.com/token", "1", ""]
    );
    assert_eq!(oauth2.client_certificate_key.expose(), "KEY");
    assert_eq!(
        oauth2.scopes,
        ["https://www.googleapis.com/auth/monitoring.write"]
    );
    for (text, reason) in [
        (
            "{\"type\": \"authorized_user\"}",
            "credentials of type \"authorized_user\" are not supported",
        ),
        (
            "{\"type\": \"service_account\"}",
            "it has no client_email or no private_key",
        ),
        ("", "EOF while parsing a value at line 1 column 0"),
    ] {
        let error = with(&dir.write("other.json", text))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with(reason), "{error}");
    }
}

#[test]
fn unusable_remote_ends_are_named() {
    let with = |entry: &str| format!("remote_write:\n- {{{entry}}}\n");
    for (entry, error) in [
        ("name: x", "line 2, column 3: url for remote_write is empty"),
        (
            "url: 'http://h', queue_config: {max_disk_size: -1MB}",
            "line 2, column 35: remote write queue max_disk_size must be positive",
        ),
        (
            "url: 'http://h', sigv4: {access_key: a}",
            "line 2, column 28: must provide a AWS SigV4 Access key and Secret Key if credentials are specified in the SigV4 config",
        ),
        (
            "url: 'http://h', sigv4: {external_id: a}",
            "line 2, column 28: external_id can only be used with role_arn",
        ),
        (
            "url: 'http://h', azuread: {cloud: c}",
            "line 2, column 30: must provide a cloud in the Azure AD config",
        ),
        (
            "url: 'http://h', azuread: {scope: s}",
            "line 2, column 30: must provide an Azure Managed Identity, Azure Workload Identity, Azure OAuth, Azure Certificate or Azure SDK in the Azure AD config",
        ),
        (
            "url: 'http://h', azuread: {managed_identity: {}, oauth: {client_id: a}}",
            "line 2, column 30: cannot provide multiple authentication methods in the Azure AD config",
        ),
        (
            "url: 'http://h', azuread: {oauth: {client_id: a, tenant_id: t}}",
            "line 2, column 38: must provide an Azure OAuth client_secret in the Azure AD config",
        ),
        (
            "url: 'http://h', azuread: {managed_identity: {client_id: a}}",
            "line 2, column 49: the provided Azure Managed Identity client_id is invalid",
        ),
        (
            "url: 'http://h', basic_auth: {username: u}, sigv4: {region: r}",
            "line 2, column 3: at most one of basic_auth, authorization, oauth2, sigv4, azuread or google_iam must be configured. Currently configured: [basic_auth sigv4]",
        ),
    ] {
        assert_eq!(refused(&with(entry)), error);
    }
    for (entry, error) in [
        ("azuread: {sdk: {}}", "remote_write.azuread.sdk"),
        (
            "azuread: {certificate: {}}",
            "remote_write.azuread.certificate",
        ),
    ] {
        let said = refused(&with(&format!("url: 'http://h', {entry}")));
        assert!(
            said.contains(&format!("{error} is not supported")),
            "{said}"
        );
    }
    let unusable = |url: &str| parse(&with(&format!("url: '{url}'"))).unwrap().remote_write;
    for url in ["localhost:9090", "ftp://h/", "http://%zz:p@h/", ""] {
        let remote = unusable(url);
        assert!(remote.destinations.is_empty(), "{url}");
        let reason = remote.unusable.unwrap();
        assert!(
            reason.starts_with("line 2, column 3: remote_write: "),
            "{reason}"
        );
        assert!(!reason.contains(":p@"), "{reason}");
    }
}

/// Expected results of corpus files: those rejected by name, and those whose errors differ in wording.
const CORPUS: &str = include_str!("corpus.txt");

/// Returns the names and expected errors of corpus files of this kind.
fn listed(kind: &str) -> Vec<(&'static str, &'static str)> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (found, rest) = line.split_once(' ')?;
            (found == kind).then(|| rest.split_once(' ').unwrap_or((rest, "")))
        })
        .collect()
}

struct Oracle(LineServer);

impl Oracle {
    fn load(&mut self, path: &Path) -> Result<String, String> {
        let request = json!({ "config": { "path": path } });
        let answer: Json = serde_json::from_str(&self.0.ask(&request.to_string())).unwrap();
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        if answer["ok"] == true {
            // A field of Go's structure that no file can set.
            let shown = text("result");
            let lines = shown
                .lines()
                .filter(|line| !line.contains("outofordertimewindow"));
            Ok(lines.map(|line| format!("{line}\n")).collect())
        } else {
            Err(text("error"))
        }
    }
}

/// Returns an error without file and position.
fn bare(error: &ConfigError) -> String {
    match error {
        ConfigError::At { message, .. } => {
            // The key in front is our addition.
            match message.split_once(": ") {
                Some((key, rest)) if FILE_KEYS.contains(&key) => rest.to_owned(),
                _ => message.clone(),
            }
        }
        ConfigError::InFile { source, .. } => bare(source),
        other => other.to_string(),
    }
}

/// Keys that errors about scalars begin with and that errors of corpus files are about.
const FILE_KEYS: &[&str] = &["body_size_limit", "time", "size", "scrape_interval"];

/// Compares one file with the oracle; returns how our result differs.
fn judge(oracle: &mut Oracle, path: &Path, name: &str) -> Option<String> {
    let ours = Config::load(path, &|name| std::env::var(name).ok(), Features::default());
    let find = |kind: &str| {
        let found = listed(kind).into_iter().find(|(file, _)| *file == name);
        found.map(|(_, text)| text)
    };
    if let Some(key) = find("refused") {
        return match ours {
            Err(error) if bare(&error).starts_with(&format!("{key} is not supported")) => None,
            other => Some(format!(
                "is not refused for {key}: {:?}",
                other.map(|config| config.shown)
            )),
        };
    }
    if let Some(words) = find("words") {
        return match ours {
            Err(error) if bare(&error) == words => None,
            other => Some(format!(
                "expected {words:?}: {:?}",
                other.map(|config| config.shown)
            )),
        };
    }
    match (ours, oracle.load(path)) {
        (Ok(ours), Ok(theirs)) if ours.shown == theirs => None,
        (Ok(ours), Ok(theirs)) => Some(format!("shows\n{}\nPrometheus\n{theirs}", ours.shown)),
        (Ok(_), Err(theirs)) if unknown_mechanism(&theirs) => None,
        (Ok(_), Err(theirs)) => Some(format!("is taken, Prometheus says {theirs}")),
        (Err(ours), Err(theirs)) if theirs.contains(&bare(&ours)) => None,
        (Err(ours), theirs) => Some(format!("is refused: {ours}\n  Prometheus: {theirs:?}")),
    }
}

/// Found by fuzzing: a label name of a thousand bytes was printed as a simple key, which no reader accepts.
#[test]
fn long_names_are_shown_as_prometheus_shows_them() {
    let dir = TempDir::new("long-names");
    let mut oracle = Oracle(LineServer::start(&go_program("oracle")));
    for name in [
        "a".repeat(128),
        "a".repeat(129),
        "\u{fffd}".repeat(400),
        "word ".repeat(25).trim_end().to_owned(),
        "word ".repeat(40).trim_end().to_owned(),
    ] {
        let text = format!("global: {{external_labels: {{? \"{name}\" : v, z: y}}}}\n");
        let path = dir.write("long.yml", text);
        assert_eq!(judge(&mut oracle, &path, "long.yml"), None, "{name}");
        let shown = Config::load(&path, &|_| None, Features::default())
            .unwrap()
            .shown;
        assert_eq!(parse(&shown).unwrap().shown, shown, "{name}");
    }
}

/// Found by fuzzing: multi-line texts between brackets or with unprintable characters were printed as a block.
#[test]
fn texts_of_several_lines_are_shown_as_prometheus_shows_them() {
    let dir = TempDir::new("lines");
    let mut oracle = Oracle(LineServer::start(&go_program("oracle")));
    for text in [
        "b\\nc",
        "b\\rd\\ne",
        "b \\nc",
        "b\\nc ",
        "b\\tc\\nd",
        "b\\0\\nc",
        " b\\nc",
    ] {
        let value = format!("global: {{external_labels: {{a: \"{text}\"}}}}\n");
        let source = format!(
            "scrape_configs:\n- job_name: a\n  relabel_configs:\n  - {{source_labels: [\"{text}\", d], target_label: e}}\n"
        );
        for file in [value, source] {
            let path = dir.write("lines.yml", file);
            assert_eq!(judge(&mut oracle, &path, "lines.yml"), None, "{text}");
            let shown = Config::load(&path, &|_| None, Features::default())
                .unwrap()
                .shown;
            assert_eq!(parse(&shown).unwrap().shown, shown, "{text}");
        }
    }
}

/// Recognizes files with Kubernetes, which the oracle does not know; they are compared with the corpus' own
/// expectations.
fn unknown_mechanism(error: &str) -> bool {
    error.contains("field kubernetes_sd_configs not found")
}

#[test]
fn the_reference_corpus_is_judged_as_prometheus_judges_it() {
    let Some(directory) = corpora::dir("prometheus-config") else {
        return corpora::report("prometheus-config", 0, 215);
    };
    let mut oracle = Oracle(LineServer::start(&go_program("oracle")));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yml"))
        .collect();
    paths.sort();
    let mut faults = Vec::new();
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(fault) = judge(&mut oracle, path, name) {
            faults.push(format!("{name} {fault}"));
        }
    }
    corpora::report("prometheus-config", paths.len(), paths.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The list of files that are rejected by name may only shrink.
#[test]
fn no_more_files_are_refused_than_before() {
    assert!(listed("refused").len() <= 54, "{}", listed("refused").len());
}

/// Texts that YAML could take for something else, and long ones.
#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn what_is_in_effect_is_shown_as_prometheus_shows_it() {
    let directory = TempDir::new("config-shown");
    let mut oracle = Oracle(LineServer::start(&go_program("oracle")));
    let values = [
        "yes",
        "~",
        "null",
        "1",
        "1.5",
        "1e3",
        "0x1f",
        "-",
        "- a",
        "a: b",
        "a:",
        ":a",
        "a #b",
        "#a",
        "'a'",
        "\"a\"",
        "{a}",
        "[a]",
        "a, b",
        "%a",
        "@a",
        "`a`",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "?",
        "? a",
        " a",
        "a ",
        "",
        "12:30",
        "1:2:3",
        "2001-01-01",
        "<<",
        "=",
        "é",
        "日本",
        "a\tb",
        "a\nb",
        "a\n",
        "\na",
        ".5",
        "+1",
        ".inf",
        "0777",
        "0o7",
        "1_000",
        "a'b",
        "---",
        "a\\b",
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
        "one two three four five six seven eight nine ten: eleven twelve thirteen  fourteen fifteen sixteen #x",
    ];
    let rules: Vec<Json> = values
        .iter()
        .map(|value| json!({"target_label": "x", "replacement": value, "separator": value, "source_labels": vec!["a_rather_long_label"; 6]}))
        .collect();
    let labels: Json = values
        .iter()
        .enumerate()
        .map(|(number, value)| (format!("l{number}"), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let config = json!({
        "global": {"external_labels": {"a": "yes", "b": "1"}, "body_size_limit": "1536KB", "scrape_protocols": ["PrometheusProto"]},
        "storage": {"tsdb": {"out_of_order_time_window": "1h30m", "retention": {"time": "30d", "size": "1GB"}}, "exemplars": {"max_exemplars": 5}},
        "scrape_configs": [
            {"job_name": "a", "relabel_configs": rules, "static_configs": [{"targets": ["h:1"], "labels": labels}, {"targets": []}]},
            {"job_name": "b c", "scrape_interval": "90s", "params": {"x": ["1", "yes"], "y": []}, "scheme": "https", "body_size_limit": "15MB", "sample_limit": 5,
             "authorization": {"credentials": "x"}, "tls_config": {"ca_file": "ca.pem", "min_version": "TLS12"}, "follow_redirects": false, "scrape_native_histograms": true,
             "metric_name_validation_scheme": "legacy", "native_histogram_min_bucket_factor": 1.5, "fallback_scrape_protocol": "PrometheusText0.0.4"},
            {"job_name": "c", "bearer_token_file": "token", "dns_sd_configs": [{"names": ["a.b"], "type": "A", "port": 80}], "file_sd_configs": [{"files": ["t/*.json", "/x.yml"]}],
             "http_sd_configs": [{"url": "http://h/x", "basic_auth": {"username": "u", "password_file": "p"}, "proxy_url": "http://u:p@h:1"}], "proxy_from_environment": true,
             "http_headers": {"X-B": {"values": ["1"]}, "X-A": {"secrets": ["s"], "files": ["f"]}}},
            {"job_name": "d", "oauth2": {"client_id": "i", "client_secret": "s", "token_url": "http://t", "scopes": ["a"], "endpoint_params": {"x": "y"}, "tls_config": {"insecure_skip_verify": true}}},
        ],
        "remote_write": [
            {"url": "http://u:p@h:1/w"},
            {"url": "https://h/w", "name": "n", "remote_timeout": "5s", "headers": {"X-B": "1", "X-A": "yes"}, "write_relabel_configs": rules,
             "send_exemplars": true, "send_native_histograms": true, "protobuf_message": "io.prometheus.write.v2.Request", "enable_http2": true,
             "bearer_token": "x", "tls_config": {"ca_file": "ca.pem"}, "proxy_url": "http://u:p@h:1", "http_headers": {"X-C": {"values": ["1"]}},
             "queue_config": {"capacity": 5, "max_shards": 7, "min_shards": 2, "max_samples_per_send": 3, "batch_send_deadline": "1m30s", "min_backoff": "1s", "max_backoff": "90s", "retry_on_http_429": true, "sample_age_limit": "1h"},
             "metadata_config": {"send": false, "send_interval": "2m", "max_samples_per_send": 9}},
        ],
    });
    let path = directory.path().join("prometheus.yml");
    std::fs::write(&path, config.to_string()).unwrap();
    let theirs = oracle.load(&path).unwrap();
    let ours = Config::load(&path, &|_| None, Features::default()).unwrap();
    let differences: Vec<_> = ours
        .shown
        .lines()
        .zip(theirs.lines())
        .filter(|(ours, theirs)| ours != theirs)
        .take(20)
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(ours.shown, theirs);
}

#[test]
fn files_of_metrics_are_read_with_their_defaults() {
    let config = parse(
        "global: {scrape_interval: 15s}\nfiles:\n- {job_name: a, paths: [x/*.prom]}\n\
- {job_name: b, paths: [/y], kind: python_multiprocess, interval: 2s, labels: {zone: z}, honor_timestamps: false}\n\
- {job_name: c, paths: [/z], stale_after: 1m, path_labels: '/(?P<name>.*)', format: openmetrics, file_size_limit: 1MB, sample_limit: 7}\n",
    )
    .unwrap();
    let [a, b, c] = config.metric_files.as_slice() else {
        panic!("{config:?}")
    };
    let default = FilesConfig::new("a");
    let expected = FilesConfig {
        paths: vec!["/etc/x/*.prom".to_owned()],
        interval: Duration::from_secs(15),
        ..default
    };
    assert_eq!(*a, expected);
    assert_eq!(
        (b.kind, b.interval, b.honor_timestamps),
        (
            narthex_files::FileKind::PythonMultiprocess,
            Duration::from_secs(2),
            false
        )
    );
    assert_eq!(b.labels, [("zone".to_owned(), "z".to_owned())]);
    assert_eq!(
        (c.stale_after, c.file_size_limit, c.sample_limit),
        (Duration::from_mins(1), 1 << 20, 7)
    );
    assert_eq!(
        c.labels_of("/q").unwrap().to_string(),
        r#"{job="c", name="q"}"#
    );
    assert!(
        config.shown.contains("file_size_limit: 1MiB"),
        "{}",
        config.shown
    );
}

#[test]
fn faults_of_files_are_named_with_their_place() {
    for (entry, reason) in [
        ("{}", "line 1, column 9: job_name is empty in files config"),
        (
            "{job_name: a}",
            "line 1, column 9: no paths in files config \"a\"",
        ),
        (
            "{job_name: a, paths: [x], interval: 1}",
            "line 1, column 45: ",
        ),
        (
            "{job_name: a, paths: ['[']}",
            "line 1, column 31: \"/etc/[\": ",
        ),
        (
            "{job_name: a, paths: [x], kind: y}",
            "unknown kind of files \"y\"",
        ),
        (
            "{job_name: a, paths: [x], format: y}",
            "unknown format \"y\"",
        ),
        (
            "{job_name: a, paths: [x], path_labels: '('}",
            "line 1, column 48: ",
        ),
        (
            "{job_name: a, paths: [x], path_labels: '(?P<file>.)'}",
            "set by the entry itself",
        ),
        (
            "{job_name: a, paths: [x], labels: {__b: c}}",
            "\"__b\" is not a valid label name",
        ),
        (
            "{job_name: a, paths: [x], labels: {job: c}}",
            "set by the entry itself",
        ),
        (
            "{job_name: a, paths: [x], kind: textfile, sample_limit: 1}",
            "for files of kind metrics",
        ),
        (
            "{job_name: a, paths: [x], kind: textfile, labels: {device: c}}",
            "device",
        ),
        (
            "{job_name: a, paths: [x]}, {job_name: a, paths: [y]}",
            "found multiple files configs",
        ),
    ] {
        let said = refused(&format!("files: [{entry}]"));
        assert!(said.contains(reason), "{entry}: {said}");
    }
}

#[test]
fn the_host_has_flags_and_the_global_interval() {
    let config =
        parse("global: {scrape_interval: 15s}\nhost: {flags: [--no-collector.ipvs]}").unwrap();
    let host = config.host.unwrap();
    assert_eq!(host.interval, Duration::from_secs(15));
    let collectors = host.settings().unwrap().collectors;
    assert!(!collectors.contains(narthex_host::CollectorKind::Ipvs));
    assert!(collectors.contains(narthex_host::CollectorKind::Cpu));
    let labels = host.target("h").labels.to_string();
    assert_eq!(labels, r#"{instance="h", job="node"}"#);
    assert_eq!(parse("global: {}").unwrap().host, None);
}

#[test]
fn faults_of_the_host_are_named_with_their_place() {
    for (section, reason) in [
        (
            "{flags: [--collector.cpu, --collector.nothing]}",
            "line 1, column 33: unknown long flag '--collector.nothing'",
        ),
        ("{flags: [--web.listen-address=x]}", "line 1, column 16: "),
        ("{flags: [cpu]}", "line 1, column 16: "),
        (
            "{flags: ['--collector.netdev.device-include=(']}",
            "line 1, column 7: --collector.netdev.device-include is not",
        ),
        ("{labels: {__a: b}}", "\"__a\" is not a valid label name"),
        ("{labels: {device: b}}", "device"),
        ("{flag: [x]}", "flag"),
    ] {
        let said = refused(&format!("host: {section}"));
        assert!(said.contains(reason), "{section}: {said}");
    }
}
