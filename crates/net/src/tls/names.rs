//! Names in certificates: matching hosts, and name constraints of authorities.
//!
//! Both follow Go's `crypto/x509` (`VerifyHostname`, `checkChainConstraints`), which is in places laxer and in places
//! stricter than RFC 5280.
//!
//! Invariant: a malformed name never satisfies a permitted constraint, and fails if any constraint applies.

use std::net::IpAddr;

use super::der::{Certificate, NameConstraints, Names, Subtrees};
use super::domain::{is_domain, mailbox};

/// Returns whether a certificate is valid for this host: an address, or a name.
pub(super) fn is_for_host(certificate: &Certificate<'_>, host: &str) -> bool {
    let Some(names) = &certificate.names else {
        return false;
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        let wanted = address.to_canonical();
        return names
            .addresses
            .iter()
            .any(|one| one.to_canonical() == wanted);
    }
    let plain = is_hostname(host.strip_suffix('.').unwrap_or(host), false);
    names.dns.iter().any(|pattern| {
        if plain && is_hostname(pattern, true) {
            matches_pattern(pattern, host.strip_suffix('.').unwrap_or(host))
        } else {
            // Unusual names match themselves: not everything is in the public DNS.
            !matches!(pattern.as_str(), "" | ".") && pattern.eq_ignore_ascii_case(host)
        }
    })
}

fn matches_pattern(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    pattern.len() == host.len()
        && pattern
            .iter()
            .zip(&host)
            .enumerate()
            .all(|(at, (want, have))| (at == 0 && *want == "*") || want.eq_ignore_ascii_case(have))
}

fn is_hostname(name: &str, pattern: bool) -> bool {
    name != "*"
        && name.split('.').enumerate().all(|(at, label)| {
            let wildcard = pattern && at == 0 && label == "*";
            let valid = |(at, byte): (usize, u8)| {
                byte.is_ascii_alphanumeric() || byte == b'_' || (byte == b'-' && at != 0)
            };
            wildcard || (!label.is_empty() && label.bytes().enumerate().all(valid))
        })
}

/// Checks every name of a chain, the end entity first, against the constraints of all certificates above it.
pub(super) fn are_permitted(chain: &[&Certificate<'_>]) -> bool {
    chain.iter().enumerate().all(|(at, certificate)| {
        let above = chain.get(at + 1..).unwrap_or_default();
        let constraints: Vec<_> = above
            .iter()
            .filter_map(|authority| authority.name_constraints.as_ref())
            .collect();
        match &certificate.names {
            Some(names) if !constraints.is_empty() => permits(&constraints, names),
            _ => true,
        }
    })
}

fn permits(constraints: &[&NameConstraints], names: &Names) -> bool {
    let uris: Option<Vec<String>> = names.uris.iter().map(|uri| uri_host(uri)).collect();
    let emails: Option<Vec<_>> = names.emails.iter().map(|email| mailbox(email)).collect();
    let (Some(uris), Some(emails)) = (uris, emails) else {
        return false;
    };
    constraints.iter().all(
        |NameConstraints {
             permitted,
             excluded,
         }| {
            let kind = |all_permitted: bool, any_excluded: bool| all_permitted && !any_excluded;
            names.addresses.iter().all(|address| {
                let within =
                    |tree: &Subtrees| tree.networks.iter().any(|net| contains(net, address));
                kind(
                    permitted.networks.is_empty() || within(permitted),
                    within(excluded),
                )
            }) && names.dns.iter().all(|name| {
                is_domain(name, false)
                    && kind(
                        allows_domain(&permitted.dns, name),
                        excludes_domain(&excluded.dns, name),
                    )
            }) && uris.iter().all(|host| {
                is_domain(host, false)
                    && kind(
                        allows_domain(&permitted.uris, host),
                        excludes_domain(&excluded.uris, host),
                    )
            }) && emails.iter().all(|email| {
                is_domain(email.1, false)
                    && kind(
                        permitted.emails.is_empty() || has_email(&permitted.emails, *email, false),
                        has_email(&excluded.emails, *email, true),
                    )
            })
        },
    )
}

fn contains((network, mask): &(Vec<u8>, Vec<u8>), address: &IpAddr) -> bool {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    octets.len() == network.len()
        && octets
            .iter()
            .zip(network)
            .zip(mask)
            .all(|((have, want), mask)| have & mask == want & mask)
}

fn allows_domain(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|tree| is_below(tree, name))
}

/// Reports whether a name is excluded. A wildcard covers excluded names too: `*.a.example` covers `x.a.example`.
fn excludes_domain(list: &[String], name: &str) -> bool {
    let parent = |name: &str| name.find('.').map(|at| name[at..].to_ascii_lowercase());
    list.iter().any(|tree| {
        is_below(tree, name)
            || (name.starts_with('*') && parent(name).is_some() && parent(tree) == parent(name))
    })
}

/// Returns whether a name is a domain or below it; with a leading dot only names below it match.
fn is_below(domain: &str, name: &str) -> bool {
    let (domain, name) = (domain.as_bytes(), name.as_bytes());
    let Some(at) = name.len().checked_sub(domain.len()) else {
        return false;
    };
    let (front, tail) = name.split_at(at);
    domain.is_empty()
        || (tail.eq_ignore_ascii_case(domain)
            && (front.is_empty() || domain.starts_with(b".") || front.ends_with(b".")))
}

/// Reports whether a list matches a mailbox; constraints on mailboxes are whole addresses or domains.
fn has_email(list: &[String], (local, domain): (&str, &str), excluded: bool) -> bool {
    list.iter().any(|one| match one.rsplit_once('@') {
        Some((l, d)) => l == local && d.eq_ignore_ascii_case(domain),
        None if excluded => excludes_domain(std::slice::from_ref(one), domain),
        None => is_below(one, domain),
    })
}

/// Returns the host of a URI; `None` for an address, or without one.
fn uri_host(uri: &str) -> Option<String> {
    let (_scheme, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_user, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) => return None,
        None => host,
    };
    (!host.is_empty() && host.parse::<IpAddr>().is_err() && !host.starts_with('['))
        .then(|| host.to_ascii_lowercase())
}
