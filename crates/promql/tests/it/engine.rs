//! The engine's limits, errors and plans.
