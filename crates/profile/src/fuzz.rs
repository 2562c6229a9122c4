//! Fuzz targets for input from outside.

use crate::elf::Elf;

/// Parses the bytes as an ELF file and looks up symbols in it.
pub fn fuzz_elf(data: &[u8]) {
    if let Some(elf) = Elf::parse(data) {
        for address in [0, 1, 0x1000, u64::MAX] {
            let _ = (elf.symbol(address), elf.bias(address, address));
        }
    }
}

/// Parses the bytes as a heap dump.
pub fn fuzz_heap(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok((rate, stacks)) = crate::heap::parse(&text) {
        assert!(rate > 0 && stacks.len() <= text.lines().count());
    }
}
