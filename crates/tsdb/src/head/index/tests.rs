//! The head's index against labels compared one by one.

use super::*;
use crate::wal::StripMark;
use narthex_model::{METRIC_NAME, MatchOp};
use narthex_testkit::rng::SplitMix64;

type Columns = Vec<(Arc<Strip>, Vec<LabelSet>)>;

/// Origins of a kind have the same columns; others have some of them, in another order.
fn index(rng: &mut SplitMix64) -> (Index, Columns) {
    let set = |at: usize| {
        let (name, code) = (format!("m{}", at % 7), format!("{}", at / 7));
        LabelSet::new([(METRIC_NAME, name.as_str()), ("code", code.as_str())])
    };
    let kind: Vec<LabelSet> = (0..150).map(set).collect();
    let (mut index, mut strips) = (Index::new(&Budget::unlimited()), Vec::new());
    for id in 0..30 {
        let instance = id.to_string();
        let labels = [("instance", instance.as_str()), ("job", "j")];
        let common = LabelSet::new(labels.into_iter().take(1 + rng.index(2)));
        let mut sets = kind.clone();
        if rng.one_in(3) {
            rng.shuffle(&mut sets);
            sets.truncate(1 + rng.index(150));
        }
        let strip = Arc::new(Strip::new(id, common, StripMark::default()));
        index.add_strip(&strip);
        for set in &sets {
            index.resolve(id, set, true, &mut Vec::new());
        }
        strips.push((strip, sets));
    }
    // Rules: a strip of its own for few series, with labels that others have in common.
    for id in 30..60 {
        let set = |code: &str| {
            let name = format!("rule{}", id % 20);
            LabelSet::new([(METRIC_NAME, &*name), ("instance", "3"), ("code", code)])
        };
        let sets = vec![set("5"), set("x")];
        let strip = Arc::new(Strip::new(id, LabelSet::empty(), StripMark::default()));
        index.add_strip(&strip);
        for set in &sets {
            index.resolve(id, set, true, &mut Vec::new());
        }
        strips.push((strip, sets));
    }
    for _ in 0..15 {
        let (strip, _) = strips.swap_remove(rng.index(strips.len()));
        index.remove_strip(strip.id);
    }
    strips.sort_by_key(|(strip, _)| strip.id);
    (index, strips)
}

#[test]
fn matchers_select_the_columns_whose_labels_match() {
    let matcher = |op, name, value| Matcher::new(op, name, value).expect("a matcher");
    let lists = [
        vec![],
        vec![matcher(MatchOp::Equal, METRIC_NAME, "m3")],
        vec![
            matcher(MatchOp::Equal, METRIC_NAME, "m3"),
            matcher(MatchOp::Equal, "code", "5"),
        ],
        vec![matcher(MatchOp::NotEqual, "code", "5")],
        vec![
            matcher(MatchOp::Regex, "job", "j|"),
            matcher(MatchOp::Regex, "code", "1.?"),
        ],
        vec![
            matcher(MatchOp::Equal, "job", "j"),
            matcher(MatchOp::Equal, METRIC_NAME, "m1"),
            matcher(MatchOp::Equal, "code", "20"),
        ],
        vec![matcher(MatchOp::Equal, "instance", "3")],
        vec![
            matcher(MatchOp::Regex, METRIC_NAME, "rule3|rule17|m2"),
            matcher(MatchOp::Equal, "instance", "3"),
            matcher(MatchOp::NotEqual, "code", "x"),
        ],
        vec![
            matcher(MatchOp::Equal, METRIC_NAME, "rule3"),
            matcher(MatchOp::Equal, "job", ""),
        ],
        vec![matcher(MatchOp::Equal, METRIC_NAME, "nobody")],
    ];
    let mut selected = 0;
    for seed in 1..=20 {
        let mut rng = SplitMix64::new(seed);
        let (mut index, mut strips) = index(&mut rng);
        // Between two questions the index may become another one, of the asked metric or of others.
        for (round, matchers) in lists.iter().cycle().take(6 * lists.len()).enumerate() {
            if round > lists.len() {
                change(&mut index, &mut strips, round as u32, &mut rng);
            }
            let mut lease = Budget::unlimited().lease(0).expect("unlimited");
            let found = index.select(matchers, i64::MIN, &Stop::never(), 1, &mut lease);
            let found = found.expect("selected");
            let found: Vec<(u32, Vec<u32>)> = found
                .iter()
                .map(|chosen| (chosen.strip.id, chosen.columns.to_vec()))
                .collect();
            let mut expected = Vec::new();
            for (strip, sets) in &strips {
                let matches = |set: &LabelSet| {
                    let labels = strip.common.union(set);
                    let value = |m: &Matcher| labels.get(&m.name).unwrap_or_default().to_owned();
                    matchers.iter().all(|m| m.matches(&value(m)))
                };
                let columns = (0u32..).zip(sets).filter(|(_, set)| matches(set));
                let columns: Vec<u32> = columns.map(|(column, _)| column).collect();
                selected += columns.len();
                expected.extend((!columns.is_empty()).then_some((strip.id, columns)));
            }
            assert_eq!(found, expected, "seed {seed}, {matchers:?}");
        }
    }
    assert!(selected > 10_000);
}

