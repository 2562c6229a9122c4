//! Memory shared with readers in other processes: the only unsafe code of segments.
//!
//! **Invariant:** a mapping stays until it is dropped, and everything that refers to it borrows it.
//!
//! Why this is sound: the mapping is of our own file, as long as the file was made, and nobody shortens it (a reader has
//! no reason to; one that does ends this process with SIGBUS, which is no undefined behaviour). Other processes see its
//! bytes change, and may change switches, so cells are only accessed as atomics. Bytes of records are written once,
//! through `&mut`, before the watermark is stored with release order, and never read here.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

// The same values for every architecture of Linux that has 64 bits.
const PROT_READ_WRITE: c_int = 1 | 2;
const MAP_SHARED: c_int = 1;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn posix_fallocate(fd: c_int, offset: i64, len: i64) -> c_int;
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; shared access is to atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of a file; those that are not allocated must not be touched.
    ///
    /// # Errors
    /// Fails when the kernel refuses.
    pub(super) fn new(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, where the kernel chooses, overlaps no other memory.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                PROT_READ_WRITE,
                MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let failed = start.addr() == usize::MAX;
        match NonNull::new(start.cast()) {
            Some(start) if !failed => Ok(Self { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the cell at an offset.
    ///
    /// # Panics
    /// Panics when the offset is no multiple of 8 or beyond the end.
    pub(super) fn cell(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.len && self.len - offset >= 8);
        // SAFETY: within the mapping, aligned (a mapping begins at a page), and only accessed as an atomic.
        unsafe { self.start.add(offset).cast().as_ref() }
    }

    /// Writes bytes that no reader looks at yet.
    ///
    /// # Panics
    /// Panics when they are beyond the end.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.len && self.len - offset >= bytes.len());
        // SAFETY: within the mapping, which no slice of this process overlaps.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset).as_ptr(), bytes.len());
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing refers to it any more.
        unsafe {
            munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

/// Allocates a part of a file.
///
/// # Errors
/// Fails when the file system is full.
pub(super) fn allocate(file: &File, offset: usize, len: usize) -> io::Result<()> {
    let number = |n: usize| i64::try_from(n).map_err(|_| io::ErrorKind::FileTooLarge);
    let (offset, len) = (number(offset)?, number(len)?);
    loop {
        // SAFETY: a system call about an open file.
        match unsafe { posix_fallocate(file.as_raw_fd(), offset, len) } {
            0 => return Ok(()),
            code => {
                let error = io::Error::from_raw_os_error(code);
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_mapping_is_the_file() {
        let dir = TempDir::new("map");
        let path = dir.write("file", [0; 64]);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        allocate(&file, 0, 128).unwrap();
        let mut map = Map::new(&file, 128).unwrap();
        map.cell(120).store(7, Relaxed);
        map.write(1, b"abc");
        let mut expected = [0; 128];
        expected[120] = 7;
        expected[1..4].copy_from_slice(b"abc");
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        assert!(Map::new(&file, 0).is_err());
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn cells_are_within_the_mapping() {
        let dir = TempDir::new("map");
        let path = dir.write("file", [0; 64]);
        let file = File::options().read(true).write(true).open(path).unwrap();
        Map::new(&file, 64).unwrap().cell(64);
    }
}
