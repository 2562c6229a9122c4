//! Formats, and their negotiation between both sides of a scrape.
//!
//! **Invariant:** [`Format::of_content_type`] reads back what [`Negotiated::content_type`] writes.

use crate::escape::Escaping;
use std::fmt;

/// Format of a body.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Format {
    /// The text format 0.0.4, and 1.0.0, which differs in allowing UTF-8 names.
    #[default]
    Text,
    /// OpenMetrics 0.0.1 and 1.0.0.
    OpenMetrics,
    /// Delimited messages `io.prometheus.client.MetricFamily`.
    Protobuf,
}

/// A `Content-Type` that does not identify the format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnknownType {
    /// Missing.
    Blank,
    /// Not a media type.
    Malformed(String),
    /// An unsupported format.
    Unsupported(String),
}

impl Format {
    /// Returns the format that a `Content-Type` announces.
    ///
    /// # Errors
    /// Fails when it announces none of the formats; [`Format::sniff`] then looks at the body.
    pub fn of_content_type(content_type: &str) -> Result<Self, UnknownType> {
        let text = content_type.trim();
        if text.is_empty() {
            return Err(UnknownType::Blank);
        }
        let Some(media) = Media::parse(text) else {
            return Err(UnknownType::Malformed(text.to_owned()));
        };
        let is_newer = media.param("version") == Some("2.0.0");
        [Self::Text, Self::OpenMetrics, Self::Protobuf]
            .into_iter()
            .find(|format| format.media_type() == media.name)
            .filter(|format| *format != Self::OpenMetrics || !is_newer)
            .ok_or_else(|| UnknownType::Unsupported(text.to_owned()))
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::OpenMetrics => "application/openmetrics-text",
            Self::Protobuf => "application/vnd.google.protobuf",
        }
    }

    /// Guesses the format of a body of unknown type.
    #[must_use]
    pub fn sniff(body: &[u8]) -> Self {
        if body.ends_with(b"# EOF\n") || body.ends_with(b"# EOF") {
            return Self::OpenMetrics;
        }
        if looks_like_messages(body) {
            return Self::Protobuf;
        }
        Self::Text
    }
}

/// The type of protobuf messages.
const MESSAGE: &str = "io.prometheus.client.MetricFamily";

/// Reports whether a body begins with the length of a message that begins with a name.
fn looks_like_messages(body: &[u8]) -> bool {
    let continues = |byte: &&u8| **byte >= 0x80;
    let prefix = body.iter().take(4).take_while(continues).count() + 1;
    let rest = body.get(prefix..).unwrap_or_default();
    // Field 1, of bytes: its length, then a name.
    match rest {
        [0x0a, len, name @ ..] => {
            let name = name.get(..usize::from(*len).min(16)).unwrap_or_default();
            !name.is_empty() && name.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
        }
        _ => false,
    }
}

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("blank Content-Type"),
            Self::Malformed(text) => write!(f, "malformed Content-Type {text:?}"),
            Self::Unsupported(text) => write!(f, "unsupported Content-Type {text:?}"),
        }
    }
}

/// A format as named in `scrape_protocols`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ScrapeProtocol {
    /// `PrometheusProto`
    PrometheusProto,
    /// `PrometheusText0.0.4`
    PrometheusText0_0_4,
    /// `PrometheusText1.0.0`
    PrometheusText1_0_0,
    /// `OpenMetricsText0.0.1`
    OpenMetricsText0_0_1,
    /// `OpenMetricsText1.0.0`
    OpenMetricsText1_0_0,
}

impl ScrapeProtocol {
    /// Every protocol.
    pub const ALL: [Self; 5] = [
        Self::PrometheusProto,
        Self::PrometheusText0_0_4,
        Self::PrometheusText1_0_0,
        Self::OpenMetricsText0_0_1,
        Self::OpenMetricsText1_0_0,
    ];
    /// Protocols requested unless `scrape_protocols` says otherwise, best first.
    pub const DEFAULT: [Self; 4] = [
        Self::OpenMetricsText1_0_0,
        Self::OpenMetricsText0_0_1,
        Self::PrometheusText1_0_0,
        Self::PrometheusText0_0_4,
    ];
    /// Protocols requested by default when native histograms are wanted, best first.
    pub const PROTO_FIRST: [Self; 5] = [
        Self::PrometheusProto,
        Self::OpenMetricsText1_0_0,
        Self::OpenMetricsText0_0_1,
        Self::PrometheusText1_0_0,
        Self::PrometheusText0_0_4,
    ];

