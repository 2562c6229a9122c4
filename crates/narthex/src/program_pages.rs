//! Pages of the program that only its start needed: given back, so that a small process looks small.
//!
//! The program is one file for all commands, and the kernel maps sixteen pages around each that is touched: starting
//! leaves three times more of it resident than serving needs.
//!
//! **Invariant:** only segments that nobody may write are given back: the kernel reads their pages from the file again.

use std::{
    ffi::{c_int, c_void},
    ops::Range,
    time::Duration,
};

/// After this time a command that serves has passed by all that its first answers need.
const FIRST_ANSWERS: Duration = Duration::from_secs(10);

/// What is mapped at most for a page that is touched, once the program is mapped in pieces.
const PIECE_BYTES: usize = 16 << 10;

/// Has the kernel map small pieces of the program: some third less of it is resident.
///
/// Around a page that is touched, the kernel maps what the page cache has within 64 KiB or within the same folio, but nothing
/// beyond the mapping. Neighbours with different flags are mappings of their own, and this flag changes nothing else: pages of
/// files are not in core dumps anyway. It costs the kernel some 250 bytes a piece.
pub(crate) fn map_in_pieces() {
    for segment in read_only_segments() {
        for from in segment.clone().step_by(2 * PIECE_BYTES) {
            let to = segment.end.min(from + PIECE_BYTES);
            advise(from..to, libc::MADV_DONTDUMP);
        }
    }
}

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
    for segment in read_only_segments() {
        advise(segment, libc::MADV_DONTNEED);
    }
}

/// Advises the kernel on pages of the program that nobody may write.
fn advise(pages: Range<usize>, advice: c_int) {
    // SAFETY: nobody writes to these pages, relocations included, so the file has the same bytes if they are dropped.
    let _only_larger = unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), advice) };
}

/// Returns the addresses of what nobody may write of the program and its libraries, in whole pages.
fn read_only_segments() -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    // SAFETY: the callback has the signature that the loader calls, and gets the list that it expects.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut segments).cast()) };
    segments
}

/// Adds an object's segments to a list.
///
/// # Safety
/// `info` must be what the loader passes, and `segments` a list of ranges that nobody else uses.
unsafe extern "C" fn each(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    segments: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes the list.
    let segments = unsafe { &mut *segments.cast::<Vec<Range<usize>>>() };
    // SAFETY: the loader passes a description that is valid during the call.
    let (base, headers) = unsafe {
        let info = &*info;
        let count = usize::from(info.dlpi_phnum);
        (
            info.dlpi_addr,
            std::slice::from_raw_parts(info.dlpi_phdr, count),
        )
    };
    let page = rustix::param::page_size();
    for header in headers {
        let is_read_only = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
        // The kernel's own object is no file.
        if !is_read_only || header.p_filesz == 0 {
            continue;
        }
        let from = (base + header.p_vaddr) as usize;
        let to = from + header.p_memsz as usize;
        segments.push(from / page * page..to.next_multiple_of(page));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Held while a test gives pages back.
    static GIVING: Mutex<()> = Mutex::new(());

    /// Bytes of text that stay what they are.
    static TEXT: [u8; 16 << 10] = [7; 16 << 10];

    /// More than a piece of them.
    static LONG_TEXT: [u8; 8 * PIECE_BYTES] = [9; 8 * PIECE_BYTES];

    /// Returns the mapping that has an address: its length, and how much of it is resident, in KiB.
    fn mapping_kb(address: usize) -> (usize, usize) {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines();
        let has = |line: &&str| {
            let range = line
                .split_once(' ')
                .and_then(|(range, _)| range.split_once('-'));
            let hex = |text| usize::from_str_radix(text, 16);
            range.is_some_and(|(from, to)| match (hex(from), hex(to)) {
                (Ok(from), Ok(to)) => (from..to).contains(&address),
                _ => false,
            })
        };
        lines.find(has).unwrap();
        let mut number = |key| {
            let text = lines.find_map(|line| line.strip_prefix(key)).unwrap();
            text.trim_end_matches("kB").trim().parse().unwrap()
        };
        (number("Size:"), number("Rss:"))
    }

    #[test]
    fn little_is_mapped_around_a_page_of_a_program_in_pieces() {
        let _giving = GIVING.lock();
        let page = &raw const LONG_TEXT[LONG_TEXT.len() / 2];
        map_in_pieces();
        give_back();
        // SAFETY: the byte is there.
        assert_eq!(unsafe { page.read_volatile() }, 9);
        let (size_kb, resident_kb) = mapping_kb(page as usize);
        assert_eq!(size_kb, PIECE_BYTES >> 10);
        assert!((4..=size_kb).contains(&resident_kb), "{resident_kb} kB");
    }

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
        let _giving = GIVING.lock();
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
