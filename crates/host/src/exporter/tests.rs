//! Selections of collectors by query, and the thread that renders.

use std::sync::mpsc;

use super::*;

/// Asks for a page of no collector.
fn ask(asks: &mpsc::Sender<Asked>) -> oneshot::Receiver<bytes::Bytes> {
    let (page, rendered) = oneshot::channel();
    let asked = Asked {
        only: CollectorSet::none(),
        style: Negotiated::default(),
        page,
    };
    asks.send(asked).expect("the thread runs");
    rendered
}

#[test]
fn a_panic_costs_its_scrapes_alone() {
    let calls = Arc::new(AtomicUsize::new(0));
    let own: OwnMetrics = Arc::new(move |_, page| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first page");
        page.extend_from_slice(b"own 1\n");
    });
    let renderer = Renderer::new(HostConfig::default(), Some(own), Arc::new(|| 0));
    let renderer = renderer.expect("valid");
    let (asks, asked) = mpsc::channel();
    let thread = std::thread::spawn(move || renderer.run(&asked));
    assert!(ask(&asks).blocking_recv().is_err());
    let page = ask(&asks).blocking_recv().expect("a page");
    assert!(page.starts_with(b"own 1\n# HELP node_exporter_build_info"));
    drop(asks);
    thread.join().expect("it ends");
}

#[test]
fn queries_select_as_node_exporter_does() {
    let enabled = CollectorSet::none()
        .with(CollectorKind::Cpu)
        .with(CollectorKind::Netdev);
    let cpu = CollectorSet::none().with(CollectorKind::Cpu);
    let not_created = "Couldn't create filtered metrics handler: couldn't create collector: ";
    for (query, expected) in [
        ("", Ok(enabled)),
        ("other=1", Ok(enabled)),
        ("collect[]=cpu", Ok(cpu)),
        ("collect%5B%5D=cpu&collect[]=cpu", Ok(cpu)),
        ("collect[]=cpu&collect[]=netdev", Ok(enabled)),
        ("exclude[]=netdev&x=y", Ok(cpu)),
        ("exclude[]=nope", Ok(enabled)),
        ("exclude[]=cpu&exclude[]=netdev", Ok(CollectorSet::none())),
        ("collect[]=%zz", Ok(enabled)),
        ("collect[]=cpu;x", Ok(enabled)),
        (
            "collect[]=nope",
            Err(format!("{not_created}missing collector: nope")),
        ),
        (
            "collect[]=",
            Err(format!("{not_created}missing collector: ")),
        ),
        (
            "collect[]=arp",
            Err(format!("{not_created}disabled collector: arp")),
        ),
        (
            "collect[]=cpu&exclude[]=cpu",
            Err("Combined collect and exclude queries are not allowed.".to_owned()),
        ),
    ] {
        assert_eq!(selected(query, enabled), expected, "{query}");
    }
}

#[test]
fn more_scrapes_than_allowed_are_refused() {
    let config = ExporterConfig {
        telemetry_path: "/metrics".to_owned(),
        max_requests: 2,
        own: None,
        now_ms: Arc::new(|| 0),
    };
    let (asked, asks) = mpsc::channel();
    let shared = Shared {
        config,
        collectors: CollectorSet::all(),
        asked,
        in_flight: AtomicUsize::new(1),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let headers = HeaderMap::new();
    let scraped = |query| {
        let answer = scrape(&shared, query, &headers);
        runtime.as_ref().expect("a runtime").block_on(answer)
    };
    // Nobody answers: the second scrape is let in and then finds the thread gone.
    drop(asks);
    assert_eq!(scraped(None).status(), StatusCode::INTERNAL_SERVER_ERROR);
    shared.in_flight.store(2, Ordering::Relaxed);
    assert_eq!(scraped(None).status(), StatusCode::SERVICE_UNAVAILABLE);
    // As there, a wrong selection is refused first.
    assert_eq!(
        scraped(Some("collect[]=x")).status(),
        StatusCode::BAD_REQUEST
    );
    assert_eq!(shared.in_flight.load(Ordering::Relaxed), 2);
}
