//! The fields of an X.509 certificate that our own checks look at.
//!
//! ```text
//! Certificate = SEQUENCE { tbs, algorithm, signature BIT STRING }
//! tbs         = SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject, key,
//!                          [1]?, [2]?, [3] extensions? }
//! ```
//! Invariant: reading never leaves the input, and never allocates more than a few times its length.
//! Signatures are not checked here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;

/// `serverAuth`, `clientAuth` and "any" of the extended key usages.
pub(crate) const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
pub(crate) const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0];

const EXT_SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const EXT_BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const EXT_NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 30];
const EXT_EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// A certificate, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate<'a> {
    /// 1, 2 or 3.
    pub(crate) version: u8,
    /// What the signature covers.
    pub(crate) signed: &'a [u8],
    /// The content of the signature's `AlgorithmIdentifier`.
    pub(crate) signature_algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// Seconds since the epoch, both inclusive.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// The content of the key's `AlgorithmIdentifier`.
    pub(crate) key_algorithm: &'a [u8],
    pub(crate) key: &'a [u8],
    pub(crate) common_name: Option<String>,
    /// Subject alternative names; none without the extension.
    pub(crate) names: Option<Names>,
    /// Object identifiers; none without the extension.
    pub(crate) extended_key_usage: Option<Vec<&'a [u8]>>,
    pub(crate) is_authority: bool,
    pub(crate) has_name_constraints: bool,
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
    /// Returns none for what is no certificate.
    pub(crate) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut outer = Reader(der);
        let mut certificate = Reader(outer.expect(SEQUENCE)?);
        let (signed, tbs) = certificate.whole(SEQUENCE)?;
        let signature_algorithm = certificate.expect(SEQUENCE)?;
        let signature = bits(certificate.expect(BIT_STRING)?)?;

        let mut tbs = Reader(tbs);
        let version = match tbs.optional(0xa0) {
            Some(version) => Reader(version).expect(0x02)?.first()?.checked_add(1)?,
            None => 1,
        };
        let _serial = tbs.expect(0x02)?;
        let _algorithm = tbs.expect(SEQUENCE)?;
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
            common_name: common_name(subject),
            names: None,
            extended_key_usage: None,
            is_authority: false,
            has_name_constraints: false,
        };
        for unique_id in [0x81, 0x82] {
            tbs.optional(unique_id);
        }
        if let Some(extensions) = tbs.optional(0xa3) {
            let mut extensions = Reader(Reader(extensions).expect(SEQUENCE)?);
            while !extensions.0.is_empty() {
                parsed.extension(extensions.expect(SEQUENCE)?)?;
            }
        }
        Some(parsed)
    }

    fn extension(&mut self, extension: &'a [u8]) -> Option<()> {
        let mut extension = Reader(extension);
        let id = extension.expect(OID)?;
        extension.optional(BOOLEAN);
        let value = extension.expect(OCTET_STRING)?;
        match id {
            EXT_SUBJECT_ALT_NAME => {
                self.names = Some(alternative_names(Reader(value).expect(SEQUENCE)?)?);
            }
            EXT_BASIC_CONSTRAINTS => {
                let mut constraints = Reader(Reader(value).expect(SEQUENCE)?);
                self.is_authority = constraints.optional(BOOLEAN) == Some(&[0xff]);
            }
            EXT_NAME_CONSTRAINTS => self.has_name_constraints = true,
            EXT_EXTENDED_KEY_USAGE => {
                let mut usages = Reader(Reader(value).expect(SEQUENCE)?);
                let mut found = Vec::new();
                while !usages.0.is_empty() {
                    found.push(usages.expect(OID)?);
                }
                self.extended_key_usage = Some(found);
            }
            _ => {}
        }
        Some(())
    }

    pub(crate) fn is_valid_at(&self, seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&seconds)
    }

    /// Returns whether the certificate may stand for a server.
    pub(crate) fn is_for_servers(&self) -> bool {
        self.extended_key_usage.as_ref().is_none_or(|usages| {
            usages
                .iter()
                .any(|usage| [SERVER_AUTH, ANY_USAGE].contains(usage))
        })
    }
}

fn alternative_names(mut names: &[u8]) -> Option<Names> {
    let mut found = Names::default();
    while !names.is_empty() {
        let mut reader = Reader(names);
        let (tag, _whole, value) = reader.next()?;
        names = reader.0;
        let text = || String::from_utf8_lossy(value).into_owned();
        match tag {
            0x81 => found.emails.push(text()),
            0x82 => found.dns.push(text()),
            0x86 => found.uris.push(text()),
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
    Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical())
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

/// A bit string of whole bytes.
fn bits(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(&[0])
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Takes one element: its tag, all its bytes, its content.
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
        let [month, day, hour, minute, second] = rest
            .strip_suffix(b"Z")
            .filter(|digits| digits.len() == 10)?
            .chunks(2)
            .map(number)
            .collect::<Option<Vec<_>>>()?
            .try_into()
            .ok()?;
        let in_range = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second < 61;
        in_range.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(sum * 10 + i64::from(digit))
    })
}

/// Days since 1970-01-01 in the Gregorian calendar; years begin in March so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 3 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests;
