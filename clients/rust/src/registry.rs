//! Registries: sets of metrics to expose.
//!
//! **Invariant:** families are sorted by name, and no two expose the same name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::collector::Collector;
use crate::encode::{EncodeOptions, Format, LineEncoder, MessageEncoder};
use crate::error::Error;
use crate::metric::{Metric, RawVisitor, Spec};
use crate::name::is_name;
use crate::point::SeriesVisitor;
use crate::samples;
use crate::shards::Reader;
use crate::visit::{MetricType, Visitor};
use crate::{Desc, Samples};

static GLOBAL: Registry = Registry::new();

/// Returns the registry of this process.
#[must_use]
pub fn global() -> &'static Registry {
    &GLOBAL
}

/// A set of metrics that are exposed together; `const`-constructible, so it can be a `static`.
pub struct Registry {
    content: RwLock<Content>,
}

struct Content {
    metrics: BTreeMap<&'static str, Entry>,
    /// Each name that appears in an exposition, and the metric it belongs to.
    exposed: BTreeMap<String, &'static str>,
    hooks: Vec<Arc<dyn Fn() + Send + Sync>>,
}

#[derive(Clone)]
enum Entry {
    Static(&'static dyn Metric),
    Shared(Arc<dyn Metric>),
}

impl Entry {
    fn metric(&self) -> &dyn Metric {
        match self {
            Self::Static(metric) => *metric,
            Self::Shared(metric) => &**metric,
        }
    }
}

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            content: RwLock::new(Content {
                metrics: BTreeMap::new(),
                exposed: BTreeMap::new(),
                hooks: Vec::new(),
            }),
        }
    }

    /// Registers a metric.
    ///
    /// # Errors
    ///
    /// If its name, labels, bounds or quantiles are invalid, or a name it exposes is taken; see [`Error`].
    pub fn register(&self, metric: &'static dyn Metric) -> Result<(), Error> {
        self.add(Entry::Static(metric))
    }

    /// Registers several metrics, and stops at the first that is rejected.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`].
    pub fn register_all(&self, metrics: &[&'static dyn Metric]) -> Result<(), Error> {
        metrics.iter().try_for_each(|metric| self.register(*metric))
    }

    /// Registers a metric that is not a `static`.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`].
    pub fn register_shared(&self, metric: Arc<dyn Metric>) -> Result<(), Error> {
        self.add(Entry::Shared(metric))
    }

    /// Registers a family whose samples `collect` pushes in each exposition: for values that live elsewhere.
    ///
    /// `collect` runs while the exposition is written, must not collect from this registry itself, and must push each
    /// combination of label values only once.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`].
    pub fn register_fn<const N: usize>(
        &self,
        desc: Desc<N>,
        collect: impl Fn(&mut Samples<'_, N>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register_shared(Arc::new(Collector::new(desc, collect)))
    }

    /// Adds a function that runs before each exposition, to read once what several metrics show.
    pub fn before_collect(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.write().hooks.push(Arc::new(hook));
    }

    /// Switches a metric on or off by its name; returns whether it exists.
    pub fn set_enabled(&self, name: &str, enabled: bool) -> bool {
        let entry = self.read().metrics.get(name).cloned();
        entry
            .inspect(|entry| entry.metric().set_enabled(enabled))
            .is_some()
    }

    /// Returns the registered names in order, and whether each is switched on.
    #[must_use]
    pub fn names(&self) -> Vec<(&'static str, bool)> {
        let content = self.read();
        let metrics = content.metrics.iter();
        metrics
            .map(|(name, entry)| (*name, entry.metric().is_enabled()))
            .collect()
    }

    /// Passes every family and sample to `visitor`: families by name, series by label values.
    ///
    /// Metrics keep counting meanwhile; each value is one that the metric had during the call.
    pub fn visit(&self, visitor: &mut dyn Visitor) {
        self.prepare().visit(&mut samples::Samples::new(visitor));
    }

    /// Passes what every series counted.
    pub(crate) fn visit_raw(&self, visitor: &mut dyn RawVisitor) {
        let reader = Reader::new();
        for entry in &self.prepare().0 {
            entry.metric().visit_raw(&reader, visitor);
        }
    }

    /// Runs the hooks and returns all metrics.
    fn prepare(&self) -> Entries {
        let content = self.read();
        let entries = content.metrics.values().cloned().collect();
        let hooks = content.hooks.clone();
        drop(content);
        for hook in hooks {
            hook();
        }
        Entries(entries)
    }

    /// Appends an exposition; its media type is [`Format::content_type`].
    ///
    /// [`Format::negotiate`] chooses the format that a request's `Accept` header asks for.
    pub fn encode(&self, format: Format, out: &mut Vec<u8>) {
        self.encode_with(EncodeOptions::new(format), out);
    }

    /// Appends an exposition with options.
    pub fn encode_with(&self, options: EncodeOptions, out: &mut Vec<u8>) {
        let entries = self.prepare();
        if options.format == Format::Protobuf {
            let mut encoder = MessageEncoder::new(out);
            entries.visit(&mut encoder);
            return encoder.finish();
        }
        let is_taken = |name: &str| {
            let order = |entry: &Entry| entry.metric().spec().name.cmp(name);
            entries.0.binary_search_by(order).is_ok()
        };
        let mut piece = Vec::new();
        let (out, page) = match options.content_encoding() {
            Some(_) => (&mut piece, Some(out)),
            None => (out, None),
        };
        let mut encoder = match options.format {
            Format::OpenMetrics => LineEncoder::openmetrics(out, options.created_lines, &is_taken),
            _ => LineEncoder::text(out),
        };
        if let Some(page) = page {
            encoder = encoder.gzip(page);
        }
        entries.visit(&mut encoder);
        encoder.finish();
    }

    /// Appends the text exposition format 0.0.4; its media type is [`TEXT_CONTENT_TYPE`](crate::TEXT_CONTENT_TYPE).
    pub fn encode_text(&self, out: &mut Vec<u8>) {
        self.encode(Format::Text, out);
    }

    fn add(&self, entry: Entry) -> Result<(), Error> {
        let spec = entry.metric().spec();
        check(&spec)?;
        let exposed = exposed(&spec);
        let mut content = self.write();
        if let Some(taken) = exposed
            .iter()
            .find(|name| content.exposed.contains_key(*name))
        {
            return Err(Error::Duplicate {
                metric: spec.name.to_owned(),
                exposed: taken.clone(),
            });
        }
        content
            .exposed
            .extend(exposed.into_iter().map(|name| (name, spec.name)));
        entry.metric().registered();
        content.metrics.insert(spec.name, entry);
        Ok(())
    }

    // A panicking collector cannot leave the maps half-written: it never runs under the write lock.
    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All metrics of a registry at one moment, by name.
struct Entries(Vec<Entry>);

impl Entries {
    fn visit(&self, visitor: &mut dyn SeriesVisitor) {
        let reader = Reader::new();
        for entry in &self.0 {
            entry.metric().visit(&reader, visitor);
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("metrics", &self.names())
            .finish_non_exhaustive()
    }
}

/// Returns every name that a metric exposes.
fn exposed(spec: &Spec) -> Vec<String> {
    let suffixes: &[&str] = match spec.kind {
        MetricType::Histogram => &["", "_bucket", "_sum", "_count"],
        MetricType::Summary => &["", "_sum", "_count"],
        MetricType::Counter | MetricType::Gauge | MetricType::Untyped => &[""],
    };
    suffixes
        .iter()
        .map(|suffix| format!("{}{suffix}", spec.name))
        .collect()
}

fn check(spec: &Spec) -> Result<(), Error> {
    if !is_name(spec.name, true) {
        return Err(Error::InvalidName {
            name: spec.name.to_owned(),
        });
    }
    for (i, label) in spec.labels.iter().enumerate() {
        if let Some(reason) = label_fault(spec, i) {
            return Err(Error::InvalidLabel {
                metric: spec.name.to_owned(),
                label: (*label).to_owned(),
                reason,
            });
        }
    }
    let ascends = |numbers: &[f64], i: usize| i == 0 || numbers[i - 1] < numbers[i];
    for (index, bound) in spec.bounds.iter().copied().enumerate() {
        if !bound.is_finite() || !ascends(spec.bounds, index) {
            return Err(Error::InvalidBound {
                metric: spec.name.to_owned(),
                index,
                bound,
            });
        }
    }
    for (index, quantile) in spec.quantiles.iter().copied().enumerate() {
        if !(0.0..=1.0).contains(&quantile) || !ascends(spec.quantiles, index) {
            return Err(Error::InvalidQuantile {
                metric: spec.name.to_owned(),
                quantile,
            });
        }
    }
    Ok(())
}

fn label_fault(spec: &Spec, index: usize) -> Option<&'static str> {
    let label = spec.labels[index];
    if !is_name(label, false) {
        Some("is no label name: want [a-zA-Z_][a-zA-Z0-9_]*")
    } else if label.starts_with("__") {
        Some("begins with __, which is reserved")
    } else if spec.kind == MetricType::Histogram && label == "le" {
        Some("is what a histogram names its bounds")
    } else if spec.kind == MetricType::Summary && label == "quantile" {
        Some("is what a summary names its quantiles")
    } else if spec.labels[..index].contains(&label) {
        Some("is declared twice")
    } else {
        None
    }
}
