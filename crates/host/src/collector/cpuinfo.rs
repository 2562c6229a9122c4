//! `/proc/cpuinfo`, for `--collector.cpu.info`.
//!
//! Invariant: labels are compared at a refresh and rebuilt only if they differ; other rounds only read clocks.

use std::path::PathBuf;

use regex::bytes::Regex;

use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::filter;
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::scan::{decimal, each_line, label_text, next_field, next_line, number, trim};
use crate::sink::{Desc, Sink, Slot};

pub(crate) struct CpuInfo {
    file: OpenFile,
    frequency: bool,
    flags: Option<Regex>,
    bugs: Option<Regex>,
    known: Option<Report>,
    infos: Vec<Slot>,
    frequencies: Vec<Slot>,
    words: Vec<Slot>,
}

/// Values that become labels.
#[derive(Debug, Default, PartialEq)]
struct Report {
    processors: Vec<Processor>,
    /// Flags of the first processor.
    flags: String,
    bugs: String,
}

#[derive(Debug, Default, PartialEq)]
struct Processor {
    id: u64,
    /// In the order of `LABELS`.
    values: [String; LABELS.len()],
}

const INFO: Desc<'static> = Desc::gauge("node_cpu_info", "CPU information from /proc/cpuinfo.");
const FREQUENCY: Desc<'static> = Desc::gauge(
    "node_cpu_frequency_hertz",
    "CPU frequency in hertz from /proc/cpuinfo.",
);
const FLAG: Desc<'static> = Desc::gauge(
    "node_cpu_flag_info",
    "The `flags` field of CPU information from /proc/cpuinfo taken from the first core.",
);
const BUG: Desc<'static> = Desc::gauge(
    "node_cpu_bug_info",
    "The `bugs` field of CPU information from /proc/cpuinfo taken from the first core.",
);

const LABELS: [(&str, &[u8]); 9] = [
    ("package", b"physical id"),
    ("core", b"core id"),
    ("vendor", b"vendor_id"),
    ("family", b"cpu family"),
    ("model", b"model"),
    ("model_name", b"model name"),
    ("microcode", b"microcode"),
    ("stepping", b"stepping"),
    ("cachesize", b"cache size"),
];

impl CpuInfo {
    /// Returns `None` if `--collector.cpu.info` is off.
    pub(crate) fn new(config: &HostConfig) -> Result<Option<Self>, HostError> {
        let flags = &config.cpu;
        let pattern = |flag, pattern: &Option<String>| match pattern.as_deref() {
            None | Some("") => Ok(None),
            Some(pattern) => filter::compile(flag, pattern).map(Some),
        };
        let words = pattern(
            "collector.cpu.info.flags-include",
            &flags.info_flags_include,
        )?;
        let bugs = pattern("collector.cpu.info.bugs-include", &flags.info_bugs_include)?;
        if !flags.info && words.is_none() && bugs.is_none() {
            return Ok(None);
        }
        let path: PathBuf = config.procfs.join("cpuinfo");
        Ok(Some(Self {
            file: OpenFile::new(path),
            frequency: flags.info_frequency,
            flags: words,
            bugs,
            known: None,
            infos: Vec::new(),
            frequencies: Vec::new(),
            words: Vec::new(),
        }))
    }

    pub(crate) fn collect(
        &mut self,
        refresh: bool,
        buf: &mut ReadBuf,
        out: &mut Sink,
    ) -> Result<(), HostError> {
        if refresh || self.frequency || self.known.is_none() {
            let text = self.file.read(buf, End::Empty)?;
            let error = |source| HostError::Parse {
                path: self.file.path().to_path_buf(),
                source,
            };
            if refresh || self.known.is_none() {
                let report = parse_report(text).map_err(error)?;
                if self.known.as_ref() != Some(&report) {
                    self.rebuild(&report, out);
                    self.known = Some(report);
                }
            }
            let mut slots = self.frequencies.iter();
            parse_clocks(text, |hertz| {
                if let Some(slot) = slots.next() {
                    out.set(*slot, hertz);
                }
            });
        }
        self.infos
            .iter()
            .chain(&self.words)
            .for_each(|slot| out.set(*slot, 1.0));
        Ok(())
    }

