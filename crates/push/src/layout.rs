//! Layouts: the label names and families that groups share whose bodies differ only in numbers.
//!
//! Processes of a program push the same series under other grouping keys. Shapes, the text of lines and decoders are kept
//! once for all of them; what a group has to itself are numbers.
//!
//! **Invariant:** equal shapes of a store are one, and equal layouts are one while they are in use, so that they are
//! compared by address. The tables by themselves keep neither alive.

use crate::{
    family::{Family, Numbers, Shape, View},
    grouping::Grouping,
    text::Text,
};
use narthex_expfmt::Escaping;
use narthex_model::sync::Whole as _;
use std::{
    cmp::Ordering,
    collections::HashMap,
    hash::{BuildHasher as _, Hash as _, Hasher, RandomState},
    sync::{Arc, LazyLock, Mutex, OnceLock, Weak},
};

/// A table is swept of dead entries at twice its size after the last sweep, but not below this size.
const SMALLEST_SWEEP: usize = 64;

/// Families, ordered by name, without numbers.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Names of the labels of its groups, sorted.
    pub(crate) names: Vec<String>,
    pub(crate) families: Vec<Arc<Shape>>,
    /// Where the cells of each family begin, and the number of all.
    starts: Vec<usize>,
    texts: Vec<OnceLock<Text>>,
    /// Length of all lines without numbers and the group's labels, about.
    pub(crate) text_bytes: usize,
}

/// Families with their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) layout: Arc<Layout>,
    pub(crate) numbers: Arc<Numbers>,
}

impl Layout {
    fn new(names: Vec<String>, families: Vec<Arc<Shape>>) -> Self {
        let mut layout = Self {
            names,
            starts: Vec::with_capacity(families.len() + 1),
            texts: families.iter().map(|_| OnceLock::new()).collect(),
            text_bytes: 0,
            families,
        };
        let mut cells = 0;
        layout.starts.push(0);
        for shape in &layout.families {
            cells += shape.parts.len();
            layout.starts.push(cells);
            for (metric, range) in shape.metrics() {
                let labels = metric.labels.iter();
                let labels = labels.map(|label| label.name().len() + label.value().len() + 4);
                layout.text_bytes += range.len() * (shape.name.len() + labels.sum::<usize>());
            }
        }
        layout
    }

    /// Returns the number of series.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Returns the index of a family, or where to insert it.
    pub(crate) fn find(&self, name: &str) -> Result<usize, usize> {
        self.families
            .binary_search_by(|shape| (*shape.name).cmp(name))
    }

    /// Returns the lines of a family with names as the page has them unless others are asked for.
    pub(crate) fn text(&self, at: usize) -> &Text {
        let new = || Text::new(&self.families[at], &self.names, Escaping::Underscores);
        self.texts[at].get_or_init(new)
    }
}

impl Default for Contents {
    fn default() -> Self {
        static EMPTY: LazyLock<Arc<Layout>> = LazyLock::new(Arc::default);
        Self {
            layout: Arc::clone(&EMPTY),
            numbers: Arc::default(),
        }
    }
}

impl Contents {
    /// Iterates over the families.
    pub(crate) fn families(&self) -> impl Iterator<Item = View<'_>> {
        (0..self.layout.families.len()).map(|at| self.family(at))
    }

    /// Returns a family by its index.
    pub(crate) fn family(&self, at: usize) -> View<'_> {
        View {
            shape: &self.layout.families[at],
            numbers: &self.numbers,
            start: self.layout.starts[at],
        }
    }

    /// Returns a family by its name.
    pub(crate) fn find(&self, name: &str) -> Option<View<'_>> {
        self.layout.find(name).ok().map(|at| self.family(at))
    }
}

/// Calls `take` with the families of two layouts by name: those of one alone, and those of both.
pub(crate) fn each_pair(
    one: &Layout,
    other: &Layout,
    mut take: impl FnMut(Option<usize>, Option<usize>),
) {
    let (mut at, mut to) = (0, 0);
    loop {
        let order = match (one.families.get(at), other.families.get(to)) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.name.cmp(&other.name),
        };
        take(order.is_le().then_some(at), order.is_ge().then_some(to));
        at += usize::from(order.is_le());
        to += usize::from(order.is_ge());
    }
}

/// The layouts of a store.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    hasher: RandomState,
    shapes: Mutex<Table<Shape>>,
    layouts: Mutex<Table<Layout>>,
}

