//! Removes identifiers of a machine from a scrape: host names, addresses, hardware addresses, serials, paths.
//!
//! Only label values are changed: names, help and numbers stay. A value is replaced by a numbered one of the same kind,
//! in the order of first appearance, so that series keep their identity. The rules are in docs/bench.md.
//! **Invariant:** the same recording is scrubbed the same way every time, and scrubbing twice changes nothing more.

use narthex_testkit::exposition::{Line, unescape};
use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Labels whose values identify a machine, disk or installation.
const IDENTIFIERS: &str = "asset_tag board_asset_tag board_serial boot_id chassis_asset_tag chassis_serial machine_id product_serial \
     product_uuid serial serial_number system_uuid uuid wwid wwn";
/// Labels whose values are host names.
const HOSTS: &str = "domainname fqdn host hostname nodename";
/// Labels whose values look like addresses but are versions.
const VERSIONS: &str = "goversion release revision short_version version";
/// Labels whose values look like paths but are parts of URLs.
const ROUTES: &str = "endpoint handler route uri url";
/// Paths that every machine has.
const COMMON_PATHS: &str = "/ /boot /boot/efi /dev /dev/shm /etc /home /metrics /opt /proc /run /run/lock /srv /sys /tmp /usr /var \
     /var/lib /var/log /var/tmp";
/// Directories whose file names come from the kernel or a program's source.
const COMMON_PREFIXES: &[&str] = &["/proc/", "/sys/"];

/// Kind of identifier found in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IdentifierKind {
    Host,
    Address,
    HardwareAddress,
    Identifier,
    Path,
}

impl IdentifierKind {
    /// Returns the plural of its name.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Host => "host names",
            Self::Address => "addresses",
            Self::HardwareAddress => "hardware addresses",
            Self::Identifier => "identifiers",
            Self::Path => "paths",
        }
    }
}

/// Replaces values and remembers the replacements.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    /// Names that are replaced wherever they appear as a word.
    hosts: Vec<String>,
    replaced: HashMap<(IdentifierKind, String), String>,
    numbers: BTreeMap<IdentifierKind, u32>,
}

impl Scrubber {
    /// Returns a scrubber that knows the names of its machine.
    pub(crate) fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        let mut scrubber = Self::default();
        for host in hosts {
            scrubber.learn_host(&host);
        }
        scrubber
    }

    /// Returns how many different values of each kind were replaced.
    pub(crate) fn counts(&self) -> &BTreeMap<IdentifierKind, u32> {
        &self.numbers
    }

    /// Returns a body without identifiers of the machine.
    pub(crate) fn scrub(&mut self, body: &str) -> String {
        // Collect names first: a host's name may precede the series whose label marks it as one.
        for line in body.lines().filter_map(Line::parse) {
            for label in line
                .labels
                .iter()
                .filter(|label| has_word(HOSTS, label.name))
            {
                self.learn_host(&unescape(label.value));
            }
        }
        let mut out = String::with_capacity(body.len());
        for line in body.split_inclusive('\n') {
            let Some(parsed) = Line::parse(line.trim_end_matches('\n')) else {
                out.push_str(line);
                continue;
            };
            let start = line.as_ptr() as usize;
            let mut copied = 0;
            for label in &parsed.labels {
                if let Some(value) = self.value(parsed.name, label.name, label.value) {
                    // Both are slices of the same line.
                    let at = label.value.as_ptr() as usize - start;
                    out.push_str(&line[copied..at]);
                    out.push_str(&value);
                    copied = at + label.value.len();
                }
            }
            out.push_str(&line[copied..]);
        }
        out
    }

    /// Returns a label value's replacement; `None` if it stays.
    fn value(&mut self, metric: &str, label: &str, value: &str) -> Option<String> {
        if value.is_empty() {
            return None;
        }
        if has_word(IDENTIFIERS, label) {
            return Some(self.number(IdentifierKind::Identifier, value));
        }
        if has_word(VERSIONS, label) {
            return self.without_hosts(value);
        }
        let is_route = has_word(ROUTES, label) || label == "path" && metric.contains("http");
        if value.starts_with('/') && !is_route {
            return self.path(value);
        }
        let mut text = self.without_hosts(value);
        for find in [Self::hardware_address, Self::address] {
            let current = text.as_deref().unwrap_or(value);
            if let Some(found) = self.words(current, find) {
                text = Some(found);
            }
        }
        text
    }

    fn learn_host(&mut self, name: &str) {
        let is_name = name.len() > 1
            && name != "localhost"
            && !name.starts_with('(')
            && !is_replacement(IdentifierKind::Host, name)
            && name.bytes().any(|byte| byte.is_ascii_alphabetic());
        if is_name && !self.hosts.iter().any(|host| host == name) {
            self.hosts.push(name.to_owned());
            // A longer name may contain a shorter one.
            self.hosts.sort_by_key(|host| std::cmp::Reverse(host.len()));
        }
    }

    fn without_hosts(&mut self, value: &str) -> Option<String> {
        let mut text: Option<String> = None;
        for host in self.hosts.clone() {
            let current = text.as_deref().unwrap_or(value);
            if let Some(replaced) =
                replace_word(current, &host, || self.number(IdentifierKind::Host, &host))
            {
                text = Some(replaced);
            }
        }
        text
    }

    fn path(&mut self, value: &str) -> Option<String> {
        let is_device = value
            .strip_prefix("/dev/")
            .is_some_and(|name| !name.contains('/'));
        let is_common = has_word(COMMON_PATHS, value)
            || COMMON_PREFIXES
                .iter()
                .any(|prefix| value.starts_with(prefix));
        if is_device || is_common || is_replacement(IdentifierKind::Path, value) {
            return None;
        }
        Some(self.number(IdentifierKind::Path, value))
    }

    /// Replaces every word of hexadecimal digits, colons and dots for which `find` returns a replacement.
    fn words(
        &mut self,
        value: &str,
        find: fn(&mut Self, &str) -> Option<String>,
    ) -> Option<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_');
        let mut out = String::new();
        let mut changed = false;
        for piece in value.split_inclusive(|c: char| !is_part(c)) {
            let word = piece.trim_end_matches(|c: char| !is_part(c));
            let replaced = find(self, word);
            changed |= replaced.is_some();
            out.push_str(replaced.as_deref().unwrap_or(word));
            out.push_str(&piece[word.len()..]);
        }
        changed.then_some(out)
    }

    fn hardware_address(&mut self, word: &str) -> Option<String> {
        let mut pairs = word.split([':', '-']);
        let is_one = word.len() == 17
            && pairs.clone().count() == 6
            && pairs.all(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()));
        let plain = word.to_ascii_lowercase().replace('-', ":");
        let is_special = matches!(plain.as_str(), "00:00:00:00:00:00" | "ff:ff:ff:ff:ff:ff");
        if !is_one || is_special || is_replacement(IdentifierKind::HardwareAddress, &plain) {
            return None;
        }
        Some(self.number(IdentifierKind::HardwareAddress, &plain))
    }

    /// Replaces an address, keeping its port.
    fn address(&mut self, word: &str) -> Option<String> {
        if let Ok(address) = word.parse::<IpAddr>() {
            return self.ip(address);
        }
        let (host, port) = word.rsplit_once(':')?;
        let address = host.parse::<Ipv4Addr>().ok()?;
        port.parse::<u16>().ok()?;
        Some(format!("{}:{port}", self.ip(address.into())?))
    }

    fn ip(&mut self, address: IpAddr) -> Option<String> {
        let stays = match address {
            IpAddr::V4(v4) => {
                v4.is_loopback()
                    || v4.is_unspecified()
                    || v4.is_broadcast()
                    || v4.is_documentation()
            }
            IpAddr::V6(v6) => {
                v6.is_loopback() || v6.is_unspecified() || v6.segments()[..2] == [0x2001, 0xdb8]
            }
        };
        (!stays).then(|| self.number(IdentifierKind::Address, &address.to_string()))
    }

    /// Returns the replacement of a value; a new value gets the next number of its kind.
    fn number(&mut self, kind: IdentifierKind, value: &str) -> String {
        if is_replacement(kind, value) {
            return value.to_owned();
        }
        if let Some(known) = self.replaced.get(&(kind, value.to_owned())) {
            return known.clone();
        }
        let count = self.numbers.entry(kind).or_default();
        *count += 1;
        let text = replacement(kind, *count, value);
        self.replaced.insert((kind, value.to_owned()), text.clone());
        text
    }
}

