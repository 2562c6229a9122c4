//! Messages encoded by hand, so that reading is not tested against our own writer.

/// Encodes one message of the protobuf format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn integer(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    pub(crate) fn signed(self, field: u64, value: i64) -> Self {
        self.integer(field, ((value << 1) ^ (value >> 63)) as u64)
    }

    pub(crate) fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn part(self, field: u64, part: Self) -> Self {
        self.bytes(field, &part.0)
    }

    pub(crate) fn parts(self, field: u64, parts: impl IntoIterator<Item = Self>) -> Self {
        parts
            .into_iter()
            .fold(self, |all, part| all.part(field, part))
    }

    /// Returns the bytes preceded by their length.
    pub(crate) fn delimited(&self) -> Vec<u8> {
        let mut out = Self::new();
        out.varint(self.0.len() as u64);
        out.0.extend_from_slice(&self.0);
        out.0
    }
}

/// Returns a family's head.
pub(crate) fn family(name: &str, metric_type: u64) -> Message {
    Message::new()
        .text(1, name)
        .text(2, "Help.")
        .integer(3, metric_type)
}

/// Returns a metric with labels and nothing else.
pub(crate) fn metric(labels: &[(&str, &str)]) -> Message {
    let pair = |(name, value): &(&str, &str)| Message::new().text(1, name).text(2, value);
    Message::new().parts(1, labels.iter().map(pair))
}

/// Returns a timestamp.
pub(crate) fn time(ms: u64) -> Message {
    Message::new()
        .integer(1, ms / 1000)
        .integer(2, ms % 1000 * 1_000_000)
}

/// Returns an exemplar.
pub(crate) fn exemplar(trace: &str, value: f64, time_ms: Option<u64>) -> Message {
    let message = Message::new()
        .part(1, Message::new().text(1, "trace_id").text(2, trace))
        .double(2, value);
    match time_ms {
        Some(ms) => message.part(3, time(ms)),
        None => message,
    }
}

/// Returns a bucket of a classic histogram.
pub(crate) fn bucket(bound: f64, count: u64) -> Message {
    Message::new().integer(1, count).double(2, bound)
}

/// Returns a run of buckets.
pub(crate) fn span(offset: i64, length: u64) -> Message {
    Message::new().signed(1, offset).integer(2, length)
}

/// Returns an integer histogram with native and classic buckets: 7 observations.
pub(crate) fn histogram() -> Message {
    Message::new()
        .integer(1, 7)
        .double(2, 12.5)
        .part(3, bucket(1.0, 3))
        .part(3, bucket(2.5, 6).part(3, exemplar("classic", 2.0, None)))
        .signed(5, 1)
        .double(6, 0.001)
        .integer(7, 1)
        .part(12, span(-1, 2))
        .part(12, span(3, 1))
        .signed(13, 1)
        .signed(13, 2)
        .signed(13, -1)
        .part(15, time(1_700_000_000_123))
        .part(16, exemplar("late", 3.0, Some(2_000)))
        .part(16, exemplar("early", 1.0, Some(1_000)))
        .part(16, exemplar("untimed", 1.0, None))
}

/// Returns bodies with everything the format has.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let counter = family("requests_total", 0)
        .part(
            4,
            metric(&[("code", "200")]).part(
                3,
                Message::new()
                    .double(1, 17.0)
                    .part(2, exemplar("a", 1.0, Some(5_000)))
                    .part(3, time(1_600_000_000_000)),
            ),
        )
        .part(
            4,
            metric(&[("code", "500")])
                .part(3, Message::new().double(1, 3.0))
                .integer(6, 1_700_000_000_000),
        );
    let gauge = family("temperature_celsius", 1)
        .part(4, metric(&[]).part(2, Message::new().double(1, -3.5)))
        .text(5, "celsius");
    let quantile = |q: f64, v: f64| Message::new().double(1, q).double(2, v);
    let summary = family("rpc_seconds", 2).part(
        4,
        metric(&[("m", "get")]).part(
            4,
            Message::new()
                .integer(1, 5)
                .double(2, 1.5)
                .part(3, quantile(0.5, 0.2))
                .part(3, quantile(1.0, 0.9)),
        ),
    );
    let untyped = family("odd", 3).part(
        4,
        metric(&[("u.n", "v")]).part(5, Message::new().double(1, 1.0)),
    );
    let histograms =
        family("latency_seconds", 4).part(4, metric(&[("p", "/")]).part(7, histogram()));
    let float = Message::new()
        .double(4, 3.5)
        .double(2, 1.0)
        .signed(5, -53 + 53)
        .part(9, span(0, 2))
        .bytes(11, &[1.5f64.to_le_bytes(), 2.0f64.to_le_bytes()].concat());
    let gauge_histogram = family("pool", 5).part(4, metric(&[]).part(7, float));
    let all = [
        counter,
        gauge,
        summary,
        untyped,
        histograms,
        gauge_histogram,
    ];
    let bodies: Vec<Vec<u8>> = all.iter().map(Message::delimited).collect();
    let mut corpus = vec![bodies.concat()];
    corpus.extend(bodies);
    corpus
}
