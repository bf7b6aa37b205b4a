//! All shards of a store as one: the only code that groups by shard, calls the shards, and merges.
//!
//! Shards are called at the same time, each once. Partial failures:
//! 1. In a call with many items each shard fails on its own: its items get its error, and items of other
//!    shards are not affected. The call fails only if all the shards fail that it needs.
//! 2. A read over all shards goes on without shards that are unavailable, and names them ([`Partial`]). The
//!    call fails if all shards are unavailable, and with any other error.

use std::collections::BTreeMap;

use duly_core::{
    NamespaceName,
    shard::{ShardId, shard_of},
};
use futures::future::join_all;

use crate::{
    Command, Error, Forecast, ForecastRequest, ListRequest, Outcome, Page, Refusal, Result,
    SettleOutcome, Settlement, Stats, Store, StoreFuture, query::Position,
};

#[cfg(test)]
mod tests;

/// The result of a read over all shards, with the shards that were unavailable and are not in it.
#[must_use]
#[derive(Debug, Clone, PartialEq)]
pub struct Partial<T> {
    /// The result of the shards that replied.
    pub value: T,
    /// The shards that did not, in their order, with the error of each.
    pub unavailable: Vec<(ShardId, Error)>,
}

impl<T> Partial<T> {
    /// Returns the result of all shards.
    ///
    /// # Errors
    /// The error of the first shard that was unavailable.
    pub fn whole(self) -> Result<T> {
        match self.unavailable.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.value),
        }
    }

    /// Returns the numbers of the shards that are not in the result.
    pub fn unavailable_shards(&self) -> Vec<u32> {
        self.unavailable.iter().map(|(shard, _)| shard.0.into()).collect()
    }

    fn map<U>(self, map: impl FnOnce(T) -> U) -> Partial<U> {
        Partial { value: map(self.value), unavailable: self.unavailable }
    }
}

impl<T> Partial<Vec<T>> {
    /// Collects what the shards returned.
    ///
    /// # Errors
    /// The first error other than [`Error::Unavailable`], or the first error if all shards were unavailable.
    fn collect(results: impl IntoIterator<Item = (ShardId, Result<T>)>) -> Result<Self> {
        let (mut value, mut unavailable) = (Vec::new(), Vec::new());
        for (shard, result) in results {
            match result {
                Ok(found) => value.push(found),
                Err(error @ Error::Unavailable { .. }) => unavailable.push((shard, error)),
                Err(error) => return Err(error),
            }
        }
        match unavailable.first() {
            Some((_, error)) if value.is_empty() => Err(error.clone()),
            _ => Ok(Self { value, unavailable }),
        }
    }
}

impl<T> Partial<Option<T>> {
    /// Returns the result with a value; `None` if no shard has one.
    ///
    /// # Errors
    /// The error of an unavailable shard, if no other shard has a value.
    fn or_unavailable(self) -> Result<Option<Partial<T>>> {
        let Self { value, unavailable } = self;
        match (value, unavailable.first()) {
            (Some(value), _) => Ok(Some(Partial { value, unavailable })),
            (None, Some((_, error))) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }
}

/// Maximum number of repeated reads of the first timer of a shard, if it takes more memory than it said
/// before.
const REREADS_MAX: usize = 4;

/// All shards of a store.
#[derive(Debug, Clone, Copy)]
pub struct Sharded<'a>(&'a dyn Store);

impl<'a> Sharded<'a> {
    /// Creates the view of a store as one shard.
    pub const fn new(store: &'a dyn Store) -> Self {
        Self(store)
    }

    /// Returns the shards.
    pub fn shards(self) -> impl ExactSizeIterator<Item = ShardId> + use<> {
        (0..self.0.shards()).map(ShardId)
    }

