//! System time, the local zone's offset, clock sources.
//!
//! Invariant: the zone is recomputed when its offset is due to change; clock sources are read at a refresh.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::scan::{label_text, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;
use crate::timezone::{Offset, Zone};

const SECONDS: Desc<'static> = Desc::gauge(
    "node_time_seconds",
    "System time in seconds since epoch (1970).",
);
const OFFSET: Desc<'static> = Desc::gauge(
    "node_time_zone_offset_seconds",
    "System time zone offset in seconds.",
);
const AVAILABLE: Desc<'static> = Desc::gauge(
    "node_time_clocksource_available_info",
    "Available clocksources read from '/sys/devices/system/clocksource'.",
);
const CURRENT: Desc<'static> = Desc::gauge(
    "node_time_clocksource_current_info",
    "Current clocksource read from '/sys/devices/system/clocksource'.",
);

pub(crate) struct Time {
    sys_clocksource: PathBuf,
    timezone: Option<String>,
    zone: Option<Zone>,
    seconds: Option<Slot>,
    offset: Option<(Slot, Offset)>,
    sources: Vec<Source>,
    slots: Vec<Slot>,
    failed: bool,
}

#[derive(PartialEq, Eq, Default)]
struct Source {
    available: String,
    current: String,
}

impl Time {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            sys_clocksource: config.sysfs.join("devices/system/clocksource"),
            timezone: config.timezone.clone(),
            zone: None,
            seconds: None,
            offset: None,
            sources: Vec::new(),
            slots: Vec::new(),
            failed: false,
        }
    }

    fn set_offset(&mut self, now_s: i64, out: &mut Sink) {
        let Self {
            zone,
            timezone,
            offset,
            ..
        } = self;
        if offset
            .as_ref()
            .is_none_or(|(_, known)| !known.valid_s.contains(&now_s))
        {
            let current = zone
                .get_or_insert_with(|| Zone::load(timezone.as_deref()))
                .offset_at(now_s);
            let known = offset
                .as_ref()
                .is_some_and(|(_, known)| known.name == current.name);
            let slot = match offset.take() {
                Some((slot, _)) if known => slot,
                other => {
                    out.retire_all(other.map(|(slot, _)| slot));
                    out.add(&OFFSET, &[("time_zone", &current.name)])
                }
            };
            *offset = Some((slot, current));
        }
        if let Some((slot, offset)) = offset {
            out.set(*slot, f64::from(offset.seconds));
        }
    }

    fn refresh_sources(&mut self, buf: &mut ReadBuf, out: &mut Sink) -> Result<(), HostError> {
        let sources = read_sources(&self.sys_clocksource, buf)?;
        if sources == self.sources {
            return Ok(());
        }
        out.retire_all(self.slots.drain(..));
        for (at, source) in sources.iter().enumerate() {
            let device = at.to_string();
            let mut add = |desc, name| {
                let labels = [("device", device.as_str()), ("clocksource", name)];
                self.slots.push(out.add(desc, &labels));
            };
            let available = source.available.split_ascii_whitespace();
            available.for_each(|name| add(&AVAILABLE, name));
            add(&CURRENT, &source.current);
        }
        self.sources = sources;
        Ok(())
    }
}

impl Collector for Time {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        // The host's clock is the measured value; the round's time may come from another clock.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = *self.seconds.get_or_insert_with(|| out.add(&SECONDS, &[]));
        out.set(seconds, now.as_nanos() as f64 / 1e9);
        self.set_offset(now.as_secs().cast_signed(), out);
        if ctx.refresh || self.failed {
            self.failed = true;
            self.refresh_sources(ctx.buf, out)?;
            self.failed = false;
        }
        self.slots.iter().for_each(|slot| out.set(*slot, 1.0));
        Ok(())
    }
}

fn read_sources(directory: &Path, buf: &mut ReadBuf) -> Result<Vec<Source>, HostError> {
    let mut names = sysdir::list(directory).unwrap_or_default();
    names.retain(|name| {
        name.strip_prefix("clocksource")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let mut read = |name: &str, file: &str| {
        let mut file = OpenFile::new(directory.join(name).join(file));
        file.read(buf, End::Short)
            .map(|text| label_text(trim(text)))
    };
    names
        .iter()
        .map(|name| {
            Ok(Source {
                available: read(name, "available_clocksource")?,
                current: read(name, "current_clocksource")?,
            })
        })
        .collect()
}
