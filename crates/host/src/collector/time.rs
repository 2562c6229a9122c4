//! System time, the local zone's offset, clock sources.
//!
//! Invariant: the zone is recomputed when its offset is due to change; clock sources are read at a refresh.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::scan::{label_text, trim};
use crate::sink::{MetricType, Sink, Slot};
use crate::timezone::{Offset, Zone};

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
                    other.into_iter().for_each(|(slot, _)| out.retire(slot));
                    let help = "System time zone offset in seconds.";
                    let family =
                        out.family("node_time_zone_offset_seconds", MetricType::Gauge, help);
                    out.series(&family, &[("time_zone", &current.name)])
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
        self.slots.drain(..).for_each(|slot| out.retire(slot));
        for (at, source) in sources.iter().enumerate() {
            let device = at.to_string();
            let help = "Available clocksources read from '/sys/devices/system/clocksource'.";
            let available = out.family(
                "node_time_clocksource_available_info",
                MetricType::Gauge,
                help,
            );
            for name in source.available.split_ascii_whitespace() {
                self.slots
                    .push(out.series(&available, &[("device", &device), ("clocksource", name)]));
            }
            let help = "Current clocksource read from '/sys/devices/system/clocksource'.";
            let current = out.family(
                "node_time_clocksource_current_info",
                MetricType::Gauge,
                help,
            );
            self.slots.push(out.series(
                &current,
                &[("device", &device), ("clocksource", &source.current)],
            ));
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
        let seconds = *self.seconds.get_or_insert_with(|| {
            let help = "System time in seconds since epoch (1970).";
            out.single("node_time_seconds", MetricType::Gauge, help)
        });
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

fn read_sources(directory: &std::path::Path, buf: &mut ReadBuf) -> Result<Vec<Source>, HostError> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Ok(Vec::new());
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            name.strip_prefix("clocksource")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
        .collect();
    names.sort_unstable();
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
