//! Integration tests: committed bytes and damaged bytes.
