//! Frames as maps, fixture trees.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use narthex_host::{CollectorKind, CollectorSet, HostConfig, HostSource};
use narthex_model::{ColumnId, Frame, LabelSet};
use narthex_testkit::TempDir;
pub(crate) use narthex_testkit::exposition::{Families, Samples, parse_text, series};
pub(crate) use narthex_testkit::ttar::unpack as unpack_ttar;

/// Longer than any machine takes for its collectors, however loaded.
pub(crate) const PATIENT_MS: u32 = 600_000;

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
