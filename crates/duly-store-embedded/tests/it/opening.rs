//! Progress of a start, in bytes: the checkpoint first, then the journal behind it.

use std::sync::Arc;

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    EmbeddedStore, OpenProgress, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    harness::{Shell, open, options},
    steps::{Step, Tokens, perform, schedule},
};

#[test]
fn a_start_reports_progress_to_the_end_of_each_file() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open(Shell::Inline, &disk, &clock, 1);
    let put = Step::Put("shop", Box::default());
    perform(&store, &put, &mut Tokens::new()).expect("taken");
    for batch in 0..20 {
        let id = |i| format!("{batch} {i}");
        let operations = (0..50).map(|i| schedule(&id(i), 3_600_000, 100)).collect();
        perform(&store, &Step::Apply("shop", operations), &mut Tokens::new()).expect("taken");
    }
    store.close();
    drop(store);

    let mut told = Vec::new();
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let by = Arc::new(clock.clone());
    let opened = EmbeddedStore::open(on, options(1), by, &mut |how_far| told.push(how_far));
    opened.expect("whole").close();

    let parts: Vec<&[OpenProgress]> = told.chunk_by(|a, b| a.what == b.what).collect();
    let names: Vec<&str> = parts.iter().map(|part| part[0].what).collect();
    assert_eq!(names, [OpenProgress::CHECKPOINT, OpenProgress::JOURNAL]);
    for part in parts {
        let (first, last) = (part[0], part[part.len() - 1]);
        assert!(first.bytes_done < last.bytes_done, "{part:?}");
        assert_eq!(last.bytes_done, last.bytes_total, "{part:?}");
        assert!(part.is_sorted_by_key(|how_far| how_far.bytes_done), "{part:?}");
        assert!(part.iter().all(|how_far| how_far.bytes_total == last.bytes_total), "{part:?}");
    }
}

/// Bytes that were read back count towards the next checkpoint. So a store that is restarted often does
/// not read more each time.
#[test]
fn p10_replay_stays_bounded_over_frequent_restarts() {
    let (disk, clock) = (SimDisk::new(2), ManualClock::default());
    // Nothing is rewritten, so no space waits for a checkpoint, which would be another reason to take
    // one.
    let options = || Options { checkpoint_bytes: 1 << 20, young_bytes: 1 << 30, ..options(2) };
    let mut most = 0;
    for life in 0..60 {
        let on: Arc<dyn Disk> = Arc::new(disk.clone());
        let store = EmbeddedStore::open_inline(on, options(), Arc::new(clock.clone()));
        let store = store.expect("whole");
        most = most.max(store.report().records);
        if life == 0 {
            let put = Step::Put("shop", Box::default());
            perform(&store, &put, &mut Tokens::new()).expect("taken");
        }
        let operations = (0..10).map(|i| schedule(&format!("{life} {i}"), 3_600_000, 6_000));
        let step = Step::Apply("shop", operations.collect());
        perform(&store, &step, &mut Tokens::new()).expect("taken");
    }
    assert!((100..400).contains(&most), "{most} records of 6 kB are read back; 170 are a MiB");
}
