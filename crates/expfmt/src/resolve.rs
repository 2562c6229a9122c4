//! Where a parsed series gets its final labels.

use narthex_model::{Label, LabelSet};

/// Decides what a series that a body names is stored as.
///
/// Asked once when a series is first seen, never again while it keeps its line: this is where target labels win
/// or lose against the body's own, and where relabelling happens.
pub trait Resolver {
    /// Returns the series' local labels, metric name included, or `None` to drop its line for good.
    ///
    /// `parsed` has the labels as the body has them. The result must have no label name in common with `common`,
    /// the labels every series of the origin carries.
    ///
    /// # Errors
    /// A reason refuses the whole body, as a label limit does.
    fn resolve(&mut self, parsed: &LabelSet, common: &LabelSet)
    -> Result<Option<LabelSet>, String>;

    /// As [`resolve`](Self::resolve), of a series that the body also gives labels without a value.
    ///
    /// Such a label is none, but where a body's labels win, it takes the target's away.
    ///
    /// # Errors
    /// As `resolve`.
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
    /// A refused one is left out of the round and its line is remembered as such: the parser is told to
    /// [`forget`](crate::Parser::forget) once there is room again.
    ///
    /// # Errors
    /// A reason refuses the whole body.
    fn admit(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    /// Takes note that a body has had `lines` lines so far; called now and then while they are not as expected, before
    /// they take memory.
    ///
    /// # Errors
    /// A reason refuses the whole body.
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
