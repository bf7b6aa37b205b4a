//! The memory budget of requests and responses, over all connections (P10).
//!
//! 1. A [`Reservation`] is released when it is dropped.
//! 2. The last quarter is kept for small bodies and the last sixteenth for tiny ones. So a few large,
//!    slow bodies and unread lists leave capacity for all other calls.
//! 3. A call that reads reserves its memory before it reads (`service::reading`). Its size is unknown
//!    until then, so such reservations shrink where half of the budget is in use. So a few leases leave
//!    capacity for the settle calls of their consumers.
//! 4. A response to a change that was made cannot be refused any more. Without capacity it waits until
//!    it is the only one that exceeds the budget.
//! 5. Probes and metrics have a second, small budget.
//! 6. A tenant may have a part of the budget: what its callers reserve counts there and in the whole.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::response::Response;
use bytes::Bytes;
use duly_core::{Code, access::TenantName};
use http_body_util::{BodyExt, Collected};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lease_reservation::OversizeSemaphore;
use crate::problem::Problem;

/// Bodies up to this size may use all but the last sixteenth of the budget.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Bodies up to this size may use the whole budget.
pub(crate) const TINY_BYTES_MAX: usize = 4 * 1024;

/// The budget; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    bytes_max: usize,
    /// Held by the one response that may exceed the budget.
    overdraft: Arc<Semaphore>,
    oversize: OversizeSemaphore,
    /// The budget that this one is a part of.
    whole: Option<Whole>,
}

/// The budget that another one is a part of.
#[derive(Debug)]
struct Whole {
    budget: Budget,
    /// The tenant whose part it is.
    tenant: TenantName,
    refuse: RefuseTenant,
}

/// Returns the problem of a tenant that uses all of its bytes.
type RefuseTenant = fn(&TenantName, u64) -> Problem;

/// Bytes that are reserved until this value is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
    /// Held while the reservation exceeds the budget, and the whole that it is a part of.
    overdrafts: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    /// Creates a budget of this number of bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::of(None, bytes_max)
    }

    /// Creates a budget of a tenant that is a part of this one. `refuse` makes the problem of a call that does not fit.
    pub(crate) fn part(&self, bytes_max: usize, tenant: TenantName, refuse: RefuseTenant) -> Self {
        Self::of(Some(Whole { budget: self.clone(), tenant, refuse }), bytes_max)
    }

    fn of(whole: Option<Whole>, bytes_max: usize) -> Self {
        let overdraft = Arc::new(Semaphore::new(1));
        let (used, oversize) = (AtomicUsize::new(0), OversizeSemaphore::new(bytes_max));
        Self(Arc::new(Inner { used, bytes_max, overdraft, oversize, whole }))
    }

    /// Returns the budget that this one is a part of.
    fn whole(&self) -> Option<&Self> {
        self.0.whole.as_ref().map(|whole| &whole.budget)
    }

    /// Returns the reserved bytes.
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Returns its maximum, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// Reserves bytes, if each budget then has no more in use than its `capacity`.
    ///
    /// # Errors
    /// The budget that is full.
    fn take(&self, bytes: usize, capacity: &dyn Fn(&Self) -> usize) -> Result<(), Self> {
        let most = capacity(self);
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        let taken = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map_err(|_| self.clone())?;
        let Some(whole) = self.whole() else { return Ok(()) };
        whole.take(bytes, capacity).inspect_err(|_| {
            self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    /// Returns the problem of a call that does not fit.
    fn problem(&self) -> Problem {
        match &self.0.whole {
            Some(whole) => (whole.refuse)(&whole.tenant, self.0.bytes_max as u64),
            None => over_budget(),
        }
    }

    /// Reserves bytes without a check.
    fn take_unchecked(&self, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = self.whole() {
            whole.take_unchecked(bytes);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = self.whole() {
            whole.give_back(bytes);
        }
    }

    /// Returns the memory of first firings that are larger than their reservation.
    pub(super) fn oversize(&self) -> OversizeSemaphore {
        self.0.oversize.clone()
    }

    /// Returns an empty reservation.
    pub(crate) fn empty_reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0, overdrafts: Vec::new() }
    }

    /// Reserves bytes, if there is capacity.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, Problem> {
        let mut reservation = self.empty_reservation();
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    /// Reserves the bytes of a stream and of its head, if there is capacity for a body of the size of the head.
    pub(crate) fn reserve_stream(&self, bytes: usize, head_bytes: usize) -> Option<Reservation> {
        let mut reservation = self.empty_reservation();
        let capacity = |budget: &Self| budget.capacity_for(head_bytes);
        reservation.grow_within(bytes.saturating_add(head_bytes), &capacity).ok()?;
        Some(reservation)
    }

    /// Reserves bytes for memory that is in use already and cannot be refused.
    pub(crate) fn reserve_unchecked(&self, bytes: usize) -> Reservation {
        self.take_unchecked(bytes);
        let mut reservation = self.empty_reservation();
        reservation.bytes = bytes;
        reservation
    }

    /// Returns the largest body that fits into an unused budget.
    pub(crate) fn largest_body(&self) -> usize {
        let own = self.capacity_for(usize::MAX);
        self.whole().map_or(own, |whole| own.min(whole.largest_body()))
    }

    /// Returns the name of the limit that bounds the largest body.
    pub(crate) fn limit_name(&self) -> &'static str {
        match self.0.whole {
            Some(_) => "max_request_bytes of your tenant",
            None => "server.request_memory_max",
        }
    }

    /// Returns the bytes of the budget that may be in use once a reservation of this size is part of it.
    fn capacity_for(&self, bytes: usize) -> usize {
        let all = self.0.bytes_max;
        if bytes <= TINY_BYTES_MAX {
            all
        } else if bytes <= SMALL_BYTES_MAX {
            all - all / 16
        } else {
            all - all / 4
        }
    }
}