    /// Returns the protocol with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.as_str() == name)
    }

    /// Returns the name that configuration uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.properties().0
    }

    /// Returns the format of its bodies.
    #[must_use]
    pub fn format(self) -> Format {
        self.properties().1
    }

    /// Returns its name, and the format of its bodies with the version.
    fn properties(self) -> (&'static str, Format, &'static str) {
        match self {
            Self::PrometheusProto => ("PrometheusProto", Format::Protobuf, ""),
            Self::PrometheusText0_0_4 => ("PrometheusText0.0.4", Format::Text, "0.0.4"),
            Self::PrometheusText1_0_0 => ("PrometheusText1.0.0", Format::Text, "1.0.0"),
            Self::OpenMetricsText0_0_1 => ("OpenMetricsText0.0.1", Format::OpenMetrics, "0.0.1"),
            Self::OpenMetricsText1_0_0 => ("OpenMetricsText1.0.0", Format::OpenMetrics, "1.0.0"),
        }
    }
}

/// Returns the `Accept` header that requests `protocols`, best first, as Prometheus writes it.
#[must_use]
pub fn accept_header(protocols: &[ScrapeProtocol], escaping: Escaping) -> String {
    let mut header = String::new();
    let mut weight = ScrapeProtocol::ALL.len() + 1;
    for protocol in protocols {
        let (_, format, version) = protocol.properties();
        header.push_str(format.media_type());
        match format {
            Format::Protobuf => header.push_str(&format!(";proto={MESSAGE};encoding=delimited")),
            Format::Text | Format::OpenMetrics => header.push_str(&format!(";version={version}")),
        }
        if version == "1.0.0" {
            header.push_str(&format!(";escaping={escaping}"));
        }
        header.push_str(&format!(";q=0.{weight},"));
        weight = weight.saturating_sub(1);
    }
    header.push_str(&format!("*/*;q=0.{weight}"));
    header
}

/// Format of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Negotiated {
    /// The format.
    pub format: Format,
    /// Version of the format, if it has one.
    version: &'static str,
    /// Escaping of names that are not legacy names.
    pub escaping: Escaping,
}

impl Default for Negotiated {
    fn default() -> Self {
        Self {
            format: Format::Text,
            version: "0.0.4",
            escaping: Escaping::default(),
        }
    }
}

/// Writable formats and versions.
const OFFERS: [(Format, &str); 5] = [
    (Format::OpenMetrics, "1.0.0"),
    (Format::OpenMetrics, "0.0.1"),
    (Format::Protobuf, ""),
    (Format::Text, "0.0.4"),
    (Format::Text, "1.0.0"),
];

