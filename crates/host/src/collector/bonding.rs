//! Bonded network devices: their numbers of members and of active members.
//!
//! Invariant: a member counts as soon as it is listed, and as active while its link is up.

use std::path::{Path, PathBuf};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::ordered_cache::OrderedCache;
use crate::scan::{label_text, next_field, trim};
use crate::sink::{Desc, Sink, Slot};

const SLAVES: Desc<'static> = Desc::gauge(
    "node_bonding_slaves",
    "Number of configured slaves per bonding interface.",
);
const ACTIVE: Desc<'static> = Desc::gauge(
    "node_bonding_active",
    "Number of active slaves per bonding interface.",
);

pub(crate) struct Bonding {
    directory: PathBuf,
    masters: OpenFile,
    bonds: OrderedCache<Box<[u8]>, Bond>,
}

struct Bond {
    list: OpenFile,
    states: OrderedCache<Box<[u8]>, OpenFile>,
    slots: [Slot; 2],
}

impl Bonding {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let directory = config.sysfs.join("class/net");
        Self {
            masters: OpenFile::new(directory.join("bonding_masters")),
            directory,
            bonds: OrderedCache::new(),
        }
    }
}

impl Collector for Bonding {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.masters.read(ctx.buf, End::Short);
        let mut names = trim(text.map_err(HostError::or_no_data)?);
        let Self {
            bonds, directory, ..
        } = self;
        bonds.begin();
        while let Some(name) = next_field(&mut names) {
            bonds.entry(name, || Bond::new(name, directory, out));
        }
        bonds.sweep(|_, bond| out.retire_all(bond.slots));
        for (name, bond) in bonds.values_mut() {
            let counts = bond.count(&directory.join(label_text(name)), ctx.buf)?;
            out.set_all(&bond.slots, counts.map(f64::from));
        }
        Ok(())
    }
}

impl Bond {
    fn new(name: &[u8], directory: &Path, out: &mut Sink) -> Self {
        let name = label_text(name);
        let labels = [("master", name.as_str())];
        Self {
            list: OpenFile::new(directory.join(&name).join("bonding/slaves")),
            states: OrderedCache::new(),
            slots: [SLAVES, ACTIVE].map(|desc| out.add(&desc, &labels)),
        }
    }

    /// Counts members, and those whose link is up.
    fn count(&mut self, directory: &Path, buf: &mut ReadBuf) -> Result<[u32; 2], HostError> {
        let mut names = trim(self.list.read(buf, End::Short)?);
        self.states.begin();
        while let Some(name) = next_field(&mut names) {
            self.states.entry(name, || state_file(name, directory));
        }
        self.states.sweep(|_, _| {});
        let mut counts = [0, 0];
        for (_, file) in self.states.values_mut() {
            let is_up = trim(file.read(buf, End::Short)?) == b"up";
            counts[0] += 1;
            counts[1] += u32::from(is_up);
        }
        Ok(counts)
    }
}

fn state_file(name: &[u8], directory: &Path) -> OpenFile {
    let name = label_text(name);
    let of = |prefix: &str| {
        let member = directory.join(format!("{prefix}_{name}"));
        member.join("bonding_slave/mii_status")
    };
    // Older kernels use another name for the link.
    let path = of("lower");
    OpenFile::new(if path.exists() { path } else { of("slave") })
}
