//! Random pushes and deletions against a simple model of groups, lifetimes, and concurrent pushes.

use crate::rig::{Rig, config};
use narthex_push::{GatewayConfig, StoreConfig};
use narthex_testkit::{TempDir, http, rng::SplitMix64, scaled};
use std::{collections::BTreeMap, fmt::Write as _, thread, time::Duration};

/// Families of a group, with the values of their series.
type Group = BTreeMap<&'static str, BTreeMap<u64, u64>>;

const FAMILIES: [&str; 4] = ["alpha", "beta", "gamma_total", "delta"];

fn body(families: &Group, shuffled: bool) -> String {
    let mut text = String::new();
    let mut write = |name: &str, series: &BTreeMap<u64, u64>| {
        let _ = writeln!(text, "# TYPE {name} gauge");
        for (k, value) in series {
            let _ = writeln!(text, "{name}{{k=\"{k}\"}} {value}");
        }
    };
    if shuffled {
        families
            .iter()
            .rev()
            .for_each(|(name, series)| write(name, series));
    } else {
        families
            .iter()
            .for_each(|(name, series)| write(name, series));
    }
    text
}

fn expected(groups: &BTreeMap<u64, Group>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (group, families) in groups {
        for (name, series) in families {
            for (k, value) in series {
                let line = format!("{name}{{instance=\"\",job=\"j{group}\",k=\"{k}\"}}");
                all.insert(line, value.to_string());
            }
        }
    }
    all
}

#[test]
fn random_pushes_leave_what_a_simple_model_has() {
    let dir = TempDir::new("groups");
    let file = dir.join("p");
    let seed = std::env::var("NARTHEX_TEST_SEED").map_or(0x9054, |text| text.parse().unwrap());
    let mut rng = SplitMix64::new(seed);
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    let mut rig = Rig::start(config(), StoreConfig::default(), Some(&file));
    for round in 0..scaled(400) {
        let group = rng.below(4);
        let path = format!("/metrics/job/j{group}");
        if rng.below(10) == 0 {
            assert_eq!(rig.ask("DELETE", &path, "").status, 202);
            groups.remove(&group);
        } else {
            let mut families = Group::new();
            for name in FAMILIES {
                if rng.below(3) > 0 {
                    let series = (0..rng.below(4)).map(|_| (rng.below(3), rng.below(1000)));
                    families.insert(name, series.collect());
                }
            }
            // A family without samples adds nothing.
            let text = body(&families, rng.below(2) == 0);
            families.retain(|_, series| !series.is_empty());
            let replace = rng.below(2) == 0;
            let answer = rig.ask(if replace { "PUT" } else { "POST" }, &path, &text);
            assert_eq!(
                answer.status,
                200,
                "seed {seed}, round {round}: {}\n{text}",
                answer.text()
            );
            let known = groups.entry(group).or_default();
            if replace {
                *known = families;
            } else {
                known.extend(families);
            }
        }
        match rng.below(40) {
            0 => rig.store.maintain(),
            1 => {
                drop(rig);
                rig = Rig::start(config(), StoreConfig::default(), Some(&file));
            }
            _ => {}
        }
        assert_eq!(
            rig.samples(),
            expected(&groups),
            "seed {seed}, round {round}"
        );
    }
}

#[test]
fn groups_live_as_long_as_their_push_says() {
    let rig = Rig::start(
        config(),
        StoreConfig {
            ttl_ms: [(String::new(), 60_000), ("short".to_owned(), 10_000)].into(),
            ..StoreConfig::default()
        },
        None,
    );
    rig.put("/metrics/job/short", "a 1\n");
    rig.put("/metrics/job/plain", "b 1\n");
    rig.put("/metrics/job/asked?ttl=2m", "c 1\n");
    rig.put("/metrics/job/forever?ttl=0", "d 1\n");
    assert_eq!(
        rig.ask("PUT", "/metrics/job/x?ttl=abc", "d 1\n").status,
        400
    );
    let left = |rig: &Rig| {
        rig.store.expire();
        rig.samples()
            .keys()
            .map(|series| series[..1].to_owned())
            .collect::<String>()
    };
    for (seconds, expected) in [
        (9, "abcd"),
        (1, "bcd"),
        (49, "bcd"),
        (1, "cd"),
        (60, "d"),
        (86_400, "d"),
    ] {
        rig.pass(Duration::from_secs(seconds));
        assert_eq!(left(&rig), expected, "after {seconds} s more");
    }
    rig.put("/metrics/job/forever", "d 1\n");
    rig.pass(Duration::from_secs(60));
    assert_eq!(left(&rig), "");
}

#[test]
fn the_page_counts_groups_and_says_how_long_they_are_kept() {
    let rig = Rig::in_memory(config());
    rig.put("/metrics/job/a?ttl=90m", "a 1\n");
    let page = rig.ask("GET", "/", "").text();
    assert!(page.contains("<p>1 group.</p>"), "{page}");
    assert!(page.contains("<th>Kept for<"), "{page}");
    assert!(page.contains("<td class=\"n\">1h30m<"), "{page}");
    rig.put("/metrics/job/b", "b 1\n");
    let page = rig.ask("GET", "/", "").text();
    assert!(page.contains("<p>2 groups.</p>"), "{page}");
    assert!(page.contains("<td class=\"n\">ever<"), "{page}");
}

