//! Patterns and relabelling against the newest Prometheus, and bytes nobody chose.

mod fuzz;
mod oracle;
mod pattern;
mod relabel;
