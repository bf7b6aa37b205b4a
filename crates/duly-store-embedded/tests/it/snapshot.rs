//! The visible contents of a store, and two checks after a crash: it agrees with itself, and it has what
//! was acknowledged.

use std::collections::BTreeMap;

use duly_core::{State, Timestamp, timer::AttemptOutcome, totals::Totals};
use duly_store::{
    ListRequest, Stats, Store, TimerView,
    namespaces::Namespace,
    query::{Body, ListState, Position},
};

use crate::{
    steps::{SHARD, wait},
    workload::RETENTION,
};

/// Timers of a page: few, so that every snapshot uses paging.
const PAGE: usize = 7;

/// A namespace, the name of a timer in it, and the number of its dead letter.
type Key = (String, String, u64, u32);

/// The visible contents of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) namespaces: BTreeMap<String, (Namespace, Totals)>,
    pub(crate) timers: BTreeMap<Key, TimerView>,
}

impl Snapshot {
    /// Reads everything and checks that lists, single reads and counts agree (T28).
    pub(crate) fn of(store: &dyn Store) -> Self {
        let mut snapshot = Self::default();
        let names = wait(store.list_namespaces(None, 1_000)).expect("namespaces can be listed");
        for namespace in names {
            let stats = wait(store.stats(SHARD, namespace.name.clone()))
                .expect("counts can be read")
                .expect("a namespace that is listed is there");
            let listed = snapshot.list(store, &namespace);
            check_counts(&namespace, &stats, &listed);
            let name = namespace.name.to_string();
            snapshot.namespaces.insert(name, (namespace, stats.totals));
        }
        snapshot
    }

    fn list(&mut self, store: &dyn Store, namespace: &Namespace) -> BTreeMap<State, u64> {
        let mut listed = BTreeMap::new();
        for state in [
            ListState::Pending,
            ListState::Only(State::Finished),
            ListState::Only(State::Cancelled),
            ListState::Only(State::Dead),
        ] {
            for view in pages(store, namespace, state) {
                *listed.entry(view.state).or_default() += 1;
                if view.state != State::Dead {
                    let alone =
                        wait(store.get(SHARD, namespace.name.clone(), view.id().clone(), u64::MAX));
                    assert_eq!(alone, Ok(Some(view.clone())), "a look and a list agree");
                }
                let place = Position::of(&view);
                let name = namespace.name.to_string();
                let key = (name, view.id().to_string(), place.incarnation.0, place.occurrence);
                let twice = self.timers.insert(key, view);
                assert_eq!(twice, None, "a timer is listed once");
            }
        }
        listed
    }

    /// Removes the tombstones that had ended at this time.
    pub(crate) fn without_tombstones_over(mut self, at: Timestamp) -> Self {
        self.timers.retain(|_, view| match &view.body {
            Body::Tombstone(tombstone) => tombstone.ended_at.saturating_add(RETENTION) > at,
            Body::Whole(_) => true,
        });
        self
    }

    /// Removes the times of retries after lost leases. Those wait from the time when the loss was
    /// noticed, by the steady clock, which continues from the last frame that a crash has left.
    pub(crate) fn without_waits_after_lost_leases(mut self) -> Self {
        for view in self.timers.values_mut() {
            if let Body::Whole(timer) = &mut view.body
                && let Some(last) = timer.history.last()
                && last.outcome == AttemptOutcome::LeaseLost
            {
                timer.next_attempt_at = timer.next_attempt_at.map(|_| Timestamp::MIN);
            }
        }
        self
    }

    /// Returns the ids of a namespace's timers that will fire.
    pub(crate) fn pending(&self, namespace: &str) -> Vec<String> {
        let of_namespace = |key: &Key| key.0 == namespace;
        let pending = self.timers.iter().filter(|(_, view)| view.state.is_pending());
        pending.filter(|(key, _)| of_namespace(key)).map(|(key, _)| key.1.clone()).collect()
    }

