//! HTTP server and client, limits and decompression.
