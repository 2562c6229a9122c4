//! PromQL: parser, plan and evaluation over the storage traits.
#![allow(dead_code)]

pub mod ast;
pub mod fmt;
pub mod functions;
pub mod lex;
mod math;
pub mod parse;
mod span;
mod stack;

pub use parse::{ParseError, ParseOptions, parse, parse_metric, parse_selector, parse_with};
pub use span::{Position, Span};
