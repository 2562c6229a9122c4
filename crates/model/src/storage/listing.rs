//! Queries about series rather than samples.

use super::{
    Context, LABEL_ORDER_BYTES, Lease, Pace, StopReason, StorageError, TimeRange, arrange,
    in_label_order, ordered,
};
use crate::{
    frame::Exemplar,
    labels::{Label, LabelHash, LabelSet, METRIC_NAME},
    matcher::Matcher,
};
use std::collections::{HashMap, HashSet};

/// Selection of series for a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesQuery {
    /// Alternatives: a series is selected when all matchers of any one match; an empty list selects every series.
    pub any_of: Vec<Vec<Matcher>>,
    /// A store may leave out series without a sample in this range; how exactly is its choice.
    pub range: TimeRange,
    /// At most this many answers; `None` for all.
    pub limit: Option<usize>,
}

impl SeriesQuery {
    /// Returns the query that selects every series.
    #[must_use]
    pub fn all(range: TimeRange) -> Self {
        Self {
            any_of: Vec::new(),
            range,
            limit: None,
        }
    }

    /// Reports whether the query selects a series with these labels.
    #[must_use]
    pub fn matches(&self, labels: &LabelSet) -> bool {
        let matches_all = |matchers: &Vec<Matcher>| {
            matchers
                .iter()
                .all(|matcher| matcher.matches(labels.get(&matcher.name).unwrap_or_default()))
        };
        self.any_of.is_empty() || self.any_of.iter().any(matches_all)
    }
}

/// An answer, possibly truncated.
#[derive(Debug, Default)]
pub struct Listing<T> {
    /// The answers.
    pub items: Vec<T>,
    /// Whether the limit cut off some answers.
    pub truncated: bool,
    /// Warnings that do not invalidate the answer.
    pub warnings: Vec<String>,
    /// Lease for the memory of the answers.
    pub lease: Option<Lease>,
}

/// An item of a listing.
pub trait Listed: Ord + Sized {
    /// Returns the heap bytes of an item, beyond its own size.
    fn heap_bytes(&self) -> usize;

    /// Bytes that `order` takes for each item.
    const ORDER_BYTES: usize = 2 * size_of::<usize>();

    /// Returns the numbers of items in ascending order, equal ones in theirs.
    ///
    /// # Errors
    /// Fails when stopped.
    fn order(items: &[Self], pace: &mut Pace<'_>) -> Result<Vec<usize>, StopReason> {
        ordered(items.len(), COMPARE_WORK, pace, |a, b| {
            items[a].cmp(&items[b])
        })
    }
}

impl Listed for String {
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl Listed for LabelSet {
    fn heap_bytes(&self) -> usize {
        Self::heap_bytes(self)
    }

    const ORDER_BYTES: usize = size_of::<&Self>() + LABEL_ORDER_BYTES;

    fn order(items: &[Self], pace: &mut Pace<'_>) -> Result<Vec<usize>, StopReason> {
        let sets: Vec<&Self> = items.iter().collect();
        in_label_order(&sets, pace)
    }
}

/// Collects the answers of a listing: sorted, distinct, at most as many as requested.
///
/// **Invariant:** the items held are leased, and are at most a small multiple of the answer: once that many have
/// accumulated, duplicates and items beyond the limit are dropped.
#[derive(Debug)]
pub struct Collector<'a, T> {
    ctx: &'a Context,
    limit: Option<usize>,
    items: Vec<T>,
    /// Number of items at the front that are sorted.
    sorted: usize,
    truncated: bool,
    /// Identities of the items that `add_once` added, while there is no limit.
    seen: HashSet<LabelHash, foldhash::fast::RandomState>,
    /// Bytes that `items` and `seen` take.
    bytes: u64,
    lease: Lease,
}

/// Bytes of an identity in a set that has just grown.
const SEEN_BYTES: u64 = 2 * (size_of::<LabelHash>() as u64 + 1) * 8 / 7;

/// Below this many items, sorting is not worth the time.
const ORDERED_FROM: usize = 1 << 10;

/// Items are sorted once there are this many times the already sorted ones.
const GROWTH: usize = 4;

/// Work of comparing two items, in samples read.
const COMPARE_WORK: usize = 8;

/// Smallest increment of the lease, in bytes.
const LEASED_BYTES: u64 = 16 << 10;

