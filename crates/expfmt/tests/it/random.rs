//! Random rounds of one origin, compared with a map.

use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, LabelSet};
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
            let found: BTreeMap<LabelSet, u64> = frame
                .present()
                .iter()
                .map(|at| (frame.schema().labels(ColumnId(at as u32)), frame.values()[at].to_bits()))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
