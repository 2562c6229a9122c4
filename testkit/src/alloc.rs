//! An allocator that counts, and the bounds that fuzz functions are held to: how much memory an input may cost.
//!
//! Invariant: counting changes nothing of what is allocated; what one thread is charged with is what it asked for itself.
//!
//! A test binary that measures has this once:
//!
//! ```
//! use narthex_testkit::alloc::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! # fn main() {
//! let (text, used) = alloc::measured(|| "x".repeat(1000));
//! assert!(used.peak_bytes >= 1000 && used.live_bytes == 1000 && text.len() == 1000);
//! alloc::bounded(b"abc", 2, 64, |data| drop(data.to_vec()));
//! # }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::workspace_root;

/// How many times its bound on live memory an input may allocate in all, what it freed on the way included.
///
/// A vector that doubles allocates twice what it ends with, and a fuzz function reads its input several times; work that
/// grows with the square of the input exceeds this.
pub const TOTAL_FACTOR: usize = 8;

/// The table of bounds, one line for each fuzz target.
const BOUNDS: &str = "fuzz/bounds.txt";

/// The system's allocator, counting live, peak and total bytes by thread and for the process.
///
/// A reallocation counts by its difference, wherever the block ends up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

/// What was allocated, in the bytes that were asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes that are allocated and not freed. Negative where more was freed than allocated, as by a thread that drops
    /// what another made.
    pub live_bytes: i64,
    /// The most that was live at once.
    pub peak_bytes: i64,
    /// All that was ever allocated.
    pub total_bytes: u64,
    /// Calls that allocated or moved.
    pub calls: u64,
}

struct Local {
    live: Cell<i64>,
    peak: Cell<i64>,
    total: Cell<u64>,
    calls: Cell<u64>,
}

thread_local! {
    // Neither made lazily nor dropped: it never allocates itself, and can be reached as long as the thread runs.
    static LOCAL: Local = const {
        Local { live: Cell::new(0), peak: Cell::new(0), total: Cell::new(0), calls: Cell::new(0) }
    };
}

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

fn allocated(old: usize, new: usize) {
    let difference = new as i64 - old as i64;
    let grown = difference.max(0) as u64;
    LOCAL.with(|local| {
        local.live.set(local.live.get() + difference);
        local.peak.set(local.peak.get().max(local.live.get()));
        local.total.set(local.total.get() + grown);
        local.calls.set(local.calls.get() + 1);
    });
    // Counters alone: nothing is read by their order.
    let live = LIVE.fetch_add(difference, Ordering::Relaxed) + difference;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
    TOTAL.fetch_add(grown, Ordering::Relaxed);
    CALLS.fetch_add(1, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    let bytes = bytes as i64;
    LOCAL.with(|local| local.live.set(local.live.get() - bytes));
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; what is done beside it neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.alloc(layout) };
        if !made.is_null() {
            allocated(0, layout.size());
        }
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.alloc_zeroed(layout) };
        if !made.is_null() {
            allocated(0, layout.size());
        }
        made
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.realloc(ptr, layout, new_size) };
        if !made.is_null() {
            allocated(layout.size(), new_size);
        }
        made
    }
}

/// Returns what this thread allocated since it began.
#[must_use]
pub fn thread() -> Allocated {
    LOCAL.with(|local| Allocated {
        live_bytes: local.live.get(),
        peak_bytes: local.peak.get(),
        total_bytes: local.total.get(),
        calls: local.calls.get(),
    })
}

/// Returns what the process allocated since it began.
#[must_use]
pub fn process() -> Allocated {
    Allocated {
        live_bytes: LIVE.load(Ordering::Relaxed),
        peak_bytes: PEAK.load(Ordering::Relaxed),
        total_bytes: TOTAL.load(Ordering::Relaxed),
        calls: CALLS.load(Ordering::Relaxed),
    }
}

/// Lets the process' peak begin again at what is live, and returns what it was, in bytes.
pub fn restart_process_peak() -> i64 {
    PEAK.swap(LIVE.load(Ordering::Relaxed), Ordering::Relaxed)
}

/// Runs `f` and returns what this thread allocated meanwhile, beyond what it had.
///
/// What other threads allocate for `f` is not in it: see [`process`]. Calls nest.
///
/// # Panics
///
/// When [`Counting`] is not the binary's allocator: nothing would be measured.
pub fn measured<R>(f: impl FnOnce() -> R) -> (R, Allocated) {
    assert_counting();
    let before = thread();
    LOCAL.with(|local| local.peak.set(before.live_bytes));
    let result = f();
    let after = thread();
    LOCAL.with(|local| local.peak.set(before.peak_bytes.max(after.peak_bytes)));
    let used = Allocated {
        live_bytes: after.live_bytes - before.live_bytes,
        peak_bytes: after.peak_bytes - before.live_bytes,
        total_bytes: after.total_bytes - before.total_bytes,
        calls: after.calls - before.calls,
    };
    (result, used)
}

