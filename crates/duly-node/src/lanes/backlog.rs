//! Lanes of one shard that want more than they got.
//!
//! Each is listed by what can help it: a slot of its own (nothing but `waiting`), any worker
//! (`starved`, in turn by the weight of its namespace), or a moment (`timed`). So whatever happens,
//! few lanes are looked at, never all of them.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use duly_core::NamespaceName;
use duly_store::Lane;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    drr::Drr,
    line::Place,
    share::{Demand, Limit, Share},
};

/// Starved lanes looked at for one freed slot.
const STARVED_PER_WAKE: usize = 8;
/// Queue entries of lanes that no longer wait that are not worth a clean-up.
const STALE_MAX: usize = 64;
/// Most lanes that wait at once; the store brings the others back when these have gone.
const WAITING_MAX: usize = 1 << 18;

/// Lanes that wait, each with what it wants.
#[derive(Debug)]
pub(super) struct Backlog {
    waiting: FxHashMap<Lane, Waiting>,
    /// Most lanes that wait at once.
    pub(super) waiting_max: usize,
    /// How many of those are short of workers.
    starved_count: usize,
    /// How many of these want one for a first attempt.
    starved_of_first: usize,
    /// Lanes short of workers, each at most once. May name lanes that do not wait any more, or now
    /// for something else.
    starved: Drr<NamespaceName, Lane>,
    /// The lanes in `starved`.
    queued: FxHashSet<Lane>,
    /// Lanes to be planned at once.
    retry: VecDeque<Lane>,
    /// Lanes that wait for a moment; exactly those whose limit is one.
    timed: BTreeSet<(Duration, Lane)>,
    /// Looks at starved lanes that are owed.
    looks: usize,
}

/// What a waiting lane wants, and what keeps it from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) demand: Demand,
    pub(super) limit: Limit,
    pub(super) share: Share,
    /// Its shard's place among those that want slots of the same lane.
    pub(super) place: Place,
    /// Whether it is to be planned at the next look.
    pub(super) is_called: bool,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            waiting: FxHashMap::default(),
            waiting_max: WAITING_MAX,
            starved_count: 0,
            starved_of_first: 0,
            starved: Drr::default(),
            queued: FxHashSet::default(),
            retry: VecDeque::new(),
            timed: BTreeSet::new(),
            looks: 0,
        }
    }
}

/// What a lane wants, and how it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) demand: Demand,
    pub(super) share: Share,
    /// Its shard's place, if it stands in line already.
    pub(super) place: Option<Place>,
}

impl Waiting {
    /// What it wants still.
    pub(super) const fn wanted(self) -> Wanted {
        Wanted { demand: self.demand, share: self.share, place: Some(self.place) }
    }

    /// Whether a worker helps it to a first attempt.
    fn is_starved_of_first(self) -> bool {
        self.limit == Limit::Workers && self.demand.first > 0
    }
}

impl Backlog {
    /// Notes what a lane still wants; nothing wanted is nothing noted. A lane that is in the queue
    /// keeps its turn.
    pub(super) fn remember(&mut self, lane: &Lane, waiting: Waiting) {
        self.forget(lane);
        if waiting.demand.sum() == 0 || self.waiting.len() >= self.waiting_max {
            return;
        }
        self.waiting.insert(lane.clone(), waiting);
        self.starved_count += usize::from(waiting.limit == Limit::Workers);
        self.starved_of_first += usize::from(waiting.is_starved_of_first());
        if let Some(at) = waiting.limit.until() {
            self.timed.insert((at, lane.clone()));
        }
        if waiting.limit == Limit::Workers && self.queued.insert(lane.clone()) {
            self.starved.push(&lane.namespace, lane.clone(), waiting.share.weight);
            self.drop_stale();
        }
    }

    /// A lane has nothing claimable any more.
    pub(super) fn forget(&mut self, lane: &Lane) {
        let Some(gone) = self.waiting.remove(lane) else {
            return;
        };
        self.starved_count -= usize::from(gone.limit == Limit::Workers);
        self.starved_of_first -= usize::from(gone.is_starved_of_first());
        if let Some(at) = gone.limit.until() {
            self.timed.remove(&(at, lane.clone()));
        }
    }

    /// Forgets a lane that waits for a slot of its own.
    pub(super) fn forget_capped(&mut self, lane: &Lane) {
        if self.get(lane).is_some_and(|waiting| waiting.limit == Limit::Lane) {
            self.forget(lane);
        }
    }

    /// Renews what a starved lane wants, and owes it a look; answers whether it is one. Its turn
    /// stays what it was. One that was short of retries only and has a first attempt now is to be
    /// planned: what kept the retries waiting says nothing of that.
    pub(super) fn renew_starved(&mut self, lane: &Lane, demand: Demand, share: Share) -> bool {
        let known = self.waiting.get_mut(lane).filter(|waiting| waiting.limit == Limit::Workers);
        let Some(waiting) = known else {
            return false;
        };
        if waiting.demand.first == 0 && demand.first > 0 {
            return false;
        }
        let before = waiting.is_starved_of_first();
        (waiting.demand, waiting.share) = (demand, share);
        if before && !waiting.is_starved_of_first() {
            self.starved_of_first -= 1;
        }
        self.owe_looks(1);
        true
    }

    /// How many lanes are short of workers.
    pub(super) const fn starved_count(&self) -> usize {
        self.starved_count
    }

