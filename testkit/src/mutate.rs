//! Seeded mutation of byte inputs for fuzz targets that run inside `cargo test`.
//!
//! Invariant: the inputs of a run depend only on the seed, the corpus and the iteration count, so a failure printed on
//! one machine repeats on any other.

use std::any::Any;
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use crate::alloc::{self, Allocated};
use crate::fuzz::{self, Bound};
use crate::rng::SplitMix64;

/// Values at the limits of integer widths, floats, and lengths: where parsers and codecs go wrong.
const INTERESTING: [u64; 24] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    // The staleness marker and a quiet NaN of Prometheus.
    0x7ff0_0000_0000_0002,
    0x7ff8_0000_0000_0001,
];

/// Tokens with a meaning in text formats, queries and configurations.
const TOKENS: [&[u8]; 32] = [
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"(",
    b")",
    b"[",
    b"]",
    b",",
    b"=",
    b"#",
    b":",
    b"NaN",
    b"+Inf",
    b"-Inf",
    b"-0",
    b"1e309",
    b"5e-324",
    b"0x1p-3",
    b"9223372036854775808",
    b"# HELP ",
    b"# TYPE ",
    b"# EOF\n",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\xa6\x80",
    b"le=\"",
    b"__name__",
];

/// Attempts to make a failing input smaller.
const MINIMISE_ATTEMPTS: usize = 4_000;

/// Produces mutated inputs from a corpus and drives a target with them.
///
/// ```
/// use narthex_testkit::mutate::Mutator;
/// Mutator::new(1).run(&[b"a 1\n", b"b{c=\"d\"} 2\n"], 1_000, |bytes| {
///     let _ = std::str::from_utf8(bytes);
/// });
/// ```
#[derive(Debug, Clone)]
pub struct Mutator {
    seed: u64,
    max_len: usize,
    slow: Duration,
    hang: Duration,
}

impl Mutator {
    /// Starts with `seed`, which `NARTHEX_TEST_SEED` replaces.
    ///
    /// # Panics
    ///
    /// When `NARTHEX_TEST_SEED` is not a number.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let seed = std::env::var("NARTHEX_TEST_SEED").map_or(seed, |text| {
            text.parse()
                .expect("NARTHEX_TEST_SEED must be an unsigned integer")
        });
        Self {
            seed,
            max_len: 1 << 16,
            slow: Duration::from_secs(10),
            hang: Duration::from_mins(1),
        }
    }

    /// Sets the longest input in bytes (65,536 by default).
    #[must_use]
    pub const fn max_len(mut self, bytes: usize) -> Self {
        self.max_len = bytes;
        self
    }

    /// Sets how long one input may take before the run fails (10 s by default; debug builds on a shared machine).
    #[must_use]
    pub const fn slow(mut self, limit: Duration) -> Self {
        self.slow = limit;
        self
    }

    /// Feeds every corpus item as it is, then `iterations` mutated ones (scaled by `NARTHEX_TEST_SCALE`).
    ///
    /// A target that is a fuzz function itself, `fuzz_x` of some crate, is held to its bound in `fuzz/bounds.txt` on
    /// every input; a closure is not.
    ///
    /// # Panics
    ///
    /// When the target panics, allocates more than its bound or takes longer than [`Mutator::slow`] on an input. The
    /// message holds the seed, the iteration and a minimised input as a byte-string literal: commit it as a regression.
    /// A target that never returns is printed the same way after a minute and the process aborts.
    pub fn run<F: FnMut(&[u8])>(&self, corpus: &[&[u8]], iterations: u64, mut target: F) {
        let Some(name) = fuzz::name_of::<F>() else {
            return self.feed(corpus, iterations, &mut target);
        };
        fuzz::write_seeds(&name, corpus);
        let bound = fuzz::bound_of(&name);
        let mut worst = Worst::default();
        self.feed(corpus, iterations, &mut |data: &[u8]| {
            let ((), used) = alloc::bounded(data, bound.per_byte, bound.constant, &mut target);
            worst.note(data.len(), &used, bound);
        });
        #[expect(
            clippy::print_stdout,
            reason = "a bound is chosen by what `--nocapture` shows"
        )]
        {
            println!("{name}: {worst:?} of {bound:?}");
        }
    }

    fn feed(&self, corpus: &[&[u8]], iterations: u64, target: &mut impl FnMut(&[u8])) {
        let watchdog = Watchdog::start(self.seed, self.hang);
        for (i, item) in corpus.iter().enumerate() {
            self.one(&watchdog, item, &format!("corpus item {i}"), target);
        }
        let mut rng = SplitMix64::new(self.seed);
        let mut bytes = Vec::new();
        for i in 0..scaled(iterations) {
            self.mutate(&mut rng, corpus, &mut bytes);
            self.one(&watchdog, &bytes, &format!("iteration {i}"), target);
        }
    }

    /// Replaces `out` with a mutation of a random corpus item: between 1 and 8 edits.
    pub fn mutate(&self, rng: &mut SplitMix64, corpus: &[&[u8]], out: &mut Vec<u8>) {
        out.clear();
        if !corpus.is_empty() && !rng.one_in(64) {
            out.extend_from_slice(rng.pick::<&[u8]>(corpus));
        }
        // Mostly few edits: with many, nothing gets past the first check.
        let edits = 1 + rng.below(8).min(rng.below(8));
        for _ in 0..edits {
            edit(rng, corpus, out);
        }
        out.truncate(self.max_len);
    }

    fn one(&self, watchdog: &Watchdog, bytes: &[u8], which: &str, target: &mut impl FnMut(&[u8])) {
        watchdog.enter(bytes);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target(bytes)));
        let took = start.elapsed();
        watchdog.leave();
        if let Err(cause) = outcome {
            let small = minimise(bytes, target);
            panic!(
                "fuzz target panicked: {}\nseed {}, {which}, {} bytes; minimised to {} bytes:\nb\"{}\"",
                text_of(cause.as_ref()),
                self.seed,
                bytes.len(),
                small.len(),
                small.escape_ascii()
            );
        }
        assert!(
            took <= self.slow,
            "fuzz target took {took:?}, limit {:?}\nseed {}, {which}, {} bytes:\nb\"{}\"",
            self.slow,
            self.seed,
            bytes.len(),
            bytes.escape_ascii()
        );
    }
}

