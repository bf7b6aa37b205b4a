//! Files that a start does without, and files whose loss it refuses: checkpoints, sorted runs and
//! segments that are damaged or missing; a checkpoint that is older than the journal, newer than it, or
//! missing (T14).

use duly_store_embedded::{EmbeddedStore, Options, disk::Disk};

use super::{
    Left, YEAR_MS, bytes_of, damage, damages, directory_at, first_segment, left, left_without_runs,
    names,
};
use crate::{
    seeds::number,
    snapshot::Snapshot,
    steps::{apply, cancel, schedule},
    tail::refused,
    twins::{busy, copy, open_busy},
};

#[test]
fn p1_t14_a_damaged_newest_checkpoint_falls_back() {
    let left = left();
    let newest = names(&left.disk, "checkpoints/").pop().expect("there are two");
    for (what, range, mask) in damages(bytes_of(&left.disk, &newest), 97) {
        let disk = left.with(|disk| damage(disk, &newest, range, mask));
        left.has_all(&disk, &format!("{newest}: {what}"));
    }
    for cut in [0, 1, 96, 511, bytes_of(&left.disk, &newest) - 1] {
        let disk = left.with(|disk| disk.open(&newest).unwrap().set_len(cut).unwrap());
        left.has_all(&disk, &format!("{newest}: cut at {cut}"));
    }
}

#[test]
fn p1_t14_a_missing_newest_checkpoint_falls_back() {
    let left = left();
    let newest = names(&left.disk, "checkpoints/").pop().expect("there are two");
    let disk = left.with(|disk| disk.remove(&newest).expect("it is there"));
    left.has_all(&disk, &format!("without {newest}"));
}

/// Makes two checkpoints after most of the timers ended.
fn emptied() -> Left {
    let Left { disk, clock, .. } = left();
    let store = open_busy(&disk, &clock, 2).expect("nothing is wrong");
    let before = names(&disk, "checkpoints/");
    let all: Vec<String> = Snapshot::of(&store).pending("shop");
    let gone = all.iter().filter(|id| *id != "last" && *id != "leased").map(|id| cancel(id));
    apply(&store, "shop", gone.collect()).expect("it is taken");
    for i in 0.. {
        if names(&disk, "checkpoints/") != before {
            break;
        }
        assert!(i < 100, "a checkpoint is taken");
        let filler = vec![schedule(&format!("filler {i}"), YEAR_MS, 1_000)];
        apply(&store, "shop", filler).expect("it is taken");
    }
    let shown = Snapshot::of(&store);
    drop(store);
    Left { disk: copy(&disk, 1), clock, shown }
}

/// A start removes files that nothing names, and neither checkpoint needs them.
#[test]
fn p1_a_checkpoint_damaged_after_a_start_falls_back() {
    for left in [left(), emptied()] {
        let mut disk = left.with(|_| {});
        for seed in 3..6 {
            drop(open_busy(&disk, &left.clock, seed).expect("nothing is wrong"));
            disk = disk.kill();
            let both = names(&disk, "checkpoints/");
            assert_eq!(both.len(), 2, "{both:?}");
            let rotten = copy(&disk, 2);
            rotten.corrupt(&both[1], 150, 2);
            left.has_all(&rotten, &format!("{} after opening {seed}", both[1]));
        }
    }
}

#[test]
fn p1_t14_the_older_checkpoint_is_not_needed() {
    let left = left();
    let older = names(&left.disk, "checkpoints/").remove(0);
    for (what, range, mask) in damages(bytes_of(&left.disk, &older), 997) {
        let disk = left.with(|disk| damage(disk, &older, range, mask));
        left.has_all(&disk, &format!("{older}: {what}"));
    }
    let disk = left.with(|disk| disk.remove(&older).expect("it is there"));
    left.has_all(&disk, &format!("without {older}"));
}

#[test]
fn p1_t14_two_damaged_checkpoints_are_refused_by_name() {
    let left = left();
    let both = names(&left.disk, "checkpoints/");
    for (what, range, mask) in damages(bytes_of(&left.disk, &both[1]), 997) {
        let disk = left.with(|disk| {
            damage(disk, &both[1], range, mask);
            disk.corrupt(&both[0], 200, 1);
        });
        let message = refused(&disk).to_string();
        assert!(message.contains(&both[1]), "{what}: {message}");
    }
    let disk = left.with(|disk| both.iter().for_each(|name| disk.remove(name).unwrap()));
    let message = refused(&disk).to_string();
    assert!(message.contains("checkpoint"), "{message}");
}

