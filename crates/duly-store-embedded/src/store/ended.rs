//! The terminal error of a store, for the program that embeds it.

use super::EmbeddedStore;

impl EmbeddedStore {
    /// Waits until the store has ended for good, and returns the reason: an error may have left a part
    /// of a write in the journal, or the engine met an internal error. Never completes if the store is
    /// closed before.
    ///
    /// Every call fails from then on. Nothing that was acknowledged is lost: [`close`](Self::close) the
    /// store, drop it and open the directory again. Recovery rewrites what may not have reached the disk
    /// before it trusts it.
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        self.terminal.wait()
    }
}