/// The most expensive inputs of a run.
#[derive(Debug, Default)]
struct Worst {
    /// Maximum bytes live at once, and the length of that input.
    peak: (i64, usize),
    /// Maximum bytes per input byte, beyond the constant, and the length of that input.
    per_byte: (i64, usize),
    /// Maximum total allocations, in hundredths of the bound on live bytes.
    total_percent: u64,
}

impl Worst {
    fn note(&mut self, len: usize, used: &Allocated, bound: Bound) {
        self.peak = self.peak.max((used.peak_bytes, len));
        let per_byte = (used.peak_bytes - bound.constant as i64) / len.max(1) as i64;
        self.per_byte = self.per_byte.max((per_byte, len));
        let most = (bound.per_byte * len + bound.constant).max(1) as u64;
        self.total_percent = self.total_percent.max(100 * used.total_bytes / most);
    }
}

/// Returns `iterations` times `NARTHEX_TEST_SCALE`, at least 1.
///
/// # Panics
///
/// When the variable is set but is not a number.
#[must_use]
pub fn scaled(iterations: u64) -> u64 {
    let scale: f64 = std::env::var("NARTHEX_TEST_SCALE").map_or(1.0, |text| {
        text.parse().expect("NARTHEX_TEST_SCALE must be a number")
    });
    ((iterations as f64 * scale) as u64).max(1)
}

