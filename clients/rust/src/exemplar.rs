//! Exemplars: single observations with labels that lead elsewhere, such as to a trace.
//!
//! An explicit exemplar replaces the one before it. A sampled one is asked for only where there is none, or where the
//! last one was exposed since: a bucket costs one exemplar per exposition however often it is observed.
//!
//! **Invariant:** a stored exemplar has valid, distinct label names and at most [`EXEMPLAR_MAX_CHARS`] characters.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::clock::unix_ms;
use crate::name::is_name;

/// Most characters of all label names and values of an exemplar together, as OpenMetrics has it.
pub const EXEMPLAR_MAX_CHARS: usize = 128;

/// An observation with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) value: f64,
    pub(crate) time_ms: u64,
}

impl Exemplar {
    /// Returns an exemplar of this moment; `None` without labels, or with labels that may not be exposed.
    fn new<N: AsRef<str>, V: AsRef<str>>(
        value: f64,
        labels: impl IntoIterator<Item = (N, V)>,
    ) -> Option<Self> {
        let labels = labels.into_iter();
        let owned = labels.map(|(name, value)| (name.as_ref().into(), value.as_ref().into()));
        let labels: Box<[(Box<str>, Box<str>)]> = owned.collect();
        let chars =
            |(name, value): &(Box<str>, Box<str>)| name.len().saturating_add(value.chars().count());
        let is_short = labels.iter().map(chars).sum::<usize>() <= EXEMPLAR_MAX_CHARS;
        let is_valid = labels.iter().enumerate().all(|(i, (name, _))| {
            is_name(name, false) && labels[..i].iter().all(|(other, _)| other != name)
        });
        (!labels.is_empty() && is_short && is_valid).then(|| Self {
            labels,
            value,
            time_ms: unix_ms(),
        })
    }
}

/// The exemplars of one series; nothing is allocated before the first one.
pub(crate) struct Exemplars {
    /// A thin pointer: most series have none.
    slots: OnceLock<Box<Box<[Place]>>>,
}

struct Place {
    /// Whether the next sampled observation is asked for an exemplar.
    is_wanted: AtomicBool,
    exemplar: Mutex<Option<Arc<Exemplar>>>,
}

impl Exemplars {
    pub(crate) const fn new() -> Self {
        Self {
            slots: OnceLock::new(),
        }
    }

    /// Reports whether a sampled observation has to bring an exemplar.
    #[inline]
    pub(crate) fn wants(&self, at: usize) -> bool {
        let slots = self.slots.get();
        slots.is_none_or(|slots| slots[at].is_wanted.load(Relaxed))
    }

    /// Reports whether there ever was one.
    #[inline]
    pub(crate) fn exist(&self) -> bool {
        self.slots.get().is_some()
    }

    /// Stores an exemplar at one of `len` places; always pass the same `len`.
    #[cold]
    pub(crate) fn set<N: AsRef<str>, V: AsRef<str>>(
        &self,
        len: usize,
        at: usize,
        value: f64,
        labels: impl IntoIterator<Item = (N, V)>,
    ) {
        let Some(exemplar) = Exemplar::new(value, labels) else {
            return;
        };
        let slots = self.slots.get_or_init(|| {
            let place = |_| Place {
                is_wanted: AtomicBool::new(true),
                exemplar: Mutex::new(None),
            };
            Box::new((0..len).map(place).collect())
        });
        let mut stored = slots[at].lock();
        *stored = Some(Arc::new(exemplar));
        slots[at].is_wanted.store(false, Relaxed);
    }

    /// Replaces `out` with the exemplars of all places, which are wanted anew; with nothing if there never was one.
    pub(crate) fn read(&self, out: &mut Vec<Option<Arc<Exemplar>>>) {
        out.clear();
        for place in self.slots.get().into_iter().flat_map(|slots| slots.iter()) {
            let stored = place.lock();
            out.push(stored.clone());
            place.is_wanted.store(true, Relaxed);
        }
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Exemplar>>> {
        self.exemplar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(exemplars: &Exemplars) -> Vec<Option<f64>> {
        let mut out = Vec::new();
        exemplars.read(&mut out);
        let values = out.iter().map(|one| one.as_ref().map(|one| one.value));
        values.collect()
    }

    #[test]
    fn a_place_wants_one_exemplar_per_exposition() {
        let exemplars = Exemplars::new();
        assert!(exemplars.wants(1));
        assert_eq!(read(&exemplars), []);
        exemplars.set(2, 1, 5.0, [("trace_id", "a")]);
        assert!(exemplars.wants(0) && !exemplars.wants(1));
        assert_eq!(read(&exemplars), [None, Some(5.0)]);
        assert!(exemplars.wants(1));
    }

    #[test]
    fn labels_that_may_not_be_exposed_make_no_exemplar() {
        let is_stored = |labels: &[(&str, &str)]| Exemplar::new(1.0, labels.to_vec()).is_some();
        assert!(is_stored(&[("a", ""), ("b", "\"\n")]));
        assert!(is_stored(&[("trace_id", &"é".repeat(120))]));
        assert!(!is_stored(&[("trace_id", &"é".repeat(121))]));
        assert!(!is_stored(&[("trace id", "x")]) && !is_stored(&[("", "x")]));
        assert!(!is_stored(&[("a", "x"), ("a", "y")]) && !is_stored(&[]));
    }
}
