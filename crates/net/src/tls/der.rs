//! The fields of an X.509 certificate that our own checks need.
//!
//! ```text
//! Certificate = SEQUENCE { tbs, algorithm, signature BIT STRING }
//! tbs         = SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject, key,
//!                          [1]?, [2]?, [3] extensions? }
//! ```
//! Invariant: parsing never leaves the input, and never allocates more than a few times its length. Contents that
//! Go's parser rejects are rejected here: a repeated extension, names that are not ASCII, masks with holes.
//! Signatures are not checked here.
//!
//! Not x509-parser: it would add eleven more crates (a parser framework, two derive macros, a second calendar) to
//! read these fields, and would still not reject exactly what Go rejects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::civil::DateTime;

use super::domain::{is_domain, mailbox};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;

/// `serverAuth`, `clientAuth` and "any" of the extended key usages.
pub(crate) const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
pub(crate) const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0];

const EXT_SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 14];
const EXT_AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 35];
const EXT_KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const EXT_SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const EXT_BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const EXT_NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 30];
const EXT_POLICY_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 36];
const EXT_EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
/// CRL distribution points, and policies: Go parses them, without any effect.
const EXT_WITHOUT_EFFECT: [&[u8]; 2] = [&[0x55, 0x1d, 31], &[0x55, 0x1d, 32]];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// A certificate, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate<'a> {
    /// 1, 2 or 3.
    pub(crate) version: u8,
    /// The signed bytes.
    pub(crate) signed: &'a [u8],
    /// The contents of the signature's `AlgorithmIdentifier`.
    pub(crate) signature_algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// Start of validity in seconds since the epoch; both ends are inclusive.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// The contents of the key's `AlgorithmIdentifier`.
    pub(crate) key_algorithm: &'a [u8],
    pub(crate) key: &'a [u8],
    /// Identifiers of its own key and of its issuer's, empty without the extension: hints which issuer to try first.
    pub(crate) key_id: &'a [u8],
    pub(crate) issuer_key_id: &'a [u8],
    pub(crate) common_name: Option<String>,
    /// Subject alternative names; `None` without the extension.
    pub(crate) names: Option<Names>,
    /// The value of their extension.
    pub(crate) names_value: Option<&'a [u8]>,
    /// Object identifiers; `None` without the extension.
    pub(crate) extended_key_usage: Option<Vec<&'a [u8]>>,
    pub(crate) key_usage: KeyUsage,
    /// `None` without the extension.
    pub(crate) basic_constraints: Option<BasicConstraints>,
    pub(crate) name_constraints: Option<NameConstraints>,
    /// Whether there is an unknown critical extension, or one that restricts policies.
    pub(crate) has_unhandled: bool,
}

/// Permission of the key to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KeyUsage {
    /// Key usage is absent, or empty.
    #[default]
    Open,
    Certificates,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BasicConstraints {
    pub(crate) is_authority: bool,
    /// Most intermediate certificates below this one.
    pub(crate) path_length: Option<u64>,
}

/// Names permitted and excluded for certificates below this one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NameConstraints {
    pub(crate) permitted: Subtrees,
    pub(crate) excluded: Subtrees,
}