    /// Returns the shard of a timer.
    pub fn shard_of(self, namespace: &NamespaceName, id: &str) -> ShardId {
        shard_of(namespace.as_str(), id, self.0.shards())
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// The error of its shard.
    pub async fn apply_one(self, command: Command) -> Result<Outcome> {
        let outcomes = match command.shard(self.0.shards()) {
            Some(shard) => self.0.apply(shard, vec![command]).await?,
            None => self.apply(vec![command]).await?,
        };
        outcomes.into_iter().next().ok_or_else(no_outcome)
    }

    /// Carries out commands. Returns one outcome for each, in their order. A dead letter named by its
    /// delivery id may be in any shard, so it is looked up in all of them.
    ///
    /// # Errors
    /// The error of the first shard, if all fail.
    pub async fn apply(self, commands: Vec<Command>) -> Result<Vec<Outcome>> {
        if self.0.shards() == 1 {
            return self.0.apply(ShardId(0), commands).await;
        }
        let mut items = Vec::with_capacity(commands.len());
        // Number of items of each command.
        let mut counts = Vec::with_capacity(commands.len());
        for command in commands {
            let before = items.len();
            match command.shard(self.0.shards()) {
                Some(shard) => items.push((shard, command)),
                None => items.extend(self.shards().map(|shard| (shard, command.clone()))),
            }
            counts.push(items.len() - before);
        }
        let results = self.fan_out(items, |shard, commands| self.0.apply(shard, commands)).await?;
        let mut outcomes = results.into_iter().map(|it| it.unwrap_or_else(Outcome::Failed));
        let of_command = |count| outcomes.by_ref().take(count).min_by_key(rank);
        Ok(counts.into_iter().filter_map(of_command).collect())
    }

    /// Settles leases. Returns one outcome for each settlement, in their order.
    ///
    /// # Errors
    /// The error of the first shard, if all fail.
    pub async fn settle(self, settlements: Vec<Settlement>) -> Result<Vec<Result<SettleOutcome>>> {
        let shards = self.0.shards();
        if shards == 1 {
            let outcomes = self.0.settle(ShardId(0), settlements).await?;
            return Ok(outcomes.into_iter().map(Ok).collect());
        }
        let mut outcomes: Vec<_> =
            settlements.iter().map(|_| Ok(SettleOutcome::InvalidToken)).collect();
        let (indexes, items): (Vec<_>, Vec<_>) = settlements
            .into_iter()
            .map(|settlement| (settlement.token.shard(), settlement))
            .enumerate()
            .filter(|(_, (shard, _))| shard.0 < shards)
            .unzip();
        let results = self.fan_out(items, |shard, items| self.0.settle(shard, items)).await?;
        for (index, outcome) in indexes.into_iter().zip(results) {
            outcomes[index] = outcome;
        }
        Ok(outcomes)
    }

    /// Reads a page of the list over all shards. Each shard may use an equal part of the memory of the
    /// request. If the first timer of a shard takes more, `grow` is called to allow that many bytes more.
    ///
    /// # Errors
    /// That of [`Partial`], or of `grow`.
    pub async fn list<E: From<Error>>(
        self,
        request: &ListRequest,
        mut grow: impl FnMut(u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<Partial<Page>, E> {
        let bytes_max = request.bytes_max / self.shards().len().max(1) as u64;
        let part = ListRequest { bytes_max, ..request.clone() };
        let mut pages = self.ask_all(|shard| self.0.list(shard, part.clone())).await;
        for (shard, page) in &mut pages {
            for _ in 0..REREADS_MAX {
                let Err(Error::TooLarge { bytes }) = *page else { break };
                grow(bytes)?;
                let first = ListRequest { limit: 1, bytes_max: bytes, ..request.clone() };
                *page = self.0.list(*shard, first).await;
            }
        }
        Ok(Partial::collect(pages)?.map(|pages| merge_pages(pages, request.limit)))
    }

    /// Returns the counts of a namespace, with its lanes in order of their keys; `None` if no shard has the
    /// namespace.
    ///
    /// # Errors
    /// That of [`Partial`], and that of an unavailable shard if no other has the namespace.
    pub async fn stats(self, namespace: &NamespaceName) -> Result<Option<Partial<Stats>>> {
        let shards = self.ask_all(|shard| self.0.stats(shard, namespace.clone())).await;
        let sum = |shards: Vec<_>| shards.into_iter().flatten().reduce(Stats::merge);
        let mut stats = Partial::collect(shards)?.map(sum).or_unavailable()?;
        if let Some(stats) = &mut stats {
            stats.value.lanes.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(stats)
    }

    /// Returns the counts of namespaces in their order, without [`Stats::next_due_at`]; `None` for one that no
    /// shard has.
    ///
    /// # Errors
    /// That of [`Partial`].
    pub async fn counts(self, names: &[NamespaceName]) -> Result<Partial<Vec<Option<Stats>>>> {
        let shards = self.ask_all(|shard| self.0.counts(shard, names.to_vec())).await;
        let sum = |shards: Vec<Vec<Option<Stats>>>| {
            let mut all: Vec<Option<Stats>> = vec![None; names.len()];
            for shard in shards {
                for (sum, counts) in all.iter_mut().zip(shard) {
                    *sum = sum.take().into_iter().chain(counts).reduce(Stats::merge);
                }
            }
            all
        };
        Ok(Partial::collect(shards)?.map(sum))
    }

    /// Returns the forecast of a namespace, as of the shard whose clock is furthest behind; `None` if no
    /// shard has the namespace.
    ///
    /// # Errors
    /// That of [`Partial`], and that of an unavailable shard if no other has the namespace.
    pub async fn forecast(self, request: &ForecastRequest) -> Result<Option<Partial<Forecast>>> {
        let shards = self.ask_all(|shard| self.0.forecast(shard, request.clone())).await;
        let sum = |shards: Vec<_>| shards.into_iter().flatten().reduce(Forecast::merge);
        Partial::collect(shards)?.map(sum).or_unavailable()
    }

    /// Calls all shards at the same time. Returns the result of each, in their order.
    async fn ask_all<T>(
        self,
        ask: impl Fn(ShardId) -> StoreFuture<'a, T>,
    ) -> Vec<(ShardId, Result<T>)> {
        let calls = self.shards().map(|shard| {
            let reply = ask(shard);
            async move { (shard, reply.await) }
        });
        join_all(calls).await
    }

    /// Groups items by shard, calls each shard once, and returns the results in the order of the items.
    async fn fan_out<T, R>(
        self,
        items: Vec<(ShardId, T)>,
        call: impl Fn(ShardId, Vec<T>) -> StoreFuture<'a, Vec<R>>,
    ) -> Result<Vec<Result<R>>> {
        let mut results: Vec<Option<Result<R>>> = items.iter().map(|_| None).collect();
        let mut groups: BTreeMap<ShardId, (Vec<usize>, Vec<T>)> = BTreeMap::new();
        for (index, (shard, item)) in items.into_iter().enumerate() {
            let group = groups.entry(shard).or_default();
            group.0.push(index);
            group.1.push(item);
        }
        let calls = groups.into_iter().map(|(shard, (indexes, items))| {
            let reply = call(shard, items);
            async move { (indexes, reply.await) }
        });
        let replies = join_all(calls).await;
        if let Some((_, Err(error))) = replies.first()
            && replies.iter().all(|(_, reply)| reply.is_err())
        {
            return Err(error.clone());
        }
        for (indexes, reply) in replies {
            let mut reply = reply.map(Vec::into_iter);
            for index in indexes {
                results[index] = match &mut reply {
                    Ok(outcomes) => outcomes.next().map(Ok),
                    Err(error) => Some(Err(error.clone())),
                };
            }
        }
        Ok(results.into_iter().map(|it| it.unwrap_or_else(|| Err(no_outcome()))).collect())
    }
}

/// Returns the order of preference between the outcomes of one command that was sent to several shards. The
/// shard that knows the dead letter comes first; a shard that failed may have known it.
const fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Refused(Refusal::UnknownDeadLetter { .. } | Refusal::UnknownNamespace(_)) => 3,
        Outcome::Failed(_) => 2,
        Outcome::Refused(_) => 1,
        _ => 0,
    }
}

fn no_outcome() -> Error {
    Error::InDoubt { reason: "the store returned no outcome for it".into() }
}

/// Merges one page of each shard into one page of at most `limit` timers, in the order of a single list.
///
/// Every shard returns a page from the same position on. The pages are merged up to the position that the
/// slowest shard has reached, so the next page never has to go back.
fn merge_pages(mut pages: Vec<Page>, limit: usize) -> Page {
    if let [_] = pages[..] {
        return pages.swap_remove(0);
    }
    let examined = pages.iter().map(|page| page.examined).sum();
    let reached: Option<Position> = pages.iter().filter_map(|page| page.next.clone()).min();
    let timers = pages.into_iter().flat_map(|page| page.timers);
    let mut positioned: Vec<_> = timers.map(|view| (Position::of(&view), view)).collect();
    positioned.sort_by(|a, b| a.0.cmp(&b.0));
    let count = positioned.len();
    if let Some(reached) = &reached {
        positioned.retain(|(position, _)| position <= reached);
    }
    let has_withheld = positioned.len() < count;
    let is_cut = positioned.len() > limit;
    positioned.truncate(limit);
    let next = if is_cut {
        positioned.last().map(|(position, _)| position.clone())
    } else if has_withheld || reached.is_some() {
        reached
    } else {
        None
    };
    Page { timers: positioned.into_iter().map(|(_, view)| view).collect(), next, examined }
}
