//! Async counts: walks over the pending timers of one namespace, for forecasts and for the `next_due_at`
//! of stats.
//!
//! ```text
//!   ask ──► queue of counts ──► a few tables of one, a few of the next, … ──► replies
//!            (one namespace each)          (every step)
//! ```
//!
//! How it works:
//!
//! 1. A call for a namespace whose walk has not begun yet joins it, so that many calls cost one walk.
//!    Equal forecasts share one count.
//! 2. A namespace of a few tables is done within one step, so its result is of one moment. A larger one
//!    may change during the walk.
//! 3. The store calls `queue_count`, and the tick calls `async_count`. Both change no timer.
//!
//! What must stay true:
//!
//! 1. A step visits at most [`VISITS_PER_STEP`] entries for one count, plus the rest of the current table.
//!    With twice as many counts it visits half as many entries.
//! 2. A timer that does not change during the walk is counted exactly once.

use duly_core::{Millis, NamespaceName};
use duly_store::{Error, Forecast, ForecastRequest, Result, Stats};
use tokio::sync::oneshot::Sender;

use crate::index::{AttemptKind, Cursor, Entry, Flags, Key};

use super::{DeferredRetry, Engine};
use tally::{CountMoment, EarliestAhead, ForecastCount};

mod tally;

/// Entries that one step visits, for a single count.
pub(super) const VISITS_PER_STEP: usize = 32_768;
/// Cost of a namespace besides its entries, in entries.
const NAMESPACE_VISITS: usize = 64;
/// Different counts that one walk makes.
const COUNTS_MAX: usize = 8;
/// Walks that wait or are under way.
const QUEUED_COUNTS_MAX: usize = 1_024;
/// Calls that may wait for all walks together.
const WAITING_CALLS_MAX: usize = 4_096;

/// A question, and the channel of its reply.
#[derive(Debug)]
pub(crate) enum CountQuestion {
    Stats(Sender<Result<Option<Stats>>>),
    Forecast(ForecastRequest, Sender<Result<Option<Forecast>>>),
}

impl CountQuestion {
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Stats(reply) => drop(reply.send(Err(error))),
            Self::Forecast(_, reply) => drop(reply.send(Err(error))),
        }
    }

    fn reply_none(self) {
        match self {
            Self::Stats(reply) => drop(reply.send(Ok(None))),
            Self::Forecast(_, reply) => drop(reply.send(Ok(None))),
        }
    }
}

/// The walks that wait or are under way, the next one in front.
#[derive(Debug, Default)]
pub(super) struct AsyncCounts {
    queue: std::collections::VecDeque<AsyncCount>,
    /// Entries visited in the last step.
    #[cfg(test)]
    pub(super) visited_entries: usize,
}

/// A walk over one namespace.
#[derive(Debug, Default)]
struct AsyncCount {
    number: u32,
    /// Time at which it began, and to which its counts refer.
    began: Option<CountMoment>,
    cursor: Option<Cursor>,
    /// Place among the deferred retries.
    deferred_from: Option<DeferredRetry>,
    /// Number of retries that are due by the steady clock and counted in no lane: some may be deferred.
    uncounted_retries: u64,
    in_flight: u64,
    earliest: EarliestAhead,
    stats: Vec<Sender<Result<Option<Stats>>>>,
    forecasts: Vec<ForecastCount>,
}

impl AsyncCount {
    fn new(number: u32) -> Self {
        Self { number, cursor: Some(Cursor::START), ..Self::default() }
    }

    /// Adds a question. Returns it if there is no capacity for it.
    fn join(&mut self, question: CountQuestion) -> Option<CountQuestion> {
        match question {
            CountQuestion::Stats(reply) => self.stats.push(reply),
            CountQuestion::Forecast(request, reply) => {
                let known = self
                    .forecasts
                    .iter()
                    .position(|forecast_count| forecast_count.request == request);
                match known {
                    Some(known) => self.forecasts[known].replies.push(reply),
                    None if self.forecasts.len() < COUNTS_MAX => {
                        self.forecasts.push(ForecastCount::new(request, reply));
                    }
                    None => return Some(CountQuestion::Forecast(request, reply)),
                }
            }
        }
        None
    }

