//! State of the kernel's clock discipline, from `adjtimex(2)`.
//!
//! Invariant: the call only reads (`modes` is 0); it changes nothing and needs no privilege.

use std::ffi::{c_int, c_long, c_uint};

use crate::collector::{Collector, Ctx};
use crate::error::HostError;
use crate::sink::Sink;
use crate::table::Series;

const FAMILIES: &str = include_str!("timex.txt");

/// `struct timex` of linux/timex.h.
#[repr(C)]
#[derive(Default)]
struct Timex {
    modes: c_uint,
    offset: c_long,
    freq: c_long,
    maxerror: c_long,
    esterror: c_long,
    status: c_int,
    constant: c_long,
    precision: c_long,
    tolerance: c_long,
    time: [c_long; 2],
    tick: c_long,
    ppsfreq: c_long,
    jitter: c_long,
    shift: c_int,
    stabil: c_long,
    jitcnt: c_long,
    calcnt: c_long,
    errcnt: c_long,
    stbcnt: c_long,
    tai: c_int,
    reserved: [c_int; 11],
}

// rustix does not wrap it, and the C library is linked in any case.
unsafe extern "C" {
    fn adjtimex(buf: *mut Timex) -> c_int;
}

pub(crate) struct Clock(Series);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Series::new(FAMILIES))
    }
}

impl Collector for Clock {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let mut timex = Timex::default();
        // SAFETY: the struct has the kernel's layout, lives through the call and is ours alone.
        let state = unsafe { adjtimex(&raw mut timex) };
        if state < 0 {
            let path = "adjtimex".into();
            let error = std::io::Error::last_os_error();
            // A container may not be allowed to call it.
            return Err(match rustix::io::Errno::from_io_error(&error) {
                Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) | None => {
                    HostError::NoData { path }
                }
                Some(source) => HostError::Read { path, source },
            });
        }
        self.0.set(values(&timex, state), out);
        Ok(())
    }
}

/// Returns the values in the order of `FAMILIES`.
fn values(timex: &Timex, state: c_int) -> [f64; 17] {
    /// The clock is not synchronised.
    const TIME_ERROR: c_int = 5;
    /// Offset and jitter are in nanoseconds instead of microseconds.
    const STA_NANO: c_int = 0x2000;
    const MICROSECONDS: f64 = 1e6;
    /// Parts per million with 16 fractional bits.
    const PPM_16_BITS: f64 = 1e6 * 65536.0;
    let fraction = match timex.status & STA_NANO {
        0 => MICROSECONDS,
        _ => 1e9,
    };
    [
        f64::from(u8::from(state != TIME_ERROR)),
        timex.offset as f64 / fraction,
        1.0 + timex.freq as f64 / PPM_16_BITS,
        timex.maxerror as f64 / MICROSECONDS,
        timex.esterror as f64 / MICROSECONDS,
        f64::from(timex.status),
        timex.constant as f64,
        timex.tick as f64 / MICROSECONDS,
        timex.ppsfreq as f64 / PPM_16_BITS,
        timex.jitter as f64 / fraction,
        f64::from(timex.shift),
        timex.stabil as f64 / PPM_16_BITS,
        timex.jitcnt as f64,
        timex.calcnt as f64,
        timex.errcnt as f64,
        timex.stbcnt as f64,
        f64::from(timex.tai),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_status() {
        let mut timex = Timex {
            offset: 1_500_000,
            freq: 65_536,
            status: 0x2000,
            jitter: 3_000,
            tick: 10_000,
            ..Timex::default()
        };
        let nano = values(&timex, 0);
        assert_eq!((nano[0], nano[1], nano[9]), (1.0, 0.0015, 3e-6));
        assert_eq!((nano[2], nano[7]), (1.000_001, 0.01));
        timex.status = 0x40;
        let micro = values(&timex, 5);
        assert_eq!((micro[0], micro[1], micro[5]), (0.0, 1.5, 64.0));
    }

    #[test]
    fn the_struct_is_as_large_as_the_kernels() {
        // On x86-64 and arm64; elsewhere `long` may be shorter.
        if size_of::<c_long>() == 8 {
            assert_eq!(size_of::<Timex>(), 208);
        }
    }
}