impl Reservation {
    /// Grows to at least this size, if there is capacity; otherwise nothing changes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        self.try_grow_to(bytes).map_err(|full| full.problem())
    }

    fn try_grow_to(&mut self, bytes: usize) -> Result<(), Budget> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.grow_within(bytes, &|budget| budget.capacity_for(bytes))
    }

    fn grow_within(
        &mut self,
        bytes: usize,
        capacity: &dyn Fn(&Budget) -> usize,
    ) -> Result<(), Budget> {
        let more = bytes.saturating_sub(self.bytes);
        self.budget.take(more, capacity)?;
        self.bytes += more;
        Ok(())
    }

    /// Returns the reserved bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows to the largest size that fits into half of the budget: `bytes`, a quarter of that, and so
    /// on; at least to `least`, which may use more. Returns its bytes.
    pub(crate) fn grow_up_to(&mut self, bytes: usize, least: usize) -> Result<usize, Problem> {
        let mut wanted = bytes;
        while wanted > least {
            if self.grow_within(wanted, &|budget| budget.0.bytes_max / 2).is_ok() {
                return Ok(self.bytes);
            }
            wanted /= 4;
        }
        self.grow_to(least)?;
        Ok(self.bytes)
    }

    /// Grows to at least this size, for the response to a change that was made. If needed it exceeds the
    /// budget, once no other response does.
    pub(crate) async fn grow_past_budget_to(&mut self, bytes: usize) {
        if self.try_grow_to(bytes).is_ok() {
            return;
        }
        // First that of the part: a tenant waits for its own responses before it holds up those of others.
        let whole = self.budget.whole();
        let exceeded: Vec<_> = [Some(&self.budget), whole].into_iter().flatten().cloned().collect();
        for budget in exceeded.iter().skip(self.overdrafts.len()) {
            let permit = Arc::clone(&budget.0.overdraft).acquire_owned().await;
            self.overdrafts.push(permit.expect("it is never closed"));
            if self.try_grow_to(bytes).is_ok() {
                return;
            }
            let more = bytes.saturating_sub(self.bytes);
            if whole_has_room(&self.budget, more) {
                break;
            }
        }
        if self.try_grow_to(bytes).is_err() {
            let more = bytes.saturating_sub(self.bytes);
            self.budget.take_unchecked(more);
            self.bytes += more;
        }
    }

    /// Adds another reservation.
    pub(crate) fn join(&mut self, mut other: Self) {
        if !Arc::ptr_eq(&self.budget.0, &other.budget.0) {
            // A tenant got its part, or another one, between the two.
            self.budget.take_unchecked(other.bytes);
            self.bytes += other.bytes;
            return;
        }
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Splits off bytes as a reservation of their own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let mut part = self.budget.empty_reservation();
        part.bytes = bytes;
        part
    }

    /// Releases all but this number of bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.give_back(less);
        self.bytes -= less;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Returns the problem of a full budget.
