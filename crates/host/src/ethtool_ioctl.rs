//! Questions of `ethtool(8)` to a device's driver.
//!
//! Invariant: every buffer is as long as the kernel may write, which is by its own count of statistics: there is room for
//! some that appear between two questions.

use std::ffi::c_void;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::cost;
use crate::error::HostError;
use crate::netlink::u32_at;
use crate::scan::{label_text, until_nul};

/// Modes of a port, as bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) supported: u32,
    pub(crate) advertised: u32,
    pub(crate) negotiates: bool,
}

/// A device's driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) firmware: String,
    pub(crate) bus: String,
    pub(crate) expansion_rom: String,
    /// Number of its statistics.
    pub(crate) statistics: usize,
}

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
/// Length of a statistic's name.
const NAME_BYTES: usize = 32;
/// Statistics that may appear between two questions.
const MORE: usize = 4096;
/// Far beyond any driver's statistics.
const LIMIT: usize = 32_768;

/// `struct ifreq` of linux/if.h.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    rest: [u8; 16],
}

// SAFETY: `SIOCETHTOOL` takes a pointer to `struct ifreq`, whose layout `Request` has.
unsafe impl Ioctl for Request {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        const SIOCETHTOOL: Opcode = 0x8946;
        SIOCETHTOOL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<(), Errno> {
        Ok(())
    }
}

/// Opens a socket for the questions; any will do.
pub(crate) fn open() -> Result<OwnedFd, HostError> {
    let family = AddressFamily::INET;
    let opened = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    opened.map_err(|source| HostError::Netlink {
        action: "open a socket for drivers",
        source,
    })
}

/// Asks with `words`, the first of which is the command; the answer replaces them.
fn ask(socket: &OwnedFd, device: &str, words: &mut [u64]) -> Result<(), Errno> {
    let mut name = [0; 16];
    // The last byte stays 0.
    let place = name
        .get_mut(..device.len())
        .filter(|place| place.len() < 16);
    place
        .ok_or(Errno::NODEV)?
        .copy_from_slice(device.as_bytes());
    let request = Request {
        name,
        data: words.as_mut_ptr().cast(),
        rest: [0; 16],
    };
    cost::count(size_of_val(words));
    // SAFETY: each caller's buffer has room for what the kernel writes for its command.
    unsafe { ioctl(socket, request) }
}

/// Puts two 32-bit words into one of 64 bits, in this order in memory.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the modes of the device's port.
pub(crate) fn link(socket: &OwnedFd, device: &str) -> Result<Link, Errno> {
    // `struct ethtool_cmd` has 44 bytes.
    let mut words = [0; 6];
    words[0] = pair(GET_SETTINGS, 0);
    ask(socket, device, &mut words)?;
    let bytes = bytes_of(&words);
    Ok(Link {
        supported: u32_at(&bytes, 4).unwrap_or(0),
        advertised: u32_at(&bytes, 8).unwrap_or(0),
        negotiates: bytes
            .get(18)
            .is_some_and(|autonegotiation| *autonegotiation != 0),
    })
}

/// Returns the driver's names and versions.
pub(crate) fn driver(socket: &OwnedFd, device: &str) -> Result<Driver, Errno> {
    // `struct ethtool_drvinfo` has 196 bytes.
    let mut words = [0; 25];
    words[0] = pair(GET_DRIVER, 0);
    ask(socket, device, &mut words)?;
    let bytes = bytes_of(&words);
    let text = |at: usize| {
        let field = bytes.get(at..at + 32).unwrap_or_default();
        label_text(until_nul(field))
    };
    let statistics = u32_at(&bytes, 180).unwrap_or(0) as usize;
    Ok(Driver {
        name: text(4),
        version: text(36),
        firmware: text(68),
        bus: text(100),
        expansion_rom: text(132),
        statistics: statistics.min(LIMIT),
    })
}

/// Returns the names of a device's statistics, in the order of their values.
pub(crate) fn statistic_names(
    socket: &OwnedFd,
    device: &str,
    count: usize,
) -> Result<Vec<String>, Errno> {
    const STATISTICS: u32 = 1;
    const HEAD_BYTES: usize = 12;
    let mut words = vec![0; 2 + (count + MORE) * NAME_BYTES / 8];
    words[0] = pair(GET_STRINGS, STATISTICS);
    words[1] = pair(u32::try_from(count).unwrap_or(0), 0);
    ask(socket, device, &mut words)?;
    let bytes = bytes_of(&words);
    let names = bytes.get(HEAD_BYTES..).unwrap_or_default();
    let names = names
        .chunks(NAME_BYTES)
        .take(count)
        .map(|name| label_text(until_nul(name)));
    Ok(names.collect())
}

/// Returns the values of a device's statistics.
pub(crate) fn statistics(socket: &OwnedFd, device: &str, count: usize) -> Result<Vec<u64>, Errno> {
    let mut words = vec![0; 1 + count + MORE];
    words[0] = pair(GET_STATISTICS, u32::try_from(count).unwrap_or(0));
    ask(socket, device, &mut words)?;
    Ok(words.into_iter().skip(1).take(count).collect())
}
