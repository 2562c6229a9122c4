//! Writes whole segments: the totals of ended writers, and what tests read.
//!
//! Bytes: docs/format/segment.md

use crate::{
    family::{Family, Shape},
    layout::{HEADER_BYTES, Header, LIVE, Marks, checksum},
    records::{CHECKSUM_AT, FOLDED, FOLDED_HEAD, METRIC, METRIC_HEAD, SERIES, SERIES_HEAD},
};

/// A segment that is being put together.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    cells: Vec<u64>,
    records: Vec<u8>,
}

impl Encoder {
    /// Adds a metric; returns what its series refer to it by.
    pub(crate) fn metric(&mut self, family: &Family) -> u32 {
        let offset = u32::try_from(self.records.len() / 8).unwrap_or(u32::MAX);
        let switch = self.push_cells(&[0]);
        let mut record = vec![0; METRIC_HEAD];
        record[8] = METRIC;
        let mut numbers: &[f64] = &[];
        record[9] = match &family.shape {
            Shape::Counter => 1,
            Shape::WholeCounter => 2,
            Shape::Gauge(merge) => {
                record[10] = *merge as u8;
                3
            }
            Shape::Histogram(bounds) => {
                numbers = bounds;
                4
            }
            Shape::Summary(summary) => {
                numbers = &summary.quantiles;
                record[11] = summary.buckets.bits;
                record[24..26].copy_from_slice(&summary.buckets.first.to_le_bytes());
                record[26..28].copy_from_slice(&summary.buckets.octaves.to_le_bytes());
                record[28..30].copy_from_slice(&summary.steps.to_le_bytes());
                record[32..40].copy_from_slice(&summary.max_age_ms.to_le_bytes());
                5
            }
        };
        if family.idle_ms > 0 {
            record[32..40].copy_from_slice(&family.idle_ms.to_le_bytes());
        }
        record[12..16].copy_from_slice(&switch.to_le_bytes());
        let texts = [&family.name, &family.unit, &family.help];
        for (at, text) in [16, 18, 20].into_iter().zip(texts) {
            let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
            record[at..at + 2].copy_from_slice(&len.to_le_bytes());
        }
        let count = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
        record[22..24].copy_from_slice(&count.to_le_bytes());
        for number in numbers {
            record.extend_from_slice(&number.to_le_bytes());
        }
        for text in texts {
            record.extend_from_slice(text.as_bytes());
        }
        self.push(record);
        offset
    }

    /// Adds a series with its values.
    pub(crate) fn series(&mut self, metric: u32, labels: &str, cells: &[u64]) {
        let first = self.push_cells(cells);
        let mut record = vec![0; SERIES_HEAD];
        record[8] = SERIES;
        record[12..16].copy_from_slice(&metric.to_le_bytes());
        record[16..20].copy_from_slice(&first.to_le_bytes());
        let len = u32::try_from(labels.len()).unwrap_or(u32::MAX);
        record[20..24].copy_from_slice(&len.to_le_bytes());
        record.extend_from_slice(labels.as_bytes());
        self.push(record);
    }

    /// Adds the identities of segments that are contained.
    pub(crate) fn folded(&mut self, ids: &[u64]) {
        // Within the maximum length of a record.
        for ids in ids.chunks(1 << 16) {
            let mut record = vec![0; FOLDED_HEAD];
            record[8] = FOLDED;
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            record[12..16].copy_from_slice(&count.to_le_bytes());
            for id in ids {
                record.extend_from_slice(&id.to_le_bytes());
            }
            self.push(record);
        }
    }

    /// Returns the bytes of a segment with this header, whose areas are as long as needed.
    pub(crate) fn finish(self, mut header: Header) -> Vec<u8> {
        header.cells_max = self.cells.len() as u64;
        header.records_offset = (HEADER_BYTES + 8 * self.cells.len()) as u64;
        header.records_max = self.records.len() as u64;
        let mut bytes = header.encode(&self.marks());
        bytes.extend(self.cells.iter().flat_map(|cell| cell.to_le_bytes()));
        bytes.extend(self.records);
        bytes
    }

    fn marks(&self) -> Marks {
        Marks {
            state: LIVE,
            records_used: self.records.len() as u64,
            cells_used: self.cells.len() as u64,
            refused: 0,
        }
    }

    fn push_cells(&mut self, cells: &[u64]) -> u32 {
        let first = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        self.cells.extend_from_slice(cells);
        first
    }

