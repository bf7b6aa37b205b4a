//! The state of an operation in a queue: sent or withdrawn. The first of the two wins.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const WAITS: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The state of an operation: waiting, sent or withdrawn.
#[derive(Debug, Default)]
pub(super) struct OperationState(AtomicU8);

impl OperationState {
    /// Marks the operation as sent. Returns `false` if it was withdrawn.
    pub(super) fn mark_sent(&self) -> bool {
        self.swap(WAITS, SENT)
    }

    /// Withdraws the operation. Returns `false` if it was sent.
    pub(super) fn withdraw(&self) -> bool {
        self.swap(WAITS, WITHDRAWN)
    }

    /// Marks a sent operation as waiting again. Only for one that was certainly not carried out.
    pub(super) fn mark_unsent(&self) {
        self.swap(SENT, WAITS);
    }

    fn swap(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The caller's handle of an operation: withdraws it when dropped.
#[derive(Debug)]
pub(super) struct WithdrawOnDrop(pub(super) Arc<OperationState>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}
