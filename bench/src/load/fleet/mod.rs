//! A fleet of targets that servers scrape: their pages, how they answer, and how well a server kept its schedule.

pub(crate) mod body;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod meter;
pub(crate) mod page;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod shape;
