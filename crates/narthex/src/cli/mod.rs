//! The command line: what each command takes, and what it comes to.

mod check;
mod command;
mod pushgateway;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use command::{Invocation, dispatch};
pub(crate) use pushgateway::PushOptions;
pub(crate) use server::ServerOptions;
