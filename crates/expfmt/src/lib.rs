//! Exposition formats, parsed and written against a schema.
