//! Fuzz targets: plain functions over untrusted bytes.

use crate::{
    decode::{self, Allowed, Memory, Target},
    gob,
    grouping::Grouping,
    handler::{cleaned, percent_decoded},
    journal, record,
    split::Split,
    text::GroupLabels,
};
use narthex_expfmt::{Escaping, Format};
use narthex_net::Unlimited;

/// Parses bytes as a request's path. A path made from the group's labels must name the same group.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_path(data: &[u8]) {
    let Some(path) = percent_decoded(&String::from_utf8_lossy(data)) else {
        return;
    };
    let clean = cleaned(&path);
    assert_eq!(cleaned(&clean), clean);
    for utf8 in [false, true] {
        let Some(Ok(grouping)) = Grouping::from_path(&path, utf8) else {
            continue;
        };
        assert!(grouping.get("job").is_some_and(|job| !job.is_empty()));
        assert!(grouping.labels().is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(Grouping::new(grouping.labels().to_vec()), grouping);
        // Go's unescaping, which is followed, reads five digits at most.
        let is_last_plane = |name: &str| name.chars().any(|c| c > '\u{fffff}');
        if grouping
            .labels()
            .iter()
            .any(|(name, _)| is_last_plane(name))
        {
            continue;
        }
        let path = grouping.path(utf8);
        let path = path.strip_prefix("metrics/").expect("the path of a group");
        assert_eq!(Grouping::from_path(path, utf8), Some(Ok(grouping)));
    }
}

/// Decodes bytes as a body, then all but its last line: memory of the first body must not change the result. What is
/// decoded is rendered.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_body(data: &[u8]) {
    let grouping = Grouping::new(vec![("job".to_owned(), "j".to_owned())]);
    let common = &grouping.common();
    let labels = GroupLabels::new(&grouping, Escaping::Underscores);
    let target = Target {
        grouping: &grouping,
        common,
    };
    let lines = data.strip_suffix(b"\n").unwrap_or(data);
    let shorter = &data[..memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1)];
    for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
        let (memory, mut shelves) = (Memory::default(), Vec::new());
        // A timestamp is the only thing that is allowed in the second round and not in the others.
        for (body, timestamps) in [(data, false), (data, true), (shorter, false)] {
            let allowed = Allowed {
                utf8_names: false,
                timestamps,
            };
            let after = decode::decode(&memory, &mut shelves, (format, body), target, allowed);
            let (nobodys, mut none) = (Memory::default(), Vec::new());
            let alone = decode::decode(&nobodys, &mut none, (format, body), target, allowed);
            let shown = [after, alone].map(|decoded| {
                let contents = decoded.map_err(|error| error.to_string())?;
                let mut page = Vec::new();
                for (at, family) in contents.families().enumerate() {
                    contents.layout.text(at).write(&mut page, family, &labels);
                }
                Ok::<_, String>((format!("{:?}", contents.numbers), page))
            });
            assert_eq!(shown[0], shown[1]);
        }
    }
}

/// Splits bytes as a batch: every sample is in one part, and a part splits into itself.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_batch(data: &[u8]) {
    let by = ["job", "instance"].map(str::to_owned);
    for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
        let Ok(split) = Split::new(format, data, &by, &mut Unlimited) else {
            continue;
        };
        // Parts repeat comment lines, so few are enough to see whether they are whole.
        for part in split.parts().iter().take(4) {
            let body = split.body_of(part).bytes;
            let again = Split::new(format, &body, &by, &mut Unlimited);
            let again = again.expect("a part is a body");
            assert_eq!(again.ungrouped.total, 0);
            let [only] = again.parts() else {
                panic!("{} parts of one", again.parts().len())
            };
            assert_eq!(only.grouping, part.grouping);
            assert_eq!(only.len(), part.len());
            assert_eq!(again.body_of(only).bytes, body);
        }
    }
}

/// Parses bytes as a journal, and as a single record.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_journal(data: &[u8]) {
    if let Ok(replay) = journal::read(&mut &*data) {
        assert!(replay.records * 8 <= data.len());
    }
    let mut groups = record::Groups::new();
    let _ = record::apply(data, &mut groups);
}

/// Parses bytes as a Pushgateway's persistence file.
pub fn fuzz_gob(data: &[u8]) {
    let _ = gob::read(data);
}
