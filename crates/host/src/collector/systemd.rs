//! Units of systemd, their states, and what timers, sockets and services count.
//!
//! Invariant: a unit's type, which the unit file fixes, is asked for when the unit appears and at refreshes; other
//! properties are asked for in every round, all of them before the first answer is awaited.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::{HostConfig, SystemdConfig};
use crate::dbus::wire::Value;
use crate::dbus::{Answer, Bus, Call, problem, short};
use crate::error::HostError;
use crate::filter::Filter;
use crate::rows::Rows;
use crate::sink::{Desc, Sink};
use crate::table;

const VERSION: Desc<'static> =
    Desc::gauge("node_systemd_version", "Version of systemd, as a number.");
const VIRTUALIZATION: Desc<'static> = Desc::gauge(
    "node_systemd_virtualization_info",
    "Virtualization that systemd detected; the value is 1.",
);
const RUNNING: Desc<'static> = Desc::gauge(
    "node_systemd_system_running",
    "Whether the system is fully up: `systemctl is-system-running` prints \"running\".",
);
const UNITS: Desc<'static> = Desc::gauge("node_systemd_units", "Units by their active state.");
const UNIT_STATE: Desc<'static> = Desc::gauge(
    "node_systemd_unit_state",
    "Whether the unit is in the state.",
);
const START: Desc<'static> = Desc::gauge(
    "node_systemd_unit_start_time_seconds",
    "When the unit became active, in seconds since 1970; 0 if it is not active.",
);
/// Properties of kinds of units: what asks for them, the property, and the divisor of its value, or `limit` if its greatest
/// value means none. Refused connections are a gauge in node_exporter, whatever their name says.
const PROPERTIES: &str = include_str!("systemd.txt");

const STATES: [&str; 5] = ["active", "activating", "deactivating", "inactive", "failed"];
/// The first version with `SystemState` and timers' last elapse.
const WITH_STATE: f64 = 212.0;
const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const ROOT: &str = "/org/freedesktop/systemd1";

pub(crate) struct Systemd {
    socket: PathBuf,
    flags: SystemdConfig,
    filter: Filter,
    bus: Option<Bus>,
    manager: Manager,
    /// By unit name.
    types: HashMap<String, String>,
    rows: Rows,
}

/// What does not change while systemd runs.
#[derive(Default)]
struct Manager {
    version: f64,
    version_text: String,
    virtualization: String,
}

struct Unit {
    name: String,
    active_state: String,
    path: String,
    is_loaded: bool,
}

/// A property that this round asks for.
struct Question {
    unit: usize,
    interface: &'static str,
    property: &'static str,
    use_as: Use,
}

#[derive(Debug, Clone, Copy)]
enum Use {
    Type,
    /// A value of a unit, divided by a number.
    Value(Desc<'static>, f64),
    /// As `Value`, where the greatest number means none.
    Limit(Desc<'static>),
}

impl Systemd {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let flags = config.systemd.clone();
        let whole = |pattern: &str| format!("^(?:{pattern})$");
        let include = "collector.systemd.unit-include";
        let exclude = "collector.systemd.unit-exclude";
        Ok(Self {
            socket: match flags.private {
                true => "/run/systemd/private".into(),
                false => config.system_bus.clone(),
            },
            filter: Filter::new(
                (include, Some(&whole(&flags.unit_include))),
                (exclude, Some(&whole(&flags.unit_exclude))),
            )?,
            flags,
            bus: None,
            manager: Manager::default(),
            types: HashMap::new(),
            rows: Rows::new(),
        })
    }

    fn connect(&self) -> Result<Bus, HostError> {
        match self.flags.private {
            true => Bus::connect_directly(&self.socket),
            false => Bus::connect(&self.socket),
        }
    }

    fn service(&self) -> &'static str {
        match self.flags.private {
            true => "",
            false => SERVICE,
        }
    }

    /// Reads everything and sets it.
    fn round(&mut self, bus: &mut Bus, refresh: bool, out: &mut Sink) -> Result<(), HostError> {
        if refresh {
            self.manager = self.ask_manager(bus)?;
            self.types.clear();
        }
        let units = self.list_units(bus)?;
        self.rows.begin();
        self.set_manager(out);
        self.set_summary(&units, out);
        let mut units = units;
        units.retain(|unit| unit.is_loaded && self.filter.keeps(unit.name.as_bytes()));
        self.set_properties(bus, &units, out)?;
        for unit in &units {
            self.set_state(unit, out);
        }
        if self.manager.version >= WITH_STATE {
            let state = self.get(bus, ROOT, MANAGER, "SystemState")?;
            let Some(Value::Text(state)) = state else {
                return Err(problem("no state of the system".to_owned()));
            };
            let running = f64::from(u8::from(state == "running"));
            self.rows
                .set_all(&[b"running"], &[running], out, (&[RUNNING], &[]));
        }
        self.rows.end(out);
        Ok(())
    }

