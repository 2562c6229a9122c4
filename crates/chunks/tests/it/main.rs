//! Integration tests of the codecs: committed bytes stay readable, damaged bytes never panic.

mod damage;
mod golden;
mod sample;
