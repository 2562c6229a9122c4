//! Entry point for fuzzers and the seeded mutator: the bytes of a manifest go in, and nothing panics.
//!
//! **Invariant:** a manifest that was read round-trips through writing.

use super::manifest::Manifest;
use crate::io::FaultyIo;
use std::path::Path;

/// Length of a manifest without its body, with the offsets of the body's length and the checksum.
const HEADER_BYTES: usize = 20;
const LEN_AT: usize = 12;
const CRC_AT: usize = 16;

/// Reads any bytes as a manifest, as they are and with a corrected checksum, so that the code behind it is reached.
///
/// # Panics
/// Panics when an invariant is broken, which is what fuzzing looks for.
pub fn fuzz_manifest(data: &[u8]) {
    let mut mended = data.to_vec();
    if let Some((header, body)) = mended.split_at_mut_checked(HEADER_BYTES) {
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        header[LEN_AT..CRC_AT].copy_from_slice(&len.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..CRC_AT]), body);
        header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }
    read(data.to_vec());
    read(mended);
}

fn read(bytes: Vec<u8>) {
    let root = Path::new("/fuzz");
    let disk = FaultyIo::new();
    disk.put_file(&root.join("MANIFEST"), bytes);
    let Ok(Ok(Some(manifest))) = Manifest::read(&disk, root) else {
        return;
    };
    // Writing replaces the old manifest.
    let written = manifest.write(&disk, root);
    written.expect("no fault was asked for");
    let again = Manifest::read(&disk, root).ok().and_then(Result::ok);
    assert_eq!(again.flatten(), Some(manifest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::mutate::Mutator;

    #[test]
    fn mutated_manifests_are_read_or_refused() {
        let two = b"NRTHXMAN\x02\0\0\0\x0f\0\0\0\0\0\0\0\x07\x02\x01a\0\x02bc\x01\x02\x04\x01\x03\x05\x07";
        let one = b"NRTHXMAN\x01\0\0\0\x04\0\0\0\0\0\0\0\x07\x01\x01a\0";
        Mutator::new(0x3a).run(&[two, one], 5_000, fuzz_manifest);
    }
}
