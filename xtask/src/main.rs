//! Repository chores: tidy, generated documents, licences.

fn main() {}
