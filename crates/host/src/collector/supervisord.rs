//! Processes of supervisord, by its XML-RPC interface.
//!
//! Invariant: an answer that is not a list of processes fails the collector; nothing of it is exported.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::rows::Rows;
use crate::sink::{Desc, Sink};

const STATE: Desc<'static> = Desc::gauge(
    "node_supervisord_state",
    "State of the process, as supervisord numbers them.",
);
const EXIT_STATUS: Desc<'static> = Desc::gauge(
    "node_supervisord_exit_status",
    "Exit status of the last run of the process.",
);
const UP: Desc<'static> = Desc::gauge(
    "node_supervisord_up",
    "Whether the process runs, starts or is being stopped.",
);
const START: Desc<'static> = Desc::counter(
    "node_supervisord_start_time_seconds",
    "When the process was started, in seconds since 1970.",
);

pub(crate) struct Supervisord {
    server: Server,
    rows: Rows,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    Unix(String),
    Http {
        /// Host and port.
        authority: String,
        path: String,
        /// Name and password.
        user: Option<String>,
    },
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Process {
    name: String,
    group: String,
    start: i64,
    state: i64,
    exit_status: i64,
}

impl Supervisord {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let server = Server::parse(&config.supervisord_url).ok_or_else(|| HostError::Flag {
            flag: "collector.supervisord.url".to_owned(),
            problem: "not http://HOST[:PORT]/PATH or unix:///PATH".to_owned(),
        })?;
        Ok(Self {
            server,
            rows: Rows::new(),
        })
    }
}

impl Collector for Supervisord {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let answer = self
            .server
            .call()
            .map_err(|error| problem(error.to_string()))?;
        let processes = processes(&answer).map_err(|cause| problem(cause.to_owned()))?;
        self.rows.begin();
        for process in &processes {
            let labels = [
                ("name", process.name.as_str()),
                ("group", process.group.as_str()),
            ];
            // Starting, running, stopping.
            let is_up = matches!(process.state, 10 | 20 | 40);
            let values = [
                process.state as f64,
                process.exit_status as f64,
                f64::from(u8::from(is_up)),
                if is_up {
                    process.start as f64
                } else {
                    f64::NAN
                },
            ];
            let key = [process.group.as_bytes(), process.name.as_bytes()];
            let descs = [STATE, EXIT_STATUS, UP, START];
            self.rows.set_all(&key, &values, out, (&descs, &labels));
        }
        self.rows.end(out);
        Ok(())
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl Server {
    fn parse(url: &str) -> Option<Self> {
        if let Some(path) = url.strip_prefix("unix://") {
            return path.starts_with('/').then(|| Self::Unix(path.to_owned()));
        }
        let rest = url.strip_prefix("http://")?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/RPC2"),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = match (host.is_empty(), has_port) {
            (true, _) => return None,
            (_, true) => host.to_owned(),
            (_, false) => format!("{host}:80"),
        };
        Some(Self::Http {
            authority,
            path: path.to_owned(),
            user,
        })
    }

    /// Asks for all processes; returns the answer's body.
    fn call(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                exchange(stream, "localhost", "/RPC2", None)
            }
            Self::Http {
                authority,
                path,
                user,
            } => {
                let stream = TcpStream::connect(authority)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                exchange(stream, authority, path, user.as_deref())
            }
        }
    }
}

/// Sends the request and returns the body of a successful answer.
fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    path: &str,
    user: Option<&str>,
) -> std::io::Result<Vec<u8>> {
    const LIMIT_BYTES: u64 = 16 << 20;
    const BODY: &str = "<?xml version=\"1.0\"?><methodCall><methodName>supervisor.getAllProcessInfo</methodName>\
                        <params></params></methodCall>";
    let authorization = user.map_or(String::new(), |user| {
        format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(user))
    });
    // Without later versions' chunks: the answer ends with the connection.
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\n{authorization}Content-Type: text/xml\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LIMIT_BYTES).read_to_end(&mut answer)?;
    let status = answer
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let status = String::from_utf8_lossy(status).into_owned();
    if status.split(' ').nth(1) != Some("200") {
        return Err(std::io::Error::other(format!("answered {status:?}")));
    }
    let end = memchr::memmem::find(&answer, b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other("an answer without an end of its head"))?;
    Ok(answer.split_off(end + 4))
}

