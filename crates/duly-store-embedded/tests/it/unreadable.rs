//! EIO at a read, once or for some time: a healthy record is never taken for a damaged one, nothing is
//! lost, and service resumes as soon as the disk does.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{Millis, State, schedule::IfExists};
use duly_store::{
    Claimed, Error, Firing, ListRequest, Outcome, SettleOutcome, SettleVerdict, query::ListState,
};
use duly_store_embedded::{
    EmbeddedStore,
    disk::{Disk, Operation, SimDisk},
};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    snapshot::Snapshot,
    stage::{Stage, open},
    steps::{
        SHARD, Step, apply, cancel, claim, claim_request, dead_letter_verdict, due, get, name,
        payload, put_timer, redrive, schedule, settle, timer_id, wait,
    },
    twins::{busy, copy},
    workload::{LARGE_BYTES, forgetful, settings},
};

const YEAR_MS: u64 = 31_536_000_000;
const HOUR_MS: u64 = 3_600_000;
/// An unreadable record is tried again within this time.
const AGAIN: Millis = Millis::from_secs(30);
const TIMERS: u64 = 9;
/// A call reads a record up to three times before it fails.
const READS: u64 = 3;

fn reads_fail(name: &'static str, after: u64, times: u64) -> Rule {
    Rule { operation: Operation::Read, name, fault_kind: FaultKind::Broken, after, times }
}

fn id(number: u64) -> String {
    format!("t{number}")
}

/// Makes timers that are due in an hour. They are in sorted runs if `fillers` come and go after them.
fn stage(fillers: u64) -> Stage {
    stage_of(TIMERS, fillers)
}

fn stage_of(count: u64, fillers: u64) -> Stage {
    let mut stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(1)), busy);
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Put("brief", Box::new(forgetful())));
    let timers = (0..count).map(|n| schedule(&id(n), HOUR_MS + n, 300)).collect();
    stage.take(&Step::Apply("shop", timers));
    for number in 0..fillers {
        let filler = format!("filler {number}");
        let gone = vec![schedule(&filler, YEAR_MS, 3 * LARGE_BYTES), cancel(&filler)];
        stage.take(&Step::Apply("brief", gone));
    }
    stage
}

/// The places of the timers: the journal, or a sorted run.
const PLACES: [(u64, &str); 2] = [(0, ".log"), (16, "runs/")];

/// Claims and acknowledges everything, and lets time pass if nothing comes. Returns the number of claims
/// that met unreadable records.
fn deliver(stage: &Stage, fired: &mut Vec<String>, tries: u64) -> u64 {
    let mut unreadable = 0;
    for _ in 0..tries {
        let firings = claim(stage.store(), "shop", 4).expect("a claim is answered");
        unreadable += stage.store().health().unreadable.min(1);
        if firings.is_empty() {
            stage.clock.advance(AGAIN);
        }
        for firing in firings {
            let settled = settle(stage.store(), "shop", &firing.token, SettleVerdict::Ack);
            assert_eq!(settled, Ok(SettleOutcome::Ok), "{}", firing.id);
            fired.push(firing.id.to_string());
        }
    }
    unreadable
}

#[test]
fn p1_t11_a_failed_read_at_a_claim_delays_but_keeps_the_timer() {
    for (fillers, place) in PLACES {
        let mut met = 0;
        for times in [1, 2, READS, 2 * READS, 8 * READS] {
            for after in [0, 1, READS] {
                let what = format!("{place}: {times} reads fail after {after}");
                let mut stage = stage(fillers);
                stage.clock.advance(Millis::from_ms(2 * HOUR_MS));
                stage.disk.fail(reads_fail(place, after, times));
                let mut fired = Vec::new();
                met += deliver(&stage, &mut fired, 20);
                assert_eq!(stage.disk.times_left(), 0, "{what}: claims read");
                let unique: BTreeSet<String> = fired.iter().cloned().collect();
                let all: BTreeSet<String> = (0..TIMERS).map(id).collect();
                assert_eq!((unique, fired.len() as u64), (all, TIMERS), "{what}");
                let shown = Snapshot::of(stage.store());
                assert_eq!(shown.namespaces["shop"].1.dead, 0, "{what}: nothing is quarantined");
                stage.restart_crashed();
                assert_eq!(Snapshot::of(stage.store()), shown, "{what}");
            }
        }
        assert!(met > 0, "{place}: some timer came later than others for it");
    }
}

