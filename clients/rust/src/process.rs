//! Linux' metrics of this process, with the names and units of client_golang.
//!
//! `/proc/self/stat` stays open and is read with one `pread` per exposition; limits, which hardly ever change, are read once a
//! minute.
//!
//! **Invariant:** a value that cannot be read is absent, never zero.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::str;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::collector::Desc;
use crate::error::Error;
use crate::registry::Registry;

/// `AT_PAGESZ` and `AT_CLKTCK` of the auxiliary vector.
const AUX_PAGE_SIZE: u64 = 6;
const AUX_CLOCK_TICKS: u64 = 17;
const DESCRIPTORS: &str = "/proc/self/fd";
/// How long limits are taken for the same.
const LIMITS_FOR: Duration = Duration::from_secs(60);
/// `stat` has some 350 bytes, `limits` some 1,400.
const LONGEST_FILE: usize = 4096;

const FAMILIES: [Desc<0>; 7] = [
    Desc::counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        &[],
    ),
    Desc::gauge(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        &[],
    ),
    Desc::gauge("process_open_fds", "Number of open file descriptors.", &[]),
    Desc::gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        &[],
    ),
    Desc::gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        &[],
    ),
    Desc::gauge(
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        &[],
    ),
    Desc::gauge(
        "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes.",
        &[],
    ),
];

/// Registers the `process_*` metrics of this process.
///
/// A process that forks without exec must register in the child: the open files are those of the parent.
///
/// # Errors
///
/// [`Error::Unreadable`] if `/proc` is missing, else as [`Registry::register`].
pub fn register(registry: &Registry) -> Result<(), Error> {
    let files = Files::open()?;
    let values: Arc<[AtomicU64; FAMILIES.len()]> = Arc::default();
    let shown = Arc::clone(&values);
    for (i, desc) in FAMILIES.into_iter().enumerate() {
        let values = Arc::clone(&values);
        registry.register_fn(desc, move |samples| {
            let value = f64::from_bits(values[i].load(Relaxed));
            if !value.is_nan() {
                samples.push(&[], value);
            }
        })?;
    }
    let files = Mutex::new(files);
    registry.before_collect(move || {
        let readings = files.lock().unwrap_or_else(PoisonError::into_inner).read();
        for (value, reading) in shown.iter().zip(readings) {
            value.store(reading.unwrap_or(f64::NAN).to_bits(), Relaxed);
        }
    });
    Ok(())
}

struct Files {
    stat: File,
    limits: File,
    descriptors: File,
    /// Open files and bytes of memory that are allowed, and when that was read.
    limits_then: Option<(Instant, [Option<f64>; 2])>,
    units: Units,
    buffer: Vec<u8>,
}

/// Units of the kernel's numbers.
#[derive(Clone, Copy, Debug)]
struct Units {
    page_bytes: f64,
    ticks_per_second: f64,
    boot_time_seconds: Option<f64>,
}

impl Files {
    fn open() -> Result<Self, Error> {
        let open = |path: &'static str| File::open(path).map_err(|e| unreadable(path, &e));
        let read = |path: &'static str| fs::read(path).map_err(|e| unreadable(path, &e));
        let auxiliary = read("/proc/self/auxv")?;
        Ok(Self {
            stat: open("/proc/self/stat")?,
            limits: open("/proc/self/limits")?,
            descriptors: open(DESCRIPTORS)?,
            limits_then: None,
            units: Units {
                page_bytes: auxiliary_value(&auxiliary, AUX_PAGE_SIZE).unwrap_or(4096) as f64,
                ticks_per_second: auxiliary_value(&auxiliary, AUX_CLOCK_TICKS).unwrap_or(100)
                    as f64,
                boot_time_seconds: boot_time_seconds(&read("/proc/stat")?),
            },
            buffer: vec![0; LONGEST_FILE],
        })
    }

    /// Returns the values in the order of `FAMILIES`.
    fn read(&mut self) -> [Option<f64>; FAMILIES.len()] {
        let units = self.units;
        let stat =
            Self::text(&self.stat, &mut self.buffer).and_then(|text| Stat::parse(text, units));
        let [max_fds, max_memory_bytes] = self.limits();
        [
            stat.map(|stat| stat.cpu_seconds),
            max_fds,
            open_fds(&self.descriptors).ok(),
            stat.map(|stat| stat.resident_bytes),
            stat.and_then(|stat| stat.start_seconds),
            stat.map(|stat| stat.virtual_bytes),
            max_memory_bytes,
        ]
    }

    fn limits(&mut self) -> [Option<f64>; 2] {
        match self.limits_then {
            Some((then, limits)) if then.elapsed() < LIMITS_FOR => limits,
            _ => {
                let text = Self::text(&self.limits, &mut self.buffer).unwrap_or_default();
                let limits = ["Max open files", "Max address space"].map(|name| limit(text, name));
                self.limits_then = Some((Instant::now(), limits));
                limits
            }
        }
    }

    fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
        let len = file.read_at(buffer, 0).ok()?;
        str::from_utf8(&buffer[..len]).ok()
    }
}

fn unreadable(path: &str, error: &io::Error) -> Error {
    Error::Unreadable {
        path: path.to_owned(),
        kind: error.kind(),
    }
}

/// Counts this process' descriptors, `directory` included.
fn open_fds(directory: &File) -> io::Result<f64> {
    // Since Linux 6.2 the directory's size is the number of its entries.
    let count = match directory.metadata()?.len() {
        // Exclude the descriptor that the listing itself opens.
        0 => (fs::read_dir(DESCRIPTORS)?.count() as u64).saturating_sub(1),
        count => count,
    };
    Ok(count as f64)
}

/// The exported parts of `/proc/self/stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_seconds: Option<f64>,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    /// Parses `pid (name) state …`: the name may contain anything, including parentheses and spaces.
    fn parse(text: &str, units: Units) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        // proc_pid_stat(5) counts from 1, and the state after the name is field 3.
        let field = |number: usize| -> Option<f64> {
            after_name
                .split_ascii_whitespace()
                .nth(number - 3)?
                .parse()
                .ok()
        };
        let start_ticks = field(22)?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / units.ticks_per_second,
            start_seconds: units
                .boot_time_seconds
                .map(|boot| boot + start_ticks / units.ticks_per_second),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * units.page_bytes,
        })
    }
}

/// Returns the soft limit of a line of `/proc/self/limits`; "unlimited" is 2^64 - 1, as in client_golang.
fn limit(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

fn boot_time_seconds(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// Returns a value of the auxiliary vector: pairs of native words, key and value.
fn auxiliary_value(bytes: &[u8], key: u64) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let (words, _) = bytes.as_chunks::<WORD>();
    let word = |bytes: &[u8; WORD]| usize::from_ne_bytes(*bytes) as u64;
    let (pairs, _) = words.as_chunks::<2>();
    pairs
        .iter()
        .find(|pair| word(&pair[0]) == key)
        .map(|pair| word(&pair[1]))
}

/// Feeds the parsers arbitrary bytes.
pub(crate) fn fuzz(data: &[u8]) {
    let units = Units {
        page_bytes: 4096.0,
        ticks_per_second: 100.0,
        boot_time_seconds: boot_time_seconds(data),
    };
    if let Ok(text) = str::from_utf8(data) {
        let _ = Stat::parse(text, units);
        let _ = limit(text, "Max open files");
    }
    let _ = auxiliary_value(data, AUX_PAGE_SIZE);
}

#[cfg(test)]
mod tests;
