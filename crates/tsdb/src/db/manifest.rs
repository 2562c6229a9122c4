//! The manifest: the list of live blocks, and how far strips are in them.
//!
//! ```text
//! MANIFEST = magic "NRTHXMAN" (8), version u32, length u32, crc u32, body[length]        (little-endian)
//! body     = next strip, blocks: count, block*, marks: count, (strip, rows, out-of-order)*   (varints)
//! block    = file name, flags u8, oldest and newest time                                  (since version 2)
//! ```
//! The checksum (CRC-32C) covers the 16 bytes before it and the body; in version 1 only the body.
//!
//! **Invariant:** the file is replaced as a whole; a block becomes visible together with the marks that say it holds
//! the WAL's rows.

use crate::{
    block::BlockMeta,
    bytes::{Malformed, Reader, put_bytes, put_signed, put_varint},
    error::{Damage, TsdbError, io_error},
    io::Io,
    wal::StripMark,
};
use narthex_model::storage::TimeRange;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const NAME: &str = "MANIFEST";
const TEMPORARY: &str = "MANIFEST.tmp";
const MAGIC: [u8; 8] = *b"NRTHXMAN";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 20;
const CRC_AT: usize = 16;

/// Contents of the manifest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Manifest {
    /// Lower bound of unused strip numbers: no strip had this number or a higher one.
    pub(super) next_strip: u32,
    /// Blocks in order of precedence: the first one wins on equal times.
    pub(super) blocks: Vec<Listed>,
    /// How far strips that the WAL may still mention are in blocks.
    pub(super) marks: BTreeMap<u32, StripMark>,
}

/// A listed block.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Listed {
    /// File name.
    pub(super) name: String,
    /// Times of its oldest and newest sample, if known.
    pub(super) range: Option<TimeRange>,
    /// Whether it was unreadable when the list was made, so that the marks do not rely on it.
    pub(super) given_up: bool,
}

const WITH_RANGE: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Listed {
    /// Returns the entry of a block known only by name.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the entry of a block.
    pub(super) fn new(meta: &BlockMeta) -> Self {
        Self {
            name: meta.file_name(),
            range: Some(TimeRange::new(meta.min_time_ms, meta.max_time_ms)),
            given_up: false,
        }
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        let flags = if self.given_up { GIVEN_UP } else { 0 };
        if let Some(range) = self.range {
            out.push(flags | WITH_RANGE);
            put_signed(out, range.min_ms);
            put_signed(out, range.max_ms);
        } else {
            out.push(flags);
        }
    }

    fn read(reader: &mut Reader<'_>, version: u32) -> Result<Self, Malformed> {
        let mut listed = Self::named(reader.text()?);
        if version > 1 {
            let flags = reader.byte()?;
            listed.given_up = flags & GIVEN_UP != 0;
            if flags & WITH_RANGE != 0 {
                listed.range = Some(TimeRange::new(reader.signed()?, reader.signed()?));
            }
        }
        Ok(listed)
    }
}

impl Manifest {
    /// Reads the manifest of the database at `root`, or the default if there is none.
    ///
    /// # Errors
    /// Fails when it cannot be read or is of a newer version. A damaged one yields the damage instead of a manifest.
    pub(super) fn read(
        io: &dyn Io,
        root: &Path,
    ) -> Result<Result<Option<Self>, Damage>, TsdbError> {
        let path = root.join(NAME);
        let file = match io.open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Ok(None)),
            other => other.map_err(io_error(&path, "open"))?,
        };
        let len = file.len_bytes().map_err(io_error(&path, "stat"))?;
        // A manifest is small: a few bytes per block and strip.
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(1 << 30);
        let mut bytes = vec![0; len];
        file.read_exact_at(0, &mut bytes)
            .map_err(io_error(&path, "read"))?;
        Self::decode(&bytes, &path)
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Result<Option<Self>, Damage>, TsdbError> {
        let damage = |offset: usize, what: &str| {
            let detail = format!("{what}; the blocks beside it are taken as they are");
            Ok(Err(Damage {
                path: path.to_owned(),
                offset: offset as u64,
                detail,
            }))
        };
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return damage(bytes.len(), "it ends too early");
        };
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if header[..8] != MAGIC {
            return damage(0, "it does not begin as a manifest does");
        }
        let (version, stored) = (number(8), number(CRC_AT));
        if number(12) as usize != body.len() {
            return damage(12, "its length is not the file's");
        }
        // In any version, a matching checksum proves that the version is the one written.
        if stored == checksum(&header[..CRC_AT], body) {
            if version != VERSION {
                return Err(TsdbError::Version {
                    path: path.to_owned(),
                    got: version,
                    expected: VERSION,
                });
            }
        } else if version != 1 || stored != checksum(&[], body) {
            return damage(HEADER_BYTES, "its checksum is wrong");
        }
        match Self::decode_body(body, version) {
            Ok(manifest) => Ok(Ok(Some(manifest))),
            Err(Malformed { offset, what }) => damage(HEADER_BYTES + offset, what),
        }
    }

    fn decode_body(body: &[u8], version: u32) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let mut manifest = Self {
            next_strip: reader.varint_u32("strip number")?,
            ..Self::default()
        };
        for _ in 0..reader.varint()? {
            manifest.blocks.push(Listed::read(&mut reader, version)?);
        }
        for _ in 0..reader.varint()? {
            let strip = reader.varint_u32("strip number")?;
            let mark = StripMark {
                rows: reader.varint()?,
                out_of_order: reader.varint()?,
            };
            manifest.marks.insert(strip, mark);
        }
        Ok(manifest)
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, u64::from(self.next_strip));
        put_varint(&mut body, self.blocks.len() as u64);
        self.blocks
            .iter()
            .for_each(|block| block.encode_into(&mut body));
        put_varint(&mut body, self.marks.len() as u64);
        for (strip, mark) in &self.marks {
            for number in [u64::from(*strip), mark.rows, mark.out_of_order] {
                put_varint(&mut body, number);
            }
        }
        let len = u32::try_from(body.len()).expect("a manifest is small");
        let mut bytes = MAGIC.to_vec();
        for number in [VERSION, len] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let crc = checksum(&bytes, &body);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    /// Replaces the manifest of the database at `root`; durable when it returns.
    ///
    /// # Errors
    /// Fails when it cannot be written; either the old or the new one may then count.
    pub(super) fn write(&self, io: &dyn Io, root: &Path) -> Result<(), TsdbError> {
        self.write_temporary(io, root)?;
        publish(io, root)
    }

    /// Writes the new manifest beside the live one.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old one stays live.
    pub(super) fn write_temporary(&self, io: &dyn Io, root: &Path) -> Result<(), TsdbError> {
        let temporary = root.join(TEMPORARY);
        match io.remove(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error(&temporary, "remove")(error));
            }
            _ => {}
        }
        let file = io
            .create(&temporary)
            .map_err(io_error(&temporary, "create"))?;
        file.append(&self.encode())
            .map_err(io_error(&temporary, "write"))?;
        file.sync().map_err(io_error(&temporary, "fsync"))
    }
}

