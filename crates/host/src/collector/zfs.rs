//! ZFS counters: of the module, of pools and of datasets.
//!
//! Invariant: a counter is named as in the kernel, so that new modules' counters need no list here.

use std::path::{Path, PathBuf};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, float, label_text, next_field, next_line, number};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;

/// Files and the middle of their families' names.
const MODULES: [(&str, &str); 11] = [
    ("abdstats", "abd"),
    ("arcstats", "arc"),
    ("dbufstats", "dbuf"),
    ("dmu_tx", "dmu_tx"),
    ("dnodestats", "dnode"),
    ("fm", "fm"),
    ("vdev_cache_stats", "vdev_cache"),
    ("vdev_mirror_stats", "vdev_mirror"),
    ("xuio_stats", "xuio"),
    ("zfetchstats", "zfetch"),
    ("zil", "zil"),
];

const POOL_STATE: Desc<'static> = Desc::gauge("node_zfs_zpool_state", "kstat.zfs.misc.state");
const STATES: &str = "online degraded faulted offline removed unavail suspended";

pub(crate) struct Zfs {
    directory: PathBuf,
    modules: [Kstat; MODULES.len()],
    pools: OrderedCache<String, Vec<PoolFile>>,
    listed: bool,
}

/// A file of named numbers.
struct Kstat {
    file: OpenFile,
    /// Prefixes of the names and helps of its families.
    prefixes: (String, String),
    lines: OrderedCache<Box<[u8]>, Option<Slot>>,
}

/// A file of a pool.
enum PoolFile {
    Io(OpenFile, Vec<Slot>),
    Dataset(Kstat, String),
    State(OpenFile, Vec<Slot>),
}

impl Zfs {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let directory = config.procfs.join("spl/kstat/zfs");
        Self {
            modules: MODULES.map(|(file, family)| {
                let prefixes = (
                    format!("node_zfs_{family}_"),
                    format!("kstat.zfs.misc.{file}."),
                );
                Kstat::new(directory.join(file), prefixes)
            }),
            directory,
            pools: OrderedCache::new(),
            listed: false,
        }
    }

    /// Finds pools and their files.
    fn list(&mut self, out: &mut Sink) -> Result<(), HostError> {
        self.listed = false;
        self.pools.begin();
        for pool in sysdir::list(&self.directory)? {
            let directory = self.directory.join(&pool);
            if !sysdir::is_dir(&directory) {
                continue;
            }
            let names = sysdir::list(&directory)?;
            let Some(files) = self.pools.find(|known, _| *known == pool) else {
                let files = names
                    .iter()
                    .filter_map(|name| PoolFile::new(&pool, &directory, name, out));
                let files = files.collect();
                self.pools.insert(pool, files);
                continue;
            };
            files.retain_mut(|file| {
                let stays = names.iter().any(|name| file.is(name));
                if !stays {
                    file.retire(out);
                }
                stays
            });
            for name in &names {
                if !files.iter().any(|file| file.is(name)) {
                    files.extend(PoolFile::new(&pool, &directory, name, out));
                }
            }
        }
        self.pools.sweep(|_, files| {
            files.into_iter().for_each(|mut file| file.retire(out));
        });
        self.listed = true;
        Ok(())
    }
}

impl Collector for Zfs {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        if ctx.refresh || !self.listed {
            self.list(out)?;
        }
        for module in &mut self.modules {
            module.read(ctx, &[], out)?;
        }
        for (pool, files) in self.pools.values_mut() {
            for file in files {
                // A pool that is being exported may remove its files at any time.
                if !file.read(pool, ctx, out)? {
                    self.listed = false;
                }
            }
        }
        Ok(())
    }
}

impl Kstat {
    fn new(path: PathBuf, prefixes: (String, String)) -> Self {
        Self {
            file: OpenFile::new(path),
            prefixes,
            lines: OrderedCache::new(),
        }
    }

    /// Sets every number; returns `false` if there is no such file.
    fn read(
        &mut self,
        ctx: &mut Ctx<'_>,
        labels: &[(&str, &str)],
        out: &mut Sink,
    ) -> Result<bool, HostError> {
        let Self {
            file,
            prefixes,
            lines,
        } = self;
        let text = file.read_if_there(ctx.refresh, ctx.buf, End::Empty)?;
        let Some(text) = text else { return Ok(false) };
        lines.begin();
        let parsed = parse(text, |name, value| {
            let new = || Some(add(prefixes, name, labels, out));
            if let Some(slot) = *lines.entry(name, new) {
                out.set(slot, value);
            }
        });
        parsed.map_err(|source| file.malformed(source))?;
        self.lines.sweep(|_, slot| out.retire_all(slot));
        Ok(true)
    }

    fn retire(&mut self, out: &mut Sink) {
        out.retire_all(self.lines.values_mut().filter_map(|(_, slot)| slot.take()));
    }
}

fn add(prefixes: &(String, String), name: &[u8], labels: &[(&str, &str)], out: &mut Sink) -> Slot {
    let name = label_text(name);
    let (family, help) = prefixes;
    let family = format!("{family}{}", sysdir::metric_name(&name));
    out.add(&Desc::unknown(&family, &format!("{help}{name}")), labels)
}

impl PoolFile {
    fn new(pool: &str, directory: &Path, name: &str, out: &mut Sink) -> Option<Self> {
        let path = directory.join(name);
        match name {
            "io" => Some(Self::Io(OpenFile::new(path), Vec::new())),
            "state" => {
                let add = |state| out.add(&POOL_STATE, &[("zpool", pool), ("state", state)]);
                let slots = STATES.split(' ').map(add).collect();
                Some(Self::State(OpenFile::new(path), slots))
            }
            _ if name.starts_with("objset-") => {
                let prefixes = (
                    "node_zfs_zpool_dataset_".to_owned(),
                    "kstat.zfs.misc.objset.".to_owned(),
                );
                Some(Self::Dataset(Kstat::new(path, prefixes), String::new()))
            }
            _ => None,
        }
    }

