//! Sources inside the process.

use narthex_model::Frame;

/// Something in this process that reports series on a schedule, as a target would over HTTP.
pub trait LocalSource: Send {
    /// Collects one round; its schema's common labels are the target's.
    ///
    /// # Errors
    /// Fails with a reason for people; the target counts as down.
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String>;

    /// Begins anew after collecting panicked: nothing that it changes may be used again.
    ///
    /// # Errors
    /// Fails with a reason for people; the target counts as down, and this is called again before the next round.
    fn restart(&mut self) -> Result<(), String>;
}
