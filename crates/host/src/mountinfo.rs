//! Lines of `/proc/<pid>/mountinfo`.
//!
//! Grammar: `id parent major:minor root mount-point options optional* "-" type source super-options`.
//! Invariant: fields are borrowed as printed, with their octal escapes.

use crate::error::ParseError;
use crate::scan::{each_line, number};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountLine<'a> {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) mount_point: &'a [u8],
    pub(crate) options: &'a [u8],
    pub(crate) fs_type: &'a [u8],
    pub(crate) source: &'a [u8],
    pub(crate) super_options: &'a [u8],
}

impl MountLine<'_> {
    /// Reports whether the mount or its file system is read-only, by option or after an error.
    pub(crate) fn read_only(&self) -> bool {
        let has = |options: &[u8], wanted: &[u8]| {
            options.split(|b| *b == b',').any(|option| option == wanted)
        };
        has(self.options, b"ro")
            || has(self.super_options, b"ro")
            || has(self.super_options, b"emergency_ro")
    }
}

pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&MountLine<'_>)) -> Result<(), ParseError> {
    each_line(text, |line| {
        each(&parse_line(line)?);
        Ok(())
    })
}

fn parse_line(line: &[u8]) -> Result<MountLine<'_>, &'static str> {
    let mut fields = line.split(|b| *b == b' ');
    let mut field = || fields.next().ok_or("ten fields");
    let is_number = |text: &[u8]| number(text).map(drop).ok_or("a mount's number");
    is_number(field()?)?;
    is_number(field()?)?;
    let (major, minor) = device_number(field()?).ok_or("major:minor")?;
    let _root = field()?;
    let mount_point = field()?;
    let options = field()?;
    while field()? != b"-" {}
    let (fs_type, source, super_options) = (field()?, field()?, field()?);
    Ok(MountLine {
        major,
        minor,
        mount_point,
        options,
        fs_type,
        source,
        super_options,
    })
}

fn device_number(text: &[u8]) -> Option<(u32, u32)> {
    let at = memchr::memchr(b':', text)?;
    let half = |digits: &[u8]| number(digits).and_then(|n| u32::try_from(n).ok());
    Some((half(&text[..at])?, half(&text[at + 1..])?))
}

/// Replaces the octal escapes of the bytes in `which`.
pub(crate) fn unescape(text: &[u8], which: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        match rest
            .get(at + 1..at + 4)
            .and_then(octal)
            .filter(|byte| which.contains(byte))
        {
            Some(byte) => {
                plain.push(byte);
                rest = &rest[at + 4..];
            }
            None => {
                plain.push(b'\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.extend_from_slice(rest);
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 7 {
            return None;
        }
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_are_any_number() {
        for optional in ["", "shared:1 ", "shared:1 master:2 propagate_from:3 "] {
            let text = format!(
                "29 1 259:2 / /a\\040b rw,relatime {optional}- ext4 /dev/dm-2 errors=remount-ro,ro\n"
            );
            let mut seen = 0;
            let parsed = parse(text.as_bytes(), |line| {
                seen += 1;
                assert_eq!(
                    (line.major, line.minor, line.fs_type),
                    (259, 2, &b"ext4"[..])
                );
                assert_eq!(
                    (line.mount_point, line.source),
                    (&b"/a\\040b"[..], &b"/dev/dm-2"[..])
                );
                assert!(line.read_only());
            });
            assert_eq!((parsed, seen), (Ok(()), 1));
        }
    }

    #[test]
    fn read_only_is_a_whole_option() {
        let line = |options: &str, super_options: &str| {
            let text = format!("1 2 8:1 / /a {options} - ext4 s {super_options}");
            parse_line(text.as_bytes()).map(|line| line.read_only())
        };
        assert_eq!(line("rw,errors=remount-ro", "rw"), Ok(false));
        assert_eq!(line("ro,noatime", "rw"), Ok(true));
        assert_eq!(line("rw", "rw,emergency_ro"), Ok(true));
    }

    #[test]
    fn malformed_lines_are_errors() {
        let bad = [
            "",
            "1 2 8:1 / /a rw - ext4 s",
            "1 2 8 / /a rw - ext4 s rw",
            "x 2 8:1 / /a rw - ext4 s rw",
        ];
        for text in bad {
            assert!(parse_line(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(
            unescape(br"/a\040b\011c\134d\012\0", b" \t"),
            b"/a b\tc\\134d\\012\\0"
        );
        assert_eq!(
            unescape(br"/a\040b\134d\012\777\04", b" \t\n\\"),
            b"/a b\\d\n\\777\\04"
        );
    }
}
