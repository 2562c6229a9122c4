//! Sampling: a signal handler copies registers and stack, a thread unwinds them.
//!
//! **Invariant:** the handler performs only atomic operations and one system call, on memory that is never freed: no
//! lock, no allocation, no unwinding. It stays installed for good, because a late signal would end the process.

use crate::{
    Profile, ProfileError,
    maps::Modules,
    sample::{Registers, STACK_BYTES, Sample},
    unwind::Unwinder,
};
use std::{
    cell::UnsafeCell,
    collections::HashMap,
    io,
    sync::{
        Mutex, Once, OnceLock, TryLockError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// Processor time between two samples.
const PERIOD: Duration = Duration::from_millis(10);
/// Interval at which samples are collected.
const DRAIN: Duration = Duration::from_millis(5);
/// Most samples waiting to be collected.
const SLOTS: usize = 64;
const PAGE_BYTES: usize = 4096;
const PIECES: usize = STACK_BYTES / PAGE_BYTES + 1;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const FULL: u32 = 2;

/// A sample on its way from the handler to the profiling thread.
struct Slot {
    state: AtomicU32,
    sample: UnsafeCell<Sample>,
}

// SAFETY: `sample` is accessed only by whoever moved `state` to TAKEN, or found it FULL while draining.
unsafe impl Sync for Slot {}

struct Ring {
    slots: Vec<Slot>,
    next: AtomicUsize,
    lost: AtomicU64,
}

static RING: OnceLock<Ring> = OnceLock::new();
static ACTIVE: AtomicBool = AtomicBool::new(false);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) fn run(duration: Duration, stop: &dyn Fn() -> bool) -> Result<Profile, ProfileError> {
    let _alone = match ONE_AT_A_TIME.try_lock() {
        Ok(guard) => guard,
        #[expect(
            clippy::disallowed_methods,
            reason = "it guards no value: whoever has it is alone"
        )]
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return Err(ProfileError::Busy),
    };
    let ring = RING.get_or_init(Ring::new);
    install()?;
    let modules = Modules::of_this_process()?;
    let mut unwinder = Unwinder::new(&modules);
    let mut stacks: HashMap<Vec<u64>, u64> = HashMap::new();
    ring.lost.store(0, Ordering::Relaxed);
    let (began, start) = (SystemTime::now(), Instant::now());
    ACTIVE.store(true, Ordering::SeqCst);
    let armed = Timer::arm(PERIOD)?;
    while start.elapsed() < duration && !stop() {
        std::thread::sleep(DRAIN.min(duration.saturating_sub(start.elapsed())));
        ring.drain(&mut unwinder, &mut stacks);
    }
    drop(armed);
    ACTIVE.store(false, Ordering::SeqCst);
    let took = start.elapsed();
    // A handler that got the timer's last signal may still be copying.
    ring.settle(&mut unwinder, &mut stacks);
    Ok(Profile {
        stacks,
        modules,
        began,
        took,
        period: PERIOD,
        lost: ring.lost.load(Ordering::Relaxed),
    })
}