/// Names by kind; an empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subtrees {
    pub(crate) dns: Vec<String>,
    pub(crate) emails: Vec<String>,
    pub(crate) uris: Vec<String>,
    /// Address and mask, 4 or 16 bytes each.
    pub(crate) networks: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Subject alternative names by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    pub(crate) dns: Vec<String>,
    pub(crate) emails: Vec<String>,
    pub(crate) uris: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate; returns `None` for anything else.
    pub(crate) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut outer = Reader(der);
        let mut certificate = Reader(outer.expect(SEQUENCE)?);
        let (signed, tbs) = certificate.whole(SEQUENCE)?;
        let signature_algorithm = certificate.expect(SEQUENCE)?;
        let signature = bits(certificate.expect(BIT_STRING)?)?;

        let mut tbs = Reader(tbs);
        let version = match tbs.optional(0xa0) {
            Some(version) => Reader(version).expect(INTEGER)?.first()?.checked_add(1)?,
            None => 1,
        };
        if version > 3 {
            return None;
        }
        let _serial = tbs.expect(INTEGER)?;
        if tbs.expect(SEQUENCE)? != signature_algorithm {
            return None;
        }
        let issuer = tbs.expect(SEQUENCE)?;
        let mut validity = Reader(tbs.expect(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = tbs.expect(SEQUENCE)?;
        let mut key_info = Reader(tbs.expect(SEQUENCE)?);
        let key_algorithm = key_info.expect(SEQUENCE)?;
        let key = bits(key_info.expect(BIT_STRING)?)?;
        let mut parsed = Self {
            version,
            signed,
            signature_algorithm,
            signature,
            issuer,
            subject,
            not_before,
            not_after,
            key_algorithm,
            key,
            key_id: &[],
            issuer_key_id: &[],
            common_name: common_name(subject),
            names: None,
            names_value: None,
            extended_key_usage: None,
            key_usage: KeyUsage::Open,
            basic_constraints: None,
            name_constraints: None,
            has_unhandled: false,
        };
        for unique_id in [0x81, 0x82] {
            tbs.optional(unique_id);
        }
        // Earlier versions have no extensions, even if the field is present.
        if version == 3
            && let Some(extensions) = tbs.optional(0xa3)
        {
            let mut extensions = Reader(Reader(extensions).expect(SEQUENCE)?);
            let mut seen = Vec::new();
            while !extensions.0.is_empty() {
                let id = parsed.extension(extensions.expect(SEQUENCE)?)?;
                if seen.contains(&id) {
                    return None;
                }
                seen.push(id);
            }
        }
        Some(parsed)
    }

    /// Parses an extension; returns its identifier.
    fn extension(&mut self, extension: &'a [u8]) -> Option<&'a [u8]> {
        let mut extension = Reader(extension);
        let id = extension.expect(OID)?;
        let critical = extension
            .optional(BOOLEAN)
            .is_some_and(|value| value == [0xff]);
        let value = extension.expect(OCTET_STRING)?;
        let mut handled = true;
        match id {
            EXT_SUBJECT_KEY_ID | EXT_AUTHORITY_KEY_ID if critical => return None,
            EXT_SUBJECT_KEY_ID => self.key_id = Reader(value).expect(OCTET_STRING)?,
            EXT_AUTHORITY_KEY_ID => {
                let mut identifier = Reader(Reader(value).expect(SEQUENCE)?);
                if identifier.0.first() == Some(&0x80) {
                    self.issuer_key_id = identifier.expect(0x80)?;
                }
            }
            EXT_KEY_USAGE => self.key_usage = key_usage(Reader(value).expect(BIT_STRING)?)?,
            EXT_SUBJECT_ALT_NAME => {
                let names = alternative_names(Reader(value).expect(SEQUENCE)?)?;
                handled = names != Names::default();
                (self.names, self.names_value) = (Some(names), Some(value));
            }
            EXT_BASIC_CONSTRAINTS => {
                let mut constraints = Reader(Reader(value).expect(SEQUENCE)?);
                self.basic_constraints = Some(BasicConstraints {
                    is_authority: constraints.optional(BOOLEAN) == Some(&[0xff]),
                    path_length: match constraints.optional(INTEGER) {
                        Some(length) => Some(unsigned(length)?),
                        None => None,
                    },
                });
            }
            EXT_NAME_CONSTRAINTS => {
                let (constraints, all_known) = name_constraints(value)?;
                handled = all_known;
                self.name_constraints = Some(constraints);
            }
            EXT_EXTENDED_KEY_USAGE => {
                let mut usages = Reader(Reader(value).expect(SEQUENCE)?);
                let mut found = Vec::new();
                while !usages.0.is_empty() {
                    found.push(usages.expect(OID)?);
                }
                self.extended_key_usage = Some(found);
            }
            // Policies are not evaluated, so a certificate that requires them is rejected, critical or not.
            EXT_POLICY_CONSTRAINTS => self.has_unhandled = true,
            _ => handled = EXT_WITHOUT_EFFECT.contains(&id),
        }
        self.has_unhandled |= critical && !handled;
        Some(id)
    }

    /// Returns whether the certificate, or those below it, allows this usage; without a list it allows all.
    pub(crate) fn allows(&self, usage: &[u8]) -> bool {
        self.extended_key_usage.as_ref().is_none_or(|usages| {
            usages.is_empty() || usages.iter().any(|one| [usage, ANY_USAGE].contains(one))
        })
    }
}

fn key_usage(bits: &[u8]) -> Option<KeyUsage> {
    const CERT_SIGN: u8 = 0x04;
    let (unused, bits) = bits.split_first()?;
    if *unused > 7 {
        return None;
    }
    // Nine bits are defined.
    let first = bits.first().copied().unwrap_or(0);
    let ninth = bits.get(1).copied().unwrap_or(0) & 0x80;
    Some(match (first, ninth) {
        (0, 0) => KeyUsage::Open,
        (first, _) if first & CERT_SIGN != 0 => KeyUsage::Certificates,
        _ => KeyUsage::Other,
    })
}

/// Parses a nonnegative integer that fits.
fn unsigned(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 8 || bytes.first().is_some_and(|first| *first > 0x7f) {
        return None;
    }
    Some(
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

/// Returns the constraints, and whether all of them are of supported kinds.
fn name_constraints(value: &[u8]) -> Option<(NameConstraints, bool)> {
    let mut outer = Reader(value);
    let mut lists = Reader(outer.expect(SEQUENCE)?);
    let permitted = lists.optional(0xa0).unwrap_or_default();
    let excluded = lists.optional(0xa1).unwrap_or_default();
    if !outer.0.is_empty() || !lists.0.is_empty() || (permitted.is_empty() && excluded.is_empty()) {
        return None;
    }
    let mut all_known = true;
    let constraints = NameConstraints {
        permitted: subtrees(permitted, &mut all_known)?,
        excluded: subtrees(excluded, &mut all_known)?,
    };
    Some((constraints, all_known))
}

fn subtrees(list: &[u8], all_known: &mut bool) -> Option<Subtrees> {
    let mut list = Reader(list);
    let mut found = Subtrees::default();
    while !list.0.is_empty() {
        let (tag, _whole, value) = Reader(list.expect(SEQUENCE)?).next()?;
        match tag {
            0x81 => found.emails.push(ascii(value).filter(|one| {
                mailbox(one).is_some() || (!one.contains('@') && is_domain(one, true))
            })?),
            0x82 => found
                .dns
                .push(ascii(value).filter(|one| is_domain(one, true))?),
            0x86 => found.uris.push(
                ascii(value)
                    .filter(|one| one.parse::<IpAddr>().is_err() && is_domain(one, true))?,
            ),
            0x87 => found.networks.push(network(value)?),
            _ => *all_known = false,
        }
    }
    Some(found)
}

/// Parses an address and its mask: ones, then zeros.
fn network(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if !matches!(value.len(), 8 | 32) {
        return None;
    }
    let (address, mask) = value.split_at(value.len() / 2);
    let bits = mask
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte << bit & 0x80));
    let falls_only = bits.is_sorted_by(|one, next| one >= next);
    falls_only.then(|| (address.to_vec(), mask.to_vec()))
}

fn ascii(value: &[u8]) -> Option<String> {
    value
        .is_ascii()
        .then(|| String::from_utf8_lossy(value).into_owned())
}

fn alternative_names(mut names: &[u8]) -> Option<Names> {
    let mut found = Names::default();
    while !names.is_empty() {
        let mut reader = Reader(names);
        let (tag, _whole, value) = reader.next()?;
        names = reader.0;
        match tag {
            0x81 => found.emails.push(ascii(value)?),
            0x82 => found.dns.push(ascii(value)?),
            0x86 => found.uris.push(ascii(value)?),
            0x87 => found.addresses.push(address(value)?),
            _ => {}
        }
    }
    Some(found)
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(octets).into());
    }
    let octets = <[u8; 16]>::try_from(octets).ok()?;
    Some(Ipv6Addr::from(octets).into())
}