    /// The line of a namespace's lanes that are short of workers, but for its first `skip`; nothing
    /// beside one that is not any more.
    pub(super) fn starved_of(
        &self,
        namespace: &NamespaceName,
        skip: usize,
    ) -> impl Iterator<Item = (&Lane, Option<&Waiting>)> {
        let queued = self.starved.items_of(namespace, skip);
        queued.map(|lane| {
            let waiting = self.waiting.get(lane);
            (lane, waiting.filter(|waiting| waiting.limit == Limit::Workers))
        })
    }

    /// Whether a lane waits for a worker to make a first attempt with.
    pub(super) const fn wants_first(&self) -> bool {
        self.starved_of_first > 0
    }

    /// Whether a lane wants more.
    pub(super) fn waits(&self, lane: &Lane) -> bool {
        self.waiting.contains_key(lane)
    }

    /// What a waiting lane wants, and why it waits.
    pub(super) fn get(&self, lane: &Lane) -> Option<&Waiting> {
        self.waiting.get(lane)
    }

    /// Whether no more lanes can be remembered.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.waiting_max
    }

    /// Has a waiting lane planned again at the next look.
    pub(super) fn retry(&mut self, lane: &Lane) {
        self.call(lane, |_| true);
    }

    /// Has a lane planned at the next look if it waits for one of these; returns whether it does.
    fn call(&mut self, lane: &Lane, is_one: impl FnOnce(Limit) -> bool) -> bool {
        let Some(waiting) = self.waiting.get_mut(lane).filter(|w| is_one(w.limit)) else {
            return false;
        };
        if !std::mem::replace(&mut waiting.is_called, true) {
            self.retry.push_back(lane.clone());
        }
        true
    }

    /// A slot of `lane` was freed. Answers whether somebody here may want it.
    pub(super) fn freed(&mut self, lane: &Lane) -> bool {
        // A starved lane gets its next slot when its turn comes, also when it freed one itself.
        let own = self.call(lane, |limit| matches!(limit, Limit::Lane | Limit::Turn(_)));
        if !self.starved.is_empty() {
            self.owe_looks(STARVED_PER_WAKE);
        }
        own || !self.starved.is_empty()
    }

    /// The place and the demand of a lane that waits for slots of its own, or for its rate.
    pub(super) fn in_line(&mut self, lane: &Lane) -> Option<(&mut Place, usize)> {
        let waiting = self.waiting.get_mut(lane)?;
        let stands = matches!(waiting.limit, Limit::Lane | Limit::Turn(_) | Limit::Rate(_));
        stands.then_some((&mut waiting.place, waiting.demand.sum()))
    }

    /// The receiver of `lane` answered well. Answers whether it waits for that here.
    pub(super) fn receiver_is_back(&mut self, lane: &Lane) -> bool {
        self.call(lane, |limit| matches!(limit, Limit::Breaker(_) | Limit::Lane | Limit::Turn(_)))
    }

    /// Takes a lane to be planned at once, because something of its own changed or its moment has
    /// come. A starved one keeps its turn: its queue entry stays.
    pub(super) fn take_called(&mut self, now: Duration) -> Option<(Lane, Waiting)> {
        while let Some(lane) = self.retry.pop_front() {
            if let Some(taken) = self.take(lane) {
                return Some(taken);
            }
        }
        let (_, lane) = self.timed.first().filter(|(at, _)| *at <= now)?.clone();
        self.take(lane)
    }

    /// The moment at which the next lane is to be planned.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.timed.first().map(|(at, _)| *at)
    }

    /// How many starved lanes to look at, for what happened since the last time: no more than there
    /// are turns worth taking.
    pub(super) fn take_looks(&mut self) -> usize {
        std::mem::take(&mut self.looks)
    }

    /// Looks that were not taken are owed still.
    pub(super) const fn owe_looks(&mut self, looks: usize) {
        self.looks = self.looks.saturating_add(looks);
    }

    /// Takes the starved lane whose turn it is, and how much it may take. What it got must be told
    /// to [`Self::charge`].
    pub(super) fn take_starved(&mut self) -> Option<(Lane, Waiting, usize)> {
        while let Some(turn) = self.starved.next() {
            self.queued.remove(&turn.item);
            match self.waiting.get(&turn.item) {
                Some(waiting) if waiting.limit == Limit::Workers => {
                    let (lane, waiting) = self.take(turn.item)?;
                    return Some((lane, waiting, turn.credit));
                }
                _ => self.starved.skip(),
            }
        }
        None
    }

    /// The starved lane whose turn it was got nothing because its namespace holds its part: it is the
    /// first of its namespace again.
    pub(super) fn deny(&mut self, lane: &Lane) {
        if self.queued.contains(lane) {
            self.starved.deny();
        } else {
            self.starved.charge(0);
        }
    }

    /// What the starved lane got whose turn it was.
    pub(super) fn charge(&mut self, used: usize) {
        self.starved.charge(used);
    }

    /// Keeps the queue in proportion to the lanes that wait: entries of lanes that got what they
    /// wanted another way stay behind in it.
    fn drop_stale(&mut self) {
        if self.starved.len() > 4 * self.waiting.len() + STALE_MAX {
            let (waiting, queued) = (&self.waiting, &mut self.queued);
            self.starved.retain(|lane| {
                let waits = waiting.contains_key(lane);
                if !waits {
                    queued.remove(lane);
                }
                waits
            });
        }
    }

    fn take(&mut self, lane: Lane) -> Option<(Lane, Waiting)> {
        let waiting = *self.waiting.get(&lane)?;
        self.forget(&lane);
        Some((lane, waiting))
    }
}
