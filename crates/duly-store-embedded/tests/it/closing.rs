//! Protection of the last frame: by a closing frame a second after it, and at a clean stop by a closing
//! frame and a checkpoint. One damaged bit in it is never taken for the end of the journal (P1).

use std::{ops::Range, sync::Arc};

use duly_core::{Millis, error_code::Code};
use duly_store::{
    Namespaces, Outcome, SettleVerdict, Timers, conformance::ManualClock, query::ListState,
};
use duly_store_embedded::{
    EmbeddedStore, OpenError, Tail,
    check::check_disk,
    disk::{Fault, SimDisk},
};

use crate::{
    harness::Shell,
    snapshot::Snapshot,
    stage::open,
    steps::{SHARD, Step, Tokens, apply, cancel, claim, name, perform, schedule, settle, wait},
    tail::{put, refused},
    twins::{copy, open_inline, small},
    workload::settings,
};

const SEGMENT: &str = "journal/0000000000000001.log";
const FRAME_HEADER_BYTES: usize = 48;
const SECOND: Millis = Millis::from_ms(1_000);
/// Timers of the last batch.
const TIMERS: usize = 6;

fn opened(shell: Shell, disk: &SimDisk, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    open(shell, Arc::new(disk.clone()), clock, small(seed)).expect("it opens")
}

/// Makes a store take two batches, and returns its contents then.
fn take_batches(store: &EmbeddedStore) -> Snapshot {
    let put = Step::Put("shop", Box::new(settings()));
    perform(store, &put, &mut Tokens::new()).expect("taken");
    apply(store, "shop", vec![schedule("first", 0, 40)]).expect("taken");
    let batch = (0..TIMERS).map(|number| schedule(&format!("t{number:02}"), 0, 20)).collect();
    let outcomes = apply(store, "shop", batch).expect("taken");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
    Snapshot::of(store)
}

/// Reads from a store, which is a step of its engine.
fn read_all(store: &EmbeddedStore) {
    wait(store.list_namespaces(None, 1)).expect("it is answered");
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Returns the frames of the segment, in order.
fn frames(disk: &SimDisk) -> Vec<Range<usize>> {
    let bytes = disk.read_file(SEGMENT);
    let (mut frames, mut at) = (Vec::new(), 64);
    while bytes[at..].starts_with(b"DLYf") {
        let end = at + FRAME_HEADER_BYTES + u32_at(&bytes, at + 4);
        frames.push(at..end);
        at = end;
    }
    frames
}

fn is_closing(frame: &Range<usize>) -> bool {
    frame.len() == FRAME_HEADER_BYTES
}

/// Returns the last frame with records, and the closing frame behind it.
fn last_two(disk: &SimDisk) -> (Range<usize>, Range<usize>) {
    let mut frames = frames(disk);
    let closing = frames.pop().expect("there are frames");
    let last = frames.pop().expect("there are frames");
    assert!(is_closing(&closing) && !is_closing(&last), "{last:?} {closing:?}");
    (last, closing)
}

/// Makes a store that gets no calls for a second, and is then killed.
fn idle() -> (SimDisk, ManualClock, Snapshot) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = opened(Shell::Inline, &disk, &clock, 1);
    let shown = take_batches(&store);
    assert!(!is_closing(frames(&disk).last().expect("frames")), "not before a second has passed");
    clock.advance(SECOND);
    read_all(&store);
    (disk.kill(), clock, shown)
}