impl Ring {
    fn new() -> Self {
        let slot = |_| Slot {
            state: AtomicU32::new(FREE),
            sample: UnsafeCell::new(Sample {
                registers: Registers::default(),
                len: 0,
                stack: [0; STACK_BYTES],
            }),
        };
        Self {
            slots: (0..SLOTS).map(slot).collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    fn drain(&self, unwinder: &mut Unwinder, stacks: &mut HashMap<Vec<u64>, u64>) {
        for slot in &self.slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: a FULL slot belongs to this thread, the only one that drains, until it is FREE again.
            let sample = unsafe { &*slot.sample.get() };
            *stacks.entry(unwinder.stack(sample)).or_default() += 1;
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Drains until no handler is running, which takes microseconds.
    fn settle(&self, unwinder: &mut Unwinder, stacks: &mut HashMap<Vec<u64>, u64>) {
        for _ in 0..200 {
            self.drain(unwinder, stacks);
            let busy = |slot: &Slot| slot.state.load(Ordering::Acquire) != FREE;
            if !self.slots.iter().any(busy) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes a sample; called in a signal handler.
    fn record(&self, registers: Registers) {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots.get((first + at) % self.slots.len()) else {
                continue;
            };
            let free =
                slot.state
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                // SAFETY: the slot belongs to this handler until its state changes.
                let sample = unsafe { &mut *slot.sample.get() };
                sample.registers = registers;
                sample.len = copy_stack(registers.sp, &mut sample.stack);
                slot.state.store(FULL, Ordering::Release);
                return;
            }
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Copies the mapped stack from `sp` on and returns the number of bytes.
///
/// The kernel copies: at the end of mapped memory it stops instead of faulting.
fn copy_stack(sp: u64, into: &mut [u8; STACK_BYTES]) -> usize {
    let mut pieces = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; PIECES];
    let (mut at, mut left, mut used) = (sp as usize, STACK_BYTES, 0);
    for piece in &mut pieces {
        let len = (PAGE_BYTES - at % PAGE_BYTES).min(left);
        if len == 0 {
            break;
        }
        piece.iov_base = at as *mut libc::c_void;
        piece.iov_len = len;
        at = at.wrapping_add(len);
        left -= len;
        used += 1;
    }
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: `local` describes `into`, which is writable and of that length; the kernel checks the rest.
    let copied =
        unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, pieces.as_ptr(), used, 0) };
    usize::try_from(copied).unwrap_or(0)
}

/// Installs the handler, once.
fn install() -> Result<(), ProfileError> {
    static ONCE: Once = Once::new();
    static FAILED: AtomicU32 = AtomicU32::new(0);
    ONCE.call_once(|| {
        // SAFETY: an all-zero sigaction is valid, and every relevant field is set.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the handler is async-signal-safe, as its documentation explains.
        if unsafe { libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()) } != 0 {
            let code = io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EINVAL);
            FAILED.store(code.unsigned_abs(), Ordering::Relaxed);
        }
    });
    match FAILED.load(Ordering::Relaxed) {
        0 => Ok(()),
        code => Err(ProfileError::Io {
            operation: "install the handler of SIGPROF",
            source: io::Error::from_raw_os_error(code.cast_signed()),
        }),
    }
}

/// Handles the signal, on whatever thread was running when the timer expired.
extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !ACTIVE.load(Ordering::Relaxed) || context.is_null() {
        return;
    }
    let Some(ring) = RING.get() else { return };
    // SAFETY: errno's location is this thread's own; its value is restored for the interrupted code.
    let saved = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a ucontext to a handler installed with SA_SIGINFO.
    let registers = registers_of(unsafe { &*context.cast::<libc::ucontext_t>() });
    ring.record(registers);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = saved };
}

#[cfg(target_arch = "x86_64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let register = |at: libc::c_int| {
        let registers = &context.uc_mcontext.gregs;
        registers
            .get(at as usize)
            .copied()
            .unwrap_or_default()
            .cast_unsigned()
    };
    Registers {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        fp: register(libc::REG_RBP),
    }
}

#[cfg(target_arch = "aarch64")]
fn registers_of(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        pc: machine.pc,
        sp: machine.sp,
        fp: machine.regs[29],
        lr: machine.regs[30],
    }
}

/// The profiling timer, running until it is dropped.
struct Timer;

impl Timer {
    fn arm(period: Duration) -> Result<Self, ProfileError> {
        set_timer(period).map_err(|source| ProfileError::Io {
            operation: "start the profiling timer",
            source,
        })?;
        Ok(Self)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // A timer that was set with valid values can be stopped.
        let _ = set_timer(Duration::ZERO);
    }
}

fn set_timer(period: Duration) -> io::Result<()> {
    let interval = libc::timeval {
        tv_sec: 0,
        tv_usec: libc::suseconds_t::from(period.subsec_micros()),
    };
    let timer = libc::itimerval {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: both pointers are valid or null, as setitimer allows.
    if unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