#[test]
fn p1_t14_a_complete_journal_needs_no_checkpoint() {
    let left = left_without_runs();
    assert!(left.disk.names().contains(&first_segment()), "nothing was rewritten");
    let all = names(&left.disk, "checkpoints/");
    assert_eq!(all.len(), 2);
    let damaged = left.with(|disk| all.iter().for_each(|name| disk.corrupt(name, 300, 4)));
    left.has_all(&damaged, "both are damaged");
    let gone = left.with(|disk| all.iter().for_each(|name| disk.remove(name).unwrap()));
    left.has_all(&gone, "both are gone");
}

#[test]
fn p1_t11_a_needed_damaged_sorted_run_is_refused_by_name() {
    let left = left();
    let mut refusals = 0;
    for (nth, run) in names(&left.disk, "runs/").into_iter().enumerate() {
        let bytes = left.disk.read_file(&run);
        let end = bytes.len() as u64;
        let directory = directory_at(&bytes);
        // All bytes of the header and the footer of the first, a few bytes of the others.
        let every = if nth == 0 { 1 } else { number("DULY_CRASH_STRIDE", 8) };
        let every = usize::try_from(every).expect("small");
        for at in (0..64).chain(directory..end).step_by(every) {
            let disk = left.with(|disk| disk.corrupt(&run, at, 1 << (at % 8)));
            let all = left.has_all_or_names(&disk, &run, &format!("{run}: byte {at}"));
            refusals += usize::from(!all);
        }
        for cut in [0, 63, 64, 200, end - 1] {
            let disk = left.with(|disk| disk.open(&run).unwrap().set_len(cut).unwrap());
            left.has_all_or_names(&disk, &run, &format!("{run}: cut at {cut}"));
        }
    }
    assert!(refusals > 0, "some runs are in both checkpoints");
}

#[test]
fn p1_t11_a_needed_missing_file_is_refused_by_name() {
    let left = left();
    let mut refusals = 0;
    let segments = names(&left.disk, "journal/").into_iter().filter(|name| name.ends_with(".log"));
    let all: Vec<String> = segments.chain(names(&left.disk, "runs/")).collect();
    let (_, but_the_last) = all.split_last().expect("there are files");
    let active = all.iter().rfind(|name| name.ends_with(".log")).expect("there is a journal");
    for gone in but_the_last.iter().chain(all.last()).filter(|name| *name != active) {
        let disk = left.with(|disk| disk.remove(gone).expect("it is there"));
        let number = gone.trim_end_matches(".log").rsplit('/').next().expect("a name");
        let what = format!("without {gone}");
        refusals += usize::from(!left.has_all_or_names(&disk, number, &what));
    }
    assert!(refusals > 1, "most files are needed");
}

/// Returns which of the two checkpoints needs a file: the older one, the newest one.
fn needs(left: &Left, file: &str) -> (bool, bool) {
    let both = names(&left.disk, "checkpoints/");
    let without = |checkpoint: &str| {
        let disk = left.with(|disk| {
            disk.remove(checkpoint).expect("it is there");
            disk.remove(file).expect("it is there");
        });
        open_busy(&disk, &left.clock, 4).is_err()
    };
    (without(&both[1]), without(&both[0]))
}

/// Makes a store whose checkpoints need some sorted run in this way, and returns that run too.
fn with_run_needed(by: (bool, bool)) -> (Left, String) {
    // Sorted runs come and go between two checkpoints only if rewritten space does not cause others at
    // once: with rare checkpoints, or in a store that is large compared to that space.
    let stores = [(80, 0), (16, 60), (16, 120)];
    let found = stores.into_iter().find_map(|(kib, ballast)| run_needed(by, kib << 10, ballast));
    found.unwrap_or_else(|| panic!("there never is a run that is needed so: {by:?}"))
}