/// Changes an index, mostly: adds a series to a strip, adds a strip with or without series, or removes one.
fn change(index: &mut Index, strips: &mut Columns, round: u32, rng: &mut SplitMix64) {
    let name = *rng.pick(&["m1", "m2", "m3", "m5", "rule3", "rule17", "other"]);
    let set = LabelSet::new([(METRIC_NAME, name), ("code", &format!("r{round}"))]);
    match rng.below(6) {
        0 | 1 => {
            let at = rng.index(strips.len());
            let (strip, sets) = &mut strips[at];
            if strip.common.get(METRIC_NAME).is_none() {
                index.resolve(strip.id, &set, true, &mut Vec::new());
                sets.push(set);
            }
        }
        2 => {
            // A rule's name may be common to all its series.
            let common = LabelSet::new([(METRIC_NAME, name), ("job", "j"), ("instance", "3")]);
            let strip = Arc::new(Strip::new(1000 + round, common, StripMark::default()));
            index.add_strip(&strip);
            let mut sets = Vec::new();
            if rng.one_in(2) {
                let set = LabelSet::new([("code", *rng.pick(&["5", "20", "x"]))]);
                index.resolve(strip.id, &set, true, &mut Vec::new());
                sets.push(set);
            }
            strips.push((strip, sets));
        }
        3 if strips.len() > 10 => {
            let (strip, _) = strips.remove(rng.index(strips.len()));
            index.remove_strip(strip.id);
        }
        _ => {}
    }
}

#[test]
fn selections_are_leased_until_their_metric_changes() {
    let memory = Budget::new("head", 1 << 20);
    let mut index = Index::new(&memory);
    let strip = |id: u32| {
        let common = LabelSet::new([("job", &*format!("j{id}"))]);
        Arc::new(Strip::new(id, common, StripMark::default()))
    };
    let set = LabelSet::new([(METRIC_NAME, "m")]);
    for id in 1..=50 {
        index.add_strip(&strip(id));
        index.resolve(id, &set, true, &mut Vec::new());
    }
    let ask = |index: &Index, value: &str| {
        let matchers = [
            Matcher::new(MatchOp::Regex, METRIC_NAME, "m|n").expect("a pattern"),
            Matcher::new(MatchOp::Regex, "job", value).expect("a pattern"),
        ];
        let mut lease = Budget::unlimited().lease(0).expect("unlimited");
        let found = index.select(&matchers, i64::MIN, &Stop::never(), 1, &mut lease);
        found.expect("selected").len()
    };

    assert_eq!(ask(&index, "j1.*"), 11);
    let one = memory.used_bytes();
    assert!(one > 11 * size_of::<Chosen>() as u64, "{one}");
    assert_eq!(ask(&index, "j1.*"), 11);
    assert_eq!(memory.used_bytes(), one, "it is known");
    assert_eq!(ask(&index, "j2.*"), 11);
    assert!(memory.used_bytes() > one);
    for at in 0..1000 {
        assert_eq!(ask(&index, &format!("j1.*|{at}")), 11);
        assert!(memory.used_bytes() <= memory.percent(2));
    }
    assert_eq!(ask(&index, &format!("j1.*|{}", "x".repeat(1 << 14))), 11);
    assert!(memory.used_bytes() <= memory.percent(2));

    let add = |index: &mut Index, id: u32, name: &str| {
        let set = LabelSet::new([(METRIC_NAME, name), ("new", &*id.to_string())]);
        index.add_strip(&strip(id));
        index.resolve(id, &set, true, &mut Vec::new());
    };
    let kept = memory.used_bytes();
    add(&mut index, 100, "other");
    assert_eq!(memory.used_bytes(), kept, "one strip changed");
    (200..300).for_each(|id| add(&mut index, id, "other"));
    assert_eq!(memory.used_bytes(), 0, "any metric may be selected");
    index.remove_strip(100);
    (200..300).for_each(|id| assert!(index.remove_strip(id) > 0));
    add(&mut index, 100, "other");
    let of_metric = |index: &Index, name: &str| {
        let matchers = [Matcher::equal(METRIC_NAME, name)];
        let mut lease = Budget::unlimited().lease(0).expect("unlimited");
        let found = index.select(&matchers, i64::MIN, &Stop::never(), 1, &mut lease);
        found.expect("selected").len()
    };
    assert_eq!(of_metric(&index, "m"), 50);
    let all = memory.used_bytes();
    assert_eq!(of_metric(&index, "other"), 1);
    let both = memory.used_bytes();
    assert!(both > all && all > 0);
    add(&mut index, 101, "third");
    assert_eq!(memory.used_bytes(), both, "of neither metric");
    add(&mut index, 102, "other");
    assert_eq!(memory.used_bytes(), both, "its strip is searched");
    assert_eq!(of_metric(&index, "other"), 2);
    assert!(memory.used_bytes() > both);
    index.remove_strip(102);
    assert_eq!(memory.used_bytes(), all);
    index.remove_strip(50);
    assert_eq!(memory.used_bytes(), 0);
}