    fn push(&mut self, mut record: Vec<u8>) {
        record.resize(record.len().next_multiple_of(8), 0);
        let len = u32::try_from(record.len()).unwrap_or(u32::MAX);
        record[..4].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(&record, CHECKSUM_AT);
        record[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        self.records.extend(record);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        family::{GaugeMerge, SummaryShape},
        layout::Role,
        quantile::Buckets,
        records::{DROPPED, Records},
    };

    /// Says that the series whose record is at `place` has ended.
    pub(crate) fn dropped(encoder: &mut Encoder, place: u32) {
        let mut record = vec![0; FOLDED_HEAD];
        record[8] = DROPPED;
        record[12..16].copy_from_slice(&place.to_le_bytes());
        encoder.push(record);
    }

    /// Returns where the next record will be.
    pub(crate) fn place(encoder: &Encoder) -> u32 {
        u32::try_from(encoder.records.len() / 8).unwrap()
    }

    pub(crate) fn family(name: &str, shape: Shape) -> Family {
        Family {
            name: name.into(),
            unit: "".into(),
            help: format!("About {name}.").into(),
            shape,
            idle_ms: 0,
        }
    }

    pub(crate) fn summary() -> Shape {
        Shape::Summary(Box::new(SummaryShape {
            buckets: Buckets {
                first: -1,
                octaves: 3,
                bits: 1,
            },
            quantiles: Box::new([0.5, 0.9]),
            max_age_ms: 60_000,
            steps: 5,
        }))
    }

    pub(crate) fn header() -> Header {
        Header {
            role: Role::Writer,
            pid: 7,
            cells_max: 0,
            records_offset: 0,
            records_max: 0,
            id: 9,
            created_ms: 1_700_000_000_000,
            pid_start: 3,
            pid_namespace: 4,
            boot_id: [5; 16],
            app: "shop".to_owned(),
            worker: "1".to_owned(),
        }
    }

    fn encoder() -> Encoder {
        let mut encoder = Encoder::default();
        let float = |value: f64| value.to_bits();
        let requests = encoder.metric(&family("requests_total", Shape::WholeCounter));
        encoder.series(requests, "method=\"GET\",path=\"/a\\\"b\"", &[12]);
        encoder.series(requests, "method=\"PUT\"", &[3]);
        let seconds = encoder.metric(&family("seconds_total", Shape::Counter));
        encoder.series(seconds, "", &[float(2.5)]);
        for (merge, name) in [
            (GaugeMerge::Sum, "open"),
            (GaugeMerge::Least, "least"),
            (GaugeMerge::Greatest, "greatest"),
            (GaugeMerge::Last, "last"),
            (GaugeMerge::Each, "each"),
        ] {
            let gauge = encoder.metric(&family(name, Shape::Gauge(merge)));
            encoder.series(gauge, "", &[float(-1.5), 1_700_000_000_000]);
        }
        let sizes = Shape::Histogram(Box::new([0.5, 1.0, 1e6]));
        let sizes = encoder.metric(&family("size_bytes", sizes));
        encoder.series(sizes, "kind=\"x\"", &[float(10.25), 1, 2, 0, 4]);
        let latency = encoder.metric(&family("latency_seconds", summary()));
        encoder.series(latency, "", &[float(7.0), 1, 0, 0, 4, 0, 0, 0, 0, 1]);
        encoder
    }

    /// Returns a segment with a metric of every type.
    pub(crate) fn example() -> Vec<u8> {
        encoder().finish(header())
    }

    pub(crate) fn example_records() -> Vec<u8> {
        encoder().records
    }

    /// Returns cells, records and marks, for a writer that places them itself.
    pub(crate) fn parts(encoder: &Encoder) -> (&[u64], &[u8], Marks) {
        (&encoder.cells, &encoder.records, encoder.marks())
    }

    #[test]
    fn records_come_back() {
        let (encoder, mut records) = (encoder(), Records::default());
        let used = encoder.cells.len() as u64;
        records.extend(&encoder.records, used).unwrap();
        assert_eq!((records.metrics.len(), records.series.len()), (9, 10));
        let again: Vec<Family> = records
            .metrics
            .iter()
            .map(|m| (*m.family).clone())
            .collect();
        assert_eq!(again[0], family("requests_total", Shape::WholeCounter));
        assert_eq!(again[8], family("latency_seconds", summary()));
        assert_eq!(
            records.series[0].labels.as_ref(),
            "method=\"GET\",path=\"/a\\\"b\""
        );
        assert_eq!(
            (records.metrics[1].switch, records.series[2].first_cell),
            (3, 4)
        );
    }

    #[test]
    fn cells_are_given_once_and_within_bounds() {
        let (encoder, mut records) = (encoder(), Records::default());
        let used = encoder.cells.len() as u64 - 1;
        let error = records
            .extend(&encoder.records, used)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("cells"), "{error}");
        assert_eq!(records.series.len(), 9);
        let mut twice = Records::default();
        twice.extend(&encoder.records, 1000).unwrap();
        let error = twice
            .extend(&encoder.records, 1000)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("cells"), "{error}");
    }
}
