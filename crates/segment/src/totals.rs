//! What the writers of each application count together.
//!
//! **Invariant:** an ended writer's counts are moved to `retired` in one step, so they are in a sum exactly once.
//! **Invariant:** no two series have a label set in common: the names of an application's metrics are distinct.

use crate::{
    SegmentError, cells,
    family::{Family, GaugeMerge, Shape},
    labels,
    output::Output,
    quantile::Window,
};
use narthex_model::{ColumnId, Frame, LabelSet, METRIC_NAME};
use std::{collections::HashMap, sync::Arc};

/// Label of the application.
const APP: &str = "app";
/// Label of the worker.
const WORKER: &str = "worker";
/// Maximum number of series.
const SERIES_MAX: usize = 1 << 20;

/// A merged series.
#[derive(Debug)]
pub(crate) struct Total {
    pub(crate) app: Arc<str>,
    pub(crate) family: Arc<Family>,
    /// All labels but the application's, as the text format writes them.
    pub(crate) labels: Box<str>,
    /// Counts of ended writers, if there were any.
    pub(crate) retired: Option<Box<[u64]>>,
    set: LabelSet,
    sums: Box<[u64]>,
    /// Live segments with this series.
    live: usize,
    /// Those that added to the sums in this round, and are switched on.
    added: usize,
    is_on: bool,
    first: ColumnId,
    window: Option<Window>,
}

impl Total {
    /// Reports whether it was not updated for so long that it is not shown.
    fn is_idle(&self, now_ms: i64) -> bool {
        let time = self.family.time_cell().and_then(|cell| self.sums.get(cell));
        let now_ms = u64::try_from(now_ms).unwrap_or_default();
        time.is_some_and(|time| time.saturating_add(self.family.idle_ms) < now_ms)
    }
}

/// All merged series.
#[derive(Debug)]
pub(crate) struct Totals {
    by_worker: bool,
    totals: Vec<Option<Total>>,
    free: Vec<usize>,
    by_set: HashMap<LabelSet, usize>,
    /// Each application's exposed names, and the metrics they belong to.
    names: HashMap<(Arc<str>, String), Arc<Family>>,
    output: Output,
    is_first_round: bool,
}

impl Totals {
    pub(crate) fn new(common: LabelSet, by_worker: bool) -> Self {
        Self {
            by_worker,
            totals: Vec::new(),
            free: Vec::new(),
            by_set: HashMap::new(),
            names: HashMap::new(),
            output: Output::new(common),
            is_first_round: true,
        }
    }

