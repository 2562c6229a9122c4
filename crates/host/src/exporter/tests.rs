//! Selections of collectors by query, panics, and the landing page.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use narthex_net::axum::body::HttpBody as _;
use narthex_testkit::TempDir;

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
        limit: Limit::new(0),
        collectors: CollectorSet::all(),
        adviser: None,
        renderer: Mutex::new(renderer.expect("valid")),
    };
    let uname = CollectorSet::none().with(CollectorKind::Uname);
    let scraped = || scrape(&exporter, uname, &HeaderMap::new());
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

fn shown(response: Response) -> String {
    let mut body = response.into_body();
    let mut context = Context::from_waker(Waker::noop());
    let mut bytes = Vec::new();
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
        let data = frame.expect("whole").into_data();
        bytes.extend_from_slice(&data.expect("no trailers"));
    }
    String::from_utf8(bytes).expect("text")
}

#[test]
fn the_landing_page_has_costs_and_advice() {
    let dir = TempDir::new("host-landing");
    let jobs = (0..900).map(|at| format!("jobs{{at=\"{at}\"}} {at}\n"));
    dir.write("a.prom", jobs.collect::<String>());
    let kinds = [CollectorKind::Textfile, CollectorKind::Uname];
    let config = HostConfig {
        collectors: kinds
            .into_iter()
            .fold(CollectorSet::none(), CollectorSet::with),
        textfile_directories: vec![dir.path().display().to_string()],
        wait_ms: 60_000,
        ..HostConfig::default()
    };
    let exporter = Exporter {
        telemetry_path: "/a&b".to_owned(),
        limit: Limit::new(0),
        collectors: config.collectors,
        adviser: Some(Arc::new(|frame, _| {
            vec![Finding {
                severity: Severity::Warning,
                rule: "many",
                text: format!("<{}> series", frame.present().count()),
                help: "Fewer.".to_owned(),
            }]
        })),
        renderer: Mutex::new(Renderer::new(config, None, Arc::new(|| 0)).expect("valid")),
    };
    exporter.landing(&HeaderMap::new());
    let page = shown(exporter.landing(&HeaderMap::new()));
    for expected in [
        "<a href=\"/a&amp;b\">",
        "<tr><td>textfile<td>902<td>",
        "<tr><td>uname<td>1<td>",
        "<li>warning many: &lt;908&gt; series<br>Fewer.\n",
        "<li>textfile: 902 series, ",
        " % of the page; --no-collector.textfile would save 1",
    ] {
        assert!(page.contains(expected), "{expected} in {page}");
    }
}