    /// Checks that this is `before`, or `after`, or has some of the changes between them, each complete.
    pub(crate) fn check_between(&self, before: &Self, after: &Self) -> Result<(), String> {
        let keys = before.timers.keys().chain(after.timers.keys()).chain(self.timers.keys());
        for key in keys {
            // A namespace whose deletion did not happen still has everything.
            let is_kept =
                self.namespaces.contains_key(&key.0) && !after.namespaces.contains_key(&key.0);
            let (old, new) = (before.timers.get(key), after.timers.get(key));
            let found = self.timers.get(key);
            if found != old && (is_kept || found != new) {
                let shown = [found, old, new].map(|view| view.map(without_payload));
                let [found, old, new] = shown;
                return Err(format!("timer {key:?} is {found:#?}\nnot {old:#?}\nnor {new:#?}"));
            }
        }
        let names = before.namespaces.keys().chain(after.namespaces.keys());
        for name in names.chain(self.namespaces.keys()) {
            let (old, new) = (before.namespaces.get(name), after.namespaces.get(name));
            let found = self.namespaces.get(name);
            let settings = |known: Option<&(Namespace, Totals)>| known.map(|(ns, _)| ns.clone());
            if ![settings(old), settings(new)].contains(&settings(found)) {
                return Err(format!("namespace {name} is {found:?}\nnot {old:?}\nnor {new:?}"));
            }
            if let (Some((_, old)), Some((_, new)), Some((_, found))) = (old, new, found)
                && !is_between(*old, *found, *new)
            {
                return Err(format!("totals of {name}: {found:?}, not {old:?} to {new:?}"));
            }
        }
        Ok(())
    }
}

/// Returns a timer without its payload, for messages.
fn without_payload(view: &TimerView) -> TimerView {
    let mut view = view.clone();
    if let Body::Whole(timer) = &mut view.body {
        timer.spec.payload = None;
    }
    view
}

fn pages(store: &dyn Store, namespace: &Namespace, state: ListState) -> Vec<TimerView> {
    let mut request = ListRequest {
        limit: PAGE,
        bytes_max: u64::MAX,
        ..ListRequest::new(namespace.name.clone(), state)
    };
    let mut found = Vec::new();
    loop {
        let page = wait(store.list(SHARD, request.clone())).expect("a list can be read");
        found.extend(page.timers);
        match page.next {
            Some(next) => request.after = Some(next),
            None => return found,
        }
    }
}

fn check_counts(namespace: &Namespace, stats: &Stats, listed: &BTreeMap<State, u64>) {
    let count = |state: State| listed.get(&state).copied().unwrap_or(0);
    let scanned = [
        count(State::Scheduled),
        count(State::Due),
        count(State::InFlight),
        count(State::Retrying),
        count(State::Dead),
        count(State::Finished) + count(State::Cancelled),
    ];
    let counted =
        [stats.scheduled, stats.due, stats.in_flight, stats.retrying, stats.dead, stats.retained];
    assert_eq!(counted, scanned, "counts of {} equal a full scan", namespace.name);
    assert_eq!(stats.paused, namespace.paused, "{}", namespace.name);
    let pending = count(State::Scheduled) + count(State::Due) + count(State::Retrying);
    let is_empty = pending + count(State::InFlight) == 0;
    assert_eq!(stats.pending_bytes == 0, is_empty, "bytes of {}", namespace.name);
    let earliest: Option<Timestamp> = stats.next_due_at;
    assert!(earliest.is_none() || pending > 0, "only something pending becomes due");
}

fn is_between(old: Totals, found: Totals, new: Totals) -> bool {
    let list = |totals: Totals| {
        let Totals { scheduled, fired, delivered, failed, cancelled, rescheduled, dead } = totals;
        [scheduled, fired, delivered, failed, cancelled, rescheduled, dead]
    };
    let (old, found, new) = (list(old), list(found), list(new));
    // One count may be lower afterwards: a lease that ends at the restart, or was settled before it.
    (0..found.len()).all(|i| (old[i].min(new[i])..=old[i].max(new[i])).contains(&found[i]))
}
