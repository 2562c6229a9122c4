//! Message types of a request.

/// The content of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// `prometheus.WriteRequest`, remote write 1.0.
    V1,
    /// `io.prometheus.write.v2.Request`, remote write 2.0.
    V2,
    /// Schemas once and rows after, between our own sender and receiver; never configured, but offered in answers.
    Frames,
}

impl Message {
    /// Returns the message's name in protobuf, or that of frames.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "prometheus.WriteRequest",
            Self::V2 => "io.prometheus.write.v2.Request",
            Self::Frames => "narthex frames",
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V2 => "2",
            Self::Frames => "frames",
        }
    }
}