    fn waiting_calls(&self) -> usize {
        let forecasts = self.forecasts.iter().map(|forecast_count| forecast_count.replies.len());
        self.stats.len() + forecasts.sum::<usize>()
    }

    /// Drops the callers that have gone. Returns `true` if any is left.
    fn is_wanted(&mut self) -> bool {
        self.stats.retain(|reply| !reply.is_closed());
        for forecast_count in &mut self.forecasts {
            forecast_count.replies.retain(|reply| !reply.is_closed());
        }
        self.forecasts.retain(|forecast_count| !forecast_count.replies.is_empty());
        self.waiting_calls() > 0
    }

    /// Returns the cost of each entry: one for each count.
    fn counts(&self) -> usize {
        (usize::from(!self.stats.is_empty()) + self.forecasts.len()).max(1)
    }

    fn count_entry(&mut self, moment: CountMoment, entry: &Entry) {
        let (flags, claimable) = (entry.flags(), entry.claimable());
        if flags.has(Flags::LEASED) {
            self.in_flight += 1;
            return;
        }
        let at_ms = moment.wall_ms_of(claimable);
        self.forecasts.iter_mut().for_each(|forecast_count| forecast_count.count(moment, at_ms));
        if at_ms > moment.wall_ms {
            if !self.stats.is_empty() {
                self.earliest.offer(at_ms, entry.key(self.number).pack());
            }
        } else if claimable.kind == AttemptKind::Retry && !flags.has(Flags::COUNTED_DUE) {
            self.uncounted_retries += 1;
        }
    }

    /// Moves a deferred retry to the time at which it is claimable: it was counted as overdue.
    fn move_deferred(&mut self, moment: CountMoment, deferred: DeferredRetry) {
        if self.uncounted_retries == 0 {
            return;
        }
        self.uncounted_retries -= 1;
        self.earliest.offer(deferred.due_ms, deferred.key);
        self.forecasts
            .iter_mut()
            .for_each(|forecast_count| forecast_count.recount(moment, deferred.due_ms));
    }
}

impl Engine {
    /// Adds a question about a namespace. One of the next steps sends the reply.
    pub(crate) fn queue_count(&mut self, name: &NamespaceName, mut question: CountQuestion) {
        let Some(number) = self.namespaces.number_of(name) else {
            question.reply_none();
            return;
        };
        self.busy = true;
        let queue = &mut self.async_counts.queue;
        if queue.iter().map(AsyncCount::waiting_calls).sum::<usize>() >= WAITING_CALLS_MAX {
            question.refuse(too_many_waiting(WAITING_CALLS_MAX, "questions"));
            return;
        }
        for async_count in queue.iter_mut().filter(|async_count| async_count.number == number) {
            if async_count.began.is_none() {
                match async_count.join(question) {
                    None => return,
                    Some(back) => question = back,
                }
            }
        }
        if queue.len() >= QUEUED_COUNTS_MAX {
            question.refuse(too_many_waiting(QUEUED_COUNTS_MAX, "walks over namespaces"));
            return;
        }
        let mut async_count = AsyncCount::new(number);
        let back = async_count.join(question);
        debug_assert!(back.is_none(), "a new count has capacity");
        queue.push_back(async_count);
    }

    /// Returns `true` if a call waits for a walk.
    pub(crate) fn is_counting(&self) -> bool {
        !self.async_counts.queue.is_empty()
    }

    /// Runs one step of the walks; called by the tick.
    pub(super) fn run_async_counts(&mut self) {
        let mut visits = 0;
        while visits < VISITS_PER_STEP
            && let Some(mut async_count) = self.async_counts.queue.pop_front()
        {
            if !async_count.is_wanted() {
                continue;
            }
            visits += NAMESPACE_VISITS;
            if self.namespaces.get(async_count.number).is_none() {
                async_count.stats.drain(..).for_each(|reply| drop(reply.send(Ok(None))));
                async_count.forecasts.drain(..).for_each(|forecast| forecast.reply(&Ok(None)));
            } else if self.continue_count(&mut async_count, &mut visits) {
                self.end_count(async_count);
            } else {
                self.async_counts.queue.push_back(async_count);
            }
        }
        #[cfg(test)]
        {
            self.async_counts.visited_entries = visits;
        }
        self.busy |= self.is_counting();
    }

