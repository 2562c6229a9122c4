//! The Prometheus HTTP API v1.
