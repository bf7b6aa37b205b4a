//! Reserves memory for the results of a call before the store reads them (P10).
//!
//! ```text
//!   reservation ──► bytes_max of the store's call ──► views ──► text, in parts, beyond the views
//!     │            half of the reservation              │
//!     └── less with little capacity                     └── released when the text is written
//! ```
//!
//! 1. A store reads no more than `bytes_max`.
//! 2. If that is too little for the first timer, the store returns the bytes of that timer. The
//!    reservation grows to them, or the call is refused.

use duly_core::{NamespaceName, TimerId};
use duly_store::{
    Error, Page, Partial, TimerView,
    query::{ListRequest, PAGE_BYTES},
};

use super::Admitted;
use crate::{
    memory::budget::{Reservation, SMALL_BYTES_MAX, TINY_BYTES_MAX, over_budget},
    problem::Problem,
};

/// Most attempts of one read: a timer may grow after the store has returned its size.
pub(super) const ATTEMPTS_MAX: usize = 4;
/// Least memory of a page of one shard.
const SHARD_BYTES_MIN: usize = 16 * 1024;

/// A result of a read, with its memory.
#[derive(Debug)]
pub(crate) struct ReadResult<T> {
    /// The result.
    pub(crate) value: T,
    /// The reservation of the result.
    pub(crate) reservation: Reservation,
    /// The rest of the reservation, for the text of the result.
    pub(crate) rest: Reservation,
}

/// Returns half of a reservation, in which a store may read.
fn half(reservation: &Reservation) -> u64 {
    (reservation.bytes() / 2) as u64
}

/// Grows a reservation to twice the bytes of a timer: for the timer and for its text.
pub(super) fn grow_for_timer(reservation: &mut Reservation, bytes: u64) -> Result<(), Problem> {
    reservation.grow_to(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2))
}

impl Admitted {
    /// Reads one timer, its tombstone, or its latest dead letter.
    pub(crate) async fn read_timer(
        &self,
        namespace: NamespaceName,
        id: TimerId,
    ) -> Result<ReadResult<TimerView>, Problem> {
        let shard = self.sharded().shard_of(&namespace, id.as_str());
        // Enough for most timers. For a larger one the store returns its size.
        let mut reservation = self.budget().empty_reservation();
        reservation.grow_up_to(SMALL_BYTES_MAX, TINY_BYTES_MAX)?;
        for _ in 0..ATTEMPTS_MAX {
            let (name, id) = (namespace.clone(), id.clone());
            match self.store.get(shard, name, id.clone(), half(&reservation)).await {
                Ok(Some(value)) => {
                    let bytes = usize::try_from(value.memory_bytes()).unwrap_or(usize::MAX);
                    let rest = reservation.split(reservation.bytes().saturating_sub(bytes));
                    return Ok(ReadResult { value, reservation, rest });
                }
                Ok(None) if self.store.get_namespace(namespace.clone()).await?.is_none() => {
                    return Err(Problem::no_namespace(namespace.as_str()));
                }
                Ok(None) => return Err(Problem::no_timer(id.as_str(), namespace.as_str())),
                Err(Error::TooLarge { bytes }) => grow_for_timer(&mut reservation, bytes)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(over_budget())
    }

    /// Reads a page of the list over all shards.
    ///
    /// # Errors
    /// A shard is unavailable: a change that follows from the page would leave out the timers of that shard.
    pub(crate) async fn read_page(
        &self,
        request: ListRequest,
    ) -> Result<ReadResult<Page>, Problem> {
        let ReadResult { value, reservation, rest } = self.read_partial_page(request).await?;
        Ok(ReadResult { value: value.whole()?, reservation, rest })
    }

    /// Reads a page of the list over the shards that are available.
    pub(crate) async fn read_partial_page(
        &self,
        request: ListRequest,
    ) -> Result<ReadResult<Partial<Page>>, Problem> {
        let mut reservation = self.budget().empty_reservation();
        let least = SMALL_BYTES_MAX.max(2 * SHARD_BYTES_MIN * self.sharded().shards().len());
        let most = usize::try_from(2 * PAGE_BYTES).unwrap_or(usize::MAX).max(least);
        reservation.grow_up_to(most, least)?;
        let request = ListRequest { bytes_max: half(&reservation), ..request };
        let grow = |bytes| {
            let others = half(&reservation);
            grow_for_timer(&mut reservation, others + bytes)
        };
        let value = self.sharded().list::<Problem>(&request, grow).await?;
        let bytes: u64 = value.value.timers.iter().map(TimerView::memory_bytes).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let rest = reservation.split(reservation.bytes().saturating_sub(bytes));
        Ok(ReadResult { value, reservation, rest })
    }
}