#[test]
fn selections_of_many_strips_are_kept() {
    let memory = Budget::new("head", 64 << 20);
    let mut index = Index::new(&memory);
    for id in 1..=3000 {
        let common = LabelSet::new([("job", &*format!("j{id}"))]);
        index.add_strip(&Arc::new(Strip::new(id, common, StripMark::default())));
        // One label of its own does not make a target one of another kind.
        let version = (id % 4).to_string();
        for name in ["m", "n", "info"] {
            let mut set = LabelSet::new([(METRIC_NAME, name)]);
            if name == "info" {
                set = set.with("version", &version);
            }
            index.resolve(id, &set, true, &mut Vec::new());
        }
    }
    let ask = |index: &Index| {
        let mut lease = Budget::unlimited().lease(0).expect("unlimited");
        let matchers = [Matcher::equal(METRIC_NAME, "n")];
        let found = index.select(&matchers, i64::MIN, &Stop::never(), 1, &mut lease);
        found.expect("selected")
    };
    let first = ask(&index);
    let used = memory.used_bytes();
    assert!((3000 * 24..3000 * 32).contains(&used), "{used}");
    let again = ask(&index);
    assert_eq!((first.len(), memory.used_bytes()), (3000, used));
    for (one, other) in first.iter().zip(&*again) {
        assert_eq!(*one.columns, [1]);
        // Another search would make another list.
        assert!(Arc::ptr_eq(&one.columns, &other.columns));
    }
    // One that comes is found, in its place, with the list of the others; nothing else is searched.
    let late = Strip::new(0, LabelSet::new([("job", "late")]), StripMark::default());
    index.add_strip(&Arc::new(late));
    for name in ["m", "n", "info"] {
        let set = LabelSet::new([(METRIC_NAME, name)]);
        index.resolve(0, &set, true, &mut Vec::new());
    }
    for id in [2500, 0] {
        let set = LabelSet::new([(METRIC_NAME, "n"), ("late", "1")]);
        index.resolve(id, &set, true, &mut Vec::new());
    }
    let grown = ask(&index);
    assert_eq!((grown.len(), grown[0].strip.id), (3001, 0));
    for one in &*grown {
        let is_changed = [0, 2500].contains(&one.strip.id);
        assert_eq!(is_changed, *one.columns == [1, 3]);
        assert_eq!(is_changed, !Arc::ptr_eq(&one.columns, &first[0].columns));
    }
    assert!(index.remove_strip(7) > 0);
    assert_eq!((memory.used_bytes(), ask(&index).len()), (0, 3000));
}

