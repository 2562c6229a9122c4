//! Random rounds of one origin, compared with a map.

use crate::messages::{Message, family, metric};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, Frame, LabelSet};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Returns a round: which of 30 series are sent, their rotation and values, and whether heads are sent.
fn round() -> impl Strategy<Value = (Vec<bool>, usize, Vec<i32>, bool)> {
    (
        prop::collection::vec(prop::bool::weighted(0.9), 30),
        0usize..30,
        prop::collection::vec(-999_999i32..999_999, 30),
        any::<bool>(),
    )
}

/// Returns the values of a frame by labels.
fn found(frame: &Frame) -> BTreeMap<LabelSet, u64> {
    let value = |at: usize| {
        let labels = frame.schema().labels(ColumnId(at as u32));
        (labels, frame.values()[at].to_bits())
    };
    frame.present().iter().map(value).collect()
}

const FAMILIES: usize = 6;
const METRICS: usize = 7;

/// Returns a round of messages: how many metrics each family has, from which of them on, which family is first, and whether
/// some is described otherwise than usual.
fn messages() -> impl Strategy<Value = (Vec<(usize, usize)>, usize, Option<usize>)> {
    let of_family = (
        prop_oneof![2 => Just(0), 3 => Just(METRICS), 2 => 1..METRICS],
        prop_oneof![3 => Just(0), 1 => 0..METRICS],
    );
    (
        prop::collection::vec(of_family, FAMILIES),
        prop_oneof![4 => Just(0), 1 => 0..FAMILIES],
        prop_oneof![4 => Just(None), 1 => (0..FAMILIES).prop_map(Some)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_round_gives_exactly_what_it_says(rounds in prop::collection::vec(round(), 1..12)) {
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        for (sent, turn, values, heads) in rounds {
            let mut body = String::new();
            let mut expected = BTreeMap::new();
            for at in (0..30).map(|at| (at + turn) % 30).filter(|at| sent[*at]) {
                if heads && at % 10 == 0 {
                    body.push_str(&format!("# HELP m{} turn {turn}\n", at / 10));
                }
                let value = f64::from(values[at]) / 100.0;
                let labels = LabelSet::new([("__name__", format!("m{}", at / 10).as_str()), ("i", at.to_string().as_str())]);
                body.push_str(&format!("m{}{{i=\"{at}\"}} {value}\n", at / 10));
                expected.insert(labels, value.to_bits());
            }
            let frame = parser.parse(Format::Text, body.as_bytes(), 0, &mut KeepLabels).unwrap().frame;
            prop_assert_eq!(found(&frame), expected);
        }
    }

    /// Families that come, go, change places, and are described otherwise.
    #[test]
    fn every_round_of_messages_gives_exactly_what_it_says(rounds in prop::collection::vec(messages(), 1..12)) {
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        for (turn, (of_families, first, odd)) in rounds.into_iter().enumerate() {
            let (mut body, mut expected) = (Vec::new(), BTreeMap::new());
            for at in (0..FAMILIES).map(|at| (at + first) % FAMILIES) {
                let (count, from) = of_families[at];
                let name = format!("m{at}");
                let mut sent = family(&name, 1);
                if odd == Some(at) {
                    sent = Message::new().text(1, &name).integer(3, 1);
                }
                for number in (0..count).map(|number| ((from + number) % METRICS).to_string()) {
                    let value = (turn * 100 + at) as f64;
                    let gauge = Message::new().double(1, value);
                    sent = sent.part(4, metric(&[("i", &number)]).part(2, gauge));
                    let labels = LabelSet::new([("__name__", &*name), ("i", &*number)]);
                    expected.insert(labels, value.to_bits());
                }
                if count > 0 || turn % 2 == 0 {
                    body.extend(sent.delimited());
                }
            }
            if body.is_empty() {
                continue;
            }
            let frame = parser.parse(Format::Protobuf, &body, 0, &mut KeepLabels).unwrap().frame;
            prop_assert_eq!(found(&frame), expected);
        }
    }
}