    fn rebuild(&mut self, report: &Report, out: &mut Sink) {
        let Self {
            infos,
            frequencies,
            words,
            ..
        } = self;
        for slots in [&mut *infos, frequencies, words] {
            out.retire_all(slots.drain(..));
        }
        for processor in &report.processors {
            let id = processor.id.to_string();
            let mut labels = vec![("cpu", id.as_str())];
            labels.extend(
                LABELS
                    .iter()
                    .zip(&processor.values)
                    .map(|((name, _), value)| (*name, value.as_str())),
            );
            infos.push(out.add(&INFO, &labels));
            if self.frequency {
                labels.truncate(3);
                frequencies.push(out.add(&FREQUENCY, &labels));
            }
        }
        for (desc, label, text, pattern) in [
            (FLAG, "flag", &report.flags, &self.flags),
            (BUG, "bug", &report.bugs, &self.bugs),
        ] {
            let Some(pattern) = pattern else { continue };
            let mut chosen: Vec<&str> = text
                .split_ascii_whitespace()
                .filter(|word| pattern.is_match(word.as_bytes()))
                .collect();
            chosen.sort_unstable();
            chosen.dedup();
            for word in chosen {
                words.push(out.add(&desc, &[(label, word)]));
            }
        }
    }
}

/// Splits `key   : value`; the value is empty when nothing follows the colon.
fn key_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b':', line)?;
    let value = &line[at + 1..];
    Some((trim(&line[..at]), value.strip_prefix(b" ").unwrap_or(value)))
}

fn parse_report(text: &[u8]) -> Result<Report, ParseError> {
    let mut report = Report::default();
    each_line(text, |line| {
        let Some((key, value)) = key_value(line) else {
            return Ok(());
        };
        if key == b"processor" {
            let id = number(trim(value)).ok_or("a processor's number")?;
            report.processors.push(Processor {
                id,
                ..Processor::default()
            });
            return Ok(());
        }
        let first = report.processors.len() <= 1;
        match key {
            // Arm's word for flags.
            b"flags" | b"Features" if first => report.flags = label_text(value),
            b"bugs" if first => report.bugs = label_text(value),
            _ => {
                let key = if key == b"vendor" { b"vendor_id" } else { key };
                let place = LABELS.iter().position(|(_, known)| *known == key);
                if let (Some(at), Some(processor)) = (place, report.processors.last_mut()) {
                    processor.values[at] = label_text(value);
                }
            }
        }
        Ok(())
    })?;
    Ok(report)
}

/// Calls `each` with every processor's clock in hertz, 0 where the kernel does not print one.
fn parse_clocks(mut text: &[u8], mut each: impl FnMut(f64)) {
    let mut clock = None;
    while let Some(line) = next_line(&mut text) {
        let mut rest = line;
        match next_field(&mut rest) {
            Some(b"processor") => {
                if let Some(hertz) = clock.replace(0.0) {
                    each(hertz);
                }
            }
            Some(b"cpu") if clock.is_some() => {
                if let Some((b"cpu MHz", value)) = key_value(line)
                    && let Some(megahertz) = decimal(trim(value))
                {
                    clock = Some(megahertz * 1e6);
                }
            }
            _ => {}
        }
    }
    if let Some(hertz) = clock {
        each(hertz);
    }
}

/// Parses everything the collector parses, for fuzzing.
pub(crate) fn parse_all(text: &[u8]) {
    let _ = parse_report(text);
    parse_clocks(text, |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"processor\t: 0\nvendor_id\t: V\ncpu MHz\t\t: 799.998\nmicrocode\t:\nflags\t: aes avx\n\n\
        processor\t: 3\nmodel name\t: A: B\nflags\t: other\n";

    #[test]
    fn values_may_be_empty_or_hold_colons() {
        let report = parse_report(TEXT).expect("well formed");
        assert_eq!(report.flags, "aes avx");
        let ids: Vec<u64> = report
            .processors
            .iter()
            .map(|processor| processor.id)
            .collect();
        assert_eq!(ids, [0, 3]);
        assert_eq!(report.processors[0].values[2], "V");
        assert_eq!(report.processors[1].values[5], "A: B");
    }

    #[test]
    fn every_processor_has_a_clock() {
        let mut clocks = Vec::new();
        parse_clocks(TEXT, |hertz| clocks.push(hertz));
        assert_eq!(clocks, [799.998 * 1e6, 0.0]);
    }
}