impl Negotiated {
    /// Returns the response format for an `Accept` header: the best offer, or text 0.0.4 when none fits.
    ///
    /// The escaping is that of the fitting clause, or of the last better one that names any; UTF-8 names are written
    /// only on request.
    #[must_use]
    pub fn from_accept(accept: &str) -> Self {
        let mut clauses: Vec<(Media, f64)> = accept
            .split(',')
            .filter_map(Media::parse)
            .map(|media| {
                let weight = media.param("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
                (media, weight)
            })
            .collect();
        clauses.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut escaping = Escaping::default();
        for (media, weight) in &clauses {
            if let Some(scheme) = media.param("escaping").and_then(Escaping::from_name) {
                escaping = scheme;
            }
            let fits = OFFERS.into_iter().find(|offer| media.takes(*offer));
            if let (Some((format, version)), true) = (fits, *weight > 0.0) {
                return Self {
                    format,
                    version,
                    escaping,
                };
            }
        }
        Self {
            escaping,
            ..Self::default()
        }
    }

    /// Returns the `Content-Type` of the response.
    #[must_use]
    pub fn content_type(&self) -> String {
        let Self {
            format,
            version,
            escaping,
        } = self;
        let params = match format {
            Format::Protobuf => format!("proto={MESSAGE}; encoding=delimited"),
            Format::Text | Format::OpenMetrics => format!("version={version}; charset=utf-8"),
        };
        format!("{}; {params}; escaping={escaping}", format.media_type())
    }
}

/// A media type with its parameters, names in lower case.
struct Media {
    name: String,
    params: Vec<(String, String)>,
}

impl Media {
    /// Parses `type/subtype; name=value; …`; returns `None` if the form is invalid.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next()?.to_ascii_lowercase();
        let (kind, subtype) = name.split_once('/')?;
        let token = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'/')
        };
        if !token(kind) || !token(subtype) {
            return None;
        }
        let mut params = Vec::new();
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches('"');
            params.push((name.trim().to_ascii_lowercase(), value.to_owned()));
        }
        Some(Self { name, params })
    }

    fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(other, _)| other == name)?;
        Some(&found.1)
    }

    /// Reports whether a clause of an `Accept` header accepts an offer.
    fn takes(&self, (format, version): (Format, &str)) -> bool {
        if self.name != format.media_type() {
            return matches!(&*self.name, "*/*" | "text/*") && format == Format::Text;
        }
        match format {
            Format::Protobuf => {
                self.param("proto") == Some(MESSAGE) && self.param("encoding") == Some("delimited")
            }
            Format::OpenMetrics => self.param("version").unwrap_or("0.0.1") == version,
            Format::Text => self.param("version").unwrap_or("0.0.4") == version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_is_prometheus() {
        assert_eq!(
            accept_header(&ScrapeProtocol::DEFAULT, Escaping::AllowUtf8),
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        );
        assert_eq!(
            accept_header(&ScrapeProtocol::PROTO_FIRST, Escaping::Underscores),
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
             application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=underscores;q=0.3,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
        );
    }

    #[test]
    fn both_sides_agree() {
        let agree = |protocols: &[ScrapeProtocol], escaping| {
            Negotiated::from_accept(&accept_header(protocols, escaping)).content_type()
        };
        assert_eq!(
            agree(&ScrapeProtocol::DEFAULT, Escaping::AllowUtf8),
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
        );
        assert_eq!(
            agree(&ScrapeProtocol::PROTO_FIRST, Escaping::Dots),
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores"
        );
        assert_eq!(
            agree(&[ScrapeProtocol::PrometheusText0_0_4], Escaping::AllowUtf8),
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
        );
        for protocol in ScrapeProtocol::ALL {
            let answer = Negotiated::from_accept(&accept_header(&[protocol], Escaping::Values));
            assert_eq!(answer.format, protocol.format());
            assert_eq!(
                Format::of_content_type(&answer.content_type()),
                Ok(protocol.format())
            );
            assert_eq!(ScrapeProtocol::from_name(protocol.as_str()), Some(protocol));
        }
    }

    #[test]
    fn odd_accept_headers_get_text() {
        for accept in [
            "",
            "*/*",
            "text/html",
            "garbage",
            "text/plain;version=7",
            "application/openmetrics-text;version=2.0.0",
        ] {
            assert_eq!(
                Negotiated::from_accept(accept),
                Negotiated::default(),
                "{accept}"
            );
        }
        let refused = "application/openmetrics-text;version=1.0.0;q=0,text/*;q=0.1";
        assert_eq!(Negotiated::from_accept(refused).format, Format::Text);
    }

    #[test]
    fn content_types_tell_the_format() {
        for (text, format) in [
            ("text/plain", Format::Text),
            ("Text/Plain; charset=\"utf-8\"; version=1.0.0", Format::Text),
            (
                "application/openmetrics-text; version=0.0.1",
                Format::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf; encoding=delimited",
                Format::Protobuf,
            ),
        ] {
            assert_eq!(Format::of_content_type(text), Ok(format), "{text}");
        }
        assert_eq!(Format::of_content_type(" "), Err(UnknownType::Blank));
        for (text, shown) in [
            ("text", "malformed Content-Type \"text\""),
            ("text/html", "unsupported Content-Type \"text/html\""),
            (
                "application/openmetrics-text;version=2.0.0",
                "unsupported Content-Type \"application/openmetrics-text;version=2.0.0\"",
            ),
        ] {
            assert_eq!(
                Format::of_content_type(text).unwrap_err().to_string(),
                shown
            );
        }
    }

    #[test]
    fn bodies_are_sniffed() {
        assert_eq!(Format::sniff(b"a 1\n"), Format::Text);
        assert_eq!(Format::sniff(b""), Format::Text);
        assert_eq!(Format::sniff(b"\n\na 1\n"), Format::Text);
        assert_eq!(Format::sniff(b"a 1\n# EOF\n"), Format::OpenMetrics);
        assert_eq!(
            Format::sniff(b"\x0b\x0a\x01a\x18\x01\"\x04\x1a\x02\x09\x00"),
            Format::Protobuf
        );
        assert_eq!(Format::sniff(b"\x8b\x01\x0a\x02up"), Format::Protobuf);
    }
}
