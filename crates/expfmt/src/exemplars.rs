//! Exemplars that are unchanged from round to round.
//!
//! **Invariant:** an exemplar with unchanged text is not parsed again, and its labels stay interned.

use crate::hash::hash;
use narthex_model::Exemplar;
use std::collections::HashMap;

/// The last exemplar of each place, with the hash of its bytes.
#[derive(Debug, Default)]
pub(crate) struct ExemplarCache(HashMap<u64, (u64, Exemplar)>);

impl ExemplarCache {
    /// Returns the exemplar encoded in `bytes`, calling `read` only when they changed.
    pub(crate) fn get<E>(
        &mut self,
        key: u64,
        bytes: &[u8],
        read: impl FnOnce() -> Result<Exemplar, E>,
    ) -> Result<Exemplar, E> {
        let hash = hash(bytes);
        if let Some((known, exemplar)) = self.0.get(&key)
            && *known == hash
        {
            return Ok(exemplar.clone());
        }
        let exemplar = read()?;
        self.0.insert(key, (hash, exemplar.clone()));
        Ok(exemplar)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
