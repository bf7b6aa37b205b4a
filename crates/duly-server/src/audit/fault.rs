//! The reason why the file of the audit log cannot be written, and its effect on calls.

use std::sync::Arc;

use duly_core::Code;
use parking_lot::RwLock;

use super::Audit;
use crate::problem::Problem;

/// The error of the last write of the file, until one succeeds.
pub(super) type SharedFault = Arc<RwLock<Option<String>>>;

impl Audit {
    /// Checks that lines can be written, where they must be: before a step of a stream.
    ///
    /// # Errors
    /// With `audit.required`, when no line can be written now.
    pub(crate) fn check_writable(&self) -> Result<(), Problem> {
        let is_refused = self.0.is_required && self.fault().is_some();
        if is_refused { Err(unwritable()) } else { Ok(()) }
    }

    /// Returns the reason why lines cannot be written, with its effect and the cure.
    pub(crate) fn reason(&self) -> Option<String> {
        let (fault, path) = (self.fault()?, self.0.path.display());
        let effect = match self.0.is_required {
            true => "changes are refused, except revocations of keys (audit.required)",
            false => "up to 65,536 lines wait, and further ones are lost",
        };
        Some(format!(
            "the audit log {path} cannot be written ({fault}), so {effect}: free space on its disk, or make the \
             file writable; the log continues by itself"
        ))
    }

    /// Returns `true` if calls without a line are refused.
    pub(crate) fn is_required(&self) -> bool {
        self.0.is_required
    }

    /// Returns the reason why lines cannot be written.
    pub(super) fn fault(&self) -> Option<String> {
        let file = self.0.file.as_ref()?;
        let is_full = file.capacity() == 0;
        let waits = || is_full.then(|| "its disk does not finish the writes".to_owned());
        self.0.fault.read().clone().or_else(waits)
    }
}

/// Returns the refusal of a call that can have no line.
pub(crate) fn unwritable() -> Problem {
    let detail = "the audit log cannot be written, and audit.required refuses calls without a line, except \
                  those that only delete or disable a key: an operator must see to the disk of audit.file";
    Problem::temporary(Code::Unavailable, detail)
}