/// An unreadable timer does not delay the others.
#[test]
fn p9_t11_an_unreadable_timer_does_not_delay_later_ones() {
    let (fillers, place) = PLACES[1];
    let mut stage = stage(fillers);
    let later = (0..TIMERS).map(|n| schedule(&format!("later{n}"), 2 * HOUR_MS + n, 300));
    stage.take(&Step::Apply("shop", later.collect()));
    stage.clock.advance(Millis::from_ms(3 * HOUR_MS));
    stage.disk.fail(reads_fail(place, 0, u64::MAX));
    for most in [1, 4] {
        let firings = claim(stage.store(), "shop", most).expect("others can be read");
        let ids: Vec<String> = firings.iter().map(|firing| firing.id.to_string()).collect();
        assert_eq!(ids.len(), most, "{ids:?}");
        assert!(ids.iter().all(|id| id.starts_with("later")), "{ids:?}");
        for firing in firings {
            settle(stage.store(), "shop", &firing.token, SettleVerdict::Ack).expect("settled");
        }
    }
    stage.disk.heal();
    stage.clock.advance(AGAIN);
    let mut fired = Vec::new();
    assert_eq!(deliver(&stage, &mut fired, 20), 0);
    let first: Vec<String> = (0..TIMERS).map(id).collect();
    assert_eq!(fired[..first.len()], first, "in the order in which they are due");
    assert_eq!(fired.len() as u64, 2 * TIMERS - 5);
    assert_eq!(Snapshot::of(stage.store()).namespaces["shop"].1.dead, 0);
}

/// Returns the ids of all pages, and the error that ended them early.
fn pages(stage: &Stage, request: ListRequest) -> (Vec<String>, Option<Error>) {
    let (mut ids, mut request) = (Vec::new(), ListRequest { limit: 100, ..request });
    loop {
        match wait(stage.store().list(SHARD, request.clone())) {
            Ok(page) => {
                ids.extend(page.timers.iter().map(|view| view.id().to_string()));
                request.after = page.next;
            }
            Err(error) => return (ids, Some(error)),
        }
        if request.after.is_none() {
            return (ids, None);
        }
    }
}

#[test]
fn p1_a_failed_read_is_an_error_in_lists_and_gets() {
    for (fillers, place) in PLACES {
        let stage = stage(fillers);
        let shown = Snapshot::of(stage.store());
        let mut refused = 0;
        for (after, times) in (0..TIMERS + 2).flat_map(|after| [(after, 1), (after, 2 * READS)]) {
            let what = format!("{place}: {times} reads fail after {after}");
            stage.disk.fail(reads_fail(place, after, times));
            for state in [ListState::Pending, ListState::Only(State::Scheduled)] {
                let (ids, error) = pages(&stage, ListRequest::new(name("shop"), state));
                match error {
                    None => assert_eq!(ids.len() as u64, TIMERS, "{what}"),
                    Some(Error::Unavailable { reason, .. }) => {
                        assert!(reason.contains("cannot be read now"), "{what}: {reason}");
                        refused += 1;
                    }
                    Some(error) => panic!("{what}: {error}"),
                }
                let first = (0..).map(id);
                assert!(ids.iter().eq(first.take(ids.len()).collect::<Vec<_>>().iter()), "{what}");
            }
            stage.disk.heal();
            stage.disk.fail(reads_fail(place, 0, after));
            let look = wait(stage.store().get(SHARD, name("shop"), timer_id("t3"), u64::MAX));
            let is_fine = matches!(&look, Ok(Some(_)) | Err(Error::Unavailable { .. }));
            assert!(is_fine, "{what}: {look:?}");
            stage.disk.heal();
            assert_eq!(Snapshot::of(stage.store()), shown, "{what}");
        }
        assert!(refused > 0, "{place}: some list met it");
    }
}

