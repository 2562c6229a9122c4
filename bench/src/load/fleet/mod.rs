//! A fleet of targets that servers scrape: what they report, how they answer, and how well a server kept its schedule.

mod body;
pub(crate) mod clock;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod shape;
