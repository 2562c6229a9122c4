//! Drives the fuzz entry points with mutations from a fixed seed.

use narthex_client::fuzz::{fuzz_escape, fuzz_proc};

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

fn mutate(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(4) {
            0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            1 => bytes.insert(at, b"\n\\\") (-9{}\0"[random.below(11)]),
            2 => bytes.truncate(at),
            _ => bytes.extend_from_within(at.saturating_sub(9)..at),
        }
    }
    bytes
}

#[test]
fn mutated_input_is_survived() {
    let stat = std::fs::read("/proc/self/stat").unwrap();
    let limits = std::fs::read("/proc/self/limits").unwrap();
    let auxv = std::fs::read("/proc/self/auxv").unwrap();
    let mut random = Random(42);
    for _ in 0..3_000 {
        for seed in [&stat, &limits, &auxv, &b"btime 5\n1 (a) b\n".to_vec()] {
            fuzz_proc(&mutate(&mut random, seed));
        }
        fuzz_escape(&mutate(&mut random, b"a\nb\\c\"d{e}\xc3\xa9"));
    }
}
