//! Exponential buckets: where a number belongs, and fewer, wider ones.
//!
//! **Invariant:** a bucket of index `i` has the numbers above `2^((i-1)/2^schema)` up to and including `2^(i/2^schema)`.

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

/// Number of bounds at or below each mantissa that begins with these bits and ends with zeros.
static GUESSES: [u8; 1 << GUESS_BITS] = {
    let mut guesses = [0; 1 << GUESS_BITS];
    let (mut leading, mut below) = (0, 0);
    while leading < guesses.len() {
        while below < BOUNDS.len()
            && BOUNDS[below] <= (leading as u64) << (MANTISSA_BITS - GUESS_BITS)
        {
            below += 1;
        }
        guesses[leading] = below as u8;
        leading += 1;
    }
    guesses
};

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
    let mantissa = bits & MANTISSA;
    let mut place = usize::from(GUESSES[(mantissa >> (MANTISSA_BITS - GUESS_BITS)) as usize]);
    while BOUNDS.get(place).is_some_and(|bound| *bound <= mantissa) {
        place += 1;
    }
    place >> (FINEST.unsigned_abs() - schema)
}

/// Returns a bucket's index from its octave and place, and whether its numbers are positive.
pub(super) fn index(schema: u8, octave: usize, place: usize) -> (i32, bool) {
    let exponent = (octave % EXPONENTS) as i32 - BIAS;
    let index = (exponent << schema) + place as i32 + 1;
    (index, octave < EXPONENTS)
}

