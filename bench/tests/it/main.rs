//! The program itself: a short scenario against a real server, and ends by signal.

mod cli;
mod exporter;
mod http;
mod push;
mod query;
mod replay;
mod rules;
mod storage;
mod support;
