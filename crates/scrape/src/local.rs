//! Sources inside the process.

use narthex_model::Frame;

/// A source in this process that reports series on a schedule, as a target would over HTTP.
pub trait LocalSource: Send {
    /// Collects one round; its schema's common labels are the target's.
    ///
    /// # Errors
    /// Fails with a readable reason; the target counts as down.
    fn collect(&mut self, now_ms: i64) -> Result<&Frame, String>;

    /// Resets the source after collecting panicked; state the panic may have left half-changed must not be reused.
    ///
    /// # Errors
    /// Fails with a readable reason; the target counts as down, and this is called again before the next
    /// round.
    fn restart(&mut self) -> Result<(), String>;
}
