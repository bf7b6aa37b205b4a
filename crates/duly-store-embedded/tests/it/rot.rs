//! Flipped bits, lost sectors and missing files, in files that checkpoints and rewrites wrote. A store
//! opens with everything, or names the file. Only a damaged record costs its own timer, which becomes a
//! dead letter.
//!
//! This module has the damaged stores and the damages. `refused` tests what a start does without and
//! what it refuses, `quarantined` the fate of single records.

mod quarantined;
mod refused;

use duly_store::{SettleVerdict, conformance::ManualClock};
use duly_store_embedded::{EmbeddedStore, OpenError, Options, disk::SimDisk};

use crate::{
    seeds::{Repeat, number},
    snapshot::Snapshot,
    steps::{Step, Tokens, cancel, dead_letter_verdict, perform, schedule},
    tail,
    twins::{copy, open_busy, small},
    workload::settings,
};

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 31_536_000_000;
const SECTOR_BYTES: u64 = 512;

/// A closed store and its contents.
struct Left {
    disk: SimDisk,
    clock: ManualClock,
    shown: Snapshot,
}

/// Makes timers due within the hour and in a year, a retry, a lease, dead letters and tombstones. Most
/// of them are in sorted runs behind two checkpoints.
fn fill(store: &EmbeddedStore) {
    let mut tokens = Tokens::new();
    let mut take = |step: Step| perform(store, &step, &mut tokens).expect("it is taken");
    take(Step::Put("shop", Box::new(settings())));
    let ids = ["leased", "retried", "dead", "acked"];
    take(Step::Apply("shop", ids.iter().map(|id| schedule(id, 0, 400)).collect()));
    take(Step::Claim("shop", 4));
    take(Step::Settle("shop", "retried".into(), crate::steps::retry_in(HOUR_MS)));
    take(Step::Settle("shop", "dead".into(), dead_letter_verdict()));
    take(Step::Settle("shop", "acked".into(), SettleVerdict::Ack));
    for i in 0..40 {
        let (near, far) = (format!("n{i:02}"), format!("y{i:02}"));
        let made = vec![schedule(&near, HOUR_MS + i, 900), schedule(&far, YEAR_MS + i, 4_000)];
        take(Step::Apply("shop", made));
        if i % 4 == 0 {
            take(Step::Apply("shop", vec![cancel(&far)]));
        }
    }
    // Changes that the last checkpoint does not know.
    take(Step::Apply("shop", vec![schedule("last", HOUR_MS, 40), cancel("n39")]));
}

fn left() -> Left {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open_busy(&disk, &clock, 1).expect("a new store opens");
    fill(&store);
    let shown = Snapshot::of(&store);
    store.close();
    drop(store);
    assert_eq!(names(&disk, "checkpoints/").len(), 2, "{:?}", disk.names());
    assert!(names(&disk, "runs/").len() > 2, "{:?}", disk.names());
    assert!(!disk.names().contains(&first_segment()), "{:?}", disk.names());
    Left { disk: copy(&disk, 1), clock, shown }
}

fn first_segment() -> String {
    "journal/0000000000000001.log".to_owned()
}

fn names(disk: &SimDisk, dir: &str) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with(dir)).collect()
}

fn bytes_of(disk: &SimDisk, name: &str) -> u64 {
    disk.read_file(name).len() as u64
}

/// Returns the end of a sorted run's records, from its trailer.
fn directory_at(run: &[u8]) -> u64 {
    let trailer = &run[run.len() - 64..];
    assert_eq!(&trailer[..8], b"DULYRNE\n");
    u64::from_le_bytes(trailer[32..40].try_into().expect("eight bytes"))
}

impl Left {
    fn with(&self, change: impl FnOnce(&SimDisk)) -> SimDisk {
        let disk = copy(&self.disk, 2);
        change(&disk);
        disk
    }

    /// Opens, checks, restarts and checks again: everything is there.
    fn has_all(&self, disk: &SimDisk, what: &str) {
        for seed in [2, 3] {
            let store = open_busy(&disk.kill(), &self.clock, seed);
            let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(Snapshot::of(&store) == self.shown, "{what}: something is lost");
        }
    }

    /// Returns `true` if everything is there; otherwise the start must be refused with this file's name.
    fn has_all_or_names(&self, disk: &SimDisk, name: &str, what: &str) -> bool {
        match open_busy(&copy(disk, 3), &self.clock, 2) {
            Ok(store) => {
                assert!(Snapshot::of(&store) == self.shown, "{what}: something is lost");
                true
            }
            Err(error) => {
                let message = tail::refused(disk).to_string();
                assert!(message.contains(name), "{what}: {message} names {name}");
                assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {message}");
                false
            }
        }
    }
}

/// Returns damages of a file: bits of bytes here and there, and whole sectors.
fn damages(bytes: u64, every: u64) -> impl Iterator<Item = (String, std::ops::Range<u64>, u8)> {
    let stride = number("DULY_CRASH_STRIDE", 8);
    let repeat = Repeat::new("rot", &[("DULY_CRASH_STRIDE", stride)]);
    let every = (every * stride / 8).max(1);
    let flips = (0..bytes).step_by(usize::try_from(every).expect("a small number"));
    let flips = flips.map(|at| (format!("byte {at} flipped"), at..at + 1, 1 << (at % 8)));
    let sectors = (0..bytes.div_ceil(SECTOR_BYTES)).map(move |sector| {
        let start = sector * SECTOR_BYTES;
        (format!("sector {sector} lost"), start..(start + SECTOR_BYTES).min(bytes), 0)
    });
    // The iterator holds it until the last damage is tried.
    flips.chain(sectors).inspect(move |_| {
        let _held = &repeat;
    })
}

fn damage(disk: &SimDisk, name: &str, range: std::ops::Range<u64>, mask: u8) {
    match mask {
        0 => disk.zero(name, range),
        mask => disk.corrupt(name, range.start, mask),
    }
}
/// Makes a store with checkpoints in which nothing was rewritten: its journal is complete.
fn left_without_runs() -> Left {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let options = Options { checkpoint_bytes: 16 << 10, young_bytes: 1 << 30, ..small(1) };
    let on = std::sync::Arc::new(disk.clone());
    let by = std::sync::Arc::new(clock.clone());
    let store = EmbeddedStore::open_inline(on, options, by).expect("a new store opens");
    fill(&store);
    let shown = Snapshot::of(&store);
    drop(store);
    Left { disk: copy(&disk, 1), clock, shown }
}
