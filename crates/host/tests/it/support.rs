//! Frames and exposition text as maps, fixture trees, archives of fixture trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use narthex_host::{CollectorKind, CollectorSet, HostConfig, HostSource};
use narthex_model::{ColumnId, Frame, LabelSet};
use narthex_testkit::TempDir;

/// Longer than any machine takes for its collectors, however loaded.
pub(crate) const PATIENT_MS: u32 = 600_000;

/// Values by series, written as `name{label="value",…}` with sorted labels and without empty ones.
pub(crate) type Samples = BTreeMap<String, f64>;
/// Type and help by family name.
pub(crate) type Families = BTreeMap<String, (String, String)>;

pub(crate) fn samples(frame: &Frame) -> Samples {
    let mut samples = Samples::new();
    for at in frame.present().iter() {
        let id = column(at);
        assert!(
            !frame.schema().is_retired(id),
            "a retired series has a value"
        );
        let labels = frame.schema().labels(id);
        let pairs = labels.iter().map(|label| (label.name(), label.value()));
        let name = labels.metric_name().to_owned();
        let pairs: Vec<_> = pairs.filter(|(name, _)| *name != "__name__").collect();
        let series = series(&name, &pairs);
        assert!(
            samples.insert(series.clone(), frame.values()[at]).is_none(),
            "{series} twice"
        );
    }
    samples
}

pub(crate) fn families(frame: &Frame) -> Families {
    let used = frame
        .present()
        .iter()
        .map(|at| frame.schema().family(column(at)));
    used.map(|family| {
        let kind = match family.metric_type.as_str() {
            "unknown" => "untyped",
            other => other,
        };
        (
            family.name.to_string(),
            (kind.to_owned(), family.help.to_string()),
        )
    })
    .collect()
}

pub(crate) fn column(at: usize) -> ColumnId {
    ColumnId(u32::try_from(at).expect("a slot"))
}

/// Returns the series that ended in this frame.
pub(crate) fn stale(frame: &Frame) -> Vec<String> {
    let mut stale: Vec<String> = frame
        .stale()
        .iter()
        .map(|id| frame.schema().labels(*id).to_string())
        .collect();
    stale.sort();
    stale
}

pub(crate) fn series(name: &str, labels: &[(&str, &str)]) -> String {
    let mut labels: Vec<_> = labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    labels.sort();
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    if labels.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{{{}}}", labels.join(","))
    }
}

/// Parses text exposition as node_exporter writes it: no timestamps, one blank before the value.
pub(crate) fn parse_text(text: &str) -> (Samples, Families) {
    let (mut samples, mut families) = (Samples::new(), Families::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name.to_owned()).or_default().1 = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            families.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            samples.insert(normalized(series), value.parse().expect("a float"));
        }
    }
    (samples, families)
}

fn normalized(text: &str) -> String {
    let Some((name, rest)) = text.split_once('{') else {
        return text.to_owned();
    };
    let mut rest = rest.strip_suffix('}').expect("closed labels");
    let mut labels = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("a closed quote") {
                (at, '"') => break at,
                (_, '\\') => match chars.next().expect("an escaped character").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim_start_matches(','), value));
        rest = &after[end + 1..];
    }
    let labels: Vec<_> = labels
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    series(name, &labels)
}

/// A small host in a temporary directory.
pub(crate) struct Tree {
    pub(crate) dir: TempDir,
}

impl Tree {
    pub(crate) fn new(label: &str) -> Self {
        let tree = Self {
            dir: TempDir::new(label),
        };
        tree.write(
            "proc/stat",
            "cpu  1 1 1 1\ncpu0 100 0 50 900 3 0 1 0 0 0\nbtime 5\n",
        );
        tree.write("proc/meminfo", "MemTotal: 8 kB\nMemFree: 4 kB\n");
        tree.write("proc/loadavg", "0.01 0.02 0.03 1/2 3\n");
        tree.write("proc/vmstat", "nr_free_pages 1\npgpgin 2\n");
        tree.write("proc/diskstats", "");
        tree.write("proc/net/dev", "h\nh\n");
        tree.write("proc/1/mountinfo", "");
        fs::create_dir_all(tree.dir.join("sys")).expect("writable");
        tree
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        self.dir.write(name, content)
    }

    /// Returns a configuration of this tree with only `kinds`, reading all facts in every round.
    pub(crate) fn config(&self, kinds: &[CollectorKind]) -> HostConfig {
        HostConfig {
            procfs: self.dir.join("proc"),
            sysfs: self.dir.join("sys"),
            rootfs: "/".into(),
            udev_data: self.dir.join("udev"),
            timezone: Some(String::new()),
            collectors: kinds
                .iter()
                .copied()
                .fold(CollectorSet::none(), CollectorSet::with),
            refresh_ms: 0,
            wait_ms: PATIENT_MS,
            ..HostConfig::default()
        }
    }

    pub(crate) fn source(&self, kinds: &[CollectorKind]) -> HostSource {
        HostSource::new(self.config(kinds)).expect("valid")
    }
}

/// Asserts that none of these series' labels is accepted as a common one.
pub(crate) fn assert_own_labels(host: &HostSource) {
    let columns = host.schema().columns();
    let own: BTreeSet<String> = columns
        .flat_map(|(_, column)| column.set.iter().map(|label| label.name().to_owned()))
        .collect();
    assert!(own.len() > 20, "{own:?}");
    for name in own {
        let config = HostConfig {
            common: LabelSet::new([(name.as_str(), "x")]),
            ..HostConfig::default()
        };
        let refused = HostSource::new(config).is_err();
        assert!(refused, "{name} is missing from the list");
    }
}

/// Returns a family's series, without the family's name.
pub(crate) fn of_family<'a>(samples: &'a Samples, family: &str) -> Vec<(&'a str, f64)> {
    let of_family = samples.iter().filter_map(|(series, value)| {
        let rest = series.strip_prefix(family)?;
        (rest.is_empty() || rest.starts_with('{')).then_some((rest, *value))
    });
    of_family.collect()
}

/// Unpacks an archive of node_exporter's fixtures: directories, symbolic links and text with escapes.
pub(crate) fn unpack_ttar(archive: &Path, into: &Path) {
    let text = fs::read_to_string(archive).expect("the archive is text");
    let mut lines = text.lines();
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("Directory: ") {
            fs::create_dir_all(into.join(name)).expect("writable");
        } else if let Some(name) = line.strip_prefix("Path: ") {
            path = into.join(name);
            fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
        } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
            std::os::unix::fs::symlink(target, &path).expect("writable");
        } else if let Some(count) = line.strip_prefix("Lines: ") {
            let mut content = String::new();
            for _ in 0..count.parse().expect("a count") {
                content += &unescape(lines.next().expect("as many lines as announced"));
            }
            fs::write(&path, content).expect("writable");
        }
    }
}

/// Replaces `NULLBYTE` by a zero byte and `EOF` by no newline, unless a backslash precedes it.
fn unescape(line: &str) -> String {
    let line = line
        .replace("\\NULLBYTE", "\u{1}")
        .replace("NULLBYTE", "\0")
        .replace('\u{1}', "NULLBYTE");
    let line = line.replace("\\EOF", "\u{1}");
    let (line, newline) = match line.strip_suffix("EOF") {
        Some(line) => (line.to_owned(), ""),
        None => (line, "\n"),
    };
    line.replace('\u{1}', "EOF") + newline
}
