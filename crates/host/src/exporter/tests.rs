//! Selections of collectors by query, panics, and the landing page.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use narthex_net::axum::body::HttpBody as _;
use narthex_net::decompress;
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
        facts: None,
        renderer: Mutex::new(renderer.expect("valid")),
    };
    let uname = Asked {
        collectors: CollectorSet::none().with(CollectorKind::Uname),
        facts: false,
    };
    let scraped = || scrape(&exporter, &uname, &HeaderMap::new());
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
        let selected = asked(query, enabled).map(|asked| asked.collectors);
        assert_eq!(selected, expected, "{query}");
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

/// A host of the text files in a directory and the name of its kernel.
fn texts_and_uname(dir: &TempDir) -> HostConfig {
    HostConfig {
        collectors: CollectorSet::none()
            .with(CollectorKind::Textfile)
            .with(CollectorKind::Uname),
        textfile_directories: vec![dir.path().display().to_string()],
        wait_ms: 60_000,
        ..HostConfig::default()
    }
}

#[test]
fn the_landing_page_has_costs_and_advice() {
    let dir = TempDir::new("host-landing");
    let jobs = (0..900).map(|at| format!("jobs{{at=\"{at}\"}} {at}\n"));
    dir.write("a.prom", jobs.collect::<String>());
    let config = texts_and_uname(&dir);
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
        facts: None,
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

/// Compressed pages are made from the text of those before them.
#[test]
fn every_page_comes_back_from_gzip() {
    let dir = TempDir::new("host-gzip");
    let config = texts_and_uname(&dir);
    let mut renderer = Renderer::new(config.clone(), None, Arc::new(|| 0)).expect("valid");
    let style = Negotiated::from_accept("");
    let few = CollectorSet::none().with(CollectorKind::Textfile);
    for (round, jobs) in [90, 90, 90, 91, 91, 91, 90].into_iter().enumerate() {
        let lines = (0..jobs).map(|at| format!("jobs{{at=\"{at}\"}} {}\n", at * round));
        dir.write("a.prom", lines.collect::<String>());
        for only in [config.collectors, few] {
            let page = renderer.page(only, style, Encoding::Gzip);
            assert_eq!(page.encoding, Encoding::Gzip);
            let mut text = Vec::new();
            decompress(Encoding::Gzip, &page.body, 1 << 20, &mut text).expect("gzip");
            let text = String::from_utf8(text).expect("text");
            let of_jobs = text.lines().filter(|line| line.starts_with("jobs{"));
            assert_eq!(of_jobs.count(), jobs, "{round}: {text}");
            let last = format!("jobs{{at=\"{}\"}} {}\n", jobs - 1, (jobs - 1) * round);
            assert!(text.contains(&last), "{last} in {text}");
            assert_eq!(text.contains("node_uname_info"), only != few, "{text}");
        }
    }
}

#[test]
fn facts_follow_a_page_that_is_asked_for_them() {
    let exporter = Exporter {
        telemetry_path: "/metrics".to_owned(),
        limit: Limit::new(0),
        collectors: CollectorSet::none(),
        adviser: None,
        facts: Some(Arc::new(|| "fact 7\n".to_owned())),
        renderer: Mutex::new(
            Renderer::new(HostConfig::default(), None, Arc::new(|| 0)).expect("valid"),
        ),
    };
    let page = |query: &str, accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let asked = asked(query, CollectorSet::none()).expect("valid");
        shown(scrape(&exporter, &asked, &headers))
    };
    assert!(page("host_facts=true", "").ends_with("\nfact 7\n"));
    for (query, accept) in [
        ("", ""),
        ("host_facts=1", ""),
        ("host_facts=true", "application/openmetrics-text"),
    ] {
        assert!(!page(query, accept).contains("fact 7"), "{query} {accept}");
    }
}
