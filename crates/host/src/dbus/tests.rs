//! A bus of a thread, and the client against it and against the real one.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use narthex_testkit::TempDir;

use super::*;

/// A method call as the bus gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) member: String,
    pub(crate) arguments: Vec<String>,
}

/// The types and values of a reply, or an error's name.
pub(crate) type Response = Result<(&'static str, Vec<u8>), &'static str>;

/// A bus that answers every call by a function, until it is dropped.
pub(crate) struct FakeBus {
    dir: TempDir,
}

impl FakeBus {
    pub(crate) fn start(answer: impl Fn(&Request) -> Response + Send + 'static) -> Self {
        let dir = TempDir::new("host-bus");
        let listener = UnixListener::bind(dir.join("bus")).expect("bound");
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away ends its connection.
                let _ = stream.and_then(|stream| serve(stream, &answer));
            }
        });
        Self { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join("bus")
    }
}

fn serve(mut stream: UnixStream, answer: &impl Fn(&Request) -> Response) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    assert!(line.starts_with("\0AUTH EXTERNAL 3"), "{line:?}");
    stream.write_all(b"OK 1234\r\n")?;
    line.clear();
    reader.read_line(&mut line)?;
    assert_eq!(line, "BEGIN\r\n");
    // A signal, as a bus sends one after the greeting.
    stream.write_all(&message(4, 0, "", &[]))?;
    loop {
        let mut fixed = [0; 16];
        reader.read_exact(&mut fixed)?;
        let word = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four"));
        let mut fields = vec![0; (word(12) as usize).next_multiple_of(8)];
        reader.read_exact(&mut fields)?;
        let mut body = vec![0; word(4) as usize];
        reader.read_exact(&mut body)?;
        let request = request(&[&fixed[..], &fields].concat(), &body);
        let response = match request.member.as_str() {
            "Hello" => Ok(("s", text(":1.1"))),
            _ => answer(&request),
        };
        let reply = match response {
            Ok((signature, body)) => message(METHOD_RETURN, word(8), signature, &body),
            Err(name) => message(ERROR, word(8), name, &[]),
        };
        stream.write_all(&reply)?;
    }
}

fn request(head: &[u8], body: &[u8]) -> Request {
    let mut request = Request {
        path: String::new(),
        member: String::new(),
        arguments: Vec::new(),
    };
    let mut cursor = Cursor::new(head, false);
    cursor.skip(12).expect("fixed");
    let mut fields = cursor.array(8).expect("fields");
    while !fields.is_empty() {
        fields.align(8).expect("a field");
        match (fields.u8(), fields.variant()) {
            (Some(1), Some(Value::Text(path))) => request.path = path,
            (Some(3), Some(Value::Text(member))) => request.member = member,
            _ => {}
        }
    }
    let mut body = Cursor::new(body, false);
    while !body.is_empty() {
        request
            .arguments
            .push(body.text().expect("a text").to_owned());
    }
    request
}

/// `text` is a reply's signature or an error's name.
fn message(kind: u8, answers: u32, text: &str, body: &[u8]) -> Vec<u8> {
    let mut head = Writer::new();
    head.bytes(&[b'l', kind, 0, 1]);
    head.u32(u32::try_from(body.len()).expect("small"));
    head.u32(7);
    head.array(8, |fields| {
        if kind != 4 {
            fields.align(8);
            fields.bytes(&[5]);
            fields.signature("u");
            fields.u32(answers);
        }
        match kind {
            METHOD_RETURN => fields.field(8, "g", text),
            ERROR => fields.field(4, "s", text),
            _ => fields.field(3, "s", "NameAcquired"),
        }
    });
    head.align(8);
    [head.into_bytes(), body.to_vec()].concat()
}

/// Returns a body of one text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut body = Writer::new();
    body.text(text);
    body.into_bytes()
}

/// Returns a property's body.
pub(crate) fn property(signature: &str, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut body = Writer::new();
    body.signature(signature);
    write(&mut body);
    body.into_bytes()
}

const ECHO: Call<'static> = Call {
    destination: "a.b",
    path: "/a/b",
    interface: "a.b.C",
    member: "Echo",
    arguments: &["one", "two"],
};

#[test]
fn answers_are_those_of_their_calls() {
    let bus = FakeBus::start(|request| match request.member.as_str() {
        "Echo" => Ok(("s", text(&request.arguments.join("+")))),
        _ => Err("a.b.Unknown"),
    });
    let mut client = Bus::connect(&bus.path()).expect("connected");
    let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let arguments: Vec<[&str; 2]> = numbers.iter().map(|number| ["n", number]).collect();
    let calls: Vec<Call<'_>> = arguments
        .iter()
        .map(|arguments| Call { arguments, ..ECHO })
        .collect();
    let answers = client.call_all(&calls).expect("answers");
    for (number, answer) in numbers.iter().zip(&answers) {
        let reply = answer.as_ref().expect("known");
        let got = reply.values("s").expect("a text").text();
        assert_eq!(got, Some(format!("n+{number}").as_str()));
    }
    assert_eq!(answers.len(), 200);
    let unknown = Call {
        member: "Other",
        ..ECHO
    };
    let answer = client.call(&unknown).expect("an answer");
    assert_eq!(answer.expect_err("unknown"), "a.b.Unknown");
    let answer = client.call(&ECHO).expect("an answer").expect("known");
    assert!(answer.values("u").is_err());
}

#[test]
fn values_end_with_their_message() {
    let body = property("t", |body| {
        body.align(8);
        body.bytes(&7_u64.to_le_bytes());
    });
    assert_eq!(Cursor::new(&body, false).variant(), Some(Value::Number(7)));
    for len in 0..body.len() {
        assert_eq!(Cursor::new(&body[..len], false).variant(), None, "{len}");
    }
    let long = [0xff_u8; 8];
    assert_eq!(Cursor::new(&long, false).text(), None);
    assert!(Cursor::new(&long, true).array(8).is_none());
    let negative = property("i", |body| body.u32(-3_i32 as u32));
    let negative = Cursor::new(&negative, false).variant();
    assert_eq!(negative, Some(Value::Other(-3.0)));
}

#[test]
fn the_real_bus_answers() {
    let started = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--print-address"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut daemon) = started else {
        return narthex_testkit::corpora::report("calls of the real bus", 0, 1);
    };
    let mut address = String::new();
    let out = daemon.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut address).expect("a line");
    let path = address
        .strip_prefix("unix:path=")
        .and_then(|rest| rest.split([',', '\n']).next());
    let path = PathBuf::from(path.expect("a path"));
    let asked = Bus::connect(&path).and_then(|mut bus| {
        let call = Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "NameHasOwner",
            arguments: &["org.freedesktop.DBus"],
        };
        bus.call(&call)
    });
    daemon.kill().expect("killed");
    daemon.wait().expect("ended");
    let reply = asked.expect("an answer").expect("a reply");
    let owned = reply.values("b").expect("a truth value").u32();
    assert_eq!(owned, Some(1));
    narthex_testkit::corpora::report("calls of the real bus", 1, 1);
}