/// Reads the processes of an answer: an array of structures, of whose members some are needed.
fn processes(answer: &[u8]) -> Result<Vec<Process>, &'static str> {
    let text = std::str::from_utf8(answer).map_err(|_| "an answer that is not UTF-8")?;
    if !text.contains("<methodResponse>") {
        return Err("an answer that is not XML-RPC");
    }
    if text.contains("<fault>") {
        return Err("it reports a fault");
    }
    let mut processes = Vec::new();
    let mut process = Process::default();
    let mut name = String::new();
    // What stands before the tag.
    let mut content = "";
    for piece in text.split('<').skip(1) {
        let (tag, next) = piece.split_once('>').ok_or("an answer with an open tag")?;
        match tag {
            "struct" => process = Process::default(),
            "/name" => name = unescaped(content),
            "/struct" => processes.push(std::mem::take(&mut process)),
            "/int" | "/i4" => {
                let number = content.trim().parse().map_err(|_| "a malformed number")?;
                match name.as_str() {
                    "start" => process.start = number,
                    "state" => process.state = number,
                    "exitstatus" => process.exit_status = number,
                    _ => {}
                }
            }
            "/string" => match name.as_str() {
                "name" => process.name = unescaped(content),
                "group" => process.group = unescaped(content),
                _ => {}
            },
            _ => {}
        }
        content = next;
    }
    Ok(processes)
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

fn problem(problem: String) -> HostError {
    HostError::Service {
        name: "supervisord",
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::Rounds;
    use std::net::TcpListener;
    use std::thread;

    fn member(name: &str, value: &str) -> String {
        format!("<member>\n<name>{name}</name>\n<value>{value}</value>\n</member>\n")
    }

    fn process(name: &str, state: i64) -> String {
        let members = [
            member("description", "<string>pid 7 &lt;b&gt;</string>"),
            member("exitstatus", "<int>3</int>"),
            member("group", "<string>a &amp; b</string>"),
            member("name", &format!("<string>{name}</string>")),
            member("start", "<int>1500000000</int>"),
            member("state", &format!("<int>{state}</int>")),
        ];
        format!("<value><struct>\n{}</struct></value>\n", members.concat())
    }

    /// Starts a server that gives one answer; returns its address.
    fn server(status: &'static str, body: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            let mut part = [0; 1024];
            while !request.ends_with(b"</methodCall>") {
                let len = stream.read(&mut part).expect("a request");
                request.extend_from_slice(&part[..len]);
            }
            let request = String::from_utf8(request).expect("text");
            assert!(request.starts_with("POST /RPC2 HTTP/1.0\r\n"), "{request}");
            assert!(request.contains("Basic dXNlcjpwYXNz\r\n"), "{request}");
            let answer = format!("HTTP/1.0 {status}\r\nServer: x\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).expect("sent");
        });
        address
    }

    fn ask(address: &str) -> Result<Vec<String>, String> {
        let config = HostConfig {
            supervisord_url: format!("http://user:pass@{address}/RPC2"),
            ..HostConfig::default()
        };
        Rounds::new(Supervisord::new(&config).expect("valid")).next()
    }

    #[test]
    fn processes_and_their_states() {
        let list = format!(
            "<?xml version='1.0'?>\n<methodResponse>\n<params>\n<param>\n<value><array><data>\n{}{}</data></array>\
             </value>\n</param>\n</params>\n</methodResponse>\n",
            process("web", 20),
            process("job", 100)
        );
        let found = ask(&server("200 OK", list));
        let expected = [
            r#"node_supervisord_exit_status{group="a & b",name="job"} 3"#,
            r#"node_supervisord_exit_status{group="a & b",name="web"} 3"#,
            r#"node_supervisord_start_time_seconds{group="a & b",name="web"} 1500000000"#,
            r#"node_supervisord_state{group="a & b",name="job"} 100"#,
            r#"node_supervisord_state{group="a & b",name="web"} 20"#,
            r#"node_supervisord_up{group="a & b",name="job"} 0"#,
            r#"node_supervisord_up{group="a & b",name="web"} 1"#,
        ];
        assert_eq!(found, Ok(expected.map(str::to_owned).into()));
    }

    #[test]
    fn faults_refusals_and_other_answers_fail() {
        for (status, body, expected) in [
            (
                "401 Unauthorized",
                "",
                "supervisord: answered \"HTTP/1.0 401 Unauthorized\"",
            ),
            (
                "200 OK",
                "<methodResponse><fault></fault></methodResponse>",
                "supervisord: it reports a fault",
            ),
            (
                "200 OK",
                "hello",
                "supervisord: an answer that is not XML-RPC",
            ),
        ] {
            let error = ask(&server(status, body.to_owned())).expect_err(status);
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn addresses() {
        let http = |authority: &str, path: &str, user: Option<&str>| {
            Some(Server::Http {
                authority: authority.to_owned(),
                path: path.to_owned(),
                user: user.map(str::to_owned),
            })
        };
        for (url, expected) in [
            (
                "http://localhost:9001/RPC2",
                http("localhost:9001", "/RPC2", None),
            ),
            ("http://a:b@host/x", http("host:80", "/x", Some("a:b"))),
            ("http://host", http("host:80", "/RPC2", None)),
            (
                "unix:///run/s.sock",
                Some(Server::Unix("/run/s.sock".to_owned())),
            ),
            ("unix://run", None),
            ("https://host/x", None),
            ("http:///x", None),
        ] {
            assert_eq!(Server::parse(url), expected, "{url}");
        }
    }
}