impl<'a, T: Listed> Collector<'a, T> {
    /// Returns a collector of at most `limit` items.
    ///
    /// # Errors
    /// Fails when the budget is already exhausted.
    pub fn new(limit: Option<usize>, ctx: &'a Context) -> Result<Self, StorageError> {
        Ok(Self {
            ctx,
            limit,
            items: Vec::new(),
            sorted: 0,
            truncated: false,
            seen: HashSet::default(),
            bytes: 0,
            lease: ctx.budget.lease(0)?,
        })
    }

    /// Adds the item with an identity unless it was added before: most series of a block are in the one after it too.
    ///
    /// # Errors
    /// As `add`.
    pub fn add_once(
        &mut self,
        identity: LabelHash,
        item: impl FnOnce() -> T,
    ) -> Result<(), StorageError> {
        // A limit bounds the items, and nothing would bound their identities.
        if self.limit.is_some() {
            return self.add(item());
        }
        if self.seen.insert(identity) {
            self.bytes += SEEN_BYTES;
            self.push(item())?;
            if self.items.len().is_multiple_of(ORDERED_FROM) {
                self.ctx.stop.check()?;
            }
        }
        Ok(())
    }

    /// Adds an item.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub fn add(&mut self, item: T) -> Result<(), StorageError> {
        self.push(item)?;
        if self.items.len() >= (GROWTH * self.sorted).max(2 * ORDERED_FROM) {
            self.order()?;
        }
        Ok(())
    }

    fn push(&mut self, item: T) -> Result<(), StorageError> {
        // A vector grows by doubling, hence the second size.
        self.bytes += (2 * size_of::<T>() + item.heap_bytes()) as u64;
        if self.bytes > self.lease.bytes() {
            let more = (self.bytes - self.lease.bytes()).max(LEASED_BYTES);
            self.lease.grow(more)?;
        }
        self.items.push(item);
        Ok(())
    }

    /// Returns the collected items.
    ///
    /// # Errors
    /// As `add`.
    pub fn finish(mut self) -> Result<Listing<T>, StorageError> {
        self.order()?;
        self.items.shrink_to_fit();
        self.bytes -= self.seen.len() as u64 * SEEN_BYTES;
        // The answer takes less than collecting did. Without room for both leases at once, keep the larger one.
        let exact = self.ctx.budget.lease(self.bytes);
        Ok(Listing {
            items: self.items,
            truncated: self.truncated,
            warnings: Vec::new(),
            lease: Some(exact.unwrap_or(self.lease)),
        })
    }

    /// Sorts, removes duplicates and applies the limit.
    fn order(&mut self) -> Result<(), StorageError> {
        self.ctx.stop.check()?;
        let bytes = self.items.len() * T::ORDER_BYTES;
        let _order = self.ctx.budget.lease(bytes as u64)?;
        let order = T::order(&self.items, &mut self.ctx.stop.pace())?;
        arrange(&mut self.items, order);
        self.items.dedup();
        if let Some(limit) = self.limit
            && self.items.len() > limit
        {
            self.truncated = true;
            self.items.truncate(limit);
        }
        self.sorted = self.items.len();
        let of_item = |item: &T| (2 * size_of::<T>() + item.heap_bytes()) as u64;
        let of_items: u64 = self.items.iter().map(of_item).sum();
        self.bytes = of_items + self.seen.len() as u64 * SEEN_BYTES;
        Ok(())
    }
}

/// Series counts by name, label and pair.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cardinality {
    /// Number of series.
    pub series: u64,
    /// Number of distinct `name=value` pairs.
    pub pairs: u64,
    /// Number of series by metric name, largest first.
    pub by_metric: Vec<(String, u64)>,
    /// Number of distinct values by label name, largest first.
    pub values_by_label: Vec<(String, u64)>,
    /// Bytes of values by label name, largest first.
    pub bytes_by_label: Vec<(String, u64)>,
    /// Number of series by `name=value`, largest first.
    pub by_pair: Vec<(String, u64)>,
}

/// The exemplars of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct ExemplarSeries {
    /// The series.
    pub labels: LabelSet,
    /// Its exemplars with the time of each, ascending.
    pub exemplars: Vec<(i64, Exemplar)>,
}