pub(crate) fn over_budget() -> Problem {
    Problem::temporary(
        Code::ResourceExhausted,
        "too little request memory is free: send smaller or fewer requests at a time, ask for \
         smaller pages, read responses as they arrive, or raise server.request_memory_max (of a tenant: \
         max_request_bytes)",
    )
}

/// Returns `true` if a part can grow by these bytes without exceeding the whole.
fn whole_has_room(part: &Budget, more: usize) -> bool {
    part.whole().is_some_and(|it| it.used().saturating_add(more) <= it.capacity_for(more))
}

/// A mark of a response that is counted already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IsCounted;

/// Counts a response, whose body is in memory, against `reservation`.
pub(crate) async fn count(response: Response, reservation: Reservation) -> Response {
    let (head, body) = response.into_parts();
    // A body of one part is not copied.
    let whole = body.collect().await.map(Collected::to_bytes);
    let counted = whole.map(|bytes| count_bytes(bytes, reservation));
    Response::from_parts(head, counted.unwrap_or_default().into())
}

/// Returns bytes that count against `reservation` while any part of them is held.
pub(crate) fn count_bytes(
    bytes: impl AsRef<[u8]> + Send + 'static,
    reservation: Reservation,
) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _reservation: reservation })
}

/// Bytes with their reservation.
struct CountedBytes<B> {
    bytes: B,
    _reservation: Reservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for CountedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(_: &TenantName, _: u64) -> Problem {
        over_budget()
    }

    const MIB: usize = 1024 * 1024;

    fn used(budget: &Budget) -> usize {
        budget.used()
    }

    #[test]
    fn a_full_part_leaves_the_rest_to_others() {
        let whole = Budget::new(8 * MIB);
        let part = whole.part(2 * MIB, TenantName::new("acme").unwrap(), refuse);
        let mut own = part.reserve(MIB).unwrap();
        assert_eq!((used(&part), used(&whole)), (MIB, MIB));
        let refused = part.reserve(MIB).unwrap_err().into_body();
        assert!(refused.detail.contains("max_request_bytes"), "{}", refused.detail);
        assert_eq!((used(&part), used(&whole)), (MIB, MIB));
        assert_eq!(part.largest_body(), 2 * MIB - MIB / 2);
        let others = whole.reserve(5 * MIB).unwrap();
        let refused = part.reserve(SMALL_BYTES_MAX + 1).unwrap_err().into_body();
        assert!(refused.detail.contains("request_memory_max"), "{}", refused.detail);
        own.join(whole.reserve(1).unwrap());
        let rest = own.split(MIB);
        assert_eq!((used(&part), used(&whole)), (MIB + 1, 6 * MIB + 1));
        drop((own, rest, others));
        assert_eq!((used(&part), used(&whole)), (0, 0));
    }

    #[test]
    fn p10_large_bodies_leave_a_quarter_to_small_ones() {
        let budget = Budget::new(4 * MIB);
        let large = budget.reserve(3 * MIB).unwrap();
        let refused = budget.reserve(SMALL_BYTES_MAX + 1).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(refused.into_body().retry_after_ms, Some(1_000));
        let small: Vec<_> = (0..12).map(|_| budget.reserve(SMALL_BYTES_MAX).unwrap()).collect();
        assert!(budget.reserve(TINY_BYTES_MAX + 1).is_err(), "a sixteenth is kept for tiny ones");
        let tiny: Vec<_> = (0..64).map(|_| budget.reserve(TINY_BYTES_MAX).unwrap()).collect();
        assert_eq!(used(&budget), 4 * MIB);
        assert!(budget.reserve(1).is_err());
        drop(large);
        assert!(budget.reserve(1).is_ok());
        drop((small, tiny));
        assert_eq!(used(&budget), 0);
    }