    /// Continues a walk. Returns `true` if it is complete.
    fn continue_count(&self, async_count: &mut AsyncCount, visits: &mut usize) -> bool {
        let now = CountMoment { wall_ms: self.now.wall_ms, steady_ms: self.now.steady_ms };
        let moment = *async_count.began.get_or_insert(now);
        let counts = async_count.counts();
        while let Some(from) = async_count.cursor {
            if *visits >= VISITS_PER_STEP {
                return false;
            }
            let namespace = self.namespaces.get(async_count.number);
            async_count.cursor = namespace.and_then(|namespace| {
                namespace.live.visit(from, |entry| {
                    async_count.count_entry(moment, &entry);
                    *visits += counts;
                })
            });
        }
        self.visit_deferred(async_count, moment, visits)
    }

    /// Finds the namespace's retries that a step back of the wall clock deferred. Returns `true` if all
    /// were visited.
    fn visit_deferred(
        &self,
        async_count: &mut AsyncCount,
        moment: CountMoment,
        visits: &mut usize,
    ) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        if async_count.uncounted_retries == 0 {
            return true;
        }
        let from = async_count.deferred_from.map_or(Unbounded, Excluded);
        for deferred in self.deferred_retries.range((from, Unbounded)) {
            if *visits >= VISITS_PER_STEP {
                return false;
            }
            *visits += 1;
            async_count.deferred_from = Some(*deferred);
            if self.is_deferred(async_count.number, deferred) {
                async_count.move_deferred(moment, *deferred);
            }
        }
        true
    }

    fn is_deferred(&self, number: u32, deferred: &DeferredRetry) -> bool {
        let key = Key::unpack(deferred.key);
        let entry = if key.namespace() == number { self.namespaces.live(key) } else { None };
        entry.is_some_and(|entry| {
            let (flags, claimable) = (entry.flags(), entry.claimable());
            let waits = !flags.has(Flags::LEASED) && !flags.has(Flags::COUNTED_DUE);
            waits && claimable.kind == AttemptKind::Retry && claimable.at_ms == deferred.at_ms
        })
    }

    fn end_count(&self, async_count: AsyncCount) {
        let moment = async_count.began.expect("it has walked");
        for forecast_count in async_count.forecasts {
            forecast_count.reply_all(moment, async_count.in_flight);
        }
        if async_count.stats.is_empty() {
            return;
        }
        let next_due_at = async_count.earliest.first(self.now.wall_ms, |at_ms, key| {
            let key = Key::unpack(key);
            let entry = self.namespaces.live(key)?;
            let now = CountMoment { wall_ms: self.now.wall_ms, steady_ms: self.now.steady_ms };
            let at = now.wall_ms_of(entry.claimable());
            // A deferred retry waits for the time that it was offered with.
            let is_held = entry.claimable().kind == AttemptKind::Retry && at <= now.wall_ms;
            (!entry.flags().has(Flags::LEASED)).then_some(if is_held { at_ms } else { at })
        });
        let stats = self.counts_of(async_count.number).map(|stats| Stats { next_due_at, ..stats });
        for reply in async_count.stats {
            drop(reply.send(Ok(stats.clone())));
        }
    }

    /// Fails all questions.
    pub(super) fn fail_counts(&mut self, error: &Error) {
        for async_count in self.async_counts.queue.drain(..) {
            for reply in async_count.stats {
                drop(reply.send(Err(error.clone())));
            }
            async_count
                .forecasts
                .into_iter()
                .for_each(|forecast_count| forecast_count.reply(&Err(error.clone())));
        }
    }
}

fn too_many_waiting(max: usize, what: &str) -> Error {
    Error::Overloaded {
        reason: format!("{max} {what} for stats and forecasts wait already; ask again later"),
        retry_after: Millis::from_secs(1),
    }
}

#[cfg(test)]
mod tests;
