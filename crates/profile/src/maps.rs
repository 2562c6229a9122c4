//! The programs and libraries mapped into this process, with their symbols.
//!
//! **Invariant:** an address belongs to at most one module; its name is that of the symbol that covers it.

use crate::{ProfileError, elf::Elf};
use object::read::ReadCache;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
};

/// One mapping of code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

impl Mapping {
    fn goes_on_in(&self, next: &Self) -> bool {
        self.end == next.start
            && self.offset + (self.end - self.start) == next.offset
            && self.path == next.path
    }
}

/// A program or library.
pub(crate) struct Module {
    pub(crate) mapping: Mapping,
    /// Difference between addresses in memory and in the file.
    pub(crate) bias: u64,
    pub(crate) elf: Arc<Elf>,
}

/// All programs and libraries, by address.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
}

/// Estimated memory of symbols and unwind tables: one part in four of a program's size on disk.
const PART_IN_MEMORY: u64 = 4;

/// Returns the approximate size of this process's [`Modules`] in bytes.
pub(crate) fn modules_bytes() -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = parse_maps(&maps).into_iter().map(|mapping| mapping.path);
    let distinct: BTreeSet<String> = paths.collect();
    let lengths = distinct.iter().filter_map(|path| fs::metadata(path).ok());
    lengths.map(|file| file.len()).sum::<u64>() / PART_IN_MEMORY
}

impl Modules {
    /// Reads this process's mappings; unreadable files have no names.
    pub(crate) fn of_this_process() -> Result<Self, ProfileError> {
        let mut files: BTreeMap<String, Arc<Elf>> = BTreeMap::new();
        let mut all = Vec::new();
        let maps = fs::read_to_string("/proc/self/maps").map_err(|source| ProfileError::Io {
            operation: "read /proc/self/maps",
            source,
        })?;
        for mapping in parse_maps(&maps) {
            let elf = files.entry(mapping.path.clone()).or_insert_with(|| {
                // The program may have been replaced on disk since it was started.
                let path = match fs::canonicalize("/proc/self/exe") {
                    Ok(own) if own.as_os_str() == mapping.path.as_str() => "/proc/self/exe",
                    _ => mapping.path.as_str(),
                };
                let file = fs::File::open(path).ok();
                let elf = file.and_then(|file| Elf::parse(&ReadCache::new(file)));
                Arc::new(elf.unwrap_or_default())
            });
            let bias = elf.bias(mapping.start, mapping.offset);
            all.push(Module {
                bias,
                elf: Arc::clone(elf),
                mapping,
            });
        }
        all.sort_by_key(|module| module.mapping.start);
        Ok(Self { all })
    }

    /// Returns the index of the module that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let after = self
            .all
            .partition_point(|module| module.mapping.start <= address);
        let at = after.checked_sub(1)?;
        (address < self.all.get(at)?.mapping.end).then_some(at)
    }

    /// Returns the symbol that covers `address`.
    pub(crate) fn symbol(&self, address: u64) -> Option<&str> {
        let module = self.all.get(self.find(address)?)?;
        module.elf.symbol(address.wrapping_sub(module.bias))
    }

    /// Lists distinct stacks by the names of their functions, outermost first, each with the sum of its values.
    pub(crate) fn by_name<'a>(
        &self,
        stacks: impl Iterator<Item = (&'a [u64], u64)>,
    ) -> Vec<(Vec<String>, u64)> {
        let mut named: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for (stack, value) in stacks {
            let names = stack.iter().rev().map(|address| self.name(*address));
            *named.entry(names.collect()).or_default() += value;
        }
        named.into_iter().collect()
    }

    /// Returns the name of the function at `address`, or else its file, or else the address.
    pub(crate) fn name(&self, address: u64) -> String {
        if let Some(symbol) = self.symbol(address) {
            return demangled(symbol);
        }
        let module = self.find(address).and_then(|at| self.all.get(at));
        match module {
            Some(module) => {
                let file = module.mapping.path.rsplit('/').next().unwrap_or_default();
                format!("{file}+{:#x}", address.wrapping_sub(module.bias))
            }
            None => format!("{address:#x}"),
        }
    }
}

/// Returns a symbol in readable form, without its hash.
pub(crate) fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

/// Parses the mappings of code that have a file; those that go on in the next one, with other flags, are one.
fn parse_maps(text: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (range, mode, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let path = fields.nth(2)?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        (mode.contains('x') && path.starts_with('/')).then_some(Mapping {
            start: number(start)?,
            end: number(end)?,
            offset: number(offset)?,
            path: path.to_owned(),
        })
    };
    let mut all: Vec<Mapping> = Vec::new();
    for next in text.lines().filter_map(mapping) {
        match all.last_mut() {
            Some(last) if last.goes_on_in(&next) => last.end = next.end,
            _ => all.push(next),
        }
    }
    all
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_are_read() {
        let text = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 42 /usr/bin/x\n\
55d0c0001000-55d0c0002000 r-xp 00001000 08:01 42 /usr/bin/x\n\
55d0c0002000-55d0c0003000 r-xp 00002000 08:01 42 /usr/bin/x\n\
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n\
7f0000000000-7f0000001000 rwxp 00000000 00:00 0\n";
        let mapping = Mapping {
            start: 0x55d0_c000_1000,
            end: 0x55d0_c000_3000,
            offset: 0x1000,
            path: "/usr/bin/x".to_owned(),
        };
        assert_eq!(parse_maps(text), [mapping], "in two pieces");
        let apart = text.replace("00002000", "00003000");
        assert_eq!(parse_maps(&apart).len(), 2, "another part of the file");
    }

    #[test]
    fn functions_of_this_program_have_names() {
        let modules = Modules::of_this_process().unwrap();
        let address = parse_maps as *const () as u64;
        assert_eq!(modules.name(address), "narthex_profile::maps::parse_maps");
        assert_eq!(modules.name(0x10), "0x10");
    }
}