    fn ask_manager(&self, bus: &mut Bus) -> Result<Manager, HostError> {
        let text = |value| match value {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        let version_text = text(self.get(bus, ROOT, MANAGER, "Version")?).unwrap_or_default();
        let version = version_number(&version_text);
        let virtualization = text(self.get(bus, ROOT, MANAGER, "Virtualization")?);
        let virtualization = match virtualization {
            None => "unknown".to_owned(),
            Some(none) if none.is_empty() => "none".to_owned(),
            Some(kind) => kind,
        };
        Ok(Manager {
            version: version.unwrap_or(0.0),
            version_text: version.map_or(String::new(), |_| version_text),
            virtualization,
        })
    }

    /// Returns a property, or `None` if there is none of that name.
    fn get(
        &self,
        bus: &mut Bus,
        path: &str,
        interface: &str,
        property: &str,
    ) -> Result<Option<Value>, HostError> {
        let answer = bus.call(&get(self.service(), path, &[interface, property]))?;
        Ok(answer.ok().and_then(|reply| reply.property()))
    }

    fn list_units(&self, bus: &mut Bus) -> Result<Vec<Unit>, HostError> {
        let call = Call {
            destination: self.service(),
            path: ROOT,
            interface: MANAGER,
            member: "ListUnits",
            arguments: &[],
        };
        let reply = bus.call(&call)?;
        let reply = reply.map_err(|error| problem(format!("can't list units: {error}")))?;
        let mut list = reply.values("a(ssssssouso)")?.array(8).ok_or_else(short)?;
        let mut units = Vec::new();
        while !list.is_empty() {
            units.push(Unit::read(&mut list).ok_or_else(short)?);
        }
        Ok(units)
    }

    fn set_manager(&mut self, out: &mut Sink) {
        let Manager {
            version,
            version_text,
            virtualization,
        } = &self.manager;
        let labels = [("version", version_text.as_str())];
        let key: [&[u8]; 2] = [b"version", version_text.as_bytes()];
        self.rows
            .set_all(&key, &[*version], out, (&[VERSION], &labels));
        let labels = [("virtualization_type", virtualization.as_str())];
        let key: [&[u8]; 2] = [b"virtualization", virtualization.as_bytes()];
        self.rows
            .set_all(&key, &[1.0], out, (&[VIRTUALIZATION], &labels));
    }

    fn set_summary(&mut self, units: &[Unit], out: &mut Sink) {
        let mut counts: Vec<(&str, f64)> = STATES.iter().map(|state| (*state, 0.0)).collect();
        for unit in units {
            match counts
                .iter_mut()
                .find(|(state, _)| *state == unit.active_state)
            {
                Some((_, count)) => *count += 1.0,
                None => counts.push((&unit.active_state, 1.0)),
            }
        }
        for (state, count) in counts {
            let labels = [("state", state)];
            let key: [&[u8]; 2] = [b"units", state.as_bytes()];
            self.rows.set_all(&key, &[count], out, (&[UNITS], &labels));
        }
    }

    fn set_state(&mut self, unit: &Unit, out: &mut Sink) {
        let kind = self.types.get(&unit.name).map_or("", String::as_str);
        let values = STATES.map(|state| f64::from(u8::from(state == unit.active_state)));
        let key: [&[u8]; 3] = [b"unit", unit.name.as_bytes(), kind.as_bytes()];
        self.rows.set(&key, &values, out, |out| {
            let add = |state| {
                let labels = [
                    ("name", unit.name.as_str()),
                    ("state", state),
                    ("type", kind),
                ];
                out.add(&UNIT_STATE, &labels)
            };
            STATES.map(add).into()
        });
    }

    /// Asks for the units' properties, sets their values and keeps their types.
    fn set_properties(
        &mut self,
        bus: &mut Bus,
        units: &[Unit],
        out: &mut Sink,
    ) -> Result<(), HostError> {
        let questions = self.questions(units);
        let arguments: Vec<[&str; 2]> = questions
            .iter()
            .map(|question| [question.interface, question.property])
            .collect();
        let service = self.service();
        let asked = questions
            .iter()
            .zip(&arguments)
            .filter_map(|(question, names)| {
                Some(get(service, &units.get(question.unit)?.path, names))
            });
        let answers = bus.call_all(&asked.collect::<Vec<_>>())?;
        for (question, answer) in questions.iter().zip(answers) {
            if let Some(unit) = units.get(question.unit) {
                self.set_property(unit, question, answer, out);
            }
        }
        if self.flags.start_time {
            for unit in units.iter().filter(|unit| unit.active_state != "active") {
                self.set_value(unit, &START, 0.0, out);
            }
        }
        Ok(())
    }

    fn questions(&self, units: &[Unit]) -> Vec<Question> {
        let mut questions = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            let mut ask = |interface, property, use_as| {
                questions.push(Question {
                    unit: at,
                    interface,
                    property,
                    use_as,
                });
            };
            let kind = unit.name.rsplit('.').next().unwrap_or_default();
            let interface = match kind {
                "service" => "org.freedesktop.systemd1.Service",
                "mount" => "org.freedesktop.systemd1.Mount",
                "timer" => "org.freedesktop.systemd1.Timer",
                "socket" => "org.freedesktop.systemd1.Socket",
                _ => "",
            };
            if matches!(kind, "service" | "mount") && !self.types.contains_key(&unit.name) {
                ask(interface, "Type", Use::Type);
            }
            if self.flags.start_time && unit.active_state == "active" {
                let unit = "org.freedesktop.systemd1.Unit";
                ask(unit, "ActiveEnterTimestamp", Use::Value(START, 1e6));
            }
            for ([asked_by, property, divisor], desc) in table::rows_of(PROPERTIES, kind) {
                let is_asked = match asked_by {
                    "restarts" => self.flags.restarts,
                    "tasks" => self.flags.tasks,
                    "last_trigger" => self.manager.version >= WITH_STATE,
                    _ => true,
                };
                let use_as = match divisor {
                    "limit" => Use::Limit(desc),
                    divisor => Use::Value(desc, table::number(divisor)),
                };
                if is_asked {
                    ask(interface, property, use_as);
                }
            }
        }
        questions
    }