#[test]
fn p1_a_flipped_bit_in_an_idle_last_frame_is_damage() {
    let (disk, clock, shown) = idle();
    let (last, _) = last_two(&disk);
    for bit in last.start * 8..last.end * 8 {
        // Every bit of the header, and one of each byte of the records.
        if bit >= (last.start + FRAME_HEADER_BYTES) * 8 && bit % 8 != bit / 8 % 8 {
            continue;
        }
        let damaged = copy(&disk, 2);
        damaged.corrupt(SEGMENT, bit as u64 / 8, 1 << (bit % 8));
        let error = open_inline(&damaged, &clock, 9).expect_err("it is no end of the journal");
        let OpenError::Damaged { file, offset, .. } = &error else {
            panic!("bit {bit}: {error}");
        };
        assert_eq!((file.as_str(), *offset), (SEGMENT, last.start as u64), "bit {bit}: {error}");
    }
    let gone = copy(&disk, 2);
    gone.zero(SEGMENT, last.start as u64..last.end as u64);
    assert!(matches!(refused(&gone), OpenError::Damaged { .. }), "nor where nothing is left of it");
    let report = check_disk(Arc::new(gone), Arc::new(clock.clone()), &mut |_| {}).expect("checked");
    assert!(!report.is_clean(), "{report}");
    let store = opened(Shell::Inline, &disk, &clock, 9);
    assert_eq!(store.report().tail, Tail::Closed);
    assert_eq!(Snapshot::of(&store), shown);
}

#[test]
fn p1_a_damaged_closing_frame_loses_nothing_and_is_reported() {
    let (disk, clock, shown) = idle();
    let (_, closing) = last_two(&disk);
    for at in closing.clone() {
        let damaged = copy(&disk, 2);
        damaged.corrupt(SEGMENT, at as u64, 0x10);
        let clock_of_check = Arc::new(clock.clone());
        let report = check_disk(Arc::new(damaged.clone()), clock_of_check, &mut |_| {});
        let report = report.expect("it is checked");
        assert_eq!((report.is_clean(), report.tail), (true, Tail::Unknown), "byte {at}");
        assert!(report.to_string().contains("unknown if it was acknowledged"), "{report}");
        let store = opened(Shell::Inline, &damaged, &clock, 9);
        assert_eq!(store.report().tail, Tail::Unknown, "byte {at}");
        assert_eq!(Snapshot::of(&store), shown, "byte {at}");
        drop(store);
        let again = opened(Shell::Inline, &damaged, &clock, 10);
        assert_eq!(again.report().tail, Tail::Closed, "byte {at}: another was written");
    }
    disk.zero(SEGMENT, closing.start as u64..closing.end as u64);
    assert_eq!(opened(Shell::Inline, &disk, &clock, 9).report().tail, Tail::Open);
}

/// Bytes that are cut off are gone: their rest does not look like another unfinished frame behind the
/// next.
#[test]
fn a_cut_tail_is_reported_once() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = opened(Shell::Inline, &disk, &clock, 1);
    take_batches(&store);
    let left = disk.kill();
    let last = frames(&left).pop().expect("frames");
    left.corrupt(SEGMENT, last.start as u64 + 20, 1);
    assert_eq!(opened(Shell::Inline, &left, &clock, 2).report().tail, Tail::Unknown);
    for (seed, expected) in [(3, Tail::Open), (4, Tail::Closed)] {
        let store = opened(Shell::Inline, &left, &clock, seed);
        assert_eq!(store.report().tail, expected, "opening {seed}");
        read_all(&store);
    }
}

#[test]
fn an_idle_period_has_one_closing_frame_and_no_other_write() {
    for shell in [Shell::Inline, Shell::Threads] {
        let (disk, clock) = (SimDisk::new(1), ManualClock::default());
        let store = opened(shell, &disk, &clock, 1);
        take_batches(&store);
        for round in 1..=3 {
            clock.advance(SECOND);
            // With threads, the step of one read writes the frame, and a later one finds it durable.
            for _ in 0..1_000 {
                read_all(&store);
                if is_closing(frames(&disk).last().expect("frames")) {
                    break;
                }
            }
            let count = |disk: &SimDisk| frames(disk).iter().filter(|it| is_closing(it)).count();
            assert_eq!(count(&disk), round, "{shell:?}");
            // Its sync may still be in progress.
            let ops = disk.ops();
            for _ in 0..100 {
                clock.advance(SECOND);
                read_all(&store);
            }
            assert!(disk.ops() <= ops + 1, "{shell:?}: nothing is written while it rests");
            assert_eq!(count(&disk), round, "{shell:?}");
            apply(&store, "shop", vec![cancel(&format!("t{round:02}"))]).expect("taken");
        }
    }
}

