//! Fuzz targets: plain functions over bytes from outside.

use crate::elf::Elf;

/// Reads the bytes as an ELF file and looks for symbols in it.
pub fn fuzz_elf(data: &[u8]) {
    if let Some(elf) = Elf::parse(data) {
        for address in [0, 1, 0x1000, u64::MAX] {
            let _ = (elf.symbol(address), elf.bias(address, address));
        }
    }
}
