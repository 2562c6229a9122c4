//! Texts that the program carries compressed, as they are long and rarely read. `build.rs` packs them.

use narthex_net::{Encoding, decompress};

/// Returns the licences of bundled code.
pub(crate) fn licenses() -> String {
    unpacked(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/THIRD_PARTY_LICENSES"
    )))
}

/// Returns the description of the API, without its version.
pub(crate) fn openapi() -> String {
    unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/openapi.yaml")))
}

fn unpacked(packed: &[u8]) -> String {
    const MOST_BYTES: usize = 1 << 20;
    let mut text = Vec::new();
    decompress(Encoding::Gzip, packed, MOST_BYTES, &mut text).expect("packed by the build");
    String::from_utf8(text).expect("the build packs texts")
}
