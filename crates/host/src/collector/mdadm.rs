//! Software RAID: `mdstat`, and the number of disks from sysfs.
//!
//! Invariant: an array is in at most one exported state; a state without a series of its own is in none.

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{label_text, next_field, number};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;
use crate::sysfs_collector::{Decode, SysfsFiles};

const STATE: Desc<'static> = Desc::gauge("node_md_state", "Indicates the state of md-device.");
const DISKS: Desc<'static> = Desc::gauge(
    "node_md_disks",
    "Number of active/failed/spare disks of device.",
);
const REQUIRED: Desc<'static> =
    Desc::gauge("node_md_disks_required", "Total number of disks of device.");
const BLOCKS: Desc<'static> = Desc::gauge("node_md_blocks", "Total number of blocks on device.");
const SYNCED: Desc<'static> = Desc::gauge(
    "node_md_blocks_synced",
    "Number of blocks synced on device.",
);
const RAID_DISKS: Desc<'static> =
    Desc::gauge("node_md_raid_disks", "Number of raid disks on device.");
const DEGRADED: Desc<'static> =
    Desc::gauge("node_md_degraded", "Number of degraded disks on device.");

/// States as printed by the kernel and as exported.
const STATES: [(State, &str); 5] = [
    (State::Active, "active"),
    (State::Inactive, "inactive"),
    (State::Recovering, "recovering"),
    (State::Resyncing, "resync"),
    (State::Checking, "check"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Inactive,
    Recovering,
    Resyncing,
    Checking,
    /// Reshaping, broken.
    Other,
}

pub(crate) struct Mdadm {
    file: OpenFile,
    directory: PathBuf,
    arrays: OrderedCache<Box<[u8]>, Slots>,
    files: SysfsFiles,
}

struct Slots {
    states: [Slot; STATES.len()],
    /// Active, failed, spare; required, blocks, blocks in sync.
    numbers: [Slot; 6],
}

impl Mdadm {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self {
            file: OpenFile::new(config.procfs.join("mdstat")),
            directory: config.sysfs.join("block"),
            arrays: OrderedCache::new(),
            files: SysfsFiles::new(),
        }
    }
}

impl Collector for Mdadm {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, End::Empty);
        let arrays = &mut self.arrays;
        arrays.begin();
        let parsed = parse(text.map_err(HostError::or_no_data)?, |array| {
            let slots = arrays.entry(array.name, || Slots::new(array.name, out));
            slots.set(array, out);
        });
        parsed.map_err(|source| self.file.malformed(source))?;
        self.arrays.sweep(|_, slots| slots.retire(out));
        let directory = &self.directory;
        self.files.run(ctx, out, |plan| {
            let names = sysdir::list_if_there(directory)?;
            for name in names.iter().filter(|name| name.starts_with("md")) {
                let directory = directory.join(name).join("md");
                let Some(level) = plan.label(&directory.join("level")) else {
                    continue;
                };
                let labels = [("device", name.as_str())];
                // Containers have no disks of their own.
                if !matches!(level.as_str(), "container" | "imsm" | "ddf" | "") {
                    let path = directory.join("raid_disks");
                    plan.file(&RAID_DISKS, &labels, &path, Decode::With(raid_disks));
                }
                if matches!(
                    level.as_str(),
                    "raid1" | "raid4" | "raid5" | "raid6" | "raid10"
                ) {
                    plan.file(
                        &DEGRADED,
                        &labels,
                        &directory.join("degraded"),
                        Decode::PLAIN,
                    );
                } else {
                    plan.fixed(&DEGRADED, &labels, 0.0);
                }
            }
            Ok(())
        })
    }
}

/// Reads the first number of `11`, or of `11 (10)` while the array is being reshaped.
fn raid_disks(mut text: &[u8]) -> Option<f64> {
    let disks = next_field(&mut text).and_then(number)?;
    Some(disks as f64)
}

impl Slots {
    fn new(name: &[u8], out: &mut Sink) -> Self {
        let name = label_text(name);
        let device = ("device", name.as_str());
        let states = STATES.map(|(_, state)| out.add(&STATE, &[device, ("state", state)]));
        let mut disks = |state| out.add(&DISKS, &[device, ("state", state)]);
        let [active, failed, spare] = ["active", "failed", "spare"].map(&mut disks);
        let [required, blocks, synced] =
            [REQUIRED, BLOCKS, SYNCED].map(|desc| out.add(&desc, &[device]));
        Self {
            states,
            numbers: [active, failed, spare, required, blocks, synced],
        }
    }

    fn set(&self, array: &Array<'_>, out: &mut Sink) {
        let states = STATES.map(|(state, _)| f64::from(u8::from(array.state == state)));
        out.set_all(&self.states, states);
        let numbers = [
            array.active,
            array.failed,
            array.spare,
            array.required,
            array.blocks,
            array.synced,
        ];
        out.set_all(&self.numbers, numbers.map(|number| number as f64));
    }

    fn retire(self, out: &mut Sink) {
        out.retire_all(self.states.into_iter().chain(self.numbers));
    }
}

/// An array as printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Array<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) state: State,
    pub(crate) active: u64,
    pub(crate) failed: u64,
    pub(crate) spare: u64,
    pub(crate) required: u64,
    pub(crate) blocks: u64,
    pub(crate) synced: u64,
}