    /// Properties that this version of systemd lacks are left out.
    fn set_property(&mut self, unit: &Unit, question: &Question, answer: Answer, out: &mut Sink) {
        let value = answer.ok().and_then(|reply| reply.property());
        match (question.use_as, value) {
            (Use::Type, Some(Value::Text(kind))) => {
                self.types.insert(unit.name.clone(), kind);
            }
            (Use::Limit(_), Some(Value::Number(u64::MAX))) => {}
            (Use::Limit(desc), Some(Value::Number(value))) => {
                self.set_value(unit, &desc, value as f64, out);
            }
            (Use::Value(desc, divisor), Some(Value::Number(value))) => {
                self.set_value(unit, &desc, value as f64 / divisor, out);
            }
            _ => {}
        }
    }

    fn set_value(&mut self, unit: &Unit, desc: &Desc<'_>, value: f64, out: &mut Sink) {
        let key = [desc.name.as_bytes(), unit.name.as_bytes()];
        let labels = [("name", unit.name.as_str())];
        self.rows.set_all(&key, &[value], out, (&[*desc], &labels));
    }
}

impl Collector for Systemd {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let (mut bus, is_new) = match self.bus.take() {
            Some(bus) => (bus, false),
            None => (self.connect()?, true),
        };
        let first = self.round(&mut bus, ctx.refresh || is_new, out);
        match first {
            Ok(()) => {
                self.bus = Some(bus);
                Ok(())
            }
            // The bus may have been restarted since the last round.
            Err(_) if !is_new => {
                let mut bus = self.connect()?;
                self.round(&mut bus, true, out)?;
                self.bus = Some(bus);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Unit {
    fn read(list: &mut crate::dbus::wire::Cursor<'_>) -> Option<Self> {
        list.align(8)?;
        let name = list.text()?.to_owned();
        let _description = list.text()?;
        let is_loaded = list.text()? == "loaded";
        let active_state = list.text()?.to_owned();
        let (_sub_state, _following) = (list.text()?, list.text()?);
        let path = list.text()?.to_owned();
        let (_job, _job_type, _job_path) = (list.u32()?, list.text()?, list.text()?);
        Some(Self {
            name,
            active_state,
            path,
            is_loaded,
        })
    }
}

/// Returns the call that reads the property named by an interface and a name.
fn get<'a>(destination: &'a str, path: &'a str, arguments: &'a [&'a str; 2]) -> Call<'a> {
    Call {
        destination,
        path,
        interface: "org.freedesktop.DBus.Properties",
        member: "Get",
        arguments,
    }
}

/// Returns the first number of three digits or more, with its fraction.
fn version_number(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let run = |from: usize| (from..).take_while(|at| is_digit(*at)).count();
    let start = (0..bytes.len()).find(|at| run(*at) >= 3)?;
    let mut end = start + run(start);
    if bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
        end += 1 + run(end + 1);
    }
    text.get(start..end)?.parse().ok()
}

#[cfg(test)]
mod tests;
