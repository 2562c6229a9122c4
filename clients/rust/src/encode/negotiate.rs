//! The choice of a format by an `Accept` header.

use super::Format;

impl Format {
    /// Returns the format that an `Accept` header asks for: of those with the highest weight the first, and
    /// [`Format::Text`] where none fits.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let mut best = (Self::Text, 0.0);
        for offer in accept.split(',').filter_map(offer) {
            // The first of equal weight stays.
            if offer.1 > best.1 {
                best = offer;
            }
        }
        best.0
    }
}

/// Returns the format that a clause accepts, and its weight.
fn offer(clause: &str) -> Option<(Format, f64)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?;
    let (mut version, mut proto, mut encoding, mut weight) = (None, None, None, 1.0);
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "version" => version = Some(value),
            "proto" => proto = Some(value),
            "encoding" => encoding = Some(value),
            "q" => weight = value.parse().unwrap_or(0.0),
            _ => {}
        }
    }
    let is = |name| media.eq_ignore_ascii_case(name);
    let format = if is("application/openmetrics-text") {
        version
            .is_none_or(|version| version == "1.0.0")
            .then_some(Format::OpenMetrics)
    } else if is("application/vnd.google.protobuf") {
        let fits =
            proto == Some("io.prometheus.client.MetricFamily") && encoding == Some("delimited");
        fits.then_some(Format::Protobuf)
    } else if is("text/plain") || is("text/*") || is("*/*") {
        Some(Format::Text)
    } else {
        None
    };
    Some((format?, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_what_it_wants_most() {
        for (accept, format) in [
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                 application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                Format::Protobuf,
            ),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::Text),
            ("*/*", Format::Text),
            ("", Format::Text),
        ] {
            assert_eq!(Format::negotiate(accept), format, "{accept}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_passed_over() {
        let openmetrics = "application/openmetrics-text";
        for (accept, format) in [
            (
                format!("{openmetrics};version=2.0.0,text/html"),
                Format::Text,
            ),
            (format!("{openmetrics};version=0.0.1"), Format::Text),
            (format!("{openmetrics};q=0,text/plain;q=0.1"), Format::Text),
            (
                format!("text/plain;q=nonsense,{openmetrics};q=0.1"),
                Format::OpenMetrics,
            ),
            (
                format!("text/plain;q=0.3, {openmetrics} ; Version=\"1.0.0\" ; Q=0.4"),
                Format::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;encoding=text".to_owned(),
                Format::Text,
            ),
            (
                format!("text/plain;q=0.5,{openmetrics};q=0.5"),
                Format::Text,
            ),
        ] {
            assert_eq!(Format::negotiate(&accept), format, "{accept}");
        }
    }
}