/// Returns the greatest magnitude of a bucket; infinity for one that has infinities.
pub(super) fn upper_bound(schema: i8, index: i32) -> f64 {
    let (exponent, fraction) = if schema < 0 {
        (i64::from(index) << -schema, 0)
    } else {
        let place = index & ((1 << schema) - 1);
        (i64::from(index >> schema), place << (FINEST - schema))
    };
    let mantissa = usize::try_from(fraction - 1).map_or(0, |at| BOUNDS[at]);
    match u64::try_from(exponent + i64::from(BIAS)) {
        Ok(exponent @ 0..2047) => f64::from_bits(exponent << MANTISSA_BITS | mantissa),
        Ok(_) => f64::INFINITY,
        Err(_) => 0.0,
    }
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

/// Mantissas of `2^(i/256)` for i from 1 to 255, rounded to the nearest: the bounds of the finest buckets, and those of
/// all others among them. Constants, because `exp2` differs between platforms.
#[rustfmt::skip]
static BOUNDS: [u64; (1 << FINEST) - 1] = [
    0x00b1afa5abcbf, 0x0163da9fb3335, 0x02168143b0281, 0x02c9a3e778061,
    0x037d42e11bbcc, 0x04315e86e7f85, 0x04e5f72f654b1, 0x059b0d3158574,
    0x0650a0e3c1f89, 0x0706b29ddf6de, 0x07bd42b72a836, 0x0874518759bc8,
    0x092bdf66607e0, 0x09e3ecac6f383, 0x0a9c79b1f3919, 0x0b5586cf9890f,
    0x0c0f145e46c85, 0x0cc922b7247f7, 0x0d83b23395dec, 0x0e3ec32d3d1a2,
    0x0efa55fdfa9c5, 0x0fb66affed31b, 0x1073028d7233e, 0x11301d0125b51,
    0x11edbab5e2ab6, 0x12abdc06c31cc, 0x136a814f204ab, 0x1429aaea92de0,
    0x14e95934f312e, 0x15a98c8a58e51, 0x166a45471c3c2, 0x172b83c7d517b,
    0x17ed48695bbc0, 0x18af9388c8dea, 0x1972658375d2f, 0x1a35beb6fcb75,
    0x1af99f8138a1c, 0x1bbe084045cd4, 0x1c82f95281c6b, 0x1d4873168b9aa,
    0x1e0e75eb44027, 0x1ed5022fcd91d, 0x1f9c18438ce4d, 0x2063b88628cd6,
    0x212be3578a819, 0x21f49917ddc96, 0x22bdda27912d1, 0x2387a6e756238,
    0x2451ffb82140a, 0x251ce4fb2a63f, 0x25e85711ece75, 0x26b4565e27cdd,
    0x2780e341ddf29, 0x284dfe1f56381, 0x291ba7591bb70, 0x29e9df51fdee1,
    0x2ab8a66d10f13, 0x2b87fd0dad990, 0x2c57e39771b2f, 0x2d285a6e4030b,
    0x2df961f641589, 0x2ecafa93e2f56, 0x2f9d24abd886b, 0x306fe0a31b715,
    0x31432edeeb2fd, 0x32170fc4cd831, 0x32eb83ba8ea32, 0x33c08b26416ff,
    0x3496266e3fa2d, 0x356c55f929ff1, 0x36431a2de883b, 0x371a7373aa9cb,
    0x37f26231e754a, 0x38cae6d05d866, 0x39a401b7140ef, 0x3a7db34e59ff7,
    0x3b57fbfec6cf4, 0x3c32dc313a8e5, 0x3d0e544ede173, 0x3dea64c123422,
    0x3ec70df1c5175, 0x3fa4504ac801c, 0x40822c367a024, 0x4160a21f72e2a,
    0x423fb2709468a, 0x431f5d950a897, 0x43ffa3f84b9d4, 0x44e086061892d,
    0x45c2042a7d232, 0x46a41ed1d0057, 0x4786d668b3237, 0x486a2b5c13cd0,
    0x494e1e192aed2, 0x4a32af0d7d3de, 0x4b17dea6db7d7, 0x4bfdad5362a27,
    0x4ce41b817c114, 0x4dcb299fddd0d, 0x4eb2d81d8abff, 0x4f9b2769d2ca7,
    0x508417f4531ee, 0x516daa2cf6642, 0x5257de83f4eef, 0x5342b569d4f82,
    0x542e2f4f6ad27, 0x551a4ca5d920f, 0x56070dde910d2, 0x56f4736b527da,
    0x57e27dbe2c4cf, 0x58d12d497c7fd, 0x59c0827ff07cc, 0x5ab07dd485429,
    0x5ba11fba87a03, 0x5c9268a5946b7, 0x5d84590998b93, 0x5e76f15ad2148,
    0x5f6a320dceb71, 0x605e1b976dc09, 0x6152ae6cdf6f4, 0x6247eb03a5585,
    0x633dd1d1929fd, 0x6434634ccc320, 0x652b9febc8fb7, 0x6623882552225,
    0x671c1c70833f6, 0x68155d44ca973, 0x690f4b19e9538, 0x6a09e667f3bcd,
    0x6b052fa75173e, 0x6c012750bdabf, 0x6cfdcddd47645, 0x6dfb23c651a2f,
    0x6ef9298593ae5, 0x6ff7df9519484, 0x70f7466f42e87, 0x71f75e8ec5f74,
    0x72f8286ead08a, 0x73f9a48a58174, 0x74fbd35d7cbfd, 0x75feb564267c9,
    0x77024b1ab6e09, 0x780694fde5d3f, 0x790b938ac1cf6, 0x7a11473eb0187,
    0x7b17b0976cfdb, 0x7c1ed0130c132, 0x7d26a62ff86f0, 0x7e2f336cf4e62,
    0x7f3878491c491, 0x80427543e1a12, 0x814d2add106d9, 0x82589994cce13,
    0x8364c1eb941f7, 0x8471a4623c7ad, 0x857f4179f5b21, 0x868d99b4492ed,
    0x879cad931a436, 0x88ac7d98a6699, 0x89bd0a478580f, 0x8ace5422aa0db,
    0x8be05bad61778, 0x8cf3216b5448c, 0x8e06a5e0866d9, 0x8f1ae99157736,
    0x902fed0282c8a, 0x9145b0b91ffc6, 0x925c353aa2fe2, 0x93737b0cdc5e5,
    0x948b82b5f98e5, 0x95a44cbc8520f, 0x96bdd9a7670b3, 0x97d829fde4e50,
    0x98f33e47a22a2, 0x9a0f170ca07ba, 0x9b2bb4d53fe0d, 0x9c49182a3f090,
    0x9d674194bb8d5, 0x9e86319e32323, 0x9fa5e8d07f29e, 0xa0c667b5de565,
    0xa1e7aed8eb8bb, 0xa309bec4a2d33, 0xa42c980460ad8, 0xa5503b23e255d,
    0xa674a8af46052, 0xa799e1330b358, 0xa8bfe53c12e59, 0xa9e6b5579fdbf,
    0xab0e521356eba, 0xac36bbfd3f37a, 0xad5ff3a3c2774, 0xae89f995ad3ad,
    0xafb4ce622f2ff, 0xb0e07298db666, 0xb20ce6c9a8952, 0xb33a2b84f15fb,
    0xb468415b749b1, 0xb59728de5593a, 0xb6c6e29f1c52a, 0xb7f76f2fb5e47,
    0xb928cf22749e4, 0xba5b030a1064a, 0xbb8e0b79a6f1f, 0xbcc1e904bc1d2,
    0xbdf69c3f3a207, 0xbf2c25bd71e09, 0xc06286141b33d, 0xc199bdd85529c,
    0xc2d1cd9fa652c, 0xc40ab5fffd07a, 0xc544778fafb22, 0xc67f12e57d14b,
    0xc7ba88988c933, 0xc8f6d9406e7b5, 0xca3405751c4db, 0xcb720dcef9069,
    0xccb0f2e6d1675, 0xcdf0b555dc3fa, 0xcf3155b5bab74, 0xd072d4a07897c,
    0xd1b532b08c968, 0xd2f87080d89f2, 0xd43c8eacaa1d6, 0xd5818dcfba487,
    0xd6c76e862e6d3, 0xd80e316c98398, 0xd955d71ff6075, 0xda9e603db3285,
    0xdbe7cd63a8315, 0xdd321f301b460, 0xde7d5641c0658, 0xdfc97337b9b5f,
    0xe11676b197d17, 0xe264614f5a129, 0xe3b333b16ee12, 0xe502ee78b3ff6,
    0xe653924676d76, 0xe7a51fbc74c83, 0xe8f7977cdb740, 0xea4afa2a490da,
    0xeb9f4867cca6e, 0xecf482d8e67f1, 0xee4aaa2188510, 0xefa1bee615a27,
    0xf0f9c1cb6412a, 0xf252b376bba97, 0xf3ac948dd7274, 0xf50765b6e4540,
    0xf6632798844f8, 0xf7bfdad9cbe14, 0xf91d802243c89, 0xfa7c1819e90d8,
    0xfbdba3692d514, 0xfd3c22b8f71f1, 0xfe9d96b2a23d9,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn index_of(schema: u8, v: f64) -> i32 {
        let octave = (bits(v) >> MANTISSA_BITS) as usize;
        index(schema, octave, place(schema, bits(v))).0
    }

    #[test]
    fn upper_bounds_are_inclusive() {
        for schema in 0..=8_u8 {
            let count = 1_i32 << schema;
            for i in (-count..3 * count).step_by(usize::from(schema) + 1) {
                let exponent = (BIAS + i.div_euclid(count)) as u64;
                let fraction = (i.rem_euclid(count) << (8 - schema)) as usize;
                let mantissa = fraction.checked_sub(1).map_or(0, |at| BOUNDS[at]);
                let bound = f64::from_bits(exponent << MANTISSA_BITS | mantissa);
                let about = (f64::from(i) / f64::from(count)).exp2();
                assert!(
                    (bound - about).abs() <= about * 1e-15,
                    "{schema} {i} {bound}"
                );
                assert_eq!(upper_bound(schema.cast_signed(), i), bound, "{schema} {i}");
                assert_eq!(index_of(schema, bound), i, "{schema} {bound}");
                assert_eq!(index_of(schema, bound.next_up()), i + 1, "{schema} {bound}");
                assert_eq!(index_of(schema, -bound), i, "{schema} {bound}");
            }
        }
        assert_eq!(upper_bound(-2, 3), 4096.0);
        assert_eq!(upper_bound(0, 1024), f64::INFINITY);
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
