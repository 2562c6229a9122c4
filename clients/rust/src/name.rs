//! Names that Prometheus accepts everywhere.

/// Reports whether this is the name of a label, or with colons that of a metric.
pub(crate) fn is_name(name: &str, colons: bool) -> bool {
    let is_start =
        |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || (colons && byte == b':');
    match name.as_bytes() {
        [first, rest @ ..] => {
            is_start(*first)
                && rest
                    .iter()
                    .all(|byte| is_start(*byte) || byte.is_ascii_digit())
        }
        [] => false,
    }
}
