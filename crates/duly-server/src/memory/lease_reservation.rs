//! Reserves request memory for the firings of one lease.
//!
//! 1. The node reserves memory at the moment of a claim, so a waiting consumer uses none. The memory is
//!    reserved before the firings are read (P10).
//! 2. With too little memory for a whole response, fewer firings are claimed.
//! 3. With too little memory for a small response, none is claimed.

use std::sync::Arc;

use duly_core::{TimerSpec, payload::PAYLOAD_BYTES_HARD};
use duly_node::LeaseMemory;
use duly_store::Firing;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::{Budget, Reservation, SMALL_BYTES_MAX};
use crate::problem::Problem;

/// Largest payload of a namespace that is claimed from even if its reservation may fail.
const RELEASED_BYTES_MAX: u64 = 1024 * 1024;

/// The memory reservation of one lease.
#[derive(Debug)]
pub(crate) struct LeaseReservation {
    oversize: OversizeSemaphore,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    reservation: Reservation,
    payload_bytes_max: u64,
    /// Held from before a claim until its firings are counted, if the first firing may exceed the
    /// reservation.
    permit: Option<OwnedSemaphorePermit>,
}

/// Memory for the first firings of running claims, where they exceed their reservations.
#[derive(Debug, Clone)]
pub(crate) struct OversizeSemaphore {
    kib: Arc<Semaphore>,
    kib_max: u32,
}

impl OversizeSemaphore {
    /// Creates it with half of the budget, but at least one payload.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let kib_max = kib(budget_bytes as u64 / 2).max(kib(PAYLOAD_BYTES_HARD));
        Self { kib: Arc::new(Semaphore::new(kib_max as usize)), kib_max }
    }

    async fn acquire(&self, bytes: u64) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.kib).acquire_many_owned(kib(bytes).min(self.kib_max)).await;
        permit.expect("it is never closed")
    }
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

impl LeaseReservation {
    /// Creates an empty reservation.
    pub(crate) fn new(budget: &Budget) -> Self {
        let inner =
            Inner { reservation: budget.empty_reservation(), payload_bytes_max: 0, permit: None };
        Self { oversize: budget.oversize(), inner: Mutex::new(inner) }
    }

    /// Returns the reservation for firings and as much for their text. A lease that is still running
    /// finds an empty one.
    ///
    /// # Errors
    /// When one large firing exceeds the capacity: a claim returns at least one firing of any size. Its
    /// claim must be released.
    pub(crate) fn for_firings(
        &self,
        budget: &Budget,
        firings: &[Firing],
    ) -> Result<Reservation, Problem> {
        let bytes = firings.iter().map(memory_bytes).sum::<usize>();
        self.resize(budget, 2 * bytes)
    }

    /// Returns the reservation, resized to the response. A lease that is still running finds an empty
    /// one.
    ///
    /// # Errors
    /// When the response exceeds the capacity: the reservation counts payloads and headers, and a claim
    /// returns at least one firing of any size. Its claims must be released.
    pub(crate) fn for_response(
        &self,
        budget: &Budget,
        bytes: usize,
    ) -> Result<Reservation, Problem> {
        let mut reservation = self.resize(budget, bytes)?;
        reservation.shrink_to(bytes);
        Ok(reservation)
    }

    fn resize(&self, budget: &Budget, bytes: usize) -> Result<Reservation, Problem> {
        let mut inner = self.inner.lock();
        let mut reservation = std::mem::replace(&mut inner.reservation, budget.empty_reservation());
        let grown = reservation.grow_to(bytes);
        inner.permit = None;
        grown.map(|()| reservation)
    }
}

/// Returns the approximate bytes of memory of a firing.
fn memory_bytes(firing: &Firing) -> usize {
    let own = size_of::<Firing>() + size_of::<TimerSpec>();
    own.saturating_add(usize::try_from(firing.bytes()).unwrap_or(usize::MAX))
}

impl LeaseMemory for LeaseReservation {
    fn expect(&self, payload_bytes_max: u64) {
        self.inner.lock().payload_bytes_max = payload_bytes_max;
    }

    fn set_aside(&self, bytes_max: u64) -> BoxFuture<'_, Option<u64>> {
        // Half for the firings, half for their text.
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_mul(2);
        Box::pin(async move {
            let (set_aside, payload_bytes_max) = {
                let mut inner = self.inner.lock();
                let least = bytes.min(SMALL_BYTES_MAX);
                let set_aside = inner.reservation.grow_up_to(bytes, least).ok()? as u64 / 2;
                (set_aside, inner.payload_bytes_max)
            };
            if payload_bytes_max > set_aside {
                let permit = self.oversize.acquire(payload_bytes_max).await;
                let mut inner = self.inner.lock();
                inner.permit = Some(permit);
                let with_text = usize::try_from(2 * payload_bytes_max).unwrap_or(usize::MAX);
                // A claim that is released is written again with its payload.
                if inner.reservation.grow_to(with_text).is_err()
                    && payload_bytes_max > RELEASED_BYTES_MAX
                {
                    return None;
                }
            }
            Some(set_aside)
        })
    }

    fn let_go(&self) {
        let mut inner = self.inner.lock();
        inner.reservation.shrink_to(0);
        inner.permit = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[tokio::test]
    async fn p10_claims_shrink_with_the_free_budget() {
        let budget = Budget::new(4 * 1024 * 1024);
        let lease = LeaseReservation::new(&budget);
        assert_eq!(lease.set_aside(MIB).await, Some(MIB));
        lease.let_go();
        let others = budget.reserve_unchecked(1024 * 1024 + 500_000);
        assert_eq!(lease.set_aside(MIB).await, Some(MIB / 4), "and as much for the text");
        let more = budget.reserve_unchecked(1024 * 1024);
        lease.let_go();
        assert_eq!(
            lease.set_aside(MIB).await,
            Some(SMALL_BYTES_MAX as u64 / 2),
            "of the last quarter"
        );
        lease.let_go();
        let rest = budget.reserve_unchecked(1024 * 1024 + 500_000);
        assert_eq!(lease.set_aside(MIB).await, None);
        drop((others, more, rest));
        assert_eq!(lease.set_aside(MIB).await, Some(MIB));
        let reservation = lease.for_response(&budget, 1_000_000).unwrap();
        assert!(budget.reserve(3 * 1024 * 1024).is_err());
        assert!(budget.reserve(3 * 1024 * 1024 - 1_000_000).is_ok(), "what is not used goes back");
        drop(reservation);
        assert!(budget.reserve(3 * 1024 * 1024).is_ok());
    }

    #[tokio::test]
    async fn p10_no_claim_without_capacity_for_a_large_payload() {
        let budget = Budget::new(72 * 1024 * 1024);
        let leases: Vec<_> = (0..3).map(|_| LeaseReservation::new(&budget)).collect();
        leases.iter().for_each(|lease| lease.expect(16 * MIB));
        assert_eq!(leases[0].set_aside(MIB).await, Some(MIB));
        assert_eq!(leases[1].set_aside(MIB).await, None, "with its text, one fits");
        let mut third = leases[2].set_aside(MIB);
        assert!(futures::poll!(&mut third).is_pending(), "it waits for the others");
        leases[0].let_go();
        leases[1].let_go();
        assert_eq!(third.await, Some(MIB));
        // If no payload exceeds the reservation, no claim waits.
        let small = LeaseReservation::new(&budget);
        small.expect(MIB);
        assert_eq!(small.set_aside(MIB).await, Some(MIB));
    }
}
