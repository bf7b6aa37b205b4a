//! The cost of a damaged record: its own timer, which becomes a dead letter, or its own tombstone.

use duly_core::{Millis, State, env::Clock, timer::DeadLetterReason};
use duly_store::{
    ListRequest, SettleVerdict, Timers,
    conformance::ManualClock,
    query::{Body, ListState},
};
use duly_store_embedded::{EmbeddedStore, disk::SimDisk};

use super::{
    HOUR_MS, Left, SECTOR_BYTES, damage, damages, directory_at, first_segment, left,
    left_without_runs, names,
};
use crate::{
    steps::{SHARD, claim, name, settle, timer_id, wait},
    twins::{copy, open_busy},
};

/// Delivers the timers of a damaged store within two hours. Returns the number of firings, and of dead
/// letters with the reason `corrupt`.
fn outcome(left: &Left, disk: &SimDisk, what: &str) -> (usize, usize) {
    let clock = ManualClock::default();
    let store = open_busy(disk, &clock, 2);
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    clock.advance(Millis::from_ms(2 * HOUR_MS));
    let mut fired = Vec::new();
    loop {
        let firings = claim(&store, "shop", 7).expect("claims are granted");
        if firings.is_empty() {
            break;
        }
        for firing in firings {
            settle(&store, "shop", &firing.token, SettleVerdict::Ack).expect("it is settled");
            fired.push(firing.id.to_string());
        }
    }
    let expected = |id: &String| {
        let view = left.shown.timers.iter().find(|(key, _)| key.1 == *id).map(|(_, view)| view);
        view.is_some_and(|view| view.state.is_pending())
    };
    assert!(fired.iter().all(expected), "{what}: only what was pending fires: {fired:?}");
    let request =
        ListRequest { limit: 100, ..ListRequest::new(name("shop"), ListState::Only(State::Dead)) };
    let dead = wait(store.list(SHARD, request)).expect("a list can be read").timers;
    let is_corrupt = |body: &Body| match body {
        Body::Whole(timer) => timer
            .dead_letter
            .is_some_and(|dead_letter| dead_letter.reason == DeadLetterReason::Corrupt),
        Body::Tombstone(_) => false,
    };
    // The auditor may also find timers that are due later.
    let due = dead.iter().filter(|view| view.due_at() <= Clock::now(&clock));
    let corrupt = due.filter(|view| is_corrupt(&view.body)).count();
    (fired.len(), corrupt)
}

#[test]
fn p3_t11_a_damaged_record_costs_only_its_own_timer() {
    let left = left();
    let (all, none) = outcome(&left, &left.with(|_| {}), "undamaged");
    assert_eq!((all, none), (42, 0), "the leased, the retried, the last and 39 near ones");
    let mut most = 0;
    for run in names(&left.disk, "runs/") {
        let bytes = left.disk.read_file(&run);
        let end = directory_at(&bytes);
        for (what, range, mask) in
            damages(end, 1_501).filter(|(_, range, _)| range.start >= 64 && range.end <= end)
        {
            let what = format!("{run}: {what}");
            let is_flip = mask != 0;
            if !is_flip && !(range.start / SECTOR_BYTES).is_multiple_of(5) {
                continue;
            }
            let disk = left.with(|disk| damage(disk, &run, range, mask));
            let (fired, corrupt) = outcome(&left, &disk, &what);
            assert_eq!(fired + corrupt, all, "{what}: {fired} fired, {corrupt} are corrupt");
            assert!(!is_flip || corrupt <= 1, "{what}: {corrupt} are corrupt");
            most = most.max(corrupt);
        }
    }
    assert!(most > 0, "some damage was met");
}

#[test]
fn p3_t11_a_damaged_record_does_not_block_the_rewriter() {
    let left = left_without_runs();
    let (all, _) = outcome(&left, &left.with(|_| {}), "undamaged");
    let mut met = 0;
    for at in (2_000..60_000).step_by(3_001) {
        let what = format!("byte {at} flipped");
        let disk = left.with(|disk| disk.corrupt(&first_segment(), at, 8));
        // Opened without young segments: all undamaged records are carried over.
        let (fired, corrupt) = outcome(&left, &disk, &what);
        assert_eq!(fired + corrupt, all, "{what}: {fired} fired, {corrupt} are corrupt");
        assert!(corrupt <= 1, "{what}: {corrupt} are corrupt");
        met += corrupt;
    }
    assert!(met > 0, "some damage was met");
}

/// Returns the sorted runs that hold tombstones, by their headers.
fn runs_of_tombstones(disk: &SimDisk) -> Vec<String> {
    let runs = names(disk, "runs/").into_iter();
    runs.filter(|run| disk.read_file(run)[40] == 2).collect()
}

/// Returns the number of tombstones that are counted after all of them were listed, and the number
/// listed.
fn tombstones(store: &EmbeddedStore) -> (u64, usize) {
    let listed = [State::Finished, State::Cancelled].map(|state| {
        let request = ListRequest::new(name("shop"), ListState::Only(state));
        let request = ListRequest { limit: 100, ..request };
        wait(store.list(SHARD, request)).expect("a list can be read").timers.len()
    });
    let stats = wait(store.stats(SHARD, name("shop"))).expect("counts can be read");
    (stats.expect("it is there").retained, listed.iter().sum())
}

#[test]
fn t11_a_damaged_tombstone_leaves_the_counts_for_good() {
    let left = left();
    let (all, listed) =
        tombstones(&open_busy(&copy(&left.disk, 2), &left.clock, 2).expect("it opens"));
    assert_eq!(all, listed as u64);
    let mut least = all;
    for run in runs_of_tombstones(&left.disk) {
        let end = directory_at(&left.disk.read_file(&run));
        for at in (64..end).step_by(61) {
            let mut disk = left.with(|disk| disk.corrupt(&run, at, 16));
            let what = format!("{run}: byte {at} flipped");
            let mut before = None;
            for seed in 2..5 {
                let store = open_busy(&disk, &left.clock, seed).expect("it opens");
                let (counted, listed) = tombstones(&store);
                assert_eq!(counted, listed as u64, "{what}, opening {seed}");
                assert_eq!(before.unwrap_or(counted), counted, "{what}, opening {seed}");
                before = Some(counted);
                least = least.min(counted);
                drop(store);
                disk = disk.crash();
            }
        }
    }
    assert!(least < all, "some tombstones were damaged");
}

#[test]
fn t11_a_get_removes_a_damaged_tombstone() {
    let left = left();
    let mut met = 0;
    for run in runs_of_tombstones(&left.disk) {
        let end = directory_at(&left.disk.read_file(&run));
        let disk = left.with(|disk| disk.zero(&run, 64..end));
        let get =
            |store: &EmbeddedStore| wait(store.get(SHARD, name("shop"), timer_id("y00"), u64::MAX));
        let store = open_busy(&disk, &left.clock, 2).expect("it opens");
        let is_damaged = matches!(get(&store), Err(duly_store::Error::Damaged(_)));
        assert_eq!(get(&store).expect("it can be asked for").is_none(), is_damaged, "{run}");
        drop(store);
        let store = open_busy(&disk.crash(), &left.clock, 3).expect("it opens");
        assert_eq!(get(&store).expect("it can be asked for").is_none(), is_damaged, "{run}");
        met += usize::from(is_damaged);
    }
    assert_eq!(met, 1, "its record is in one run");
}
