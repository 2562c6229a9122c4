//! MD5, which `hashmod` of Prometheus is defined by. It protects nothing here.

/// How far each step of a round rotates.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// The integer parts of 2^32 · |sin(i + 1)| (RFC 1321).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Returns the digest of `message`.
pub(super) fn digest(message: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, tail) = message.as_chunks::<64>();
    for block in blocks {
        mix(&mut state, block);
    }
    // One bit behind the message, zeros, and its length in bits.
    let mut end = tail.to_vec();
    end.push(0x80);
    let padded = if end.len() <= 56 { 56 } else { 120 };
    end.resize(padded, 0);
    end.extend_from_slice(&(message.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in end.as_chunks::<64>().0 {
        mix(&mut state, block);
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn mix(state: &mut [u32; 4], block: &[u8; 64]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, sine) in SINES.into_iter().enumerate() {
        let round = step / 16;
        let (mixed, word) = match round {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(sine)
            .wrapping_add(words[word % 16]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(ROTATIONS[round][step % 4]));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(message: &str) -> String {
        digest(message.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// RFC 1321, A.5, and lengths around the padding's edge (from md5sum).
    #[test]
    fn digests_are_those_of_the_rfc() {
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("a"), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = "1234567890".repeat(8);
        assert_eq!(hex(&digits), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(hex(&"x".repeat(55)), "04364420e25c512fd958a70738aa8f72");
        assert_eq!(hex(&"x".repeat(56)), "668a72d5ba17f08e62dabcafad6db14b");
        assert_eq!(hex(&"x".repeat(57)), "693037871c4a9d3d8685018905cb530a");
        assert_eq!(hex(&"x".repeat(63)), "7dc2ca208106a2f703567bdff99d8981");
        assert_eq!(hex(&"x".repeat(64)), "c1bb4f81d892b2d57947682aeb252456");
        assert_eq!(hex(&"x".repeat(65)), "1bc932052302d074bdec39795fe00cf6");
        assert_eq!(hex(&"x".repeat(119)), "ab347a5f68c8a443cfcddc633f12c24f");
        assert_eq!(hex(&"x".repeat(120)), "fb98667f98096de92620b64f46e1c5b5");
        assert_eq!(hex(&"x".repeat(128)), "d69cb61a6ee87200676eb0d4b90edbcb");
    }
}
