//! A fleet of targets that servers scrape: their pages, how they answer, and how well a server kept its schedule.

pub(crate) mod body;
mod clock;
mod config;
mod meter;
pub(crate) mod page;
mod schedule;
mod server;
mod shape;

pub(crate) use clock::{Clock, now_ms, seconds};
pub(crate) use config::{FleetConfig, static_configs};
pub(crate) use meter::Edge;
pub(crate) use schedule::Schedule;
pub(crate) use server::{Answer, FleetServer, MAX_TARGETS};
pub(crate) use shape::{Families, OLDEST_STAMP_MS, Shape};
