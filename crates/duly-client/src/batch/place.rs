//! The state of an operation, sent or given up: decided once, by the first of the two.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const WAITS: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// The place of an operation in a lane.
#[derive(Debug, Default)]
pub(super) struct Place(AtomicU8);

impl Place {
    /// Takes it to be sent; not one that was given up.
    pub(super) fn take(&self) -> bool {
        self.go(WAITS, SENT)
    }

    /// Takes it back; not one that was sent.
    pub(super) fn give_up(&self) -> bool {
        self.go(WAITS, GIVEN_UP)
    }

    /// Puts one back that was sent and certainly not carried out.
    pub(super) fn put_back(&self) {
        self.go(SENT, WAITS);
    }

    fn go(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The caller's end of a place: gives it up when the caller goes.
#[derive(Debug)]
pub(super) struct Own(pub(super) Arc<Place>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