fn edit(rng: &mut SplitMix64, corpus: &[&[u8]], out: &mut Vec<u8>) {
    let at = rng.index(out.len() + 1);
    match rng.below(11) {
        0 => flip_bit(rng, out),
        1 => {
            if let Some(byte) = out.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        2 => out.insert(at, rng.next_u64() as u8),
        3 => {
            let end = (at + 1 + rng.index(16)).min(out.len());
            out.drain(at.min(end)..end);
        }
        4 => out.truncate(at),
        5 => {
            // Duplicate a range in place: repeated lines, labels, records.
            let end = (at + 1 + rng.index(64)).min(out.len());
            let piece = out[at.min(end)..end].to_vec();
            splice_in(out, at, &piece);
        }
        6 => {
            let token = *rng.pick::<&[u8]>(&TOKENS);
            splice_in(out, at, token);
        }
        7 => overwrite_number(rng, out, at),
        8 => {
            let digits = rng.pick(&INTERESTING).to_string();
            splice_in(out, at, digits.as_bytes());
        }
        9 => {
            let filler = vec![rng.next_u64() as u8; 1 + rng.index(300)];
            splice_in(out, at, &filler);
        }
        _ => cross_over(rng, corpus, out, at),
    }
}

fn flip_bit(rng: &mut SplitMix64, out: &mut [u8]) {
    if !out.is_empty() {
        let i = rng.index(out.len());
        out[i] ^= 1 << rng.below(8);
    }
}

fn splice_in(out: &mut Vec<u8>, at: usize, piece: &[u8]) {
    out.splice(at..at, piece.iter().copied());
}

/// Writes an interesting number over the bytes at `at`, in a random width and byte order, perhaps off by one.
fn overwrite_number(rng: &mut SplitMix64, out: &mut [u8], at: usize) {
    let value = rng
        .pick(&INTERESTING)
        .wrapping_add(rng.below(3))
        .wrapping_sub(1);
    let width = 1 << rng.below(4);
    let big = value.to_be_bytes();
    let little = value.to_le_bytes();
    let bytes = if rng.one_in(2) {
        &big[8 - width..]
    } else {
        &little[..width]
    };
    for (to, from) in out[at..].iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// Replaces everything from `at` on, or inserts at `at`, a tail of another corpus item.
fn cross_over(rng: &mut SplitMix64, corpus: &[&[u8]], out: &mut Vec<u8>, at: usize) {
    if corpus.is_empty() {
        return;
    }
    let other = *rng.pick::<&[u8]>(corpus);
    let tail = &other[rng.index(other.len() + 1)..];
    if rng.one_in(2) {
        out.truncate(at);
        out.extend_from_slice(tail);
    } else {
        splice_in(out, at, &tail[..tail.len().min(256)]);
    }
}

/// Deletes ever smaller ranges as long as the target still panics.
fn minimise(bytes: &[u8], target: &mut impl FnMut(&[u8])) -> Vec<u8> {
    let mut best = bytes.to_vec();
    let mut size = best.len() / 2;
    let mut attempts = 0;
    quiet(|| {
        while size > 0 {
            let mut at = 0;
            while at < best.len() && attempts < MINIMISE_ATTEMPTS {
                attempts += 1;
                let mut smaller = best.clone();
                smaller.drain(at..(at + size).min(best.len()));
                if catch_unwind(AssertUnwindSafe(|| target(&smaller))).is_err() {
                    best = smaller;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
    });
    best
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` without this thread's panics being printed; other threads' stay visible.
fn quiet(body: impl FnOnce()) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    QUIET.set(true);
    body();
    QUIET.set(false);
}

fn text_of(cause: &(dyn Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a payload that is not text)")
}

/// When the target was entered, and with what; `None` between inputs.
type Current = Option<(Instant, Vec<u8>)>;

/// Aborts the process, printing the input, if a target does not return: a hang must not look like a slow CI.
struct Watchdog {
    current: Arc<Mutex<Current>>,
    /// Dropping it ends the thread.
    _alive: Sender<()>,
}

impl Watchdog {
    fn start(seed: u64, limit: Duration) -> Self {
        let current: Arc<Mutex<Current>> = Arc::default();
        let (alive, done) = channel();
        let watched = Arc::clone(&current);
        thread::spawn(move || {
            while done.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let current = watched.lock().expect("no panic while the lock is held");
                if let Some((since, bytes)) = current.as_ref()
                    && since.elapsed() > limit
                {
                    let _ = writeln!(
                        std::io::stderr(),
                        "fuzz target hangs: seed {seed}, {} bytes:\nb\"{}\"",
                        bytes.len(),
                        bytes.escape_ascii()
                    );
                    std::process::abort();
                }
            }
        });
        Self {
            current,
            _alive: alive,
        }
    }

    fn enter(&self, bytes: &[u8]) {
        let mut current = self
            .current
            .lock()
            .expect("no panic while the lock is held");
        *current = Some((Instant::now(), bytes.to_vec()));
    }

    fn leave(&self) {
        *self
            .current
            .lock()
            .expect("no panic while the lock is held") = None;
    }
}
