//! The calls for timers: [`Timers`].

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};
use tokio::sync::watch;

use crate::{
    ClaimRequest, Claimed, Command, Forecast, ForecastRequest, ListRequest, MemberId, Outcome,
    Page, Ready, ReadyCursor, SettleOutcome, Settlement, Stats, StoreFuture, TimerView,
};

/// Namespaces that a store without a cheaper call counts at the same time.
const COUNTED_AT_ONCE: usize = 8;

/// The calls for timers, each in one shard. See [`Store`](crate::Store) for the promises.
pub trait Timers: Send + Sync {
    /// Returns the number of shards of the deployment; fixed at set-up.
    fn shards(&self) -> u16;

    /// Carries out operations. Each is atomic, and all are durable when the call returns. The outcomes have
    /// the order of the commands, and operations on one id run in this order. After an error of the whole
    /// call it is not known which items were carried out, unless the error says that nothing was done.
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>>;

    /// Returns about `limit` lanes that have something claimable, after the cursor `after`. The store
    /// decides where exactly a page ends.
    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready>;

    /// Grants leases on due firings of the named lanes, lane by lane in the order named. It may grant less
    /// than is asked for and available; then [`Claimed::more`] names the lane. If it fails after some
    /// grants, it returns these grants instead of the error.
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed>;

    /// Applies verdicts to leased firings. They are durable when the call returns.
    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>>;

    /// Ends all leases of the member `member_id` of the deployment; the attempts count. Returns the number of
    /// leases. It may work in slices. A store that nodes share grants nothing to this member from the start
    /// of the call.
    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64>;

    /// Returns a timer, tombstone or latest dead letter by its id, if it takes at most `bytes_max` bytes of
    /// memory ([`TimerView::memory_bytes`]).
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error) if it takes more memory. Like every call that changes nothing (lists, counts and
    /// settings as well), it never fails with [`Error::InDoubt`](crate::Error).
    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>>;

    /// Returns a page of timers in (due time, id) order. A timer that does not change during paging is
    /// returned exactly once. A page may be short or even empty and still have a next position, because the
    /// store bounds the timers that it examines. The memory of a page is bounded by the request
    /// ([`ListRequest::bytes_max`]).
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page>;

    /// Returns the counts of a namespace in this shard; `None` if there is no such namespace. The counts are
    /// of one moment. [`Stats::next_due_at`] of a very large namespace may be slightly older.
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>>;

    /// Returns the counts of namespaces in this shard in their order, without [`Stats::next_due_at`]; `None` for
    /// one that does not exist. The cost does not depend on the number of timers.
    fn counts(
        &self,
        shard: ShardId,
        names: Vec<NamespaceName>,
    ) -> StoreFuture<'_, Vec<Option<Stats>>> {
        let without_next = |stats: Option<Stats>| Stats { next_due_at: None, ..stats? }.into();
        let counts =
            names.into_iter().map(move |name| self.stats(shard, name).map_ok(without_next));
        stream::iter(counts).buffered(COUNTED_AT_ONCE).try_collect().boxed()
    }

    /// Returns how many pending timers of a namespace in this shard become claimable in which period; `None`
    /// if there is no such namespace. A timer that does not change during the call is counted exactly once.
    /// A timer that changes may be counted as before, as after, or not at all. Too many forecasts at the
    /// same time are refused as overload.
    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>>;

    /// Returns a counter that grows when something in a shard became claimable, or will do so earlier than
    /// the last `next_due_in`. Only a change of the counter has a meaning. A lost change costs at most one
    /// second, because callers sleep no longer than that.
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64>;
}
