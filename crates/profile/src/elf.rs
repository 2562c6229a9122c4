//! The parts of ELF files that profiles need: segments, unwind tables, symbols.
//!
//! **Invariant:** a malformed file yields fewer symbols, never a panic. Only the needed parts are read: a program
//! with debug information has a hundred megabytes.

use object::{
    LittleEndian as LE,
    elf::{FileHeader64, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC},
    read::{
        self, ReadRef,
        elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _},
    },
};
use std::ffi::CStr;

/// The parsed parts of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    pub(crate) eh_frame: Option<Section>,
    pub(crate) eh_frame_hdr: Option<Section>,
    pub(crate) text: Option<(u64, u64)>,
    /// Sorted by address.
    functions: Vec<Function>,
    /// The functions' names, each followed by a zero byte.
    names: Vec<u8>,
    pub(crate) build_id: String,
}

/// A section that is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    address: u64,
    len: u64,
    name_at: u32,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    address: u64,
    file_len: u64,
}

impl Elf {
    /// Parses a 64-bit little-endian file; returns `None` for anything else.
    pub(crate) fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let header = FileHeader64::<LE>::parse(data).ok()?;
        let mut elf = Self::default();
        let segments = header.program_headers(header.endian().ok()?, data).ok()?;
        for segment in segments
            .iter()
            .filter(|segment| segment.p_type(LE) == PT_LOAD)
        {
            elf.segments.push(Segment {
                offset: segment.p_offset(LE),
                address: segment.p_vaddr(LE),
                file_len: segment.p_filesz(LE),
            });
        }
        // A file without sections still has segments.
        let _ = elf.read_sections(header, data);
        Some(elf)
    }

    fn read_sections<'data>(
        &mut self,
        header: &FileHeader64<LE>,
        data: impl ReadRef<'data>,
    ) -> read::Result<()> {
        let sections = header.sections(LE, data)?;
        let kept = |name: &[u8]| {
            let (_, section) = sections.section_by_name(LE, name)?;
            Some(Section {
                address: section.sh_addr(LE),
                bytes: section.data(LE, data).ok()?.to_vec(),
            })
        };
        self.eh_frame = kept(b".eh_frame");
        self.eh_frame_hdr = kept(b".eh_frame_hdr");
        let text = sections.section_by_name(LE, b".text");
        self.text = text.map(|(_, text)| {
            let start = text.sh_addr(LE);
            (start, start.saturating_add(text.sh_size(LE)))
        });
        let note = kept(b".note.gnu.build-id").unwrap_or_default();
        let id = note.bytes.get(16..).unwrap_or_default();
        self.build_id = id.iter().map(|byte| format!("{byte:02x}")).collect();

        let mut symbols = sections.symbols(LE, data, SHT_SYMTAB)?;
        if symbols.is_empty() {
            symbols = sections.symbols(LE, data, SHT_DYNSYM)?;
        }
        let names = sections.section(symbols.string_section())?;
        self.names = names.data(LE, data)?.to_vec();
        let first = |one: &Function| self.names.get(usize::try_from(one.name_at).ok()?);
        let named = |one: &Function| first(one).is_some_and(|byte| *byte != 0);
        let functions = symbols
            .iter()
            .filter(|symbol| symbol.st_type() == STT_FUNC && symbol.st_value(LE) != 0)
            .map(|symbol| Function {
                address: symbol.st_value(LE),
                len: symbol.st_size(LE),
                name_at: symbol.st_name(LE),
            });
        self.functions = functions.filter(named).collect();
        self.functions.sort_by_key(|one| one.address);
        self.functions.dedup_by_key(|one| one.address);
        Ok(())
    }

    /// Returns the difference between addresses in memory and in the file, if the byte at `offset` is mapped to
    /// `start`.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> u64 {
        let holds = |segment: &&Segment| {
            let from = segment.offset & !0xfff;
            (from..segment.offset.saturating_add(segment.file_len)).contains(&offset)
        };
        match self.segments.iter().rev().find(holds) {
            Some(segment) => {
                let address = segment
                    .address
                    .wrapping_add(offset)
                    .wrapping_sub(segment.offset);
                start.wrapping_sub(address)
            }
            None => start.wrapping_sub(offset),
        }
    }

    /// Returns the name of the function that covers an address in the file.
    pub(crate) fn symbol(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|one| one.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        // Hand-written assembly functions have no length.
        let covers = function.len == 0 || address - function.address < function.len;
        self.name(function).filter(|_| covers)
    }

    fn name(&self, function: &Function) -> Option<&str> {
        let rest = self.names.get(usize::try_from(function.name_at).ok()?..)?;
        let name = CStr::from_bytes_until_nul(rest).ok()?.to_str().ok()?;
        (!name.is_empty()).then_some(name)
    }
}
