//! Sensors, from `class/hwmon`: temperatures, voltages, fans, currents, power, energy, humidity.
//!
//! Invariant: a chip is named after its device, which is stable, not after the order in which drivers loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use narthex_model::MetricType;

use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::filter::Filter;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

const SENSOR_TYPES: &str = "\
    vrm beep_enable update_interval in cpu fan pwm temp curr power energy humidity intrusion freq";

const CHIP_NAMES: Desc<'static> = Desc::gauge(
    "node_hwmon_chip_names",
    "Annotation metric for human-readable chip names",
);
const SENSOR_LABEL: Desc<'static> =
    Desc::gauge("node_hwmon_sensor_label", "Label for given chip and sensor");

/// Sensors that are single files, and the factors of their numbers.
const SINGLE_FILES: &str = include_str!("hwmon.txt");

/// A directory of `class/hwmon`.
struct Chip {
    directory: PathBuf,
    base: String,
    name: String,
}

/// A sensor's type, and its files by element.
struct Sensor {
    kind: &'static str,
    files: BTreeMap<String, PathBuf>,
}

pub(crate) fn new(config: &HostConfig) -> Result<SysfsCollector, HostError> {
    let chips = config.hwmon_chips.compile(&config::HWMON_CHIP)?;
    let sensors = config.hwmon_sensors.compile(&config::HWMON_SENSOR)?;
    let directory = config.sysfs.join("class/hwmon");
    Ok(SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, &chips, &sensors, plan)
    }))
}

fn describe(
    directory: &Path,
    kept_chips: &Filter,
    kept_sensors: &Filter,
    plan: &mut Plan<'_>,
) -> Result<(), HostError> {
    let names = sysdir::list(directory)?;
    let chips: Vec<Chip> = names
        .iter()
        .map(|name| directory.join(name))
        .filter(|directory| sysdir::is_dir(directory))
        .filter_map(|directory| Chip::read(directory, plan))
        .collect();
    for chip in &chips {
        let name = chip.unique_name(&chips);
        if !kept_chips.keeps(name.as_bytes()) {
            continue;
        }
        let shown = clean(&chip.name);
        if !shown.is_empty() {
            let labels = [("chip", name.as_str()), ("chip_name", &shown)];
            plan.fixed(&CHIP_NAMES, &labels, 1.0);
        }
        let mut sensors = BTreeMap::new();
        find_sensors(&chip.directory, &mut sensors);
        find_sensors(&chip.directory.join("device"), &mut sensors);
        for (sensor_name, sensor) in &sensors {
            if kept_sensors.keeps(format!("{name};{sensor_name}").as_bytes()) {
                describe_sensor(&name, sensor_name, sensor, plan);
            }
        }
    }
    Ok(())
}

impl Chip {
    fn read(directory: PathBuf, plan: &mut Plan<'_>) -> Option<Self> {
        let name = plan.text(&directory.join("name")).unwrap_or_default();
        let last = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            clean(name.unwrap_or_default())
        };
        let device = directory.join("device").canonicalize().ok();
        let base = device.map_or_else(String::new, |path| {
            let kind = path.parent().map(last).unwrap_or_default();
            match (kind.as_str(), last(&path).as_str()) {
                (_, "") => String::new(),
                ("", device) => device.to_owned(),
                (kind, device) => format!("{kind}_{device}"),
            }
        });
        let choices = [base, clean(&name), last(&directory.canonicalize().ok()?)];
        let base = choices.into_iter().find(|choice| !choice.is_empty())?;
        Some(Self {
            directory,
            base,
            name,
        })
    }

    /// Returns a name that is unique among the device's chips: by their names, or else by their directories.
    fn unique_name(&self, all: &[Self]) -> String {
        let same: Vec<&Self> = all.iter().filter(|chip| chip.base == self.base).collect();
        if same.len() < 2 {
            return self.base.clone();
        }
        let mut suffix = clean(&self.name);
        if suffix.is_empty() || same.iter().filter(|chip| chip.name == self.name).count() > 1 {
            let directory = self.directory.file_name().and_then(|name| name.to_str());
            suffix = clean(directory.unwrap_or_default());
        }
        format!("{}_{suffix}", self.base)
    }
}

/// Converts to lower case, replaces other characters with underscores, and trims those at the ends.
fn clean(text: &str) -> String {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ':' | '_');
    let text: String = text
        .to_lowercase()
        .chars()
        .map(|c| if valid(c) { c } else { '_' })
        .collect();
    text.trim_matches('_').to_owned()
}

fn find_sensors(directory: &Path, sensors: &mut BTreeMap<String, Sensor>) {
    for file in sysdir::list(directory).unwrap_or_default() {
        let Some((kind, number, element)) = split(&file) else {
            continue;
        };
        let sensor = sensors
            .entry(format!("{kind}{number}"))
            .or_insert_with(|| Sensor {
                kind,
                files: BTreeMap::new(),
            });
        sensor
            .files
            .insert(element.to_owned(), directory.join(&file));
    }
}

/// Splits `temp1_max_alarm` into type, number and element; `None` if it is not a sensor's file.
fn split(file: &str) -> Option<(&'static str, u64, &str)> {
    let digits_at = file
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(file.len());
    let (kind, rest) = file.split_at(digits_at);
    let kind = SENSOR_TYPES.split(' ').find(|known| *known == kind)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let number = match number {
        "" => 0,
        number => number.parse().ok()?,
    };
    match rest {
        "" => Some((kind, number, "")),
        rest => {
            let element = rest
                .strip_prefix('_')
                .filter(|element| !element.is_empty())?;
            Some((kind, number, element))
        }
    }
}

