//! The storage engine: head, write-ahead log, blocks.
