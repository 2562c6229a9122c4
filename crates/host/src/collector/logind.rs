//! Sessions of logind by seat, origin, type and class.
//!
//! Invariant: every combination has a series, most of them 0; what logind adds in the future is "other".

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::dbus::wire::{Cursor, Value};
use crate::dbus::{Bus, Call, problem, short};
use crate::error::HostError;
use crate::rows::Rows;
use crate::sink::{Desc, Sink};

const SESSIONS: Desc<'static> = Desc::gauge(
    "node_logind_sessions",
    "Sessions that logind has registered.",
);
const REMOTE: [&str; 2] = ["true", "false"];
const TYPES: &str = "other unspecified tty x11 wayland mir web";
const CLASSES: &str = "other user greeter lock-screen background";
const SERVICE: &str = "org.freedesktop.login1";
const SESSION: &str = "org.freedesktop.login1.Session";

pub(crate) struct Logind {
    socket: PathBuf,
    rows: Rows,
}

/// Seat, origin, type and class.
type Session = [String; 4];

impl Logind {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            socket: config.system_bus.clone(),
            rows: Rows::new(),
        }
    }
}

impl Collector for Logind {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        // Not kept: logind ends when it is idle, and a scrape is rare next to a connection.
        let mut bus = Bus::connect(&self.socket)?;
        let mut seats = list(&mut bus, "ListSeats", "a(so)", |entry| {
            let seat = entry.text()?.to_owned();
            entry.text()?;
            Some(seat)
        })?;
        // Sessions over the network have no seat.
        seats.push(String::new());
        let sessions = sessions(&mut bus)?;
        self.rows.begin();
        for remote in REMOTE {
            for kind in TYPES.split(' ') {
                for class in CLASSES.split(' ') {
                    for seat in &seats {
                        let session = [seat.as_str(), remote, kind, class];
                        let count = sessions.iter().filter(|other| **other == session).count();
                        let names = ["seat", "remote", "type", "class"];
                        let labels: Vec<_> = names.into_iter().zip(session).collect();
                        let key = session.map(str::as_bytes);
                        self.rows
                            .set_all(&key, &[count as f64], out, (&[SESSIONS], &labels));
                    }
                }
            }
        }
        self.rows.end(out);
        Ok(())
    }
}

fn sessions(bus: &mut Bus) -> Result<Vec<Session>, HostError> {
    let listed = list(bus, "ListSessions", "a(susso)", |entry| {
        let (_id, _uid, _user) = (entry.text()?, entry.u32()?, entry.text()?);
        Some((entry.text()?.to_owned(), entry.text()?.to_owned()))
    })?;
    const PROPERTIES: [[&str; 2]; 3] = [[SESSION, "Remote"], [SESSION, "Type"], [SESSION, "Class"]];
    let calls: Vec<Call<'_>> = listed
        .iter()
        .flat_map(|(_, path)| {
            PROPERTIES.iter().map(move |arguments| Call {
                destination: SERVICE,
                path,
                interface: "org.freedesktop.DBus.Properties",
                member: "Get",
                arguments,
            })
        })
        .collect();
    let answers = bus.call_all(&calls)?;
    let values: Vec<Option<Value>> = answers
        .into_iter()
        .map(|answer| answer.ok().and_then(|reply| reply.property()))
        .collect();
    let sessions = listed.iter().zip(values.chunks(PROPERTIES.len()));
    // A session that ended meanwhile has no properties.
    let sessions = sessions.filter_map(|((seat, _), values)| match values {
        [
            Some(Value::Bool(remote)),
            Some(Value::Text(kind)),
            Some(Value::Text(class)),
        ] => Some([
            seat.clone(),
            remote.to_string(),
            known(kind, TYPES),
            known(class, CLASSES),
        ]),
        _ => None,
    });
    Ok(sessions.collect())
}

/// Calls a method that returns a list of structures.
fn list<T>(
    bus: &mut Bus,
    member: &str,
    signature: &str,
    mut read: impl FnMut(&mut Cursor<'_>) -> Option<T>,
) -> Result<Vec<T>, HostError> {
    let call = Call {
        destination: SERVICE,
        path: "/org/freedesktop/login1",
        interface: "org.freedesktop.login1.Manager",
        member,
        arguments: &[],
    };
    let reply = bus.call(&call)?;
    let reply = reply.map_err(|error| problem(format!("{member}: {error}")))?;
    let mut entries = reply.values(signature)?.array(8).ok_or_else(short)?;
    let mut found = Vec::new();
    while !entries.is_empty() {
        entries.align(8).ok_or_else(short)?;
        found.push(read(&mut entries).ok_or_else(short)?);
    }
    Ok(found)
}

fn known(value: &str, known: &str) -> String {
    let found = known.split(' ').find(|one| *one == value);
    found.unwrap_or("other").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::tests::Rounds;
    use crate::dbus::tests::{FakeBus, Request, Response, property};
    use crate::dbus::wire::Writer;

    fn answer(request: &Request) -> Response {
        let mut body = Writer::new();
        match (request.member.as_str(), request.path.as_str()) {
            ("ListSeats", _) => {
                body.array(8, |list| {
                    list.align(8);
                    list.text("seat0");
                    list.text("/seat0");
                });
                Ok(("a(so)", body.into_bytes()))
            }
            ("ListSessions", _) => {
                body.array(8, |list| {
                    for (name, seat) in [("a", "seat0"), ("b", ""), ("c", ""), ("gone", "seat0")] {
                        list.align(8);
                        list.text(name);
                        list.u32(1000);
                        list.text("user");
                        list.text(seat);
                        list.text(&format!("/session/{name}"));
                    }
                });
                Ok(("a(susso)", body.into_bytes()))
            }
            ("Get", "/session/gone") => Err("org.freedesktop.DBus.Error.UnknownObject"),
            ("Get", path) => {
                let is_local = path == "/session/a";
                Ok(match request.arguments.get(1).map(String::as_str) {
                    Some("Remote") => ("v", property("b", |body| body.u32(u32::from(!is_local)))),
                    Some("Type") => {
                        let kind = if is_local { "wayland" } else { "tty" };
                        ("v", property("s", |body| body.text(kind)))
                    }
                    _ => {
                        let class = if is_local { "user" } else { "manager" };
                        ("v", property("s", |body| body.text(class)))
                    }
                })
            }
            _ => Err("org.freedesktop.DBus.Error.UnknownMethod"),
        }
    }

    #[test]
    fn sessions_are_counted_by_their_properties() {
        let bus = FakeBus::start(answer);
        let config = HostConfig {
            system_bus: bus.path(),
            ..HostConfig::default()
        };
        let found = Rounds::new(Logind::new(&config)).next().expect("an answer");
        assert_eq!(found.len(), 2 * 7 * 5 * 2);
        let counted: Vec<&str> = found
            .iter()
            .filter(|line| !line.ends_with(" 0"))
            .map(String::as_str)
            .collect();
        assert_eq!(
            counted,
            [
                r#"node_logind_sessions{class="other",remote="true",type="tty"} 2"#,
                r#"node_logind_sessions{class="user",remote="false",seat="seat0",type="wayland"} 1"#,
            ]
        );
    }
}