    fn is(&self, name: &str) -> bool {
        let (Self::Io(file, _) | Self::State(file, _)) = self else {
            let Self::Dataset(kstat, _) = self else {
                return false;
            };
            return kstat.file.path().ends_with(name);
        };
        file.path().ends_with(name)
    }

    /// Sets this file's numbers; returns `false` if it is gone.
    fn read(&mut self, pool: &str, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<bool, HostError> {
        match self {
            Self::Io(file, slots) => {
                let text = file.read_if_there(ctx.refresh, ctx.buf, End::Empty)?;
                let Some(text) = text else { return Ok(false) };
                let table = parse_io(text).map_err(|source| file.malformed(source))?;
                let Some((names, values)) = table else {
                    return Ok(true);
                };
                if slots.is_empty() {
                    let prefixes = (
                        "node_zfs_zpool_".to_owned(),
                        "kstat.zfs.misc.io.".to_owned(),
                    );
                    let mut names = names;
                    while let Some(name) = next_field(&mut names) {
                        slots.push(add(&prefixes, name, &[("zpool", pool)], out));
                    }
                }
                let mut values = values;
                for slot in slots {
                    let value = next_field(&mut values).and_then(number);
                    let value = value.ok_or_else(|| file.expected(3, "a number per name"))?;
                    out.set(*slot, value as f64);
                }
                Ok(true)
            }
            Self::Dataset(kstat, name) => {
                let text = kstat.file.read_if_there(ctx.refresh, ctx.buf, End::Empty)?;
                let Some(text) = text else { return Ok(false) };
                let found = dataset_name(text).unwrap_or_default();
                if found != *name {
                    kstat.retire(out);
                    kstat.lines = OrderedCache::new();
                    *name = found;
                }
                kstat.read(ctx, &[("zpool", pool), ("dataset", name)], out)
            }
            Self::State(file, slots) => {
                let text = file.read_if_there(ctx.refresh, ctx.buf, End::Short)?;
                let Some(mut text) = text else {
                    return Ok(false);
                };
                let state = next_line(&mut text).unwrap_or_default();
                for (slot, known) in slots.iter().zip(STATES.split(' ')) {
                    let is_it = state.eq_ignore_ascii_case(known.as_bytes());
                    out.set(*slot, f64::from(u8::from(is_it)));
                }
                Ok(true)
            }
        }
    }

    fn retire(&mut self, out: &mut Sink) {
        match self {
            Self::Io(_, slots) | Self::State(_, slots) => out.retire_all(slots.drain(..)),
            Self::Dataset(kstat, _) => kstat.retire(out),
        }
    }
}

/// Calls `each` with every counter below the line `name type data`.
pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&[u8], f64)) -> Result<(), ParseError> {
    let mut is_below = false;
    let mut lines = 0;
    each_line(text, |mut line| {
        lines += 1;
        let fields = [(); 3].map(|()| next_field(&mut line));
        if !is_below {
            is_below = fields == [&b"name"[..], b"type", b"data"].map(Some);
            return Ok(());
        }
        let [Some(name), Some(kind), Some(value)] = fields else {
            return Ok(());
        };
        // Signed and unsigned 64-bit numbers; other kinds are not counters.
        let value = match kind {
            b"3" => float(value),
            b"4" => number(value).map(|value| value as f64),
            _ => return Ok(()),
        };
        each(name, value.ok_or("an integer")?);
        Ok(())
    })?;
    match is_below {
        true => Ok(()),
        false => Err(ParseError {
            line: lines.max(1),
            expected: "a line `name type data`",
        }),
    }
}

/// A line of names and the line of numbers below it.
type NamesAndValues<'a> = (&'a [u8], &'a [u8]);

/// Returns the line of names and the line of numbers below it.
pub(crate) fn parse_io(mut text: &[u8]) -> Result<Option<NamesAndValues<'_>>, ParseError> {
    while let Some(line) = next_line(&mut text) {
        let mut fields = line;
        if next_field(&mut fields) == Some(b"nread") {
            let expected = "a line of numbers below the names";
            let values = next_line(&mut text);
            return values
                .map(|values| Some((line, values)))
                .ok_or(ParseError { line: 3, expected });
        }
    }
    Ok(None)
}

/// Returns the value of the line `dataset_name`, including blanks.
fn dataset_name(mut text: &[u8]) -> Option<String> {
    while let Some(line) = next_line(&mut text) {
        let mut rest = line;
        if next_field(&mut rest) == Some(b"dataset_name") {
            next_field(&mut rest)?;
            return Some(label_text(rest.trim_ascii_start()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_below_their_head() {
        let text = b"6 1 0x01\nname type data\nhits 4 8772612\nneed 3 -5\nrate 7 text\nshort\n";
        let mut seen = Vec::new();
        parse(text, |name, value| seen.push((name.to_vec(), value))).expect("well formed");
        assert_eq!(
            seen,
            [(b"hits".to_vec(), 8_772_612.0), (b"need".to_vec(), -5.0)]
        );
        assert!(parse(b"6 1 0x01\n", |_, _| {}).is_err());
        assert!(parse(b"name type data\nhits 4 -1\n", |_, _| {}).is_err());
    }

    #[test]
    fn datasets_may_have_blanks_in_their_names() {
        let text = b"name type data\ndataset_name                    7    pool/a b\nwrites 4 1\n";
        assert_eq!(dataset_name(text).as_deref(), Some("pool/a b"));
        assert_eq!(dataset_name(b"writes 4 1\n"), None);
    }
}
