//! The storage engine from outside: through the storage traits, on disks that fail.

mod conformance;
mod crash;
mod damage;
mod support;
mod workload;