/// Calls `each` with every array: a line of its members, a line of its size, and its activity.
pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&Array<'_>)) -> Result<(), ParseError> {
    let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    for (at, line) in lines.iter().enumerate() {
        let begins = |word: &[u8]| line.starts_with(word);
        let is_array = line.first().is_some_and(|b| !b.is_ascii_whitespace())
            && !begins(b"Personalities :")
            && !begins(b"unused");
        if !is_array {
            continue;
        }
        let array = parse_array(&lines[at..]).map_err(|expected| ParseError {
            line: u32::try_from(at + 1).unwrap_or(u32::MAX),
            expected,
        })?;
        each(&array);
    }
    Ok(())
}

fn parse_array<'a>(lines: &[&'a [u8]]) -> Result<Array<'a>, &'static str> {
    let [members, size, rest @ ..] = lines else {
        return Err("a line with the array's size");
    };
    let mut fields = *members;
    let mut field = || next_field(&mut fields).ok_or("a name, a colon and a state");
    let (name, _colon, state) = (field()?, field()?, field()?);
    let count = |text: &[u8], word: &[u8]| memchr::memmem::find_iter(text, word).count() as u64;
    let has = |text: &[u8], word: &[u8]| memchr::memmem::find(text, word).is_some();
    let mut size_fields = *size;
    let blocks = next_field(&mut size_fields).and_then(number);
    let blocks = blocks.ok_or("the number of blocks")?;
    let (active, required) = if has(members, b"raid0") || has(members, b"linear") {
        let disks = count(members, b"[");
        (disks, disks)
    } else if has(members, b"inactive") {
        (0, 0)
    } else {
        disks(size).ok_or("disks as [total/active] [UU]")?
    };
    let mut rest = rest.iter();
    let mut doing: &[u8] = rest.next().ok_or("what the array does")?;
    if has(doing, b"bitmap") {
        doing = rest.next().copied().unwrap_or_default();
    }
    let doing_state = [
        (&b"recovery"[..], State::Recovering),
        (b"reshape", State::Other),
        (b"check", State::Checking),
        (b"resync", State::Resyncing),
    ];
    let doing_state = doing_state.iter().find(|(word, _)| has(doing, word));
    let synced = match doing_state {
        None => blocks,
        Some(_) if has(doing, b"PENDING") || has(doing, b"DELAYED") => 0,
        Some(_) => progress(doing).ok_or("progress as (done/total)")?,
    };
    Ok(Array {
        name,
        state: match (doing_state, state) {
            (Some((_, state)), _) => *state,
            (None, b"active") => State::Active,
            (None, b"inactive") => State::Inactive,
            (None, _) => State::Other,
        },
        active,
        failed: count(members, b"(F)"),
        spare: count(members, b"(S)"),
        required,
        blocks,
        synced,
    })
}

/// Reads `[4/3]` before `[UUU_]`: active and required disks.
fn disks(line: &[u8]) -> Option<(u64, u64)> {
    let mut fields = line;
    while let Some(field) = next_field(&mut fields) {
        let inner = field
            .strip_prefix(b"[")
            .and_then(|field| field.strip_suffix(b"]"));
        let Some(inner) = inner else { continue };
        let Some(at) = memchr::memchr(b'/', inner) else {
            continue;
        };
        return Some((number(&inner[at + 1..])?, number(&inner[..at])?));
    }
    None
}

/// Reads the first number of `(16775552/5930135808)`.
fn progress(line: &[u8]) -> Option<u64> {
    let start = memchr::memchr(b'(', line)? + 1;
    let end = start + memchr::memchr(b'/', &line[start..])?;
    number(&line[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(text: &str) -> Result<Vec<(String, State, [u64; 6])>, u32> {
        let mut seen = Vec::new();
        parse(text.as_bytes(), |a| {
            let numbers = [a.active, a.failed, a.spare, a.required, a.blocks, a.synced];
            seen.push((label_text(a.name), a.state, numbers));
        })
        .map_err(|error| error.line)?;
        Ok(seen)
    }

    #[test]
    fn arrays_that_rest_recover_and_are_off() {
        let text = "Personalities : [raid1] [raid6]\n\
            md3 : active raid6 sda1[8] sdh1[7](F) sdg1[6](S)\n      58 blocks super 1.2 [8/7] [UUUUUUU_]\n      \n\
            md8 : active raid1 sdb1[1] sda1[0]\n      195 blocks [2/2] [UU]\n      bitmap: 0/1 pages\n      \
            [=>...]  resync =  8.5% (16/195) finish=17min speed=259783K/sec\n\n\
            md9 : inactive sda1[0](S)\n      7 blocks\n\n\
            md10 : active raid0 sda1[0] sdb1[1]\n      3 blocks 64k chunks\n\n\
            unused devices: <none>\n";
        let of = |name: &str, state, numbers| (name.to_string(), state, numbers);
        assert_eq!(
            arrays(text),
            Ok(vec![
                of("md3", State::Active, [7, 1, 1, 8, 58, 58]),
                of("md8", State::Resyncing, [2, 0, 0, 2, 195, 16]),
                of("md9", State::Inactive, [0, 0, 1, 0, 7, 7]),
                of("md10", State::Active, [2, 0, 0, 2, 3, 3]),
            ])
        );
    }

    #[test]
    fn damage_names_the_arrays_line() {
        for bad in [
            "md0 : active",
            "md0 : active raid1\nx blocks\n\n",
            "md0 : active raid1\n3 blocks\n\n",
            "md0\n",
        ] {
            assert_eq!(
                arrays(&format!("Personalities :\n{bad}")),
                Err(2),
                "{bad:?}"
            );
        }
        assert_eq!(raid_disks(b"11 (10)"), Some(11.0));
    }
}