/// Makes a store and stops it cleanly.
fn stopped(shell: Shell) -> (SimDisk, ManualClock, Snapshot) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = opened(shell, &disk, &clock, 1);
    let shown = take_batches(&store);
    store.close();
    drop(store);
    (copy(&disk, 1), clock, shown)
}

#[test]
fn p1_a_clean_stop_leaves_a_closing_frame_and_a_checkpoint() {
    for shell in [Shell::Inline, Shell::Threads] {
        let (disk, clock, shown) = stopped(shell);
        last_two(&disk);
        let store = opened(shell, &disk, &clock, 2);
        let report = store.report();
        assert_eq!(
            (report.frames, report.tail),
            (0, Tail::Closed),
            "{shell:?}: nothing is read back"
        );
        assert_eq!(Snapshot::of(&store), shown, "{shell:?}");
        // Nothing has changed, so there is nothing to write.
        store.close();
        drop(store);
        let checkpoints = disk.names().into_iter().filter(|name| name.ends_with(".ckp")).count();
        assert_eq!(checkpoints, 1, "{shell:?}");
        assert_eq!(opened(shell, &disk, &clock, 3).report().frames, 0, "{shell:?}");
    }
}

/// Checks that every timer of the batch is delivered, or is a dead letter because its record is damaged.
fn all_are_accounted_for(store: &EmbeddedStore, what: &str) {
    let mut fired = Vec::new();
    loop {
        let firings = claim(store, "shop", 100).expect("a claim is answered");
        if firings.is_empty() {
            break;
        }
        for firing in firings {
            settle(store, "shop", &firing.token, SettleVerdict::Ack).expect("settled");
            fired.push(firing.id.to_string());
        }
    }
    let request =
        duly_store::ListRequest::new(name("shop"), ListState::Only(duly_core::State::Dead));
    let corrupt = wait(store.list(SHARD, request)).expect("a list is answered").timers.len();
    assert_eq!(fired.len() + corrupt, TIMERS + 1, "{what}: {fired:?}, {corrupt} corrupt");
    assert!(corrupt <= 1, "{what}: one bit is in one record");
}

#[test]
fn p1_a_flipped_bit_after_a_clean_stop_loses_no_timer_silently() {
    let (disk, clock, _) = stopped(Shell::Threads);
    let (last, closing) = last_two(&disk);
    let checkpoint = "checkpoints/0000000000000001.ckp";
    // Every byte of the header, and one of a few of the records.
    let records = last.start + FRAME_HEADER_BYTES..last.end;
    for at in (last.start..records.start).chain(records.step_by(5)) {
        let damaged = copy(&disk, 2);
        damaged.corrupt(SEGMENT, at as u64, 0x10);
        let report = check_disk(Arc::new(damaged.clone()), Arc::new(clock.clone()), &mut |_| {});
        let report = report.expect("it is checked");
        assert!(!report.is_clean(), "byte {at}: {report}");
        // With the checkpoint, and with the journal alone.
        all_are_accounted_for(&opened(Shell::Inline, &copy(&damaged, 3), &clock, 9), "with it");
        damaged.corrupt(checkpoint, 200, 0x10);
        let error = open_inline(&damaged, &clock, 9).expect_err("it is no end of the journal");
        assert!(matches!(error, OpenError::Damaged { .. }), "byte {at}: {error}");
    }
    for at in closing {
        let damaged = copy(&disk, 2);
        damaged.corrupt(SEGMENT, at as u64, 0x10);
        let store = opened(Shell::Inline, &damaged, &clock, 9);
        assert_eq!(store.report().tail, Tail::Closed, "the checkpoint confirms the last frame");
        all_are_accounted_for(&store, "without the closing frame");
    }
}

