//! The web page, embedded: every file of `dist` as static bytes with the headers it wants.
//!
//! The page itself is TypeScript in the workspace's `ui/` directory; its build is committed into `dist`, so that cargo
//! alone builds the product. This crate only holds the bytes: it opens no file, knows no HTTP library and has no state.
//!
//! Invariant: the page works under [`CONTENT_SECURITY_POLICY`], so it never needs inline scripts, inline styles in
//! markup, or another host.

#![forbid(unsafe_code)]

use std::io::Read as _;

/// One file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asset {
    /// Path from the page's root, with its leading slash.
    pub path: &'static str,
    /// The file as one gzip member, which is all that the product carries of it: nearly every client takes gzip.
    /// Send it with `Content-Encoding: gzip` and `Vary: Accept-Encoding`.
    pub gzip: &'static [u8],
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// Value of `ETag`, weak (`W/"..."`) because it stands for both encodings; changes exactly with the content.
    pub etag: &'static str,
    /// The name contains a hash of the content: whatever is cached under it stays right.
    pub immutable: bool,
}

impl Asset {
    /// Returns the file as it is.
    #[must_use]
    pub fn plain(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut bytes);
        read.expect("dist holds whole gzip members, which tests read");
        bytes
    }

    /// Value of `Cache-Control`: a year for immutable files, otherwise ask every time (and mostly get a 304).
    #[must_use]
    pub const fn cache_control(&self) -> &'static str {
        if self.immutable {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        }
    }
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// Value of `Content-Security-Policy` for every answer of [`asset`]: everything from this server, nothing inline.
pub const CONTENT_SECURITY_POLICY: &str = include_str!("../csp.txt").trim_ascii();

/// Headers for every answer of [`asset`], beside those of the [`Asset`] itself.
pub const SECURITY_HEADERS: [(&str, &str); 4] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Paths that show the page; what it shows there is its own business. The same as Prometheus' where both have such a page.
pub const PAGES: [&str; 15] = [
    "/",
    "/alerts",
    "/config",
    "/flags",
    "/graph",
    "/metric-usage",
    "/queries",
    "/query",
    "/remote-write",
    "/rules",
    "/segments",
    "/service-discovery",
    "/status",
    "/targets",
    "/tsdb-status",
];

/// The file at `path`: [`PAGES`] are the page, other paths begin with a slash and are compared exactly.
#[must_use]
pub fn asset(path: &str) -> Option<Asset> {
    let path = if PAGES.contains(&path) {
        "/index.html"
    } else {
        path
    };
    ASSETS.iter().find(|asset| asset.path == path).copied()
}

/// All files, ordered by path; for mounting routes and for the size of the product.
#[must_use]
pub fn assets() -> &'static [Asset] {
    ASSETS
}
