//! Development only: process harness, temporary directories, mutators.