/// Counts series by their labels. A set shared by many series is added once for all of them.
#[derive(Debug)]
pub struct CardinalityCount {
    series: u64,
    by_pair: HashMap<Label, u64, foldhash::fast::RandomState>,
    lease: Lease,
}

/// Bytes of a table entry, including its share of the listing of the largest.
const PAIR_BYTES: u64 = 2 * 24 + 48;

impl CardinalityCount {
    /// Returns an empty count.
    ///
    /// # Errors
    /// Fails when the budget is already exhausted.
    pub fn new(ctx: &Context) -> Result<Self, StorageError> {
        Ok(Self {
            series: 0,
            by_pair: HashMap::default(),
            lease: ctx.budget.lease(0)?,
        })
    }

    /// Counts the labels of `set` for `series` series.
    ///
    /// # Errors
    /// Fails over budget.
    pub fn add(&mut self, set: &LabelSet, series: u64) -> Result<(), StorageError> {
        for label in set {
            if let Some(count) = self.by_pair.get_mut(label) {
                *count += series;
                continue;
            }
            self.by_pair.insert(label.clone(), series);
            let bytes = self.by_pair.len() as u64 * PAIR_BYTES;
            if bytes > self.lease.bytes() {
                self.lease.grow(bytes.max(LEASED_BYTES))?;
            }
        }
        Ok(())
    }

    /// Counts `series` series whose label sets are added separately.
    pub fn add_series(&mut self, series: u64) {
        self.series += series;
    }

    /// Returns the counts, keeping the `limit` largest of each list.
    #[must_use]
    pub fn finish(&self, limit: usize) -> Cardinality {
        let mut names: HashMap<&str, (u64, u64)> = HashMap::new();
        for label in self.by_pair.keys() {
            let (values, bytes) = names.entry(label.name()).or_default();
            *values += 1;
            *bytes += label.value().len() as u64;
        }
        let by_name = |of_name: fn(&(u64, u64)) -> u64| {
            let names = names.iter();
            names.map(move |(name, of)| (Named("", name), of_name(of)))
        };
        let metrics = self.by_pair.iter();
        let metrics = metrics.filter(|(label, _)| label.name() == METRIC_NAME);
        let metrics = metrics.map(|(label, count)| (Named("", label.value()), *count));
        let pairs = self.by_pair.iter();
        let pairs = pairs.map(|(label, count)| (Named(label.name(), label.value()), *count));
        Cardinality {
            series: self.series,
            pairs: self.by_pair.len() as u64,
            by_metric: largest(metrics, limit),
            values_by_label: largest(by_name(|of| of.0), limit),
            bytes_by_label: largest(by_name(|of| of.1), limit),
            by_pair: largest(pairs, limit),
        }
    }
}

impl Cardinality {
    /// Counts `series`, which must be distinct, keeping the `limit` largest of each list.
    ///
    /// # Errors
    /// Fails over budget.
    pub fn count<'a>(
        series: impl IntoIterator<Item = &'a LabelSet>,
        limit: usize,
        ctx: &Context,
    ) -> Result<Self, StorageError> {
        let mut count = CardinalityCount::new(ctx)?;
        for labels in series {
            count.add_series(1);
            count.add(labels, 1)?;
        }
        Ok(count.finish(limit))
    }
}

/// Name of a list entry: a label name, or `name=value` when both parts are set.
struct Named<'a>(&'a str, &'a str);

impl Named<'_> {
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let sign = if self.0.is_empty() { "" } else { "=" };
        let parts = [self.0, sign, self.1];
        parts.into_iter().flat_map(str::bytes)
    }

    fn text(&self) -> String {
        match self.0 {
            "" => self.1.to_owned(),
            name => format!("{name}={}", self.1),
        }
    }
}