/// Makes the written manifest live.
///
/// # Errors
/// Fails when it cannot be renamed or the name cannot be made durable; either one may then count.
pub(super) fn publish(io: &dyn Io, root: &Path) -> Result<(), TsdbError> {
    let path: PathBuf = root.join(NAME);
    io.rename(&root.join(TEMPORARY), &path)
        .map_err(io_error(&path, "rename"))?;
    io.sync_dir(root).map_err(io_error(root, "fsync"))
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::FaultyIo;

    fn sample() -> Manifest {
        let marks = [
            (
                3,
                StripMark {
                    rows: 300,
                    out_of_order: 0,
                },
            ),
            (
                900,
                StripMark {
                    rows: 0,
                    out_of_order: 77,
                },
            ),
        ];
        Manifest {
            next_strip: 901,
            blocks: vec![
                Listed {
                    name: "A.block".into(),
                    range: Some(TimeRange::new(-5, 7_200_000)),
                    given_up: true,
                },
                Listed::named("B.block"),
            ],
            marks: marks.into(),
        }
    }

    fn disk() -> (FaultyIo, &'static Path) {
        let disk = FaultyIo::new();
        disk.create_dir_all(Path::new("/data")).unwrap();
        (disk, Path::new("/data"))
    }

    #[test]
    fn it_comes_back_and_is_replaced_whole() {
        let (disk, root) = disk();
        assert_eq!(Manifest::read(&disk, root).unwrap(), Ok(None));
        Manifest::default().write(&disk, root).unwrap();
        for failing in 0..5 {
            disk.fail_operation(failing);
            if sample().write(&disk, root).is_err() {
                let found = Manifest::read(&disk, root).unwrap().unwrap().unwrap();
                assert!(
                    found == Manifest::default() || found == sample(),
                    "old or new: {found:?}"
                );
            }
        }
        sample().write(&disk, root).unwrap();
        assert_eq!(Manifest::read(&disk, root).unwrap(), Ok(Some(sample())));
    }

    #[test]
    fn damage_is_found_and_newer_versions_refused() {
        let (disk, root) = disk();
        sample().write(&disk, root).unwrap();
        let path = root.join(NAME);
        let good = disk.bytes(&path).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                disk.put_file(&path, bytes);
                assert!(
                    Manifest::read(&disk, root).unwrap().is_err(),
                    "bit {bit} of byte {at}"
                );
            }
        }
        disk.put_file(&path, good[..10].to_vec());
        assert!(Manifest::read(&disk, root).unwrap().is_err());
        let mut newer = good;
        newer[8] = 3;
        let crc = checksum(&newer[..CRC_AT], &newer[HEADER_BYTES..]);
        newer[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        disk.put_file(&path, newer);
        assert!(matches!(
            Manifest::read(&disk, root),
            Err(TsdbError::Version { got: 3, .. })
        ));
    }

    fn committed(name: &str, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let path = narthex_testkit::workspace_root()
            .join("testdata/formats")
            .join(name);
        if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() && !name.starts_with("v1") {
            std::fs::write(&path, write()).expect("testdata can be written");
        }
        std::fs::read(&path).expect("a committed file")
    }

    #[test]
    fn the_committed_manifests_read_as_written() {
        let (disk, root) = disk();
        for version in ["v1", "v2"] {
            let bytes = committed(&format!("{version}/manifest"), || sample().encode());
            disk.put_file(&root.join(NAME), bytes);
            let mut expected = sample();
            if version == "v1" {
                expected.blocks[0] = Listed::named(&expected.blocks[0].name);
            }
            let read = Manifest::read(&disk, root).unwrap();
            assert_eq!(read, Ok(Some(expected)), "{version}");
        }
        let damaged = committed("v2/manifest_damaged", || {
            let mut bytes = sample().encode();
            bytes[9] ^= 0x10;
            bytes
        });
        disk.put_file(&root.join(NAME), damaged);
        let damage = Manifest::read(&disk, root).unwrap().unwrap_err();
        assert_eq!(damage.path, root.join(NAME));
        assert!(damage.detail.contains("checksum"), "{damage}");
    }
}
