//! The state of an operation in a queue: sent or withdrawn. The first of the two wins.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const WAITS: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// The state of an operation: waiting, sent or withdrawn.
#[derive(Debug, Default)]
pub(super) struct Place(AtomicU8);

impl Place {
    /// Marks the operation as sent. Returns `false` if it was withdrawn.
    pub(super) fn take(&self) -> bool {
        self.go(WAITS, SENT)
    }

    /// Withdraws the operation. Returns `false` if it was sent.
    pub(super) fn give_up(&self) -> bool {
        self.go(WAITS, GIVEN_UP)
    }

    /// Marks a sent operation as waiting again. Only for one that was certainly not carried out.
    pub(super) fn put_back(&self) {
        self.go(SENT, WAITS);
    }

    fn go(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The caller's handle of an operation: withdraws it when dropped.
#[derive(Debug)]
pub(super) struct Own(pub(super) Arc<Place>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
