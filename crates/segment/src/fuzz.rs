//! Fuzz targets: plain functions over untrusted bytes.

use crate::{
    file::SegmentFile,
    labels,
    layout::{FIXED_BYTES, checksum, u32_at, u64_at},
    records::{CHECKSUM_AT, Records},
    totals::Totals,
};
use narthex_model::LabelSet;
use std::sync::Arc;

/// Makes the checksums of records fit, so that mutated ones reach the code behind.
fn repair_records(mut bytes: &mut [u8]) {
    while bytes.len() >= 16 {
        let length = (u32_at(bytes, 0) as usize).clamp(8, bytes.len());
        let (record, rest) = bytes.split_at_mut(length);
        let sum = checksum(record, CHECKSUM_AT);
        record[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        bytes = rest;
    }
}

fn repair(bytes: &mut [u8]) {
    let at = usize::try_from(u64_at(bytes, 40)).unwrap_or(usize::MAX);
    if let Some(records) = bytes.get_mut(at..) {
        repair_records(records);
    }
    if let Some(fixed) = bytes.get_mut(..FIXED_BYTES) {
        let sum = checksum(fixed, 16);
        fixed[16..20].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Reads bytes as a segment, adds it up and renders a round of it.
///
/// # Panics
/// Panics when the parts disagree, which is what fuzzing looks for.
pub fn fuzz_segment(data: &[u8]) {
    let mut repaired = data.to_vec();
    repair(&mut repaired);
    let Ok((mut file, _)) = SegmentFile::new(repaired.as_slice(), u64::MAX) else {
        return;
    };
    let cells = file.cells();
    let again = file.read();
    assert_eq!(file.cells(), cells, "{again:?}");
    let app: Arc<str> = file.header.app.as_str().into();
    let mut totals = Totals::new(LabelSet::new([("job", "j")]), cells % 2 == 0);
    let mut bound = Vec::new();
    for series in &file.records.series {
        let metric = &file.records.metrics[series.metric];
        let end = series.first_cell as usize + metric.family.cells();
        assert!(end <= cells && (metric.switch as usize) < cells);
        let Ok(family) = totals.admit(&app, &metric.family) else {
            continue;
        };
        let worker = Some(file.header.worker.as_str());
        if let Ok(at) = totals.attach(&app, worker, &family, &series.labels, 0) {
            let values: Vec<u64> = (series.first_cell as usize..end)
                .map(|at| file.cell(at))
                .collect();
            bound.push((at, values));
        }
    }
    totals.begin(|_| false);
    for (at, values) in &bound {
        totals.add(*at, values, true);
    }
    let samples = totals.finish(0).present().count();
    assert!(samples >= bound.len().min(1));
    for (at, values) in &bound {
        totals.retire(*at, values);
    }
    totals.begin(|_| true);
    assert_eq!(totals.finish(1).present().count(), 0);
}

/// Parses bytes as records, in one and in two parts: the result is the same.
///
/// # Panics
/// Panics when it is not, which is what fuzzing looks for.
pub fn fuzz_records(data: &[u8]) {
    let mut repaired = data.to_vec();
    repair_records(&mut repaired);
    let (data, used) = (repaired.as_slice(), 1 << 16);
    let mut whole = Records::default();
    let error = whole.extend(data, used);
    let mut parts = Records::default();
    let half = usize::try_from(whole.parsed()).expect("within the input");
    parts.extend(&data[..half], used).expect("it was parsed");
    let after = parts.extend(&data[half..], used);
    assert_eq!(format!("{error:?}"), format!("{after:?}"));
    assert!(whole == parts);
}

/// Parses bytes as labels. What is parsed is written, and parsed again.
///
/// # Panics
/// Panics when it differs, which is what fuzzing looks for.
pub fn fuzz_labels(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(labels) = labels::parse(&text, "le") {
        let mut out = String::new();
        labels::write(labels.iter().map(|(n, v)| (&**n, &**v)), &mut out);
        assert_eq!(labels::parse(&out, "le"), Some(labels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::{example, example_records};
    use narthex_testkit::mutate::Mutator;

    #[test]
    fn mutated_segments() {
        let small = example();
        Mutator::new(0x5e91).run(&[&small], 8_000, fuzz_segment);
    }

    #[test]
    fn mutated_records() {
        let small = example_records();
        Mutator::new(0x5e92).run(&[&small], 8_000, fuzz_records);
    }

    #[test]
    fn mutated_labels() {
        let corpus: [&[u8]; 3] = [b"a=\"x\",b=\"y\"", b"a=\"\\\\\\\"\\n\"", b"le=\"1\""];
        Mutator::new(0x5e93).run(&corpus, 20_000, fuzz_labels);
    }
}
