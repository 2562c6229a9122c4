//! Drives servers from outside and measures them.

fn main() {}
