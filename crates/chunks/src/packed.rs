//! Bit packing for related formats: `w`-bit values, lowest bit first.
//!
//! Invariant: `unpack(pack(v, w), w) == v` for values that fit in `w` bits; short bytes are an error.

pub use crate::bits::{pack, packed_len, unpack, width_of};