#[test]
fn the_page_deletes_all_groups_where_that_is_allowed() {
    for (enable_admin_api, offered) in [(true, 1), (false, 0)] {
        let rig = Rig::in_memory(GatewayConfig {
            enable_admin_api,
            ..config()
        });
        let buttons = || {
            let page = rig.ask("GET", "/", "").text();
            page.matches("data-path=\"api/v1/admin/wipe\"").count()
        };
        assert_eq!(buttons(), 0, "there is nothing to delete");
        rig.put("/metrics/job/a", "a 1\n");
        assert_eq!(buttons(), offered);
    }
}

#[test]
fn pushes_at_the_same_time_are_stored_whole() {
    let rig = Rig::in_memory(config());
    thread::scope(|scope| {
        for pusher in 0..6u64 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..scaled(40) {
                    // Three pushers share each group.
                    let series: String = (0..50)
                        .map(|k| format!("m{k} {}\n", pusher * 1000 + round))
                        .collect();
                    rig.put(&format!("/metrics/job/j{}", pusher % 2), &series);
                    let samples = rig.samples();
                    for job in ["j0", "j1"] {
                        let values: Vec<&String> = samples
                            .iter()
                            .filter(|(series, _)| series.contains(job))
                            .map(|(_, value)| value)
                            .collect();
                        assert!(
                            values.windows(2).all(|pair| pair[0] == pair[1]),
                            "a torn push: {values:?}"
                        );
                    }
                }
            });
        }
    });
    assert_eq!(rig.samples().len(), 100);
}

#[test]
fn a_refused_push_leaves_everything_as_it_was() {
    let rig = Rig::in_memory(config());
    rig.put("/metrics/job/a", "m{x=\"1\"} 1\nn 2\n");
    rig.put("/metrics/job/b", "# TYPE o counter\no 3\n");
    let before = rig.samples();
    for body in [
        "m{",
        "m 1\nm 1\n",
        "o 1\n",
        "# TYPE n summary\nn_sum 1\nn_bogus{ 1\n",
        "fresh 1\no 1\n",
    ] {
        assert_eq!(rig.ask("PUT", "/metrics/job/c", body).status, 400, "{body}");
        assert_eq!(rig.ask("PUT", "/metrics/job/a", body).status, 400, "{body}");
        assert_eq!(rig.samples(), before, "{body}");
    }
    // Families of a refused push are not registered: another group may use them with another type.
    rig.put("/metrics/job/d", "# TYPE fresh counter\nfresh 1\n");
    rig.put("/metrics/job/c", "# TYPE m gauge\nmm 1\n");
}

/// A page of several pieces is the same in every encoding, and is what was pushed.
#[test]
fn a_long_page_is_sent_in_pieces() {
    let rig = Rig::in_memory(config());
    let mut expected = BTreeMap::new();
    for group in 0..30 {
        let mut body = String::from("# TYPE a counter\n# TYPE h histogram\n");
        for at in 0..100 {
            let value = group * 7919 + at * 104_729;
            body.push_str(&format!("a{{b=\"{at}\",z=\"1\"}} {value}\n"));
            let labels = format!("b=\"{at}\",g=\"{group}\",instance=\"\",job=\"j\"");
            expected.insert(format!("a{{{labels},z=\"1\"}}"), f64::from(value));
        }
        body.push_str(&format!(
            "h_bucket{{le=\"+Inf\"}} {group}\nh_count {group}\nh_sum 0.5\n"
        ));
        for (suffix, bound) in [("_bucket", ",le=\"+Inf\""), ("_count", ""), ("_sum", "")] {
            let series = format!("h{suffix}{{g=\"{group}\",instance=\"\",job=\"j\"{bound}}}");
            expected.insert(
                series,
                if suffix == "_sum" {
                    0.5
                } else {
                    f64::from(group)
                },
            );
        }
        rig.put(&format!("/metrics/job/j/g/{group}"), &body);
    }
    let url = format!("{}/metrics", rig.url);
    let mut texts = Vec::new();
    for (encoding, accept) in [
        ("identity", ""),
        ("gzip", ""),
        ("zstd", ""),
        ("gzip", "text/plain;escaping=values"),
    ] {
        let headers = [("Accept-Encoding", encoding), ("Accept", accept)];
        let answer = http::request("GET", &url, &headers, b"").unwrap();
        assert_eq!(answer.status, 200);
        let encoded = narthex_net::Encoding::parse(encoding.as_bytes()).unwrap();
        assert_eq!(
            answer.header("Content-Encoding").is_some(),
            encoding != "identity",
            "{encoding}"
        );
        let mut text = Vec::new();
        narthex_net::decompress(encoded, &answer.body, 1 << 24, &mut text).unwrap();
        texts.push(String::from_utf8(text).unwrap());
    }
    assert!(texts[0].len() > 128 << 10, "{}", texts[0].len());
    assert!(texts.iter().all(|text| *text == texts[0]));
    let lines = texts[0]
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("push_"));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
    let found: BTreeMap<String, f64> = pairs
        .map(|(series, value)| (series.to_owned(), value.parse().unwrap()))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(texts[0].matches("# TYPE a counter\n").count(), 1);
}
