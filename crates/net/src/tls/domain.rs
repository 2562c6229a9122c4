//! The syntax of domains and mailboxes in certificates, as Go checks it.

/// Returns whether a name consists of labels; a constraint may begin with a dot.
pub(super) fn is_domain(name: &str, constraint: bool) -> bool {
    let name = match name.strip_prefix('.') {
        Some(rest) if constraint => rest,
        _ if name.is_empty() => return true,
        _ => name,
    };
    name.split('.')
        .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Splits into local part and domain; quoted local parts are not supported.
pub(super) fn mailbox(text: &str) -> Option<(&str, &str)> {
    let (local, domain) = text.rsplit_once('@')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    (!local.is_empty() && local.bytes().all(plain) && !dots && !domain.is_empty())
        .then_some((local, domain))
}