    #[tokio::test]
    async fn p10_one_response_at_a_time_exceeds_the_budget() {
        let budget = Budget::new(4 * MIB);
        let full = budget.reserve_unchecked(4 * MIB);
        let mut first = budget.empty_reservation();
        first.grow_past_budget_to(MIB).await;
        assert_eq!(used(&budget), 5 * MIB);
        let mut second = budget.empty_reservation();
        {
            let mut waits = std::pin::pin!(second.grow_past_budget_to(MIB));
            assert!(futures::poll!(waits.as_mut()).is_pending());
            drop((first, full));
            waits.await;
        }
        assert_eq!(used(&budget), MIB);
        drop(second);
        assert_eq!(used(&budget), 0);
    }

    #[tokio::test]
    async fn p10_parts_share_the_overdraft_of_the_whole() {
        let whole = Budget::new(4 * MIB);
        let part = |name| whole.part(MIB, TenantName::new(name).unwrap(), refuse);
        let (one, other) = (part("one"), part("other"));
        // A part that is exceeded leaves the overdraft of the whole to others.
        let mut first = one.empty_reservation();
        first.grow_past_budget_to(2 * MIB).await;
        let full = whole.reserve_unchecked(3 * MIB);
        let mut second = other.empty_reservation();
        second.grow_past_budget_to(MIB).await;
        assert_eq!(used(&whole), 6 * MIB);
        let mut third = whole.empty_reservation();
        {
            let mut waits = std::pin::pin!(third.grow_past_budget_to(MIB));
            assert!(futures::poll!(waits.as_mut()).is_pending(), "one response exceeds the whole");
            drop((first, second, full));
            waits.await;
        }
        drop(third);
        assert_eq!(used(&whole), 0);
    }

    #[test]
    fn p10_reservations_shrink_with_the_free_budget() {
        let budget = Budget::new(4 * MIB);
        let others = budget.reserve_unchecked(MIB);
        let mut reservation = budget.empty_reservation();
        assert_eq!(reservation.grow_up_to(4 * MIB, 1_000).unwrap(), MIB);
        let half = reservation.split(MIB / 2);
        drop(reservation);
        assert_eq!(used(&budget), MIB + MIB / 2);
        drop((half, others));
        assert_eq!(used(&budget), 0);
    }

    /// Regression: three leases of 32 MiB left nothing to the settle calls of a batch consumer.
    #[test]
    fn p10_leases_leave_capacity_for_settle_calls() {
        let budget = Budget::new(4 * MIB);
        let mut leases: Vec<_> = (0..8).map(|_| budget.empty_reservation()).collect();
        for lease in &mut leases {
            lease.grow_up_to(MIB, SMALL_BYTES_MAX).unwrap();
        }
        let settle = budget.reserve(MIB / 2);
        assert!(settle.is_ok(), "{} bytes are in use", used(&budget));
    }

    #[test]
    fn p10_a_refused_reservation_changes_nothing() {
        let budget = Budget::new(4 * MIB);
        let mut reservation = budget.reserve(MIB).unwrap();
        assert!(reservation.grow_to(4 * MIB).is_err());
        assert_eq!(used(&budget), MIB);
        let made = budget.reserve_unchecked(8 * MIB);
        assert!(budget.reserve(1).is_err(), "an answer that had to be counted stops new requests");
        drop(made);
        reservation.grow_to(2 * MIB).unwrap();
        reservation.shrink_to(10);
        assert_eq!(used(&budget), 10);
    }

    #[tokio::test]
    async fn p10_responses_count_until_their_last_byte_is_released() {
        let budget = Budget::new(MIB);
        let response = Response::new(vec![7; 1_000].into());
        let mut body = count(response, budget.reserve(1_000).unwrap()).await.into_body();
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let rest = frame.slice(999..);
        drop(frame);
        assert_eq!(used(&budget), 1_000, "the connection still holds a part of it");
        drop(rest);
        assert_eq!(used(&budget), 0);
    }
}
