//! How labels of an entry and labels in a file are put together.

use narthex_expfmt::{KeepLabels, Resolver};
use narthex_model::{Label, LabelSet};

/// Labels of one file's series.
#[derive(Debug)]
pub(crate) struct FileLabels {
    /// Labels of the file.
    pub(crate) target: LabelSet,
    /// Whether labels in the file win. Then no label is common to all series.
    pub(crate) honors: bool,
}

impl FileLabels {
    /// Returns the labels that all series surely have.
    pub(crate) fn common(&self) -> LabelSet {
        if self.honors {
            LabelSet::empty()
        } else {
            self.target.clone()
        }
    }
}

impl Resolver for FileLabels {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        self.resolve_beside(parsed, &[], common)
    }

    fn resolve_beside(
        &mut self,
        parsed: &LabelSet,
        blank: &[Label],
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        if !self.honors {
            return KeepLabels.resolve(parsed, common);
        }
        let stays = |label: &&Label| blank.iter().all(|blank| blank.name() != label.name());
        let own = LabelSet::from_labels(self.target.iter().filter(stays).cloned());
        Ok(Some(own.union(parsed)))
    }
}
