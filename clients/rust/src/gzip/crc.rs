//! CRC-32 as gzip has it, 16 bytes at a time where the CPU multiplies without carries.
//!
//! Folding after V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel
//! 2009, with the paper's constants for this polynomial.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The state after some bytes.
pub(super) struct Crc(u32);

impl Crc {
    pub(super) fn new() -> Self {
        Self(!0)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if bytes.len() >= folding::LEAST
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.1")
        {
            // SAFETY: the CPU has what the function needs.
            let (state, rest) = unsafe { folding::add(self.0, bytes) };
            self.0 = by_table(state, rest);
            return;
        }
        self.0 = by_table(self.0, bytes);
    }

    pub(super) fn value(&self) -> u32 {
        !self.0
    }
}

fn by_table(state: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(state, |state, word| {
        let word = u64::from_le_bytes(*word) ^ u64::from(state);
        let bytes = word.to_le_bytes().into_iter().zip(TABLES.iter().rev());
        bytes.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(state, |state, byte| {
        state >> 8 ^ TABLES[0][usize::from(state as u8 ^ byte)]
    })
}

/// The state after a byte and up to seven zeros.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut table = 0;
        while table < 8 {
            let mut bit = 0;
            while bit < 8 {
                state = state >> 1 ^ (state & 1).wrapping_neg() & POLYNOMIAL;
                bit += 1;
            }
            tables[table][byte] = state;
            table += 1;
        }
        byte += 1;
    }
    tables
};

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::missing_safety_doc,
    reason = "safe, but for the CPU's features, which each names"
)]
mod folding {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_extract_epi32,
        _mm_set_epi32, _mm_set_epi64x, _mm_srli_si128, _mm_xor_si128,
    };

    /// Fewer bytes than this are not worth the reduction.
    pub(super) const LEAST: usize = 128;

    const FOLD_64: [i64; 2] = [0x1_5444_2bd4, 0x1_c6e4_1596];
    const FOLD_16: [i64; 2] = [0x1_7519_97d0, 0x0_ccaa_009e];
    const TO_64: i64 = 0x1_63cd_6124;
    const BARRETT: [i64; 2] = [0x1_db71_0641, 0x1_f701_1641];

    /// Returns the state after all whole groups of 16 bytes, at least 4, and the bytes behind them.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    pub(super) fn add(state: u32, bytes: &[u8]) -> (u32, &[u8]) {
        let (groups, rest) = bytes.as_chunks::<16>();
        let (first, groups) = groups.split_at(4);
        let mut lanes = [
            load(&first[0]),
            load(&first[1]),
            load(&first[2]),
            load(&first[3]),
        ];
        lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(state.cast_signed()));
        let by_64 = _mm_set_epi64x(FOLD_64[1], FOLD_64[0]);
        let (fours, groups) = groups.as_chunks::<4>();
        for four in fours {
            for (lane, group) in lanes.iter_mut().zip(four) {
                *lane = fold(*lane, load(group), by_64);
            }
        }
        let by_16 = _mm_set_epi64x(FOLD_16[1], FOLD_16[0]);
        let [mut x, lanes @ ..] = lanes;
        for lane in lanes {
            x = fold(x, lane, by_16);
        }
        for group in groups {
            x = fold(x, load(group), by_16);
        }
        (reduce(x, by_16), rest)
    }

    /// Moves `x` forward over what follows it.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn fold(x: __m128i, following: __m128i, by: __m128i) -> __m128i {
        let low = _mm_clmulepi64_si128::<0x00>(x, by);
        let high = _mm_clmulepi64_si128::<0x11>(x, by);
        _mm_xor_si128(_mm_xor_si128(following, low), high)
    }

    /// Returns the remainder of 128 bits.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn reduce(x: __m128i, by_16: __m128i) -> u32 {
        let low = _mm_set_epi32(0, 0, 0, !0);
        let x = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x10>(x, by_16),
            _mm_srli_si128::<8>(x),
        );
        let x = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(_mm_and_si128(x, low), _mm_set_epi64x(0, TO_64)),
            _mm_srli_si128::<4>(x),
        );
        let barrett = _mm_set_epi64x(BARRETT[1], BARRETT[0]);
        let quotient = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low), barrett);
        let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(quotient, low), barrett);
        _mm_extract_epi32::<1>(_mm_xor_si128(x, product)).cast_unsigned()
    }

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn load(group: &[u8; 16]) -> __m128i {
        let (words, _) = group.as_chunks::<8>();
        let word = |i: usize| i64::from_le_bytes(words[i]);
        _mm_set_epi64x(word(1), word(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_the_catalogue() {
        let mut crc = Crc::new();
        crc.add(b"123456789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }

    #[test]
    fn all_ways_give_the_same() {
        let bytes: Vec<u8> = (0..2000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for length in (0..300).chain([512, 1000, 1999]) {
            let bytes = &bytes[(length % 7).min(length)..length];
            let bitwise = bytes.iter().fold(!0_u32, |state, byte| {
                (0..8).fold(state ^ u32::from(*byte), |state, _| {
                    state >> 1 ^ (state & 1).wrapping_neg() & POLYNOMIAL
                })
            });
            assert_eq!(by_table(!0, bytes), bitwise, "{length}");
            let mut crc = Crc::new();
            crc.add(bytes);
            assert_eq!(crc.value(), !bitwise, "{length}");
        }
    }
}
