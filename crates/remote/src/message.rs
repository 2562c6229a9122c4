//! Message types of a request.

/// The message of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// `prometheus.WriteRequest`, remote write 1.0.
    V1,
    /// `io.prometheus.write.v2.Request`, remote write 2.0.
    V2,
}

impl Message {
    /// Returns the message's name in protobuf.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "prometheus.WriteRequest",
            Self::V2 => "io.prometheus.write.v2.Request",
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V2 => "2",
        }
    }
}