/// Returns the `limit` largest, ties in name order.
fn largest<'a>(counts: impl Iterator<Item = (Named<'a>, u64)>, limit: usize) -> Vec<(String, u64)> {
    let order = |a: &(Named<'_>, u64), b: &(Named<'_>, u64)| {
        b.1.cmp(&a.1).then_with(|| a.0.bytes().cmp(b.0.bytes()))
    };
    let mut counts: Vec<(Named<'a>, u64)> = counts.collect();
    if limit < counts.len() {
        counts.select_nth_unstable_by(limit, order);
        counts.truncate(limit);
    }
    counts.sort_unstable_by(order);
    counts
        .into_iter()
        .map(|(name, count)| (name.text(), count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Budget, Stop, StopReason};

    fn context(limit_bytes: u64) -> Context {
        Context {
            budget: Budget::new("the listing", limit_bytes),
            ..Context::unlimited()
        }
    }

    /// Regression: all series were once collected before the limit was applied.
    #[test]
    fn a_limit_bounds_what_is_held_and_not_only_what_is_answered() {
        let ctx = context(1 << 20);
        let mut few = Collector::new(Some(10), &ctx).unwrap();
        for n in (0..1_000_000).rev() {
            few.add(format!("{n:07}")).unwrap();
        }
        let few = few.finish().unwrap();
        let expected: Vec<String> = (0..10).map(|n| format!("{n:07}")).collect();
        assert_eq!((few.items, few.truncated), (expected, true));
        let mut all = Collector::new(None, &ctx).unwrap();
        let over = (0..1_000_000).find_map(|n| all.add(format!("{n:07}")).err());
        assert!(
            matches!(over, Some(StorageError::OverBudget(_))),
            "{over:?}"
        );
    }

    #[test]
    fn items_that_repeat_cost_as_much_as_one_and_a_listing_holds_its_lease() {
        let ctx = context(200_000);
        let mut items = Collector::new(None, &ctx).unwrap();
        for n in 0..1_000_000 {
            items.add((n % 7).to_string()).unwrap();
        }
        let items = items.finish().unwrap();
        assert_eq!((items.items.len(), items.truncated), (7, false));
        assert!(ctx.budget.used_bytes() > 0);
        drop(items);
        assert_eq!(ctx.budget.used_bytes(), 0);
    }

    #[test]
    fn items_with_one_identity_are_made_once_and_identities_are_counted() {
        let identity = |n: u32| LabelHash::of_label("n", &n.to_string());
        let collect = |limit: Option<usize>, ctx: &Context| {
            let mut made = 0;
            let mut items = Collector::new(limit, ctx).unwrap();
            for n in (0..30_000).chain(0..30_000) {
                let item = || {
                    made += 1;
                    format!("{n:05}")
                };
                items.add_once(identity(n), item)?;
            }
            Ok::<_, StorageError>((items.finish()?, made))
        };
        let ctx = context(u64::MAX);
        let (all, made) = collect(None, &ctx).unwrap();
        assert_eq!((all.items.len(), made), (30_000, 30_000));
        let kept = ctx.budget.used_bytes();
        let item_bytes = 2 * size_of::<String>() + format!("{:05}", 0).heap_bytes();
        let before = 30_000 * (SEEN_BYTES + item_bytes as u64);
        assert!(ctx.budget.peak_bytes() >= before, "identities and items");
        assert!(kept <= before - 30_000 * SEEN_BYTES, "items alone: {kept}");
        assert!(collect(None, &context(before - 1)).is_err());
        let (few, made) = collect(Some(10), &context(1 << 20)).unwrap();
        let found = (few.items.len(), few.truncated, made);
        assert_eq!(found, (10, true, 60_000), "a limit holds no identities");
    }

    #[test]
    fn collecting_stops_when_told() {
        let ctx = Context {
            stop: Stop::at_check(2),
            ..Context::unlimited()
        };
        let mut items = Collector::new(None, &ctx).unwrap();
        let stopped = (0..1_000_000).find_map(|n: u32| items.add(n.to_string()).err());
        let mut once = Collector::new(None, &ctx).unwrap();
        let add_once = |n: u32| {
            let identity = LabelHash::of_label("n", &n.to_string());
            once.add_once(identity, || n.to_string()).err()
        };
        for stopped in [stopped, (0..1_000_000).find_map(add_once)] {
            assert!(matches!(
                stopped,
                Some(StorageError::Stopped(StopReason::Canceled))
            ));
        }
    }

    #[test]
    fn counting_pairs_is_leased() {
        let ctx = context(100_000);
        let mut count = CardinalityCount::new(&ctx).unwrap();
        let set = |n: u32| LabelSet::new([("a", n.to_string().as_str())]);
        let over = (0..100_000).find_map(|n| count.add(&set(n), 1).err());
        assert!(matches!(over, Some(StorageError::OverBudget(_))));
        drop(count);
        assert_eq!(ctx.budget.used_bytes(), 0);
    }
}
