//! Resolution of parsed series to their final labels.

use narthex_model::{Label, LabelSet};

/// Decides the labels under which a series of a body is stored.
///
/// Called once when a series is first seen, never again while it keeps its line: conflicts between the target's and
/// the body's labels are resolved here, and relabelling happens here.
pub trait Resolver {
    /// Returns the series' local labels, metric name included, or `None` to drop its line for good.
    ///
    /// `parsed` has the labels as in the body, without those that every line is known to have. The result must have no label name in common with `common`, the labels
    /// that every series of the origin carries.
    ///
    /// # Errors
    /// Refuses the whole body, as a label limit does, for the returned reason.
    fn resolve(&mut self, parsed: &LabelSet, common: &LabelSet)
    -> Result<Option<LabelSet>, String>;

    /// Resolves like [`resolve`](Self::resolve) a series to which the body also gives labels without a value.
    ///
    /// Such a label does not count as a label, but where a body's labels win, it removes the target's.
    ///
    /// # Errors
    /// Fails like `resolve`.
    fn resolve_beside(
        &mut self,
        parsed: &LabelSet,
        _blank: &[Label],
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        self.resolve(parsed, common)
    }

    /// Reports whether there is room for one more series than the origin has.
    ///
    /// A refused series is left out of the round and its line is remembered as refused: call
    /// [`forget`](crate::Parser::forget) on the parser once there is room again.
    ///
    /// # Errors
    /// Refuses the whole body for the returned reason.
    fn admit(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    /// Accounts for a body that has had `lines` lines so far; called occasionally while they are unexpected, before
    /// they take memory.
    ///
    /// # Errors
    /// Refuses the whole body for the returned reason.
    fn room_for_lines(&mut self, _lines: usize) -> Result<(), String> {
        Ok(())
    }
}

/// Keeps labels as they are, except that a label of the origin wins and the body's becomes `exported_<name>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepLabels;

impl Resolver for KeepLabels {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        if !common.overlaps(parsed) {
            return Ok(Some(parsed.clone()));
        }
        let mut kept = parsed.to_builder();
        for label in common {
            if let Some(value) = parsed.get(label.name()) {
                kept.remove(label.name());
                let mut exported = format!("exported_{}", label.name());
                while parsed.label(&exported).is_some() || common.label(&exported).is_some() {
                    exported.insert_str(0, "exported_");
                }
                kept.set(&exported, value);
            }
        }
        Ok(Some(kept.finish()))
    }
}