/// Returns the `count`th replacement of a kind; addresses are from the ranges reserved for documentation.
fn replacement(kind: IdentifierKind, count: u32, value: &str) -> String {
    let [_, _, high, low] = count.to_be_bytes();
    match kind {
        IdentifierKind::Host => format!("host-{count}"),
        IdentifierKind::Identifier => format!("id-{count}"),
        IdentifierKind::Path => format!("/path-{count}"),
        IdentifierKind::HardwareAddress => {
            format!("00:00:5e:00:{:02x}:{low:02x}", 0x53 + high % 0xac)
        }
        IdentifierKind::Address if value.contains(':') => {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, count as u16).to_string()
        }
        // 762 addresses in three ranges; a recording with more starts over at the first.
        IdentifierKind::Address => {
            let at = (count - 1) % 762;
            let (a, b, c) = [(192, 0, 2), (198, 51, 100), (203, 0, 113)][(at / 254) as usize];
            Ipv4Addr::new(a, b, c, (at % 254 + 1) as u8).to_string()
        }
    }
}

/// Returns whether a value is a replacement made by this program.
fn is_replacement(kind: IdentifierKind, value: &str) -> bool {
    let number = |prefix: &str| {
        let rest = value.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    match kind {
        IdentifierKind::Host => number("host-"),
        IdentifierKind::Identifier => number("id-"),
        IdentifierKind::Path => number("/path-"),
        IdentifierKind::HardwareAddress => value.starts_with("00:00:5e:00:"),
        IdentifierKind::Address => false,
    }
}

/// Replaces `word` where it is not preceded by a letter, digit, `-`, `_` or `.`, nor followed by a letter or digit.
fn replace_word(text: &str, word: &str, by: impl FnOnce() -> String) -> Option<String> {
    let is_word = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.'))
            && after.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_'))
    };
    let places: Vec<usize> = text
        .match_indices(word)
        .map(|(at, _)| at)
        .filter(is_word)
        .collect();
    if places.is_empty() {
        return None;
    }
    let (by, mut out, mut from) = (by(), String::new(), 0);
    for at in places {
        out.push_str(&text[from..at]);
        out.push_str(&by);
        from = at + word.len();
    }
    out.push_str(&text[from..]);
    Some(out)
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// Returns the names of this machine.
pub(crate) fn own_names() -> Vec<String> {
    let uname = rustix::system::uname();
    let node = uname.nodename().to_string_lossy().into_owned();
    let file = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let first = node.split('.').next().unwrap_or_default().to_owned();
    let mut names = vec![node, file.trim().to_owned(), first];
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
