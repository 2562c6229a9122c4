//! Names of PCI vendors, devices and classes from a `pci.ids` file.
//!
//! ```text
//! 8086  Vendor            C 01  Class
//! \t1521  Device          \t08  Subclass
//! \t\t8086 00a3  Subsystem  \t\t02  Interface
//! ```
//! Invariant: what the file does not name is called by its number.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Where distributions put the file.
const PLACES: [&str; 2] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];
/// Ten times what it takes today.
const LIMIT_BYTES: u64 = 16 << 20;

/// Names by number; the numbers of nested entries are joined.
#[derive(Debug, Default)]
pub(crate) struct PciIds {
    names: HashMap<String, String>,
    classes: HashMap<String, String>,
}

impl PciIds {
    /// Loads a file, or the distribution's if its path is empty. Without one, nothing has a name.
    pub(crate) fn load(path: &Path) -> Self {
        let read = |path: &Path| {
            let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= LIMIT_BYTES);
            let bytes = is_small.then(|| fs::read(path).ok()).flatten();
            bytes.map(|bytes| Self::parse(&String::from_utf8_lossy(&bytes)))
        };
        let found = match path.as_os_str().is_empty() {
            true => PLACES.iter().find_map(|place| read(Path::new(place))),
            false => read(path),
        };
        found.unwrap_or_default()
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut ids = Self::default();
        let mut parents = [String::new(), String::new()];
        let mut is_class = false;
        for line in text.lines() {
            let entry = line.trim_start_matches('\t');
            let depth = line.len() - entry.len();
            let (Some((number, name)), true) = (entry.split_once("  "), depth <= 2) else {
                continue;
            };
            if line.starts_with('#') {
                continue;
            }
            let mut number = number.trim().to_owned();
            if depth == 0 {
                is_class = number.starts_with("C ");
                number = number.trim_start_matches("C ").to_owned();
            }
            let key = parents.iter().take(depth).map(String::as_str);
            let key: Vec<&str> = key.chain([number.as_str()]).collect();
            let name = name.trim().to_owned();
            match is_class {
                true => ids.classes.insert(key.concat(), name),
                false => ids.names.insert(key.join(" "), name),
            };
            if let Some(parent) = parents.get_mut(depth) {
                *parent = number;
            }
        }
        ids
    }

    pub(crate) fn vendor(&self, vendor: &str) -> String {
        self.named(&[vendor], vendor)
    }

    pub(crate) fn device(&self, vendor: &str, device: &str) -> String {
        self.named(&[vendor, device], device)
    }

    pub(crate) fn subsystem(
        &self,
        vendor: &str,
        device: &str,
        of_vendor: &str,
        of_device: &str,
    ) -> String {
        self.named(&[vendor, device, of_vendor, of_device], of_device)
    }

    /// Returns the name of the interface, else of the subclass, else of the class.
    pub(crate) fn class(&self, class: &str) -> String {
        let class = plain(class);
        let known = [6, 4, 2].iter().filter_map(|len| class.get(..*len));
        let mut known = known.filter_map(|key| self.classes.get(key));
        let unknown = || format!("Unknown class ({class})");
        known.next().cloned().unwrap_or_else(unknown)
    }

    fn named(&self, numbers: &[&str], number: &str) -> String {
        let key: Vec<&str> = numbers.iter().map(|number| plain(number)).collect();
        let name = self.names.get(&key.join(" "));
        name.cloned().unwrap_or_else(|| plain(number).to_owned())
    }
}

fn plain(number: &str) -> &str {
    number.strip_prefix("0x").unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_belong_to_what_they_are_below() {
        let ids = PciIds::parse(
            "# c  x\n8086  Intel\n\t1521  I350\n\t\t8086 00a3  Adapter\n1022  AMD\n\t1521  Other\n\
             C 01  Storage\n\t08  NVM\n\t\t02  Express\n\t09  More\nC 02  Network\n",
        );
        assert_eq!(ids.vendor("0x8086"), "Intel");
        assert_eq!(ids.vendor("0xffff"), "ffff");
        assert_eq!(ids.device("0x8086", "0x1521"), "I350");
        assert_eq!(ids.device("0x1022", "0x1521"), "Other");
        let subsystem = |vendor| ids.subsystem(vendor, "0x1521", "0x8086", "0x00a3");
        assert_eq!(
            (subsystem("0x8086"), subsystem("0x1022")),
            ("Adapter".into(), "00a3".into())
        );
        for (class, name) in [
            ("0x010802", "Express"),
            ("0x010803", "NVM"),
            ("0x010900", "More"),
            ("0x020000", "Network"),
            ("0x030000", "Unknown class (030000)"),
        ] {
            assert_eq!(ids.class(class), name);
        }
    }
}
