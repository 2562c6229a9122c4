//! A client of the message bus: blocking calls over its unix socket, several at a time.
//!
//! Only what collectors need: methods with text arguments, and replies of plain types. A library would bring an
//! executor and a derive for what are two message shapes.
//!
//! Invariant: every length in a message is checked before it is used; a malformed message ends the connection.

pub(crate) mod wire;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::cost;
use crate::error::HostError;
use wire::{Cursor, Value, Writer};

/// A connection to a bus, or directly to a service.
pub(crate) struct Bus {
    stream: UnixStream,
    serial: u32,
}

/// A method call with arguments of type string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Empty on a connection without a bus.
    pub(crate) destination: &'a str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) member: &'a str,
    pub(crate) arguments: &'a [&'a str],
}

/// The values of a reply.
#[derive(Debug)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    signature: String,
    is_big_endian: bool,
}

/// A method's reply, or the name of the error it returned.
pub(crate) type Answer = Result<Reply, String>;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
/// A service that answers nothing for so long does not block its thread forever.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Bus {
    /// Connects to the bus at `path`.
    ///
    /// # Errors
    ///
    /// `Service` if there is none, or it refuses this process.
    pub(crate) fn connect(path: &Path) -> Result<Self, HostError> {
        let mut bus = Self::connect_directly(path)?;
        let hello = Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "Hello",
            arguments: &[],
        };
        match bus.call(&hello)? {
            Ok(_) => Ok(bus),
            Err(error) => Err(problem(format!("refused the connection: {error}"))),
        }
    }

    /// Connects to a service that listens at `path` itself.
    ///
    /// # Errors
    ///
    /// As `connect`.
    pub(crate) fn connect_directly(path: &Path) -> Result<Self, HostError> {
        let stream = UnixStream::connect(path)
            .map_err(|error| problem(format!("{}: {error}", path.display())))?;
        let timeouts = stream
            .set_read_timeout(Some(TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
        timeouts.map_err(io)?;
        let mut bus = Self { stream, serial: 0 };
        bus.authenticate()?;
        Ok(bus)
    }

    /// Calls a method and waits for its answer.
    ///
    /// # Errors
    ///
    /// `Service` if the connection fails, after which it must not be used again.
    pub(crate) fn call(&mut self, call: &Call<'_>) -> Result<Answer, HostError> {
        let mut answers = self.call_all(std::slice::from_ref(call))?;
        answers.pop().ok_or_else(|| problem("no answer".to_owned()))
    }

    /// Calls methods and returns their answers in the same order.
    ///
    /// # Errors
    ///
    /// As `call`.
    pub(crate) fn call_all(&mut self, calls: &[Call<'_>]) -> Result<Vec<Answer>, HostError> {
        /// Requests of this number fit into a socket's buffer, so that neither side waits for the other to read.
        const AT_ONCE: usize = 64;
        let mut answers = Vec::with_capacity(calls.len());
        for calls in calls.chunks(AT_ONCE) {
            let first = self.serial.wrapping_add(1);
            let mut requests = Vec::new();
            for call in calls {
                self.serial = self.serial.wrapping_add(1);
                requests.extend(call.message(self.serial));
            }
            self.stream.write_all(&requests).map_err(io)?;
            cost::count(0);
            let mut open = calls.len();
            let mut found: Vec<Option<Answer>> = calls.iter().map(|_| None).collect();
            while open > 0 {
                let (serial, answer) = self.receive()?;
                let at = serial.wrapping_sub(first) as usize;
                if let (Some(place @ None), Some(answer)) = (found.get_mut(at), answer) {
                    *place = Some(answer);
                    open -= 1;
                }
            }
            answers.extend(found.into_iter().flatten());
        }
        Ok(answers)
    }

    #[cfg(test)]
    pub(crate) fn hang_up(&self) {
        let both = std::net::Shutdown::Both;
        self.stream.shutdown(both).expect("connected");
    }

    /// Identifies this process by its user, as the bus sees it.
    fn authenticate(&mut self) -> Result<(), HostError> {
        const LINE_LIMIT: usize = 1024;
        let user = rustix::process::geteuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        let hello = format!("\0AUTH EXTERNAL {user}\r\n");
        self.stream.write_all(hello.as_bytes()).map_err(io)?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < LINE_LIMIT {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).map_err(io)?;
            line.extend(byte);
        }
        if !line.starts_with(b"OK ") {
            return Err(problem("refused this user".to_owned()));
        }
        self.stream.write_all(b"BEGIN\r\n").map_err(io)
    }

    /// Returns the next message: the serial number that it answers, and the answer unless it is something else.
    fn receive(&mut self) -> Result<(u32, Option<Answer>), HostError> {
        const FIXED_BYTES: usize = 16;
        const LIMIT_BYTES: usize = 32 << 20;
        let malformed = || problem("a malformed message".to_owned());
        let mut message = vec![0; FIXED_BYTES];
        self.stream.read_exact(&mut message).map_err(io)?;
        let is_big_endian = message.first() == Some(&b'B');
        let kind = message.get(1).copied().unwrap_or(0);
        let mut fixed = Cursor::new(&message, is_big_endian);
        fixed.skip(4).ok_or_else(malformed)?;
        let body_bytes = fixed.u32().ok_or_else(malformed)? as usize;
        fixed.u32().ok_or_else(malformed)?;
        let field_bytes = fixed.u32().ok_or_else(malformed)? as usize;
        if body_bytes > LIMIT_BYTES || field_bytes > LIMIT_BYTES {
            return Err(malformed());
        }
        let head_bytes = (FIXED_BYTES + field_bytes).next_multiple_of(8);
        message.resize(head_bytes, 0);
        let rest = message.get_mut(FIXED_BYTES..).unwrap_or_default();
        self.stream.read_exact(rest).map_err(io)?;
        let mut body = vec![0; body_bytes];
        self.stream.read_exact(&mut body).map_err(io)?;
        for part in [FIXED_BYTES, head_bytes - FIXED_BYTES, body_bytes] {
            cost::count(part);
        }
        let head = message.get(..FIXED_BYTES + field_bytes).unwrap_or_default();
        let fields = Fields::parse(head, is_big_endian).ok_or_else(malformed)?;
        let answer = match kind {
            METHOD_RETURN => Some(Ok(Reply {
                bytes: body,
                signature: fields.signature,
                is_big_endian,
            })),
            ERROR => Some(Err(fields.error)),
            _ => None,
        };
        Ok((fields.answers, answer))
    }
}

impl Call<'_> {
    fn message(&self, serial: u32) -> Vec<u8> {
        const NO_FLAGS: u8 = 0;
        const VERSION: u8 = 1;
        let mut body = Writer::new();
        for argument in self.arguments {
            body.text(argument);
        }
        let body = body.into_bytes();
        let signature = "s".repeat(self.arguments.len());
        let mut head = Writer::new();
        head.bytes(&[b'l', METHOD_CALL, NO_FLAGS, VERSION]);
        head.u32(u32::try_from(body.len()).expect("a few names"));
        head.u32(serial);
        head.array(8, |fields| {
            fields.field(1, "o", self.path);
            fields.field(2, "s", self.interface);
            fields.field(3, "s", self.member);
            if !self.destination.is_empty() {
                fields.field(6, "s", self.destination);
            }
            if !signature.is_empty() {
                fields.field(8, "g", &signature);
            }
        });
        head.align(8);
        let mut message = head.into_bytes();
        message.extend(body);
        message
    }
}

