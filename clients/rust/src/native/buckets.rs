//! Exponential buckets: where a number belongs, and fewer, wider ones.
//!
//! **Invariant:** a bucket of index `i` has the numbers above `2^((i-1)/2^schema)` up to and including `2^(i/2^schema)`.

use std::sync::OnceLock;

use crate::point::Side;

const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
/// Leading bits of a mantissa that say where the search for its bucket begins.
const GUESS_BITS: u32 = 8;
/// Exponents of one sign; the sign is the next higher bit.
const EXPONENTS: usize = 1 << 11;
const BIAS: i32 = 1023;
/// Highest resolution: 256 buckets for each power of two.
pub(super) const FINEST: i8 = 8;
/// Lowest resolution: 16 powers of two in each bucket.
pub(super) const COARSEST: i8 = -4;

static TABLES: [OnceLock<Table>; FINEST as usize + 1] =
    [const { OnceLock::new() }; FINEST as usize + 1];

/// Bounds of one octave's buckets.
struct Table {
    /// Mantissas of the upper bounds, the last of which is that of no number.
    bounds: Box<[u64]>,
    /// Number of bounds at or below each mantissa that begins with these bits and ends with zeros.
    guesses: [u8; 1 << GUESS_BITS],
}

impl Table {
    fn new(schema: u8) -> Self {
        let count = 1_u32 << schema;
        let bound = |i: u32| (f64::from(i) / f64::from(count)).exp2().to_bits() & MANTISSA;
        let bounds: Box<[u64]> = (1..count).map(bound).chain([u64::MAX]).collect();
        let guess = |leading: usize| {
            let from = (leading as u64) << (MANTISSA_BITS - GUESS_BITS);
            let below = bounds.partition_point(|bound| *bound <= from);
            u8::try_from(below).expect("at most 256 bounds, the last above all mantissas")
        };
        Self {
            guesses: std::array::from_fn(guess),
            bounds,
        }
    }
}

/// Returns the bits that select a number's bucket: a power of two is the last number of the octave below it.
///
/// Not for 0, NaN and infinities.
#[inline(always)]
pub(super) fn bits(v: f64) -> u64 {
    v.to_bits() - 1
}

/// Returns a bucket's place within its octave, of `2^schema`.
#[inline(always)]
pub(super) fn place(schema: u8, bits: u64) -> usize {
    let table = TABLES[usize::from(schema)].get_or_init(|| Table::new(schema));
    let mantissa = bits & MANTISSA;
    let mut place = usize::from(table.guesses[(mantissa >> (MANTISSA_BITS - GUESS_BITS)) as usize]);
    while table.bounds[place] <= mantissa {
        place += 1;
    }
    place
}

/// Returns a bucket's index from its octave and place, and whether its numbers are positive.
pub(super) fn index(schema: u8, octave: usize, place: usize) -> (i32, bool) {
    let exponent = (octave % EXPONENTS) as i32 - BIAS;
    let index = (exponent << schema) + place as i32 + 1;
    (index, octave < EXPONENTS)
}

/// Returns the index of the bucket for infinities, above that of the greatest number.
pub(super) fn infinite(schema: u8) -> i32 {
    ((BIAS + 1) << schema) + 1
}

/// Merges sorted buckets into those whose schema is lower by `steps`.
pub(super) fn widen(side: &mut Side, steps: u32) {
    for (index, _) in side.iter_mut() {
        *index = (*index + (1 << steps) - 1) >> steps;
    }
    side.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

/// Subtracts earlier counts of the same buckets, and drops those without observations since.
pub(super) fn subtract(side: &mut Side, base: &Side) {
    let mut base = base.iter().peekable();
    side.retain_mut(|(index, count)| {
        while base.next_if(|(other, _)| other < index).is_some() {}
        if let Some((_, before)) = base.next_if(|(other, _)| other == index) {
            *count = count.saturating_sub(*before);
        }
        *count != 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_of(schema: u8, v: f64) -> i32 {
        let octave = (bits(v) >> MANTISSA_BITS) as usize;
        index(schema, octave, place(schema, bits(v))).0
    }

    #[test]
    fn upper_bounds_are_inclusive() {
        for schema in 0..=8 {
            let count = 1_i32 << schema;
            for i in (-count..3 * count).step_by(usize::from(schema) + 1) {
                let bound = (f64::from(i) / f64::from(count)).exp2();
                assert_eq!(index_of(schema, bound), i, "{schema} {bound}");
                assert_eq!(index_of(schema, bound.next_up()), i + 1, "{schema} {bound}");
                assert_eq!(index_of(schema, -bound), i, "{schema} {bound}");
            }
        }
        assert_eq!(index_of(0, f64::MAX), 1024);
        assert_eq!(index_of(3, f64::MAX) + 1, infinite(3));
        assert_eq!(index_of(0, f64::MIN_POSITIVE), -1022);
    }

    #[test]
    fn widened_buckets_have_the_numbers_of_lower_schemas() {
        for steps in 0..=3 {
            for v in [0.3, 1.0, 1.1, 7.9, 8.0, 1e-9, 1e9] {
                let mut side = vec![(index_of(3, v), 1)];
                widen(&mut side, steps);
                assert_eq!(side[0].0, index_of(3 - steps as u8, v), "{v} {steps}");
            }
        }
        let mut side = vec![(-3, 1), (-2, 2), (0, 3), (1, 4), (2, 5), (7, 6)];
        widen(&mut side, 1);
        assert_eq!(side, [(-1, 3), (0, 3), (1, 9), (4, 6)]);
    }

    #[test]
    fn earlier_counts_are_subtracted() {
        let mut side = vec![(-1, 5), (0, 3), (2, 4)];
        subtract(&mut side, &vec![(-2, 1), (-1, 5), (2, 1), (9, 1)]);
        assert_eq!(side, [(0, 3), (2, 3)]);
    }
}