#[test]
fn selections_of_any_metric_follow_each_series_of_a_strip() {
    let mut index = Index::new(&Budget::new("head", 64 << 20));
    let common = LabelSet::new([("job", "j")]);
    index.add_strip(&Arc::new(Strip::new(1, common, StripMark::default())));
    for series in 1..=5 {
        let set = LabelSet::new([(METRIC_NAME, &*format!("m{series}"))]);
        index.resolve(1, &set, true, &mut Vec::new());
        let mut lease = Budget::unlimited().lease(0).expect("unlimited");
        let matchers = [Matcher::equal("job", "j")];
        let found = index.select(&matchers, i64::MIN, &Stop::never(), 1, &mut lease);
        assert_eq!(found.expect("selected")[0].columns.len(), series);
    }
}

#[test]
fn selections_are_kept_although_strips_ended() {
    let memory = Budget::new("head", 64 << 20);
    let mut index = Index::new(&memory);
    for id in 1..=30 {
        let common = LabelSet::new([("job", &*format!("j{id}"))]);
        let strip = Arc::new(Strip::new(id, common, StripMark::default()));
        strip.set_max_ms(i64::from(id) * 100);
        index.add_strip(&strip);
        let set = LabelSet::new([(METRIC_NAME, "m")]);
        index.resolve(id, &set, true, &mut Vec::new());
    }
    let ask = |min_ms: i64, name: &str| {
        let budget = Budget::unlimited();
        let mut lease = budget.lease(0).expect("unlimited");
        let matchers = [Matcher::equal(METRIC_NAME, name)];
        let found = index.select(&matchers, min_ms, &Stop::never(), 10, &mut lease);
        let found = found.expect("selected");
        assert_eq!(budget.used_bytes(), found.len() as u64 * 10);
        let ids: Vec<u32> = found.iter().map(|chosen| chosen.strip.id).collect();
        (ids, memory.used_bytes())
    };
    let recent: Vec<u32> = (20..=30).collect();
    assert_eq!(ask(2000, "m"), (recent.clone(), 0), "asked once");
    let (found, kept) = ask(2000, "m");
    assert_eq!(found, recent);
    assert!(kept > 0, "asked twice");
    assert_eq!(ask(2000, "m"), (recent, kept));
    assert_eq!(ask(2900, "m"), (vec![29, 30], kept));
    assert_eq!(ask(i64::MIN, "m").0.len(), 30);
    assert_eq!(ask(2000, "other").0, []);
}

/// A service whose series are recorded by hundreds of rules cost each rule's first evaluation a look at all of those.
#[test]
fn the_matcher_with_the_fewest_sets_narrows_a_search() {
    let mut index = Index::new(&Budget::unlimited());
    let add = |index: &mut Index, id: u32, common: LabelSet, sets: &[LabelSet]| {
        index.add_strip(&Arc::new(Strip::new(id, common, StripMark::default())));
        for set in sets {
            index.resolve(id, set, true, &mut Vec::new());
        }
    };
    for id in 0..100 {
        let common = LabelSet::new([("service", &*format!("s{}", id % 10))]);
        add(
            &mut index,
            id,
            common,
            &[LabelSet::new([(METRIC_NAME, "m")])],
        );
    }
    for id in 100..800 {
        let recorded = LabelSet::new([(METRIC_NAME, &*format!("r{id}")), ("service", "s1")]);
        add(&mut index, id, LabelSet::empty(), &[recorded]);
    }
    let (service, name) = (
        Matcher::equal("service", "s1"),
        Matcher::equal(METRIC_NAME, "m"),
    );
    for matchers in [[service.clone(), name.clone()], [name, service]] {
        let mut looked_up = vec![None; 2];
        let found = index.candidates(&matchers, &mut looked_up, &Stop::never());
        assert_eq!(found.expect("not stopped").expect("narrowed").len(), 100);
        for (matcher, sets) in matchers.iter().zip(looked_up) {
            assert_eq!(sets.is_some(), &*matcher.name == METRIC_NAME);
        }
        let mut lease = Budget::unlimited().lease(0).expect("unlimited");
        let chosen = index.select(&matchers, i64::MIN, &Stop::never(), 1, &mut lease);
        assert_eq!(chosen.expect("selected").len(), 10);
    }
}