impl Layouts {
    /// Returns families, which must be ordered by name, as the contents of a group.
    pub(crate) fn contents(&self, grouping: &Grouping, families: Vec<Family>) -> Contents {
        let mut numbers = Numbers::default();
        let mut shapes = Vec::with_capacity(families.len());
        let cells = families.iter().map(|family| family.numbers.cells.len());
        numbers.cells.reserve_exact(cells.sum());
        for family in families {
            numbers.append(family.view());
            shapes.push(family.shape);
        }
        Contents {
            layout: self.layout(grouping, shapes),
            numbers: Arc::new(numbers),
        }
    }

    /// Returns the layout of a group with these families, which must be ordered by name.
    pub(crate) fn layout(&self, grouping: &Grouping, shapes: Vec<Arc<Shape>>) -> Arc<Layout> {
        let shapes: Vec<Arc<Shape>> = shapes.into_iter().map(|shape| self.shape(shape)).collect();
        let names = grouping.labels().iter().map(|(name, _)| name);
        let mut hasher = self.hasher.build_hasher();
        names.clone().for_each(|name| name.hash(&mut hasher));
        for shape in &shapes {
            hasher.write_usize(Arc::as_ptr(shape).addr());
        }
        let is = |layout: &Layout| {
            layout.names.iter().eq(names.clone())
                && layout.families.len() == shapes.len()
                && std::iter::zip(&layout.families, &shapes)
                    .all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let mut layouts = self.layouts.lock().whole();
        let found = layouts.find(hasher.finish(), is);
        found.unwrap_or_else(|| {
            let layout = Layout::new(names.cloned().collect(), shapes);
            layouts.insert(hasher.finish(), Arc::new(layout))
        })
    }

    /// Returns the one shape of the store that is equal to this one.
    fn shape(&self, shape: Arc<Shape>) -> Arc<Shape> {
        let mut hasher = self.hasher.build_hasher();
        shape.name.hash(&mut hasher);
        for metric in &shape.metrics {
            metric.labels.hash().bits().hash(&mut hasher);
        }
        let hash = hasher.finish();
        let mut shapes = self.shapes.lock().whole();
        let found = shapes.find(hash, |known| *known == *shape);
        found.unwrap_or_else(|| shapes.insert(hash, shape))
    }

    /// Returns contents with the families of `more` in place of those with the same names.
    pub(crate) fn merged(
        &self,
        grouping: &Grouping,
        contents: &Contents,
        more: &Contents,
    ) -> Contents {
        let mut numbers = Numbers::default();
        let mut shapes = Vec::new();
        each_pair(&contents.layout, &more.layout, |before, after| {
            let family = match (before, after) {
                (_, Some(at)) => more.family(at),
                (Some(at), None) => contents.family(at),
                (None, None) => return,
            };
            numbers.append(family);
            shapes.push(Arc::clone(family.shape));
        });
        Contents {
            layout: self.layout(grouping, shapes),
            numbers: Arc::new(numbers),
        }
    }

    /// Returns the lengths of the tables.
    #[cfg(test)]
    pub(crate) fn lens(&self) -> [usize; 2] {
        let (shapes, layouts) = (self.shapes.lock().whole(), self.layouts.lock().whole());
        [shapes.known.len(), layouts.known.len()]
    }

    /// Hashes what is known of a body before it is decoded.
    pub(crate) fn hash(&self, about: impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(about)
    }
}

/// What is in use, by its hash.
#[derive(Debug)]
pub(crate) struct Table<T> {
    known: HashMap<u64, Vec<Weak<T>>>,
    sweep_at: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            sweep_at: SMALLEST_SWEEP,
        }
    }
}

impl<T> Table<T> {
    /// Returns what has this hash and is what is looked for.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut known = self.known.get(&hash)?.iter().filter_map(Weak::upgrade);
        known.find(|known| is(known))
    }

    /// Forgets everything with this hash.
    pub(crate) fn forget(&mut self, hash: u64) {
        self.known.remove(&hash);
    }

    /// Adds something; the table does not keep it alive.
    pub(crate) fn insert(&mut self, hash: u64, value: Arc<T>) -> Arc<T> {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, all| {
                all.retain(|one| one.strong_count() > 0);
                !all.is_empty()
            });
            self.sweep_at = (self.known.len() * 2).max(SMALLEST_SWEEP);
        }
        let all = self.known.entry(hash).or_default();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&value));
        value
    }
}
