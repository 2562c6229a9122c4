//! The format of `go tool pprof`.
//!
//! **Invariant:** matches Go's own profiles: the same sample types, innermost frame first, string 0 is empty.

use crate::maps::Modules;
use narthex_model::protobuf::Message;
use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

/// Header of a profile; names are paired with units.
pub(crate) struct Head<const N: usize> {
    /// Types of the values of each stack.
    pub(crate) sample_types: [(&'static str, &'static str); N],
    /// The type shown by default; the last one if not set.
    pub(crate) default_type: Option<&'static str>,
    pub(crate) period_type: (&'static str, &'static str),
    pub(crate) period: u64,
    pub(crate) began: SystemTime,
    pub(crate) took: Duration,
}

/// Encodes a profile of stacks, innermost frame first, each with a value of every type.
pub(crate) fn encode<'a, const N: usize>(
    head: &Head<N>,
    stacks: impl Iterator<Item = (&'a [u64], [u64; N])>,
    modules: &Modules,
) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.string("");
    for (kind, unit) in head.sample_types {
        let value_type = encoder.value_type(kind, unit);
        encoder.out.message(1, &value_type);
    }
    let mut stacks: Vec<_> = stacks.collect();
    stacks.sort_unstable();
    for (stack, values) in stacks {
        let mut sample = Message::default();
        let locations = stack
            .iter()
            .map(|address| encoder.location(modules, *address));
        sample.packed(1, locations);
        sample.packed(2, values.into_iter());
        encoder.out.message(2, &sample);
    }
    for (at, module) in modules.all.iter().enumerate() {
        let mut mapping = Message::default();
        mapping.integer(1, at as u64 + 1);
        mapping.integer(2, module.mapping.start);
        mapping.integer(3, module.mapping.end);
        mapping.integer(4, module.mapping.offset);
        mapping.integer(5, encoder.string(&module.mapping.path));
        mapping.integer(6, encoder.string(&module.elf.build_id));
        mapping.integer(7, 1);
        encoder.out.message(3, &mapping);
    }
    let (kind, unit) = head.period_type;
    let period_type = encoder.value_type(kind, unit);
    let default_type = head.default_type.map(|kind| encoder.string(kind));
    let Encoder {
        mut out,
        tail,
        strings,
        ..
    } = encoder;
    out.append(&tail);
    for string in strings {
        out.text(6, &string);
    }
    let began = head.began.duration_since(SystemTime::UNIX_EPOCH);
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    out.integer(9, nanos(began.unwrap_or_default()));
    out.integer(10, nanos(head.took));
    out.message(11, &period_type);
    out.integer(12, head.period);
    if let Some(default_type) = default_type {
        out.integer(14, default_type);
    }
    out.into_fields()
}

#[derive(Default)]
struct Encoder {
    out: Message,
    /// Locations and functions, collected while samples are written.
    tail: Message,
    strings: Vec<String>,
    numbers: HashMap<String, u64>,
    locations: HashMap<u64, u64>,
    functions: HashMap<String, u64>,
}

impl Encoder {
    fn string(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.strings.len() as u64;
        self.strings.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.integer(1, self.string(kind));
        message.integer(2, self.string(unit));
        message
    }

    fn location(&mut self, modules: &Modules, address: u64) -> u64 {
        if let Some(number) = self.locations.get(&address) {
            return *number;
        }
        let number = self.locations.len() as u64 + 1;
        self.locations.insert(address, number);
        let mut location = Message::default();
        location.integer(1, number);
        if let Some(module) = modules.find(address) {
            location.integer(2, module as u64 + 1);
        }
        location.integer(3, address);
        let mut line = Message::default();
        line.integer(1, self.function(modules, address));
        location.message(4, &line);
        self.tail.message(4, &location);
        number
    }

    fn function(&mut self, modules: &Modules, address: u64) -> u64 {
        let name = modules.name(address);
        if let Some(number) = self.functions.get(&name) {
            return *number;
        }
        let number = self.functions.len() as u64 + 1;
        let system = modules.symbol(address).map(str::to_owned);
        let mut function = Message::default();
        function.integer(1, number);
        function.integer(2, self.string(&name));
        function.integer(3, self.string(system.as_deref().unwrap_or(&name)));
        self.functions.insert(name, number);
        self.tail.message(5, &function);
        number
    }
}
