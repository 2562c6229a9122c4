//! Selections of collectors by query, and panics.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_panic_costs_its_scrape_alone() {
    let calls = AtomicUsize::new(0);
    let own: OwnMetrics = Arc::new(move |_, page| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first page");
        page.extend_from_slice(b"own 1\n");
    });
    let renderer = Renderer::new(HostConfig::default(), Some(own), Arc::new(|| 0));
    let exporter = Exporter {
        telemetry_path: "/metrics".to_owned(),
        collectors: CollectorSet::all(),
        renderer: Mutex::new(renderer.expect("valid")),
    };
    let scraped = || scrape(&exporter, Some("collect[]=uname"), &HeaderMap::new());
    assert_eq!(scraped().status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(scraped().status(), StatusCode::OK);
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
