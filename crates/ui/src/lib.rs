//! The embedded web page.