#[test]
fn p1_a_stop_that_is_cut_off_anywhere_loses_nothing() {
    let scene = |seed| {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::default());
        let store = opened(Shell::Inline, &disk, &clock, seed);
        let shown = take_batches(&store);
        (disk, clock, store, shown)
    };
    let (disk, _, store, _) = scene(1);
    let before = disk.ops();
    store.close();
    let steps = disk.ops() - before;
    assert!(steps > 5, "a frame and a checkpoint: {steps}");
    for (seed, crash_at) in (1..4).flat_map(|seed| (1..=steps).map(move |at| (seed, at))) {
        for is_power_lost in [true, false] {
            let (disk, clock, store, shown) = scene(seed);
            disk.plan(Fault::CrashAtOp(crash_at));
            store.close();
            assert!(disk.is_down(), "seed {seed}: it ended at step {crash_at}");
            let left = if is_power_lost { disk.crash() } else { disk.kill() };
            let again = opened(Shell::Inline, &left, &clock, 9);
            assert_eq!(Snapshot::of(&again), shown, "seed {seed}, step {crash_at}");
        }
    }
}

#[test]
fn p10_a_stop_on_a_full_disk_ends_and_loses_nothing() {
    for shell in [Shell::Inline, Shell::Threads] {
        let (disk, clock) = (SimDisk::new(1), ManualClock::default());
        let store = opened(shell, &disk, &clock, 1);
        let shown = take_batches(&store);
        disk.set_free_bytes(0);
        disk.set_free_inodes(0);
        store.close();
        drop(store);
        assert!(!disk.names().iter().any(|name| name.starts_with("checkpoints/")), "{shell:?}");
        last_two(&disk);
        let again = opened(shell, &copy(&disk, 1), &clock, 2);
        assert_eq!(again.report().tail, Tail::Closed, "{shell:?}");
        assert_eq!(Snapshot::of(&again), shown, "{shell:?}");
    }
}

#[test]
fn nothing_is_asked_of_a_store_that_was_closed() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = opened(Shell::Threads, &disk, &clock, 1);
    take_batches(&store);
    store.close();
    let late = apply(&store, "shop", vec![schedule("late", 0, 10)]).expect_err("it is closed");
    assert_eq!(late.code(), Code::Unavailable);
}

/// A build that does not know closing frames takes them for the end of the journal.
#[test]
fn a_store_with_closing_frames_keeps_older_builds_out() {
    let (disk, _, _) = idle();
    for manifest in ["MANIFEST", "MANIFEST.copy"] {
        assert_eq!(disk.read_file(manifest)[16] & 1, 1, "the feature bit of {manifest}");
    }
}

/// A frame behind a closing frame ends the protection, and another closing frame renews it.
#[test]
fn p1_each_closing_frame_protects_the_frames_before_it() {
    let (disk, clock, _) = idle();
    let store = opened(Shell::Inline, &disk, &clock, 2);
    apply(&store, "shop", vec![schedule("later", 9_000, 20)]).expect("taken");
    let left = disk.kill();
    let last = frames(&left).pop().expect("frames");
    assert!(!is_closing(&last));
    let whole = left.read_file(SEGMENT);
    left.corrupt(SEGMENT, last.start as u64 + 20, 1);
    let opened_cut = opened(Shell::Inline, &copy(&left, 1), &clock, 3);
    assert_eq!(opened_cut.report().tail, Tail::Unknown, "not known before a second has passed");
    put(&left, SEGMENT, &whole);
    let store = opened(Shell::Inline, &left, &clock, 3);
    clock.advance(SECOND);
    read_all(&store);
    let left = left.kill();
    left.corrupt(SEGMENT, last.start as u64 + 20, 1);
    let error = open_inline(&left, &clock, 4).expect_err("it is no end of the journal");
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}
