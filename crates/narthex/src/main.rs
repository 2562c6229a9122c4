//! The narthex binary.

fn main() {}