/// Claims from two namespaces.
fn claim_both(stage: &Stage, most: usize) -> Claimed {
    let mut request = claim_request("shop", most);
    request.lanes.extend(claim_request("brief", most).lanes);
    request.total_max = 2 * most;
    wait(stage.store().claim(SHARD, request)).expect("a claim is answered")
}

#[test]
fn p9_unreadable_records_do_not_block_lanes() {
    let (fillers, place) = PLACES[1];
    let mut stage = stage_of(100, fillers);
    let later = |n| schedule(&format!("later{n}"), 2 * HOUR_MS + n, 300);
    stage.take(&Step::Apply("shop", (0..10).map(later).collect()));
    stage.take(&Step::Apply("brief", vec![schedule("other", 2 * HOUR_MS, 300)]));
    stage.clock.advance(Millis::from_ms(3 * HOUR_MS));
    stage.disk.fail(reads_fail(place, 0, u64::MAX));
    let mut fired = Vec::new();
    for nth in 0..20 {
        let claimed = claim_both(&stage, 3);
        let is_other = |firing: &Firing| firing.id.as_str() == "other";
        assert!(nth > 0 || claimed.firings.iter().any(is_other), "the other lane goes on at once");
        let is_over = claimed.firings.is_empty() && claimed.more.is_empty();
        for firing in claimed.firings {
            let namespace = firing.namespace.as_str();
            settle(stage.store(), namespace, &firing.token, SettleVerdict::Ack).expect("settled");
            fired.push(firing.id.to_string());
        }
        if is_over {
            break;
        }
    }
    fired.retain(|id| id != "other");
    assert!(fired.iter().eq((0..10).map(|n| format!("later{n}")).collect::<Vec<_>>().iter()));
    let stats = wait(stage.store().stats(SHARD, name("shop"))).expect("counts").expect("shop");
    assert_eq!((stats.due, stats.lanes[0].due, stats.scheduled), (100, 100, 0));
    assert_eq!(stats.oldest_due_at, Some(due(HOUR_MS)));
    let health = stage.store().health();
    assert_eq!((health.overdue, health.unreadable, health.audit_findings), (100, 100, 0));
    let ready = wait(stage.store().ready(SHARD, None, 10)).expect("a list of lanes");
    assert_eq!(ready.lanes, [], "nobody is sent for what cannot be read");
    assert!(ready.next_due_in.is_some_and(|left| left <= AGAIN.to_std()), "and told to come again");
    stage.clock.advance(AGAIN);
    assert_eq!(claim_both(&stage, 3).firings, []);
    stage.disk.heal();
    stage.clock.advance(AGAIN);
    fired.clear();
    assert_eq!(deliver(&stage, &mut fired, 30), 0);
    assert!(fired.iter().eq((0..100).map(id).collect::<Vec<_>>().iter()), "in their order");
    assert_eq!(Snapshot::of(stage.store()).namespaces["shop"].1.dead, 0);
}

#[test]
fn p12_waiting_consumers_wake_when_records_become_readable() {
    let mut stage = Stage::with(Shell::Threads, FaultyDisk::new(SimDisk::new(1)), busy);
    stage.take(&Step::Put("shop", Box::new(settings())));
    let timers = (0..TIMERS).map(|n| schedule(&id(n), HOUR_MS + n, 300)).collect();
    stage.take(&Step::Apply("shop", timers));
    stage.disk.fail(reads_fail("", 0, u64::MAX));
    stage.clock.advance(Millis::from_ms(2 * HOUR_MS));
    assert_eq!(claim(stage.store(), "shop", 20), Ok(Vec::new()));
    assert_eq!(stage.store().health().unreadable, TIMERS);
    let mut wakeups = stage.store().wakeups(SHARD);
    wakeups.borrow_and_update();
    stage.disk.heal();
    stage.clock.advance(AGAIN);
    // No call reaches the store meanwhile.
    wait(wakeups.changed()).expect("the store is open");
    assert_eq!(claim(stage.store(), "shop", 20).map(|firings| firings.len() as u64), Ok(TIMERS));
}