fn run_needed(by: (bool, bool), checkpoint_bytes: u64, ballast: u64) -> Option<(Left, String)> {
    let Left { disk, clock, .. } = left();
    // Sorted runs are removed as a whole: if their chunks go one by one the runs are seldom merged.
    let options = Options { chunk_bytes: 1 << 20, checkpoint_bytes, ..busy(2) };
    let on = std::sync::Arc::new(disk.clone());
    let told = std::sync::Arc::new(clock.clone());
    let store = EmbeddedStore::open_inline(on, options, told).expect("nothing is wrong");
    for i in 0..ballast {
        let large = schedule(&format!("ballast {i}"), 2 * YEAR_MS, 20_000);
        apply(&store, "shop", vec![large]).expect("it is taken");
    }
    let mut known = Vec::new();
    for i in 0..300 {
        let gone = format!("filler {}", i / 2);
        let filler = schedule(&format!("filler {i}"), YEAR_MS, 1_000);
        apply(&store, "shop", vec![filler, cancel(&gone)]).expect("it is taken");
        let both = names(&disk, "checkpoints/");
        if std::mem::replace(&mut known, both.clone()) == both {
            continue;
        }
        let left = Left { disk: copy(&disk, 1), clock: clock.clone(), shown: Snapshot::of(&store) };
        let run = names(&disk, "runs/").into_iter().find(|run| needs(&left, run) == by);
        if let Some(run) = run {
            return Some((left, run));
        }
    }
    None
}

#[test]
fn p1_t11_a_missing_new_sorted_run_falls_back() {
    let (left, run) = with_run_needed((false, true));
    let disk = left.with(|disk| disk.remove(&run).expect("it is there"));
    left.has_all(&disk, &format!("without {run}"));
}

/// The frames that the newest checkpoint covers were durable: the older one does not open a journal
/// without them.
#[test]
fn p1_t11_t14_no_fallback_behind_the_end_of_the_journal() {
    let (left, run) = with_run_needed((false, true));
    let newest = names(&left.disk, "checkpoints/").pop().expect("there are two");
    let header = left.disk.read_file(&newest);
    let sequence = u64::from_le_bytes(header[40..48].try_into().expect("eight bytes"));
    let segment = format!("journal/{sequence:016}.log");
    let later = names(&left.disk, "journal/");
    let disk = left.with(|disk| {
        disk.zero(&segment, 64..bytes_of(disk, &segment));
        let is_later = |name: &&String| name.ends_with(".log") && **name > segment;
        later.iter().filter(is_later).for_each(|name| disk.remove(name).expect("it is there"));
    });
    assert!(
        open_busy(&copy(&disk, 3), &left.clock, 3).is_ok(),
        "its end may never have been there"
    );
    disk.remove(&run).expect("it is there");
    let message = refused(&disk).to_string();
    assert!(message.contains(run.trim_start_matches("runs/")), "without {run}: {message}");
}

#[test]
fn p1_t11_a_missing_sorted_run_of_both_checkpoints_is_refused() {
    let (left, run) = with_run_needed((true, true));
    let disk = left.with(|disk| disk.remove(&run).expect("it is there"));
    let message = refused(&disk).to_string();
    assert!(message.contains(run.trim_start_matches("runs/")), "without {run}: {message}");
}

#[test]
fn p1_a_sorted_run_stays_as_long_as_its_older_checkpoint() {
    let (left, run) = with_run_needed((true, false));
    let older = names(&left.disk, "checkpoints/").remove(0);
    let mut disk = left.with(|_| {});
    for seed in 3..6 {
        drop(open_busy(&disk, &left.clock, seed).expect("nothing is wrong"));
        disk = disk.crash();
        let both = names(&disk, "checkpoints/");
        assert_eq!((both.len(), &both[0]), (2, &older), "an opening takes no checkpoint");
        assert!(disk.names().contains(&run), "{run} after opening {seed}");
        let rotten = copy(&disk, 2);
        rotten.corrupt(&both[1], 150, 2);
        left.has_all(&rotten, &format!("{} after opening {seed}", both[1]));
    }
    let store = open_busy(&disk, &left.clock, 9).expect("nothing is wrong");
    for i in 0..400 {
        if !disk.names().contains(&run) {
            assert!(!disk.names().contains(&older), "{run} went before {older}");
            return;
        }
        let filler = vec![schedule(&format!("more {i}"), YEAR_MS, 1_000)];
        apply(&store, "shop", filler).expect("it is taken");
    }
    panic!("{run} never went");
}