impl Reply {
    /// Returns a cursor over values of these types.
    ///
    /// # Errors
    ///
    /// `Service` if the reply has other types.
    pub(crate) fn values(&self, signature: &str) -> Result<Cursor<'_>, HostError> {
        if self.signature != signature {
            let (got, expected) = (&self.signature, signature);
            return Err(problem(format!("a reply of {got}, not of {expected}")));
        }
        Ok(Cursor::new(&self.bytes, self.is_big_endian))
    }

    /// Returns the value of a property; `None` for types that no collector needs.
    pub(crate) fn property(&self) -> Option<Value> {
        self.values("v").ok()?.variant()
    }
}

/// What a message's header says about an answer.
#[derive(Default)]
struct Fields {
    answers: u32,
    signature: String,
    error: String,
}

impl Fields {
    fn parse(head: &[u8], is_big_endian: bool) -> Option<Self> {
        let mut fields = Self::default();
        let mut cursor = Cursor::new(head, is_big_endian);
        cursor.skip(12)?;
        let mut list = cursor.array(8)?;
        while !list.is_empty() {
            list.align(8)?;
            let code = list.u8()?;
            match (code, list.variant()?) {
                (4, Value::Text(name)) => fields.error = name,
                (5, Value::Number(serial)) => fields.answers = serial as u32,
                (8, Value::Text(signature)) => fields.signature = signature,
                _ => {}
            }
        }
        Some(fields)
    }
}

/// Returns the error of a reply without the expected values.
pub(crate) fn short() -> HostError {
    problem("a reply that is too short".to_owned())
}

fn io(error: std::io::Error) -> HostError {
    problem(error.to_string())
}

pub(crate) fn problem(problem: String) -> HostError {
    HostError::Service {
        name: "the system bus",
        problem,
    }
}

#[cfg(test)]
pub(crate) mod tests;