#[test]
fn p1_a_list_stops_before_an_unreadable_record_and_resumes() {
    let (fillers, place) = PLACES[1];
    let mut stage = stage(fillers);
    let soon = (0..5).map(|n| schedule(&format!("soon{n}"), HOUR_MS / 2 + n, 300)).collect();
    let later = (0..5).map(|n| schedule(&format!("later{n}"), 2 * HOUR_MS + n, 300)).collect();
    stage.take(&Step::Apply("shop", soon));
    stage.take(&Step::Apply("shop", later));
    stage.disk.fail(reads_fail(place, 0, u64::MAX));
    let request = ListRequest::new(name("shop"), ListState::Pending);
    let (ids, error) = pages(&stage, request.clone());
    assert_eq!(ids, ["soon0", "soon1", "soon2", "soon3", "soon4"]);
    let Some(Error::Unavailable { reason, .. }) = error else {
        panic!("{error:?}");
    };
    let behind = due(HOUR_MS + 1).to_string();
    for part in ["namespace shop", place, "at byte", &due(HOUR_MS).to_string(), &behind] {
        assert!(reason.contains(part), "{part} is not in: {reason}");
    }
    let behind_all = ListRequest { due_from: Some(due(HOUR_MS + TIMERS)), ..request.clone() };
    let (ids, error) = pages(&stage, behind_all);
    assert_eq!((ids.len(), error), (5, None));
    // A timer without an attempt is cancelled without a read.
    for number in 0..TIMERS {
        let outcomes = apply(stage.store(), "shop", vec![cancel(&id(number))]);
        assert!(matches!(outcomes.as_deref(), Ok([Outcome::Cancelled { .. }])), "{outcomes:?}");
    }
    let (ids, error) = pages(&stage, request);
    assert_eq!((ids.len(), error), (10, None));
}

#[test]
fn an_unreadable_dead_letter_is_redriven_once_readable() {
    let mut stage = stage(0);
    stage.clock.advance(Millis::from_ms(2 * HOUR_MS));
    stage.take(&Step::Claim("shop", 1));
    stage.take(&Step::Settle("shop", id(0), dead_letter_verdict()));
    let shown = Snapshot::of(stage.store());
    let rewritten = vec![put_timer(&id(0), HOUR_MS, payload("again", 10), IfExists::Replace)];
    stage.disk.fail(reads_fail("", 0, u64::MAX));
    for operations in [vec![redrive(&id(0), 0)], rewritten] {
        let outcomes = apply(stage.store(), "shop", operations).expect("each has an answer");
        let [Outcome::Failed(Error::Unavailable { reason, .. })] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        assert!(reason.contains("cannot be read now"), "{reason}");
    }
    let list = ListRequest::new(name("shop"), ListState::Only(State::Dead));
    assert!(pages(&stage, list).1.is_some(), "the list of letters is refused as well");
    stage.disk.heal();
    assert_eq!(Snapshot::of(stage.store()), shown, "nothing has changed");
    let outcomes = apply(stage.store(), "shop", vec![redrive(&id(0), 0)]).expect("an answer");
    assert!(matches!(&outcomes[..], [Outcome::Changed(_)]), "{outcomes:?}");
}

/// Makes timers in sorted runs and in the journal, two checkpoints, tombstones and dead letters.
fn closed() -> (SimDisk, Stage, Snapshot) {
    let mut stage = stage(16);
    let some = (0..4).map(|n| schedule(&format!("last{n}"), HOUR_MS, 200)).collect();
    stage.take(&Step::Apply("shop", some));
    stage.take(&Step::Apply("shop", vec![cancel("t1"), cancel("last2")]));
    let left = stage.disk.sim.kill();
    stage.restart_killed();
    let shown = Snapshot::of(stage.store());
    (left, stage, shown)
}

fn try_to_open(
    disk: &FaultyDisk,
    stage: &Stage,
) -> Result<EmbeddedStore, duly_store_embedded::OpenError> {
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    open(Shell::Inline, on, &stage.clock, busy(9))
}

