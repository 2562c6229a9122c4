//! ELF files, as far as profiles need them: segments, unwind tables, symbols.
//!
//! **Invariant:** a file that is none, or lies about its parts, gives fewer names, never a panic.

/// What is known of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    pub(crate) eh_frame: Option<Section>,
    pub(crate) eh_frame_hdr: Option<Section>,
    pub(crate) text: Option<(u64, u64)>,
    /// By address.
    symbols: Vec<Symbol>,
    pub(crate) build_id: String,
}

/// A section that is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    address: u64,
    file_len: u64,
}

/// A section's header.
#[derive(Clone, Copy, Debug)]
struct Header {
    name: u64,
    kind: u64,
    address: u64,
    offset: u64,
    len: u64,
    link: u64,
}

const PT_LOAD: u64 = 1;
const SHT_SYMTAB: u64 = 2;
const SHT_DYNSYM: u64 = 11;
const STT_FUNC: u64 = 2;
/// More symbols than any program has.
const MAX_SYMBOLS: usize = 4_000_000;

impl Elf {
    /// Reads a file of 64 bits, least significant byte first; `None` where it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let mut elf = Self::default();
        let (at, size, count) = (
            number(bytes, 32, 8)?,
            number(bytes, 54, 2)?,
            number(bytes, 56, 2)?,
        );
        for index in 0..count {
            let header = piece(bytes, at.checked_add(index * size)?, size)?;
            if number(header, 0, 4)? == PT_LOAD {
                elf.segments.push(Segment {
                    offset: number(header, 8, 8)?,
                    address: number(header, 16, 8)?,
                    file_len: number(header, 32, 8)?,
                });
            }
        }
        // A file without sections still has segments.
        let _ = elf.read_sections(bytes);
        elf.symbols.sort_by_key(|symbol| symbol.address);
        elf.symbols.dedup_by_key(|symbol| symbol.address);
        Some(elf)
    }

    fn read_sections(&mut self, bytes: &[u8]) -> Option<()> {
        let (at, size, count) = (
            number(bytes, 40, 8)?,
            number(bytes, 58, 2)?,
            number(bytes, 60, 2)?,
        );
        let header = |index: u64| -> Option<Header> {
            let header = piece(bytes, at.checked_add(index.checked_mul(size)?)?, size)?;
            Some(Header {
                name: number(header, 0, 4)?,
                kind: number(header, 4, 4)?,
                address: number(header, 16, 8)?,
                offset: number(header, 24, 8)?,
                len: number(header, 32, 8)?,
                link: number(header, 40, 4)?,
            })
        };
        let names = header(number(bytes, 62, 2)?)?;
        let names = piece(bytes, names.offset, names.len)?;
        let headers: Vec<Header> = (0..count).filter_map(header).collect();
        for section in &headers {
            let content = || piece(bytes, section.offset, section.len);
            let kept = || {
                Some(Section {
                    address: section.address,
                    bytes: content()?.to_vec(),
                })
            };
            match text(names, section.name).unwrap_or_default() {
                ".eh_frame" => self.eh_frame = kept(),
                ".eh_frame_hdr" => self.eh_frame_hdr = kept(),
                ".text" => {
                    self.text = Some((section.address, section.address.checked_add(section.len)?));
                }
                ".note.gnu.build-id" => {
                    let id = content()
                        .and_then(|note| note.get(16..))
                        .unwrap_or_default();
                    self.build_id = id.iter().map(|byte| format!("{byte:02x}")).collect();
                }
                _ => {}
            }
        }
        let full = headers.iter().any(|section| section.kind == SHT_SYMTAB);
        let wanted = if full { SHT_SYMTAB } else { SHT_DYNSYM };
        for section in headers.iter().filter(|section| section.kind == wanted) {
            let strings = headers.get(usize::try_from(section.link).ok()?)?;
            let strings = piece(bytes, strings.offset, strings.len)?;
            self.read_symbols(piece(bytes, section.offset, section.len)?, strings);
        }
        Some(())
    }

    fn read_symbols(&mut self, table: &[u8], strings: &[u8]) {
        for entry in table.chunks_exact(24).take(MAX_SYMBOLS) {
            let symbol = || {
                let (kind, address) = (number(entry, 4, 1)? & 15, number(entry, 8, 8)?);
                let name = text(strings, number(entry, 0, 4)?)?;
                (kind == STT_FUNC && address != 0 && !name.is_empty()).then(|| Symbol {
                    address,
                    len: number(entry, 16, 8).unwrap_or_default(),
                    name: name.to_owned(),
                })
            };
            self.symbols.extend(symbol());
        }
    }

    /// Returns what is added to the file's addresses where the byte at `offset` is mapped to `start`.
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

    /// Returns the symbol that covers an address of the file.
    pub(crate) fn symbol(&self, address: u64) -> Option<&Symbol> {
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        // Hand-written code has no length.
        (symbol.len == 0 || address - symbol.address < symbol.len).then_some(symbol)
    }
}

fn piece(bytes: &[u8], from: u64, len: u64) -> Option<&[u8]> {
    let from = usize::try_from(from).ok()?;
    bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)
}

/// Reads a number of up to eight bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

fn text(strings: &[u8], at: u64) -> Option<&str> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}