fn describe_sensor(chip: &str, name: &str, sensor: &Sensor, plan: &mut Plan<'_>) {
    let labels = [("chip", chip), ("sensor", name)];
    let label = sensor.files.get("label").and_then(|path| plan.label(path));
    if let Some(label) = &label {
        let labels = [labels[0], labels[1], ("label", label.as_str())];
        plan.fixed(&SENSOR_LABEL, &labels, 1.0);
    }
    if let Some(([reading], desc)) = table::rows_of(SINGLE_FILES, sensor.kind).next() {
        let decode = match reading {
            "switch" => Decode::Is("1".into()),
            factor => Decode::Times(table::number(factor)),
        };
        if let Some(path) = sensor.files.get("") {
            plan.file(&desc, &labels, path, decode);
        }
        return;
    }
    let has_plain = sensor.files.contains_key("");
    for (element, path) in sensor
        .files
        .iter()
        .filter(|(element, _)| *element != "label")
    {
        if sensor.kind == "freq" && element == "input" {
            if let Some(label) = &label {
                let (sensor, help) = (clean(label), "Hardware monitor for GPU frequency in MHz");
                let name = match has_plain {
                    true => "node_hwmon_freq_input_freq_mhz",
                    false => "node_hwmon_freq_freq_mhz",
                };
                let labels = [labels[0], ("sensor", sensor.as_str())];
                plan.file(&Desc::gauge(name, help), &labels, path, Decode::Over(1e6));
            }
            continue;
        }
        let reading = Reading::new(sensor.kind, element, has_plain);
        let desc = Desc {
            name: &reading.name,
            kind: reading.kind,
            help: &reading.help,
        };
        plan.file(&desc, &labels, path, reading.decode);
    }
}

/// Export of a sensor's file.
struct Reading {
    name: String,
    kind: MetricType,
    help: String,
    decode: Decode,
}

impl Reading {
    fn new(sensor: &str, element: &str, has_plain: bool) -> Self {
        let name = match element {
            "input" if has_plain => format!("node_hwmon_{sensor}_input"),
            "" | "input" => format!("node_hwmon_{sensor}"),
            _ => format!("node_hwmon_{sensor}_{}", clean(element)),
        };
        let gauge = |suffix: &str, help: String, decode| Self {
            name: format!("{name}{suffix}"),
            kind: MetricType::Gauge,
            help,
            decode,
        };
        let of = |what: &str| format!("Hardware monitor for {what} ({element})");
        let (milli, micro) = (Decode::Times(0.001), Decode::Over(1e6));
        match (sensor, element) {
            (_, "fault" | "alarm") => {
                let help = format!("Hardware sensor {element} status ({sensor})");
                gauge("", help, Decode::PLAIN)
            }
            (_, "beep") => {
                let help = "Hardware monitor sensor has beeping enabled".to_owned();
                gauge("_enabled", help, Decode::PLAIN)
            }
            ("in" | "cpu", _) => gauge("_volts", of("voltage"), milli),
            ("temp", "") => {
                let help = "Hardware monitor for temperature (input)".to_owned();
                gauge("_celsius", help, milli)
            }
            ("temp", element) if element != "type" => gauge("_celsius", of("temperature"), milli),
            ("curr", _) => gauge("_amps", of("current"), milli),
            ("energy", _) => Self {
                kind: MetricType::Counter,
                ..gauge("_joule_total", of("joules used so far"), micro)
            },
            ("power", "accuracy") => {
                let help = "Hardware monitor power meter accuracy, as a ratio".to_owned();
                gauge("", help, micro)
            }
            ("power", "average_interval" | "average_interval_min" | "average_interval_max") => {
                let help = format!("Hardware monitor power usage update interval ({element})");
                gauge("_seconds", help, milli)
            }
            ("power", _) => gauge("_watt", of("power usage in watts"), micro),
            ("humidity", _) => {
                let what = "humidity, as a ratio (multiply with 100.0 to get the humidity as a percentage)";
                gauge("", of(what), micro)
            }
            ("fan", "input" | "min" | "max" | "target") => {
                gauge("_rpm", of("fan revolutions per minute"), Decode::PLAIN)
            }
            _ => {
                let help = format!("Hardware monitor {sensor} element {element}");
                gauge("", help, Decode::PLAIN)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_of_sensors() {
        let cases = [
            ("temp1_input", Some(("temp", 1, "input"))),
            ("in10_max_alarm", Some(("in", 10, "max_alarm"))),
            ("pwm2", Some(("pwm", 2, ""))),
            ("beep_enable", Some(("beep_enable", 0, ""))),
            ("temp1x", None),
            ("temp1_", None),
            ("name", None),
            ("power_cap", None),
            ("temp99999999999999999999_input", None),
        ];
        for (file, expected) in cases {
            assert_eq!(split(file), expected, "{file}");
        }
    }

    #[test]
    fn names_lose_what_is_no_letter() {
        assert_eq!(clean("INT33A0:00"), "int33a0:00");
        assert_eq!(clean(" Core 0 (a)\n"), "core_0__a");
        assert_eq!(clean("--"), "");
    }
}
