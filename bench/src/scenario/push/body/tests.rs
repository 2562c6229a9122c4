//! Bodies compared with what our parser reads from them, in both formats.

use super::*;
use narthex_expfmt::{Format as Read, KeepLabels, ParseOptions, Parser};
use narthex_model::LabelSet;
use std::collections::BTreeMap;

/// Parses a body into labels and value of each series.
fn parsed(format: Format, bytes: &[u8]) -> BTreeMap<String, f64> {
    let format = match format {
        Format::Text => Read::Text,
        Format::Protobuf => Read::Protobuf,
    };
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser.parse(format, bytes, 1, &mut KeepLabels);
    let values = round.unwrap().frame.values().to_vec();
    let schema = parser.schema();
    let columns = schema.columns().map(|(id, _)| id);
    columns
        .map(|id| (schema.labels(id).to_string(), values[id.index()]))
        .collect()
}

/// Returns the expected contents of the body of `processes`.
fn expected(
    catalogue: &Catalogue,
    processes: Option<u32>,
    first: u32,
    round: u64,
) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for process in 0..processes.unwrap_or(1) {
        for (at, (name, labels)) in catalogue.identities().enumerate() {
            let owner = processes.map(|_| process_name(process));
            let mut pairs = vec![("__name__", name)];
            let own = labels.split(',').filter_map(|label| label.split_once('='));
            pairs.extend(own.map(|(name, value)| (name, value.trim_matches('"'))));
            pairs.extend(owner.as_deref().map(|owner| ("process", owner)));
            let value = catalogue.value(first + process, at, round);
            let set = LabelSet::new(pairs);
            assert_eq!(all.insert(set.to_string(), value), None, "{set} is twice");
        }
    }
    all
}

#[test]
fn both_formats_say_the_values_of_the_round() {
    let catalogue = Catalogue::new(230);
    for format in [Format::Text, Format::Protobuf] {
        for processes in [None, Some(1), Some(3)] {
            let layout = Layout::new(&catalogue, format, processes);
            assert_eq!(layout.samples(), 230 * processes.unwrap_or(1) as usize);
            let mut body = Body::default();
            for (first, round) in [(0, 0), (7, 1), (39_999, 12_345), (7, LAST_ROUND)] {
                let got = parsed(format, body.write(&catalogue, &layout, first, round));
                let want = expected(&catalogue, processes, first, round);
                assert!(got == want, "{format:?} of {processes:?} in round {round}");
            }
        }
    }
}

#[test]
fn any_number_of_series_is_possible() {
    for series in [1, 2, 3, 4, 7, 40, 99, 100, 101, 600] {
        let catalogue = Catalogue::new(series);
        assert_eq!(catalogue.len(), series);
        let layout = Layout::new(&catalogue, Format::Text, None);
        let mut body = Body::default();
        let bytes = body.write(&catalogue, &layout, 0, 0);
        assert_eq!(parsed(Format::Text, bytes).len(), series, "{series}");
        // About as much as a process of the incident pushed.
        assert!(
            series != 600 || (38_000..48_000).contains(&bytes.len()),
            "{}",
            bytes.len()
        );
    }
}

#[test]
fn values_move_grow_and_differ() {
    let catalogue = Catalogue::new(600);
    for at in 0..600 {
        let value = |process, round| catalogue.value(process, at, round);
        assert_ne!(value(3, 1), value(3, 2), "{at}");
        assert_ne!(value(3, 1), value(4, 1), "{at}");
        if catalogue.series[at].kind != SeriesKind::Gauge {
            assert!(value(3, 2) > value(3, 1), "{at}");
        }
    }
}