/// Every read, list, length and open of a file fails once while the store starts.
#[test]
fn p1_t14_unreadable_files_at_a_start_lose_nothing() {
    let (left, stage, shown) = closed();
    for operation in [Operation::Read, Operation::Open, Operation::List, Operation::Length] {
        let (mut after, mut opened, mut refused) = (0, 0, 0);
        loop {
            let disk = FaultyDisk::new(copy(&left, 2));
            let what = format!("{operation} fails after {after}");
            disk.fail(Rule { operation, name: "", fault_kind: FaultKind::Broken, after, times: 1 });
            match try_to_open(&disk, &stage) {
                Ok(store) => {
                    if disk.times_left() > 0 {
                        break;
                    }
                    opened += 1;
                    disk.heal();
                    assert!(Snapshot::of(&store) == shown, "{what}: something is lost");
                }
                Err(error) => {
                    refused += 1;
                    let message = error.to_string();
                    assert!(message.contains(&operation.to_string()), "{what}: {message}");
                }
            }
            disk.heal();
            for left in [disk.sim.kill(), disk.sim.crash()] {
                let store = try_to_open(&FaultyDisk::new(left), &stage)
                    .unwrap_or_else(|error| panic!("{what}, then it is well: {error}"));
                assert!(Snapshot::of(&store) == shown, "{what}, then it is well");
            }
            after += 1;
        }
        assert!(opened + refused > 3, "{operation}: {opened} opened, {refused} refused");
    }
}

#[test]
fn p1_t14_an_unreadable_checkpoint_falls_back_to_the_previous() {
    let (left, stage, shown) = closed();
    let newest = left.names().into_iter().rfind(|name| name.ends_with(".ckp")).expect("two");
    let newest: &'static str = newest.leak();
    let disk = FaultyDisk::new(copy(&left, 2));
    disk.fail(reads_fail(newest, 0, u64::MAX));
    let store = try_to_open(&disk, &stage).expect("the one before it is read");
    assert!(Snapshot::of(&store) == shown, "something is lost");
    let disk = FaultyDisk::new(copy(&left, 2));
    disk.fail(reads_fail(".ckp", 0, u64::MAX));
    let message = try_to_open(&disk, &stage).expect_err("both are needed").to_string();
    assert!(message.contains("cannot read") && message.contains(newest), "{message}");
}

/// A bit that flips on the way from the disk is not damage to the stored record.
#[test]
fn p6_one_failed_read_of_a_tombstone_does_not_forget_it() {
    let garbled = |times| Rule {
        operation: Operation::Read,
        name: ".log",
        fault_kind: FaultKind::Garbled,
        after: 0,
        times,
    };
    let call = || vec![schedule("ended", 0, 300)];
    let stage = || {
        let mut stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(1)), busy);
        stage.take(&Step::Put("shop", Box::new(settings())));
        stage.take(&Step::Apply("shop", call()));
        let firing = claim(stage.store(), "shop", 1).expect("it is due").remove(0);
        settle(stage.store(), "shop", &firing.token, SettleVerdict::Ack).expect("settled");
        stage
    };
    let is_there = |stage: &Stage| {
        get(stage.store(), "shop", "ended").is_some_and(|view| view.state == State::Finished)
    };
    let once = stage();
    once.disk.fail(garbled(1));
    assert!(is_there(&once), "a look that reads it wrong once finds it");
    once.disk.fail(garbled(1));
    let again = apply(once.store(), "shop", call()).expect("it is answered");
    assert!(matches!(again[0], Outcome::Existing(_)), "it does not fire again: {again:?}");
    once.disk.fail(garbled(1));
    let finished = ListRequest::new(name("shop"), ListState::Only(State::Finished));
    assert_eq!(pages(&once, finished), (vec!["ended".to_owned()], None), "a list has it");
    assert_eq!(once.disk.times_left(), 0, "each of them read it");
    assert!(is_there(&once), "and it is still there");

    // A record that is wrong at each read is damaged.
    let always = stage();
    always.disk.fail(garbled(u64::MAX));
    let look = wait(always.store().get(SHARD, name("shop"), timer_id("ended"), u64::MAX));
    assert!(matches!(look, Err(Error::Damaged(_))), "{look:?}");
    always.disk.heal();
    assert!(!is_there(&always), "it was given up");
}
