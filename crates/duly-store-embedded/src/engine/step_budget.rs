//! The limit of one pass within a step: a number of records and of bytes.
//!
//! A step is one frame of the journal, and every caller waits for it. So a pass that reads or writes
//! records stops when its budget is spent, and resumes in the next step.
//!
//! 1. A record is always done whole: a pass exceeds its bytes by at most one record.
//! 2. A pass always makes progress, even if a single record is larger than the budget.

/// Records and bytes that are left.
#[derive(Debug)]
pub(super) struct StepBudget {
    records: usize,
    bytes: u64,
}

/// Records of one background pass.
pub(super) const PASS_RECORDS: usize = 256;
/// Bytes of one background pass.
pub(super) const PASS_BYTES: u64 = 1 << 20;
/// Records of one slice of a call.
pub(super) const SLICE_RECORDS: usize = 1_000;
/// Bytes of one slice of a call.
pub(super) const SLICE_BYTES: u64 = 4 << 20;

impl StepBudget {
    /// Returns the budget of a background pass.
    pub(super) const fn for_pass() -> Self {
        Self { records: PASS_RECORDS, bytes: PASS_BYTES }
    }

    /// Returns the budget of one slice of a call.
    pub(super) const fn for_slice() -> Self {
        Self { records: SLICE_RECORDS, bytes: SLICE_BYTES }
    }

    /// Subtracts one record of `bytes` bytes.
    pub(super) const fn spend(&mut self, bytes: u64) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}