fn common_name(subject: &[u8]) -> Option<String> {
    let mut names = Reader(subject);
    while !names.0.is_empty() {
        let mut attribute = Reader(Reader(names.expect(SET)?).expect(SEQUENCE)?);
        if attribute.expect(OID)? == COMMON_NAME {
            let (_tag, _whole, value) = attribute.next()?;
            return Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    None
}

/// Parses a bit string of whole bytes.
fn bits(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(&[0])
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Takes one element: its tag, all its bytes, its contents.
    fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (tag, length, header) = match self.0 {
            [tag, short @ 0..=0x7f, ..] => (*tag, usize::from(*short), 2),
            [tag, 0x81, a, ..] => (*tag, usize::from(*a), 3),
            [tag, 0x82, a, b, ..] => (*tag, usize::from(u16::from_be_bytes([*a, *b])), 4),
            [tag, 0x83, a, b, c, ..] => {
                let length = u32::from_be_bytes([0, *a, *b, *c]);
                (*tag, usize::try_from(length).ok()?, 5)
            }
            _ => return None,
        };
        let whole = self.0.get(..header + length)?;
        self.0 = self.0.get(header + length..)?;
        Some((tag, whole, whole.get(header..)?))
    }

    fn whole(&mut self, wanted: u8) -> Option<(&'a [u8], &'a [u8])> {
        let (tag, whole, content) = self.next()?;
        (tag == wanted).then_some((whole, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.whole(wanted).map(|(_whole, content)| content)
    }

    fn optional(&mut self, wanted: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&wanted) {
            self.expect(wanted)
        } else {
            None
        }
    }

    /// Takes a `UTCTime` or `GeneralizedTime`, both in UTC and with seconds.
    fn time(&mut self) -> Option<i64> {
        let (tag, _whole, text) = self.next()?;
        let (year, rest) = match tag {
            0x17 => {
                let year = number(text.get(..2)?)?;
                (
                    if year < 50 { 2000 + year } else { 1900 + year },
                    text.get(2..)?,
                )
            }
            0x18 => (number(text.get(..4)?)?, text.get(4..)?),
            _ => return None,
        };
        let digits = rest
            .strip_suffix(b"Z")
            .filter(|digits| digits.len() == 10)?;
        let mut numbers = digits
            .chunks(2)
            .map(|two| -> Option<i8> { number(two)?.try_into().ok() });
        let mut next = || numbers.next()?;
        let time = DateTime::new(year, next()?, next()?, next()?, next()?, next()?, 0).ok()?;
        // Not via a `Timestamp`: its range ends before the year 9999 does, and authorities write "for ever" as that
        // year's last second.
        Some(time.duration_since(EPOCH).as_secs())
    }
}

/// Parses up to four digits.
fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(sum * 10 + i16::from(digit))
    })
}

#[cfg(test)]
mod tests;
