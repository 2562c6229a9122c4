//! An agent's `/metrics`: the newest samples of all sources, beside the agent's own.
//!
//! **Invariant:** a scrape of this process by itself gets its own metrics alone, so that no round has the one before.

use super::{METRICS_TYPE, facts_asked_for, own_metrics, own_page, set_type};
use crate::sources::OwnPage;
use http::{HeaderMap, HeaderValue, Uri, header};
use narthex_expfmt::{Exposition, Format, Negotiated};
use narthex_host::Facts;
use narthex_model::storage::Lease;
use narthex_net::{
    Gate, Refusal, Router,
    axum::{body::Bytes, response::Response, routing::get},
    respond,
};
use std::{sync::Arc, time::Duration};

/// Pages made at once: they share what is kept of sources.
const AT_ONCE: usize = 1;
/// How long a request waits for others.
const WAIT: Duration = Duration::from_secs(30);

/// What an agent shows of its sources.
pub(crate) struct Exposed {
    pub(crate) exposition: Exposition,
    /// Whether the agent's own metrics are on the page too.
    pub(crate) with_own: bool,
    /// The wall clock, in milliseconds since the epoch.
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// A page and the memory it has leased.
struct Page {
    text: Vec<u8>,
    _lease: Lease,
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Returns the routes of the page, and of the agent's own metrics at `/metrics/self`.
pub(super) fn routes(exposed: Exposed, own: Arc<OwnPage>, facts: Facts) -> Router {
    let gate = Arc::new(Gate::new("exposition", AT_ONCE));
    let (exposed, alone) = (Arc::new(exposed), Arc::clone(&own));
    let page = move |uri: Uri, headers: HeaderMap| async move {
        if narthex_scrape::is_own_scrape(&headers) {
            return own_page(&own, "", &headers);
        }
        let facts = facts_asked_for(Some(&facts), &uri).await;
        let accept = headers.get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let style = Negotiated::from_accept(accept.unwrap_or_default());
        let made = gate.prepare(WAIT, move || render(&exposed, &own, style, &facts));
        match made.await {
            Ok(page) => answer(style, page, &headers),
            Err(refusal) => refusal.respond(&headers),
        }
    };
    let alone = own_metrics("/metrics/self", alone, None);
    Router::new().route("/metrics", get(page)).merge(alone)
}

/// Renders the page, followed by facts of the host if it is text.
fn render(
    exposed: &Exposed,
    own: &OwnPage,
    style: Negotiated,
    facts: &str,
) -> Result<Page, Refusal> {
    let now_ms = (exposed.now_ms)();
    let own = exposed.with_own.then(|| own.frame(now_ms)).flatten();
    let rendered = exposed.exposition.render(style, own, now_ms);
    let (mut text, lease) = rendered.map_err(Refusal::over_budget)?;
    if style.format == Format::Text {
        text.extend_from_slice(facts.as_bytes());
    }
    Ok(Page {
        text,
        _lease: lease,
    })
}

fn answer(style: Negotiated, page: Page, headers: &HeaderMap) -> Response {
    let mut response = respond(METRICS_TYPE, Bytes::from_owner(page), headers);
    if let Ok(content_type) = HeaderValue::try_from(style.content_type()) {
        set_type(&mut response, content_type);
    }
    response
}