    /// Returns all series.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Total> {
        self.totals.iter().flatten()
    }

    fn total_mut(&mut self, at: usize) -> Option<&mut Total> {
        self.totals.get_mut(at)?.as_mut()
    }

    /// Registers a metric of an application; returns it as it was first registered.
    ///
    /// One that differs replaces another only if no live segment has series of that.
    ///
    /// # Errors
    /// Fails when it differs from one in use.
    pub(crate) fn admit(
        &mut self,
        app: &Arc<str>,
        family: &Arc<Family>,
    ) -> Result<Arc<Family>, SegmentError> {
        for name in family.names() {
            let known = self.names.get(&(Arc::clone(app), name));
            let Some(known) = known.cloned() else {
                continue;
            };
            if known.name == family.name
                && known.shape == family.shape
                && known.idle_ms == family.idle_ms
            {
                return Ok(known);
            }
            let uses = |total: &Total| total.app == *app && Arc::ptr_eq(&total.family, &known);
            if self.iter().any(|total| uses(total) && total.live > 0) {
                let metric = family.name.to_string();
                return Err(SegmentError::Conflict { metric });
            }
            self.remove_where(uses);
            self.names.retain(|_, family| !Arc::ptr_eq(family, &known));
        }
        for name in family.names() {
            self.names
                .insert((Arc::clone(app), name), Arc::clone(family));
        }
        Ok(Arc::clone(family))
    }

    /// Finds or adds a series for a live segment, or for retired counts if `worker` is `None`. `family` was admitted.
    ///
    /// # Errors
    /// Fails when there are too many.
    pub(crate) fn attach(
        &mut self,
        app: &Arc<str>,
        worker: Option<&str>,
        family: &Arc<Family>,
        rendered: &str,
        now_ms: i64,
    ) -> Result<usize, SegmentError> {
        let fail = || SegmentError::Record {
            offset: 0,
            reason: "labels",
        };
        let own = family.shape.own_label();
        let mut pairs = labels::parse(rendered, own).ok_or_else(fail)?;
        let each = matches!(family.shape, Shape::Gauge(GaugeMerge::Each));
        // What was retired has its worker's label already.
        let labelled = worker.filter(|_| each || self.by_worker);
        if let Some(worker) = labelled {
            self.rename(&mut pairs, WORKER);
            pairs.push((WORKER.to_owned(), worker.to_owned()));
        }
        let mut text = String::new();
        labels::write(pairs.iter().map(|(n, v)| (&**n, &**v)), &mut text);
        self.rename(&mut pairs, APP);
        for label in self.output.common() {
            self.rename(&mut pairs, label.name());
        }
        let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
        let set = LabelSet::new(pairs.chain([(APP, &**app), (METRIC_NAME, &*family.name)]));
        let at = match self.by_set.get(&set) {
            Some(at) => *at,
            None if self.by_set.len() >= SERIES_MAX => {
                let (what, limit) = ("series", SERIES_MAX);
                return Err(SegmentError::TooMany { what, limit });
            }
            None => self.push(app, family, text, set, now_ms),
        };
        if let Some(total) = self.total_mut(at) {
            total.live += usize::from(worker.is_some());
        }
        Ok(at)
    }

    /// Renames a label of the writer that the reader sets, as for a scraped target.
    fn rename(&self, pairs: &mut [(String, String)], reserved: &str) {
        let Some(at) = pairs.iter().position(|(name, _)| name == reserved) else {
            return;
        };
        let mut name = format!("exported_{reserved}");
        while pairs.iter().any(|(known, _)| *known == name)
            || self.output.common().get(&name).is_some()
        {
            name.insert_str(0, "exported_");
        }
        if let Some(pair) = pairs.get_mut(at) {
            pair.0 = name;
        }
    }

    fn push(
        &mut self,
        app: &Arc<str>,
        family: &Arc<Family>,
        labels: String,
        set: LabelSet,
        now_ms: i64,
    ) -> usize {
        let window = matches!(family.shape, Shape::Summary(_)).then(|| {
            if self.is_first_round {
                Window::default()
            } else {
                Window::begun(now_ms)
            }
        });
        let total = Total {
            app: Arc::clone(app),
            family: Arc::clone(family),
            labels: labels.into(),
            retired: None,
            sums: vec![0; family.cells()].into(),
            live: 0,
            added: 0,
            is_on: false,
            first: self.output.add(family, &set),
            set: set.clone(),
            window,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.totals.push(None);
            self.totals.len() - 1
        });
        self.totals[at] = Some(total);
        self.by_set.insert(set, at);
        at
    }

    /// Sets counts of ended writers that were kept on disk.
    pub(crate) fn set_retired(&mut self, at: usize, cells: Box<[u64]>) {
        if let Some(total) = self.total_mut(at) {
            total.retired = Some(cells);
        }
    }

    /// Moves a series of an ended writer to the retired counts.
    pub(crate) fn retire(&mut self, at: usize, cells: &[u64]) {
        let Some(total) = self.total_mut(at) else {
            return;
        };
        total.live = total.live.saturating_sub(1);
        let shape = &total.family.shape;
        if !shape.is_gauge() {
            let retired = total
                .retired
                .get_or_insert_with(|| vec![0; total.family.cells()].into());
            cells::add(shape, retired, cells, false);
        }
    }

    /// Detaches a live segment from a series that it ended: what was counted of it is no longer shown.
    ///
    /// What ended writers counted ends too, but not in the first round: they may have counted after that.
    pub(crate) fn drop_series(&mut self, at: usize) {
        let is_first_round = self.is_first_round;
        if let Some(total) = self.total_mut(at) {
            total.live = total.live.saturating_sub(1);
            if !is_first_round {
                total.retired = None;
            }
        }
    }

    /// Begins a round: removes what ended, and sets the sums to the retired counts.
    pub(crate) fn begin(&mut self, is_gone: impl Fn(&str) -> bool) {
        let by_worker = self.by_worker;
        self.remove_where(|total| {
            total.live == 0
                && (by_worker
                    || total.retired.is_none()
                    || total.family.shape.is_gauge()
                    || is_gone(&total.app))
        });
        if self.output.is_sparse() {
            let series = self.totals.iter_mut().flatten();
            self.output
                .compact(series.map(|t| (&t.family, &t.set, &mut t.first)));
        }
        for total in self.totals.iter_mut().flatten() {
            match &total.retired {
                Some(retired) => total.sums.copy_from_slice(retired),
                None => total.sums.fill(0),
            }
            total.added = 0;
            total.is_on = total.live == 0;
        }
    }

    /// Adds a live segment's cells to a series.
    pub(crate) fn add(&mut self, at: usize, cells: &[u64], is_on: bool) {
        if let Some(total) = self.total_mut(at) {
            cells::add(
                &total.family.shape,
                &mut total.sums,
                cells,
                total.added == 0,
            );
            total.added += 1;
            total.is_on |= is_on;
        }
    }

    /// Ends a round and returns its frame.
    pub(crate) fn finish(&mut self, now_ms: i64) -> &Frame {
        self.is_first_round = false;
        self.output.begin(now_ms);
        for total in self.totals.iter_mut().flatten() {
            let is_there = total.added > 0 || total.retired.is_some();
            if total.is_on && is_there && !total.is_idle(now_ms) {
                let window = total.window.as_mut();
                let cells = total.family.shape.cells();
                let sums = total.sums.get(..cells).unwrap_or_default();
                self.output.set(&total.family, total.first, sums, window);
            }
        }
        self.output.finish()
    }

    /// Returns the last frame.
    pub(crate) fn frame(&self) -> &Frame {
        self.output.frame()
    }

    fn remove_where(&mut self, ends: impl Fn(&Total) -> bool) {
        for (at, slot) in self.totals.iter_mut().enumerate() {
            if let Some(total) = slot.take_if(|total| ends(total)) {
                self.output.remove(&total.family, total.first);
                self.by_set.remove(&total.set);
                self.free.push(at);
            }
        }
    }
}
