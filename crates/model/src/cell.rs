//! Cells: the state of one series at one instant, in eight bytes.
//!
//! A cell is an `f64`. Three kinds of signalling NaN encode what a float cannot: no sample, the end of a series, and
//! a native histogram kept in a side table. Arithmetic kernels check a tile's facts once and then treat cells as
//! plain numbers.
//!
//! **Invariant:** a float that a source reports never has a marker's bits: `canonical` maps the reserved range to the
//! ordinary NaN on the way in. Every other bit pattern, NaN payloads and −0 included, is preserved.

/// Bits of the staleness marker that Prometheus defines.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Bits of the ordinary NaN as Go (and so Prometheus) writes it.
pub const NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

const RESERVED_PREFIX: u64 = 0x7ff4;
const ABSENT_BITS: u64 = 0x7ff4_ffff_ffff_ffff;
const HISTOGRAM_BITS: u64 = 0x7ff4_0000_0000_0000;

/// The series has no sample here.
pub const ABSENT: f64 = f64::from_bits(ABSENT_BITS);

/// The series ended here: a staleness marker.
pub const STALE: f64 = f64::from_bits(STALE_BITS);

/// The ordinary NaN.
pub const NAN: f64 = f64::from_bits(NAN_BITS);

/// Decoded content of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// No sample.
    Absent,
    /// A staleness marker.
    Stale,
    /// The histogram at this index of the tile's or frame's side table.
    Histogram(u32),
    /// A float sample, possibly NaN.
    Float(f64),
}

impl Cell {
    /// Decodes `cell`.
    #[must_use]
    #[inline]
    pub fn decode(cell: f64) -> Self {
        let bits = cell.to_bits();
        if bits >> 48 == RESERVED_PREFIX {
            #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
            return if bits == ABSENT_BITS {
                Self::Absent
            } else {
                Self::Histogram(bits as u32)
            };
        }
        if bits == STALE_BITS {
            Self::Stale
        } else {
            Self::Float(cell)
        }
    }
}

/// Reports whether there is no sample in `cell`.
#[must_use]
#[inline]
pub fn is_absent(cell: f64) -> bool {
    cell.to_bits() == ABSENT_BITS
}

/// Reports whether `cell` is a staleness marker.
#[must_use]
#[inline]
pub fn is_stale(cell: f64) -> bool {
    cell.to_bits() == STALE_BITS
}

/// Reports whether `cell` holds a float sample: neither absent, nor stale, nor a histogram.
#[must_use]
#[inline]
pub fn is_float(cell: f64) -> bool {
    cell.to_bits() >> 48 != RESERVED_PREFIX && cell.to_bits() != STALE_BITS
}

/// Returns the cell that refers to entry `index` of the side table of histograms.
#[must_use]
#[inline]
pub fn histogram(index: u32) -> f64 {
    f64::from_bits(HISTOGRAM_BITS | u64::from(index))
}

/// Adds a histogram to a side table; returns the cell that refers to it.
///
/// # Panics
/// Panics when the table has 2^32 entries.
#[must_use]
#[inline]
pub fn push_histogram<T>(table: &mut Vec<T>, entry: T) -> f64 {
    table.push(entry);
    histogram(table_index(table.len() - 1))
}

/// Returns `cell` for a side table to which its own was appended at `base`; `None` when there is no sample.
///
/// # Panics
/// Panics when the joined table has more than 2^32 entries.
#[must_use]
#[inline]
pub fn rebased(cell: f64, base: usize) -> Option<f64> {
    match Cell::decode(cell) {
        Cell::Absent => None,
        Cell::Histogram(index) => Some(histogram(table_index(base + index as usize))),
        Cell::Stale | Cell::Float(_) => Some(cell),
    }
}

fn table_index(index: usize) -> u32 {
    u32::try_from(index).expect("a side table has fewer than 2^32 histograms")
}

/// Returns `value`, or the ordinary NaN when its bits are reserved for markers.
///
/// The staleness marker passes: sources turn it into a stale event before they store a value.
#[must_use]
#[inline]
pub fn canonical(value: f64) -> f64 {
    if value.to_bits() >> 48 == RESERVED_PREFIX {
        NAN
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_apart_from_floats() {
        assert_eq!(Cell::decode(ABSENT), Cell::Absent);
        assert_eq!(Cell::decode(STALE), Cell::Stale);
        assert_eq!(Cell::decode(histogram(0)), Cell::Histogram(0));
        assert_eq!(Cell::decode(histogram(u32::MAX)), Cell::Histogram(u32::MAX));
        for value in [
            0.0,
            -0.0,
            1.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
        ] {
            assert_eq!(Cell::decode(value), Cell::Float(value));
            assert!(is_float(value));
        }
        assert!(matches!(Cell::decode(NAN), Cell::Float(value) if value.to_bits() == NAN_BITS));
        assert!(matches!(Cell::decode(f64::NAN), Cell::Float(_)));
    }

    #[test]
    fn reserved_bits_from_outside_become_nan() {
        assert_eq!(canonical(ABSENT).to_bits(), NAN_BITS);
        assert_eq!(canonical(histogram(7)).to_bits(), NAN_BITS);
        assert_eq!(canonical(-0.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(
            canonical(f64::from_bits(0x7ff8_dead_beef_0000)).to_bits(),
            0x7ff8_dead_beef_0000
        );
    }
}
