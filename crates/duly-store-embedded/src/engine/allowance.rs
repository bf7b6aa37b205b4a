//! What one pass of a step may do: so many records, and so many bytes of them.
//!
//! A step is one frame of the journal and keeps everybody waiting, so each pass that reads or writes
//! records stops when its allowance is spent and goes on in the next step. A record is always done
//! whole: a pass overdraws its bytes by one record at most, and never does nothing.

/// What is left.
#[derive(Debug)]
pub(super) struct Allowance {
    records: usize,
    bytes: u64,
}

/// Records of one pass of the tick.
pub(super) const PASS_RECORDS: usize = 256;
/// Bytes of one pass of the tick.
pub(super) const PASS_BYTES: u64 = 1 << 20;
/// Records of a caller's share of a step.
pub(super) const SHARE_RECORDS: usize = 1_000;
/// Bytes of a caller's share of a step.
pub(super) const SHARE_BYTES: u64 = 4 << 20;

impl Allowance {
    /// Of what goes on by itself.
    pub(super) const fn of_a_pass() -> Self {
        Self { records: PASS_RECORDS, bytes: PASS_BYTES }
    }

    /// Of what somebody asked for.
    pub(super) const fn of_a_share() -> Self {
        Self { records: SHARE_RECORDS, bytes: SHARE_BYTES }
    }

    /// Takes note of a record of so many bytes.
    pub(super) const fn spend(&mut self, bytes: u64) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }
}
