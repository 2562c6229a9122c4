//! Development-only helpers shared by the tests of every crate: temporary directories, seeded mutation,
//! an allocator that counts, reference data, real processes and what the kernel counts of them, fleets of targets, a recording
//! Alertmanager, the Go programs `oracle`, `goclient` and `gopeer`, and blocking HTTP clients.
//!
//! What it is not: part of the product. No crate may name it outside `[dev-dependencies]`, and `cargo xtask tidy` fails
//! if one does. It depends on nothing but `std`, so that it never affects how a crate under test is built.
//!
//! Environment it reads (defaults make a plain `cargo test` work):
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `NARTHEX_TEST_SCALE` | factor on iteration counts | 1 |
//! | `NARTHEX_TEST_SEED` | replaces the seed of every [`mutate::Mutator`] | the one in the test |
//! | `NARTHEX_KEEP_TMP` | temporary directories stay | unset |
//! | `NARTHEX_CORPORA`, `NARTHEX_PROMQLTEST` | reference data | `../shared/…` beside the workspace |
//! | `NARTHEX_FUZZ` | the function that a binary of `fuzz/` runs, without `fuzz_` | unset |
//! | `NARTHEX_FUZZ_SEEDS` | directory that gets the inputs which fuzz tests begin with | unset |
//! | `CI` | `true`: absent reference data fails instead of passing with a line | unset |
//!
//! ```no_run
//! use narthex_testkit::{http, process::Spawn, TempDir};
//! use std::time::Duration;
//!
//! let dir = TempDir::new("server");
//! let mut server = Spawn::new("/usr/bin/prometheus").arg("--web.listen-address=127.0.0.1:0").start();
//! let port = server.wait_port("Listening on", Duration::from_secs(10));
//! assert_eq!(http::get(&format!("http://127.0.0.1:{port}/-/ready")).expect("answers").status, 200);
//! assert_eq!(server.terminate(Duration::from_secs(10)).code, Some(0));
//! # drop(dir);
//! ```

mod alertmanager;
pub mod alloc;
mod alone;
pub mod client;
pub mod corpora;
pub mod exposition;
pub mod fleet;
mod fs;
pub mod fuzz;
pub mod http;
mod listener;
pub mod mutate;
pub mod node_exporter;
pub mod proc;
pub mod process;
pub mod protobuf;
pub mod remote_write;
pub mod rng;
mod tool;
pub mod ttar;
mod valgrind;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

pub use alertmanager::{AlertPost, Alertmanager};
pub use alone::alone;
pub use fs::{TempDir, workspace_root};
pub use listener::Listener;
pub use mutate::scaled;
pub use tool::{LineServer, go_example, go_module, go_program, tool};
