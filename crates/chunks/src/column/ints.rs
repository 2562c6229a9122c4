//! Integers of one column: constant, sparse changes, or frame of reference of values or differences.
//!
//! Arithmetic wraps, so any `i64` sequence round-trips; outliers are patched and a common divisor is factored out.
//!
//! Invariant: `decode_ints(encode(v), v.len()) == v`.

use super::kind;
use crate::bits::{Reader, pack, packed_len, put_signed, put_varint, unpack, unzigzag, width_of};
use crate::error::ChunkError;
use std::ops::Range;

/// Only values of a magnitude below this take part in the search for a divisor.
const GCD_LIMIT: u64 = 1 << 61;

/// Integers unpacked at a time.
pub(crate) const STRIDE: usize = 64;

/// Encodes integers; reuses its buffers between columns.
#[derive(Debug, Default)]
pub(crate) struct IntEncoder {
    z: Vec<u64>,
}

/// Statistics of a column.
struct Survey {
    min: i64,
    max: i64,
    /// Extremes of the differences, and the least non-negative one.
    least: i64,
    most: i64,
    least_up: i64,
    downs: usize,
    changes: usize,
    divisor: u64,
}

/// A frame of reference with its encoded size.
#[derive(Clone, Copy)]
struct Frame {
    delta: bool,
    reference: i64,
    width: u32,
    outliers: usize,
    len: usize,
}

impl IntEncoder {
    /// Appends `values` (at least one) in the smallest form; `exp` goes into the first byte.
    pub(crate) fn encode(&mut self, values: &[i64], exp: u8, out: &mut Vec<u8>) {
        let survey = Survey::new(values);
        let first = values[0];
        if survey.changes == 0 {
            out.push(kind::CONST_INT | exp << 4);
            put_signed(out, first);
            return;
        }
        let mut best = self.price(values, &survey, false, survey.min);
        let mut try_delta = |reference| {
            let frame = self.price(values, &survey, true, reference);
            if frame.len < best.len {
                best = frame;
            }
        };
        try_delta(survey.least);
        if survey.downs > 0 && survey.downs <= values.len() / 16 + 1 && survey.least_up != i64::MAX
        {
            try_delta(survey.least_up);
        }
        // A change takes at least two bytes, so more changes than that cannot win.
        if survey.changes * 2 < best.len {
            let start = out.len();
            put_sparse(values, survey.changes, exp, out);
            if out.len() - start <= best.len {
                return;
            }
            out.truncate(start);
        }
        self.put_frame(values, best, survey.divisor, exp, out);
    }

    fn fill(&mut self, values: &[i64], delta: bool, reference: i64, divisor: u64) {
        self.z.clear();
        if delta {
            self.z.extend(
                values
                    .windows(2)
                    .map(|w| w[1].wrapping_sub(w[0]).wrapping_sub(reference) as u64),
            );
        } else {
            self.z
                .extend(values.iter().map(|v| v.wrapping_sub(reference) as u64));
        }
        if divisor > 1 {
            self.z
                .iter_mut()
                .for_each(|z| *z = (*z as i64 / divisor as i64) as u64);
        }
    }

    fn price(&mut self, values: &[i64], survey: &Survey, delta: bool, reference: i64) -> Frame {
        let count = values.len() - usize::from(delta);
        let top = if delta { survey.most } else { survey.max };
        let whole = delta && reference != survey.least;
        let full = width_of(top.wrapping_sub(reference) as u64 / survey.divisor);
        // Without visible outliers the width histogram is not worth its time.
        let plain = Frame {
            delta,
            reference,
            width: full,
            outliers: 0,
            len: 4 + packed_len(count, full),
        };
        if !whole && full <= 3 {
            return plain;
        }
        self.fill(values, delta, reference, survey.divisor);
        let mut counts = [0u32; 65];
        for z in &self.z {
            counts[width_of(*z) as usize] += 1;
        }
        let widest = counts.iter().rposition(|c| *c > 0).unwrap_or(0) as u32;
        let mut best = Frame {
            width: widest,
            len: 4 + packed_len(count, widest),
            ..plain
        };
        let mut outliers = 0;
        for width in (0..widest).rev() {
            outliers += counts[width as usize + 1] as usize;
            if outliers > count / 8 + 1 {
                break;
            }
            let wider = (width + 1..=widest).map(|w| (w, counts[w as usize] as usize));
            let patch: usize = wider
                .filter(|(_, count)| *count > 0)
                .map(|(w, count)| count * (1 + ((w - width) as usize).div_ceil(7)))
                .sum();
            let len = 5 + packed_len(count, width) + patch;
            if len < best.len {
                best = Frame {
                    width,
                    outliers,
                    len,
                    ..plain
                };
            }
        }
        best
    }