/// Calls `f` with `data` and asserts that at most `per_byte · len + constant` bytes were live at once on this thread,
/// and at most [`TOTAL_FACTOR`] times that allocated in all.
///
/// # Panics
///
/// When `f` takes more, or [`Counting`] is not the binary's allocator.
pub fn bounded<R>(
    data: &[u8],
    per_byte: usize,
    constant: usize,
    f: impl FnOnce(&[u8]) -> R,
) -> (R, Allocated) {
    let (result, used) = measured(|| f(data));
    let most = per_byte * data.len() + constant;
    assert!(
        used.peak_bytes <= most as i64,
        "{} bytes of input took {} bytes of memory at once, more than {per_byte} a byte and {constant}",
        data.len(),
        used.peak_bytes
    );
    assert!(
        used.total_bytes <= (TOTAL_FACTOR * most) as u64,
        "{} bytes of input allocated {} bytes in all, more than {TOTAL_FACTOR} times {per_byte} a byte and {constant}",
        data.len(),
        used.total_bytes
    );
    (result, used)
}

/// How much memory one fuzz function may take, see [`bounded`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// For each byte of the input.
    pub per_byte: usize,
    /// However short the input is.
    pub constant: usize,
}

impl Bound {
    /// Returns the bound of the function whose type is `F`, from the table in `fuzz/bounds.txt`; `None` if `F` is no
    /// fuzz function.
    ///
    /// # Panics
    ///
    /// When the table cannot be read, or has no line for it.
    pub(crate) fn of<F: ?Sized>() -> Option<Self> {
        let target = target_of(std::any::type_name::<F>())?;
        let bound = table().iter().find(|(name, _)| *name == target);
        let Some((_, bound)) = bound else {
            panic!("{BOUNDS} says not how much memory {target} may take");
        };
        Some(*bound)
    }
}

/// Turns the path of a function, `narthex_tsdb::fuzz::fuzz_wal`, into the name of its target, `tsdb_wal`.
fn target_of(path: &str) -> Option<String> {
    let (place, function) = path.rsplit_once("::")?;
    let name = function.strip_prefix("fuzz_")?;
    let package = place.split("::").next()?;
    let package = package.strip_prefix("narthex_").unwrap_or(package);
    Some(format!("{package}_{name}"))
}

fn table() -> &'static [(String, Bound)] {
    static TABLE: OnceLock<Vec<(String, Bound)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let path = workspace_root().join(BOUNDS);
        let text = fs::read_to_string(&path).expect("the table of bounds is in the workspace");
        parse(&text)
    })
}

/// Reads lines of a target's name, bytes for each byte and bytes at least; `#` begins a comment.
fn parse(text: &str) -> Vec<(String, Bound)> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter(|line| !line.trim().is_empty());
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let (per_byte, constant) = (number()?, number()?);
        words
            .next()
            .is_none()
            .then_some((name, Bound { per_byte, constant }))
    };
    lines
        .map(|line| read(line).unwrap_or_else(|| panic!("{BOUNDS}: {line:?} is no bound")))
        .collect()
}

/// # Panics
///
/// When this thread's counters do not move: the binary lacks the `#[global_allocator]`.
fn assert_counting() {
    let before = thread().calls;
    drop(black_box(Box::new(0_u8)));
    assert!(
        thread().calls > before,
        "nothing counts: this binary needs `#[global_allocator] static ALLOCATOR: narthex_testkit::alloc::Counting = \
         narthex_testkit::alloc::Counting;`"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuzz_example(_: &[u8]) {}

    fn name_of<F>(_: F) -> Option<String> {
        target_of(std::any::type_name::<F>())
    }

    #[test]
    fn a_function_names_its_target() {
        assert_eq!(name_of(fuzz_example).as_deref(), Some("testkit_example"));
        assert_eq!(
            target_of("narthex::fuzz::fuzz_yaml").as_deref(),
            Some("narthex_yaml")
        );
        assert_eq!(name_of(|_: &[u8]| ()), None);
        assert_eq!(name_of(parse), None);
    }

    #[test]
    fn the_table_is_read() {
        let bound = Bound {
            per_byte: 3,
            constant: 70,
        };
        assert_eq!(
            parse("# x\n\na_b  3 70 # because\n"),
            [("a_b".to_owned(), bound)]
        );
    }

    #[test]
    #[should_panic(expected = "is no bound")]
    fn a_line_that_is_no_bound_is_refused() {
        let _ = parse("a_b 3\n");
    }

    #[test]
    #[should_panic(expected = "says not how much memory")]
    fn a_function_without_a_bound_is_refused() {
        fn bound_of<F>(_: F) -> Option<Bound> {
            Bound::of::<F>()
        }
        let _ = bound_of(fuzz_example);
    }
}
