//! Names of links by index.
//!
//! Invariant: they are listed again when the kernel says that a link changed, not every round.

use std::collections::HashMap;

use crate::error::HostError;
use crate::links::Links;
use crate::scan::label_text;

#[derive(Default)]
pub(crate) struct LinkNames {
    /// `None` before the first round, and after an error: the rest of an answer may still arrive.
    links: Option<Links>,
    names: HashMap<u32, String>,
}

impl LinkNames {
    /// Lists the links if one may have changed.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not list them.
    pub(crate) fn update(&mut self, refresh: bool) -> Result<(), HostError> {
        let mut links = self.links.take().map_or_else(Links::open, Ok)?;
        if links.changed() || refresh {
            self.names.clear();
            links.list(|link| {
                self.names.insert(link.index, label_text(link.name));
            })?;
        }
        self.links = Some(links);
        Ok(())
    }

    /// Returns a link's name; an unknown one has none.
    pub(crate) fn get(&self, index: u32) -> &str {
        self.names.get(&index).map_or("", String::as_str)
    }
}