    fn put_frame(
        &mut self,
        values: &[i64],
        frame: Frame,
        divisor: u64,
        exp: u8,
        out: &mut Vec<u8>,
    ) {
        self.fill(values, frame.delta, frame.reference, divisor);
        let mut head = kind::FOR;
        head |= if frame.delta { kind::FOR_DELTA } else { 0 };
        head |= if divisor > 1 { kind::FOR_GCD } else { 0 };
        head |= if frame.outliers > 0 {
            kind::FOR_PATCH
        } else {
            0
        };
        out.push(head | exp << 4);
        out.push(frame.width as u8);
        if frame.delta {
            put_signed(out, values[0]);
        }
        put_signed(out, frame.reference);
        if divisor > 1 {
            put_varint(out, divisor);
        }
        if frame.outliers > 0 {
            put_varint(out, frame.outliers as u64);
            let mut next = 0;
            for (i, z) in self
                .z
                .iter_mut()
                .enumerate()
                .filter(|(_, z)| width_of(**z) > frame.width)
            {
                put_varint(out, (i - next) as u64);
                put_varint(out, *z >> frame.width);
                *z &= (1 << frame.width) - 1;
                next = i + 1;
            }
        }
        pack(&self.z, frame.width, out);
    }
}

impl Survey {
    fn new(values: &[i64]) -> Self {
        let mut s = Self {
            min: values[0],
            max: values[0],
            least: i64::MAX,
            most: i64::MIN,
            least_up: i64::MAX,
            downs: 0,
            changes: 0,
            divisor: 1,
        };
        for pair in values.windows(2) {
            let d = pair[1].wrapping_sub(pair[0]);
            s.min = s.min.min(pair[1]);
            s.max = s.max.max(pair[1]);
            s.least = s.least.min(d);
            s.most = s.most.max(d);
            s.least_up = s.least_up.min(if d < 0 { i64::MAX } else { d });
            s.downs += usize::from(d < 0);
            s.changes += usize::from(d != 0);
        }
        if s.min.unsigned_abs().max(s.max.unsigned_abs()) < GCD_LIMIT {
            let mut divisor = 0;
            for pair in values.windows(2) {
                divisor = gcd(divisor, (pair[1] - pair[0]).unsigned_abs());
                if divisor == 1 {
                    break;
                }
            }
            s.divisor = divisor.max(1);
            // The references must differ by multiples too; differences of multiples do.
        }
        s
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn put_sparse(values: &[i64], changes: usize, exp: u8, out: &mut Vec<u8>) {
    out.push(kind::SPARSE | exp << 4);
    put_signed(out, values[0]);
    put_varint(out, changes as u64);
    let mut next = 1;
    for (i, pair) in values.windows(2).enumerate().filter(|(_, p)| p[0] != p[1]) {
        put_varint(out, (i + 1 - next) as u64);
        put_signed(out, pair[1].wrapping_sub(pair[0]));
        next = i + 2;
    }
}

/// Reads `n` integers of any kind that follow the first byte `head`; passes them on in order, in runs, each with the place of
/// its first: those within `wanted`, and perhaps some around them.
pub(crate) fn decode_ints(
    head: u8,
    r: &mut Reader<'_>,
    n: usize,
    wanted: &Range<usize>,
    mut put: impl FnMut(usize, &[i64]),
) -> Result<(), ChunkError> {
    match head & 15 {
        k if is_of_runs(k) => decode_runs(k, r, n, |value, places| {
            let run = [value; STRIDE];
            for at in places.clone().step_by(STRIDE) {
                put(at, &run[..STRIDE.min(places.end - at)]);
            }
        }),
        k if k & kind::FOR != 0 => decode_frame(k, r, n, wanted, put),
        _ => Err(r.malformed("chunk kind")),
    }
}

/// Reports whether integers of this kind are runs of equal ones.
pub(crate) fn is_of_runs(kind: u8) -> bool {
    matches!(kind, kind::CONST_INT | kind::SPARSE)
}

/// Reads `n` integers that are runs of equal ones; passes on each run's value and places, in order.
fn decode_runs(
    kind: u8,
    r: &mut Reader<'_>,
    n: usize,
    mut put: impl FnMut(i64, Range<usize>),
) -> Result<(), ChunkError> {
    let (mut value, mut at) = (r.signed()?, 0);
    if kind == kind::SPARSE {
        each_change(r, n, |place, by| {
            put(value, at..place);
            value = value.wrapping_add(by);
            at = place;
        })?;
    }
    put(value, at..n);
    Ok(())
}

/// Reads `n` integers that are runs of equal ones; writes those from the place `first` on as floats.
///
/// Where a run ends cannot be predicted. So nothing is done for each run but writing by how much the next one differs where it
/// begins; all are added up afterwards.
pub(crate) fn decode_runs_as_floats(
    kind: u8,
    r: &mut Reader<'_>,
    n: usize,
    first: usize,
    out: &mut [f64],
) -> Result<(), ChunkError> {
    let mut value = r.signed()?;
    if kind == kind::CONST_INT {
        out.fill(value as f64);
        return Ok(());
    }
    out.fill(0.0);
    each_change(r, n, |place, by| match place.checked_sub(first) {
        None => value = value.wrapping_add(by),
        Some(at) => {
            if let Some(step) = out.get_mut(at) {
                *step = f64::from_bits(by.cast_unsigned());
            }
        }
    })?;
    for cell in out {
        value = value.wrapping_add(cell.to_bits().cast_signed());
        *cell = value as f64;
    }
    Ok(())
}

/// Reads which of `n` integers differ from those before them; passes on the place of each and by how much it differs.
fn each_change(
    r: &mut Reader<'_>,
    n: usize,
    mut take: impl FnMut(usize, i64),
) -> Result<(), ChunkError> {
    let mut next = 1;
    for _ in 0..r.count(n.saturating_sub(1), "change count")? {
        let offset = r.offset();
        let (gap, by) = match r.short_pair() {
            Some((gap, zigzag)) => (gap, unzigzag(zigzag)),
            None => (r.count(n, "change")?, r.signed()?),
        };
        let place = next + gap;
        if place >= n {
            return Err(ChunkError::Malformed {
                what: "change",
                offset,
            });
        }
        take(place, by);
        next = place + 1;
    }
    Ok(())
}

fn decode_frame(
    head: u8,
    r: &mut Reader<'_>,
    n: usize,
    wanted: &Range<usize>,
    mut put: impl FnMut(usize, &[i64]),
) -> Result<(), ChunkError> {
    let offset = r.offset();
    let width = u32::from(r.byte()?);
    if width > 64 || n == 0 {
        return Err(ChunkError::Malformed {
            what: "width",
            offset,
        });
    }
    let delta = head & kind::FOR_DELTA != 0;
    let mut value = if delta { r.signed()? } else { 0 };
    let reference = r.signed()?;
    let divisor = if head & kind::FOR_GCD != 0 {
        r.varint()? as i64
    } else {
        1
    };
    let mut patches = Patches::read(head, width, r, n)?;
    let count = n - usize::from(delta);
    let packed = r.slice(packed_len(count, width))?;
    if delta {
        put(0, &[value]);
    }
    let (mut z, mut ints) = ([0u64; STRIDE], [0i64; STRIDE]);
    let mut at = 0;
    // What follows the wanted ones has been taken, and need not be unpacked.
    while at < count.min(wanted.end) {
        let len = STRIDE.min(count - at);
        let first = at + usize::from(delta);
        if !delta && patches.left == 0 && first + len <= wanted.start {
            at += len;
            continue;
        }
        // A stride of 64 values begins on a byte boundary.
        unpack(&packed[at * width as usize / 8..], width, &mut z[..len])?;
        patches.apply(at, &mut z[..len]);
        if delta && first + len <= wanted.start {
            // Of differences before the wanted values only the sum matters.
            let sum = z[..len].iter().fold(0u64, |sum, z| sum.wrapping_add(*z));
            let references = reference.wrapping_mul(len as i64);
            value = (sum as i64)
                .wrapping_mul(divisor)
                .wrapping_add(references)
                .wrapping_add(value);
            at += len;
            continue;
        }
        if delta {
            for (int, z) in ints.iter_mut().zip(&z[..len]) {
                value =
                    value.wrapping_add((*z as i64).wrapping_mul(divisor).wrapping_add(reference));
                *int = value;
            }
        } else {
            for (int, z) in ints.iter_mut().zip(&z[..len]) {
                *int = (*z as i64).wrapping_mul(divisor).wrapping_add(reference);
            }
        }
        put(first, &ints[..len]);
        at += len;
    }
    Ok(())
}

/// High bits of the few values wider than the rest.
struct Patches<'a> {
    left: usize,
    width: u32,
    reader: Reader<'a>,
    next: usize,
}

impl<'a> Patches<'a> {
    /// Checks the patches of a frame of `n` values and advances past them.
    fn read(head: u8, width: u32, r: &mut Reader<'a>, n: usize) -> Result<Self, ChunkError> {
        let none = Self {
            left: 0,
            width,
            reader: *r,
            next: 0,
        };
        if head & kind::FOR_PATCH == 0 {
            return Ok(none);
        }
        if width >= 64 {
            return Err(r.malformed("patched width"));
        }
        let left = r.count(n, "patch count")?;
        let patches = Self {
            left,
            reader: *r,
            ..none
        };
        let mut next = 0;
        for _ in 0..left {
            let offset = r.offset();
            next += r.count(n, "patch")? + 1;
            r.varint()?;
            if next > n {
                return Err(ChunkError::Malformed {
                    what: "patch",
                    offset,
                });
            }
        }
        Ok(patches)
    }

    /// Adds the high bits of the values from index `from` on.
    fn apply(&mut self, from: usize, z: &mut [u64]) {
        while self.left > 0 {
            let mut r = self.reader;
            let Ok(gap) = r.varint() else { return };
            let at = self.next + gap as usize;
            if at >= from + z.len() {
                return;
            }
            let Ok(high) = r.varint() else { return };
            z[at - from] |= high << self.width;
            self.next = at + 1;
            self.left -= 1;
            self.reader = r;
        }
    }
}
