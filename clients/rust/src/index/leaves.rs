//! Items in order, in leaves of some hundred.
//!
//! **Invariant:** a leaf never changes: one that gains or loses an item is replaced, the others are shared with the
//! list before. So what is derived from a leaf's items is derived once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Item;

/// Items of a leaf, except in the last ones.
const LEAF_ITEMS: usize = 256;

/// Some items in order, and what is derived from them.
pub(crate) struct Leaf<T: Item> {
    /// At least one.
    pub(crate) items: Box<[Arc<T>]>,
    pub(crate) derived: T::Derived,
}

impl<T: Item> Leaf<T> {
    fn new(items: Box<[Arc<T>]>) -> Arc<Self> {
        let derived = T::Derived::default();
        Arc::new(Self { items, derived })
    }
}

/// All items, each in one leaf.
pub(crate) struct Leaves<T: Item>(Vec<Arc<Leaf<T>>>);

impl<T: Item> Leaves<T> {
    /// Returns the leaves in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leaf<T>> {
        self.0.iter().map(|leaf| &**leaf)
    }

    /// Returns the items in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<T>> {
        self.iter().flat_map(|leaf| &leaf.items)
    }

    /// Returns these leaves with some items added, whose keys no other item has, and those removed that they contain;
    /// both in order.
    pub(super) fn changed(&self, added: Vec<Arc<T>>, removed: &[Arc<T>]) -> Self {
        let mut made = Builder {
            leaves: Vec::with_capacity(self.0.len() + added.len() / LEAF_ITEMS + 1),
            open: Vec::new(),
        };
        let mut added = added.into_iter().peekable();
        let mut removed = removed;
        for (i, leaf) in self.0.iter().enumerate() {
            let next = self.0.get(i + 1).and_then(|next| next.items.first());
            let is_here = |item: &T| next.is_none_or(|next| item.order(next) == Ordering::Less);
            let (gone, later) = removed.split_at(removed.partition_point(|item| is_here(item)));
            removed = later;
            let is_touched = !gone.is_empty() || added.peek().is_some_and(|item| is_here(item));
            if !is_touched && made.open.is_empty() {
                made.leaves.push(Arc::clone(leaf));
                continue;
            }
            for item in &leaf.items {
                if gone.iter().any(|gone| Arc::ptr_eq(gone, item)) {
                    continue;
                }
                while let Some(earlier) = added.next_if(|new| new.order(item) == Ordering::Less) {
                    made.open.push(earlier);
                }
                made.open.push(Arc::clone(item));
            }
            while let Some(last) = added.next_if(|new| is_here(new)) {
                made.open.push(last);
            }
            made.close(LEAF_ITEMS / 2);
        }
        made.open.extend(added);
        made.close(1);
        Self(made.leaves)
    }
}

struct Builder<T: Item> {
    leaves: Vec<Arc<Leaf<T>>>,
    /// Items of no leaf yet.
    open: Vec<Arc<T>>,
}

impl<T: Item> Builder<T> {
    /// Makes leaves of the open items, but none of fewer than `least`.
    fn close(&mut self, least: usize) {
        let mut rest = std::mem::take(&mut self.open).into_iter();
        while rest.len() >= 2 * LEAF_ITEMS {
            let full = rest.by_ref().take(LEAF_ITEMS).collect();
            self.leaves.push(Leaf::new(full));
        }
        if rest.len() >= least {
            self.leaves.push(Leaf::new(rest.collect()));
        } else {
            self.open.extend(rest);
        }
    }
}

impl<T: Item> Default for Leaves<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
