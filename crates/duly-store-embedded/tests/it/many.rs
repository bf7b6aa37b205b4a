//! Very many timers, at small size: a start does not read timers that are far in the future (T20), and
//! space comes back when most timers are cancelled (T21).

use std::sync::Arc;

use duly_core::Millis;
use duly_store::{SettleOutcome, SettleVerdict, Store, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    faulty::FaultyDisk,
    harness::Shell,
    holes::data_bytes,
    stage::open,
    steps::{Step, Tokens, apply, cancel, claim, perform, schedule, settle},
    twins::{SEGMENT_BYTES, copy, small},
    workload::forgetful,
};

const DAY_MS: u64 = 86_400_000;
const PAYLOAD_BYTES: usize = 2_000;
const PER_DAY: u64 = 4;
const DAYS: u64 = 250;

fn options(seed: u64) -> Options {
    // The index alone knows all but a few.
    let sizes = Options { checkpoint_bytes: 128 << 10, young_bytes: 1, ..small(seed) };
    Options { near_max: 3, overdue_max: 2, ..sizes }
}

fn id(day: u64, number: u64) -> String {
    format!("d{day:03} {number}")
}

fn due_ms(day: u64, number: u64) -> u64 {
    day * DAY_MS + number * 1_000
}

/// Makes a few timers on every day.
fn filled(disk: &SimDisk, clock: &ManualClock) -> EmbeddedStore {
    let store = open(Shell::Inline, Arc::new(disk.clone()), clock, options(1)).expect("it opens");
    let put = Step::Put("shop", Box::new(forgetful()));
    perform(&store, &put, &mut Tokens::new()).expect("taken");
    for day in 1..=DAYS {
        let of_day = (0..PER_DAY).map(|n| schedule(&id(day, n), due_ms(day, n), PAYLOAD_BYTES));
        apply(&store, "shop", of_day.collect()).expect("taken");
    }
    store
}

/// Delivers the timers that are due, in the order of their due times.
fn fire(store: &dyn Store) -> Vec<String> {
    let mut fired = Vec::new();
    loop {
        let firings = claim(store, "shop", 100).expect("claimed");
        if firings.is_empty() {
            return fired;
        }
        for firing in firings {
            let settled = settle(store, "shop", &firing.token, SettleVerdict::Ack);
            assert_eq!(settled, Ok(SettleOutcome::Ok), "{}", firing.id);
            fired.push(firing.id.to_string());
        }
    }
}

#[test]
fn p2_t20_a_start_of_many_timers_reads_no_payloads() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    drop(filled(&disk, &clock));
    let payloads_bytes = DAYS * PER_DAY * PAYLOAD_BYTES as u64;
    assert!(data_bytes(&disk) >= payloads_bytes);
    let counting = FaultyDisk::new(copy(&disk, 2));
    let on: Arc<dyn Disk> = Arc::new(counting.clone());
    let store = open(Shell::Inline, on, &clock, options(2)).expect("it opens");
    let read_bytes = counting.read_bytes();
    // The checkpoint has 24 bytes of each timer; of the journal only the part after it is read.
    assert!(read_bytes < payloads_bytes / 4, "{read_bytes} of {payloads_bytes} were read");
    for day in 1..=20 {
        clock.advance(Millis::from_ms(DAY_MS));
        assert_eq!(fire(&store), [id(day, 0)], "day {day}: nothing early, nothing left out");
        clock.advance(Millis::from_ms(PER_DAY * 1_000));
        let rest: Vec<String> = (1..PER_DAY).map(|number| id(day, number)).collect();
        assert_eq!(fire(&store), rest, "day {day}");
        let back_ms = i64::try_from(PER_DAY * 1_000).expect("small");
        clock.step_wall(-back_ms);
    }
}

#[test]
fn p10_t21_cancelling_most_timers_frees_their_space() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = filled(&disk, &clock);
    let full_bytes = data_bytes(&disk);
    let stays = |day: u64| day.is_multiple_of(10);
    for day in (1..=DAYS).filter(|day| !stays(*day)) {
        let gone = (0..PER_DAY).map(|number| cancel(&id(day, number)));
        apply(&store, "shop", gone.collect()).expect("taken");
    }
    // Timers that come and go meanwhile cause checkpoints; each releases a part.
    for round in 0..150 {
        let filler = format!("filler {round}");
        let made = vec![schedule(&filler, DAYS * DAY_MS, 20_000), cancel(&filler)];
        apply(&store, "shop", made).expect("taken");
    }
    let left_bytes = data_bytes(&disk);
    // A tenth, and the files that are being written: segments, spares, runs of tombstones, checkpoints.
    let most_bytes = full_bytes / 10 + 8 * SEGMENT_BYTES;
    assert!(left_bytes < most_bytes, "{left_bytes} of {full_bytes} are still taken");
    assert!(most_bytes < full_bytes / 2, "it is little, beside {full_bytes}");
    assert_eq!(store.health().disk_bytes, left_bytes, "and it says so");
    drop(store);
    let on = Arc::new(disk.crash());
    let store = open(Shell::Inline, on, &clock, options(2)).expect("it opens");
    clock.advance(Millis::from_ms((DAYS + 1) * DAY_MS));
    let kept = (1..=DAYS).filter(|day| stays(*day));
    let kept: Vec<String> = kept.flat_map(|day| (0..PER_DAY).map(move |n| id(day, n))).collect();
    assert_eq!(fire(&store), kept, "and nothing that stays has gone with it");
}
