//! Pages of the program that only its start needed: given back, so that a small process looks small.
//!
//! The program is one file for all commands, and the kernel maps sixteen pages around each that is touched: starting
//! leaves three times more of it resident than serving needs.
//!
//! **Invariant:** only segments that nobody may write are given back: the kernel reads their pages from the file again.

use std::{
    ffi::{c_int, c_void},
    time::Duration,
};

/// After this time a command that serves has passed by all that its first answers need.
const FIRST_ANSWERS: Duration = Duration::from_secs(10);

/// Gives back what the start of a command that serves needed, and some time later what its first answers did.
pub(crate) fn give_back_after_start() {
    give_back();
    // The runtime drops it if the command ends earlier.
    tokio::spawn(async {
        tokio::time::sleep(FIRST_ANSWERS).await;
        give_back();
    });
}

/// Gives back the pages of the program and its libraries; those still needed return one by one as they are touched.
pub(crate) fn give_back() {
    // SAFETY: the callback has the signature that the loader calls, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::null_mut()) };
}

/// Gives back an object's pages.
///
/// # Safety
/// `info` must be what the loader passes.
unsafe extern "C" fn each(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a description that is valid during the call.
    let (base, headers) = unsafe {
        let info = &*info;
        let count = usize::from(info.dlpi_phnum);
        (
            info.dlpi_addr,
            std::slice::from_raw_parts(info.dlpi_phdr, count),
        )
    };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        let is_read_only = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
        // The kernel's own object is no file.
        if !is_read_only || header.p_filesz == 0 {
            continue;
        }
        let from = (base + header.p_vaddr) / page * page;
        let to = (base + header.p_vaddr + header.p_memsz).next_multiple_of(page);
        let (from, bytes) = (from as usize as *mut c_void, (to - from) as usize);
        // SAFETY: nobody writes to these pages, relocations included, so the file has the same bytes.
        let _only_larger = unsafe { libc::madvise(from, bytes, libc::MADV_DONTNEED) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of text that stay what they are.
    static TEXT: [u8; 16 << 10] = [7; 16 << 10];

    fn resident_file_kb() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssFile:"));
        let number = line.unwrap().trim().trim_end_matches(" kB");
        number.parse().unwrap()
    }

    #[test]
    fn pages_are_given_back_and_read_again() {
        let sum = || {
            std::hint::black_box(&TEXT)
                .iter()
                .map(|byte| u64::from(*byte))
                .sum::<u64>()
        };
        let (before, expected) = (resident_file_kb(), sum());
        give_back();
        let after = resident_file_kb();
        assert!(after < before, "{before} kB, then {after} kB");
        assert_eq!(sum(), expected);
    }
}
