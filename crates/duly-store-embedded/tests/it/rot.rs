//! Bits that flip, sectors that go and files that are missing, of what checkpoints and rewrites
//! wrote: a store opens with everything, or says which file it is; only a damaged record costs its
//! own timer, which becomes a dead letter.

use duly_core::{Millis, State, env::Clock, timer::DeathReason};
use duly_store::{
    ListRequest, SettleVerdict, Store,
    conformance::ManualClock,
    query::{Body, ListState},
};
use duly_store_embedded::{
    EmbeddedStore, OpenError, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    seeds::number,
    snapshot::Snapshot,
    steps::{
        SHARD, Step, Tokens, apply, cancel, claim, give_up, name, perform, schedule, settle,
        timer_id, wait,
    },
    tail::refused,
    twins::{busy, copy, open_busy, small},
    workload::settings,
};

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 31_536_000_000;
const SECTOR_BYTES: u64 = 512;

/// A closed store and what it showed.
struct Left {
    disk: SimDisk,
    clock: ManualClock,
    shown: Snapshot,
}

/// Timers due within the hour and in a year, a retry, a lease, dead letters and stubs, most of them
/// in runs behind two checkpoints.
fn fill(store: &EmbeddedStore) {
    let mut tokens = Tokens::new();
    let mut take = |step: Step| perform(store, &step, &mut tokens).expect("it is taken");
    take(Step::Put("shop", Box::new(settings())));
    let ids = ["leased", "retried", "dead", "acked"];
    take(Step::Apply("shop", ids.iter().map(|id| schedule(id, 0, 400)).collect()));
    take(Step::Claim("shop", 4));
    take(Step::Settle("shop", "retried".into(), crate::steps::retry_in(HOUR_MS)));
    take(Step::Settle("shop", "dead".into(), give_up()));
    take(Step::Settle("shop", "acked".into(), SettleVerdict::Ack));
    for i in 0..40 {
        let (near, far) = (format!("n{i:02}"), format!("y{i:02}"));
        let made = vec![schedule(&near, HOUR_MS + i, 900), schedule(&far, YEAR_MS + i, 4_000)];
        take(Step::Apply("shop", made));
        if i % 4 == 0 {
            take(Step::Apply("shop", vec![cancel(&far)]));
        }
    }
    // What the last checkpoint does not know yet.
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

/// Where the records of a run end, as its trailer says.
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

    /// Opens, looks, restarts and looks again: everything is there.
    fn has_all(&self, disk: &SimDisk, what: &str) {
        for seed in [2, 3] {
            let store = open_busy(&disk.kill(), &self.clock, seed);
            let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(Snapshot::of(&store) == self.shown, "{what}: something is lost");
        }
    }

    /// Everything is there, or the opening is refused with this file's name; answers whether it is.
    fn has_all_or_names(&self, disk: &SimDisk, name: &str, what: &str) -> bool {
        match open_busy(&copy(disk, 3), &self.clock, 2) {
            Ok(store) => {
                assert!(Snapshot::of(&store) == self.shown, "{what}: something is lost");
                true
            }
            Err(error) => {
                let message = refused(disk).to_string();
                assert!(message.contains(name), "{what}: {message} names {name}");
                assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {message}");
                false
            }
        }
    }
}

/// Damages of a file: bits of bytes here and there, and whole sectors.
fn damages(bytes: u64, every: u64) -> impl Iterator<Item = (String, std::ops::Range<u64>, u8)> {
    let every = (every * number("DULY_CRASH_STRIDE", 8) / 8).max(1);
    let flips = (0..bytes).step_by(usize::try_from(every).expect("a small number"));
    let flips = flips.map(|at| (format!("byte {at} flipped"), at..at + 1, 1 << (at % 8)));
    let sectors = (0..bytes.div_ceil(SECTOR_BYTES)).map(move |sector| {
        let start = sector * SECTOR_BYTES;
        (format!("sector {sector} lost"), start..(start + SECTOR_BYTES).min(bytes), 0)
    });
    flips.chain(sectors)
}

fn damage(disk: &SimDisk, name: &str, range: std::ops::Range<u64>, mask: u8) {
    match mask {
        0 => disk.zero(name, range),
        mask => disk.corrupt(name, range.start, mask),
    }
}

#[test]
fn p1_a_damaged_newest_checkpoint_gives_way_to_the_one_before_it() {
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
fn p1_a_missing_newest_checkpoint_gives_way_to_the_one_before_it() {
    let left = left();
    let newest = names(&left.disk, "checkpoints/").pop().expect("there are two");
    let disk = left.with(|disk| disk.remove(&newest).expect("it is there"));
    left.has_all(&disk, &format!("without {newest}"));
}

/// Two checkpoints, taken when most of the timers had gone.
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

/// An opening removes what nothing names, and what it removes is missed by neither checkpoint.
#[test]
fn p1_a_newest_checkpoint_that_rots_after_an_opening_gives_way_too() {
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
fn p1_the_older_checkpoint_is_not_needed() {
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
fn p1_two_damaged_checkpoints_are_refused_by_name() {
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

/// A store with checkpoints of which nothing was rewritten: its journal is whole.
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

#[test]
fn p1_a_journal_from_the_first_segment_on_needs_no_checkpoint() {
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
fn p1_t11_a_run_whose_frame_is_damaged_is_refused_by_name_or_not_needed() {
    let left = left();
    let mut refusals = 0;
    for run in names(&left.disk, "runs/") {
        let bytes = left.disk.read_file(&run);
        let end = bytes.len() as u64;
        let directory = directory_at(&bytes);
        let places = (0..64).chain(directory..end).step_by(5);
        for at in places {
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
fn p1_t11_a_missing_run_or_segment_is_refused_by_name_or_not_needed() {
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

/// A file that each of the two checkpoints needs or does not: the older one, the newest one.
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

/// A store as it was when its checkpoints needed some run like this, and that run.
fn with_run_needed(by: (bool, bool)) -> (Left, String) {
    let Left { disk, clock, .. } = left();
    // Runs go whole: where their pieces go one by one they are seldom merged.
    let options = Options { chunk_bytes: 1 << 20, ..busy(2) };
    let on = std::sync::Arc::new(disk.clone());
    let told = std::sync::Arc::new(clock.clone());
    let store = EmbeddedStore::open_inline(on, options, told).expect("nothing is wrong");
    let mut known = Vec::new();
    for i in 0..500 {
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
            return (left, run);
        }
    }
    panic!("there never is a run that is needed so: {by:?}");
}

#[test]
fn p1_t11_a_missing_run_that_only_the_newest_checkpoint_needs_gives_way_to_the_one_before_it() {
    let (left, run) = with_run_needed((false, true));
    let disk = left.with(|disk| disk.remove(&run).expect("it is there"));
    left.has_all(&disk, &format!("without {run}"));
}

/// The frames that the newest checkpoint has in it were durable: the older one does not open a journal
/// without them.
#[test]
fn p1_t11_no_checkpoint_gives_way_where_the_journal_ends_before_it() {
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
fn p1_t11_a_missing_run_that_both_checkpoints_need_is_refused_by_name() {
    let (left, run) = with_run_needed((true, true));
    let disk = left.with(|disk| disk.remove(&run).expect("it is there"));
    let message = refused(&disk).to_string();
    assert!(message.contains(run.trim_start_matches("runs/")), "without {run}: {message}");
}

#[test]
fn p1_a_run_that_only_the_older_checkpoint_needs_stays_until_that_goes() {
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

/// What becomes of the timers of a damaged store within two hours: how many fire, and how many are
/// dead letters with the reason `corrupt`.
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
        Body::Whole(timer) => timer.death.is_some_and(|death| death.reason == DeathReason::Corrupt),
        Body::Stub(_) => false,
    };
    // What is due later is found by the auditor, if it comes by.
    let due = dead.iter().filter(|view| view.due_at() <= Clock::now(&clock));
    let corrupt = due.filter(|view| is_corrupt(&view.body)).count();
    (fired.len(), corrupt)
}

#[test]
fn p3_t11_a_damaged_record_of_a_run_costs_its_own_timer_and_no_other() {
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
fn p3_t11_a_damaged_record_of_an_old_segment_is_neither_carried_over_nor_in_the_way() {
    let left = left_without_runs();
    let (all, _) = outcome(&left, &left.with(|_| {}), "undamaged");
    let mut met = 0;
    for at in (2_000..60_000).step_by(3_001) {
        let what = format!("byte {at} flipped");
        let disk = left.with(|disk| disk.corrupt(&first_segment(), at, 8));
        // Opened with no young generation: all that is whole is carried over.
        let (fired, corrupt) = outcome(&left, &disk, &what);
        assert_eq!(fired + corrupt, all, "{what}: {fired} fired, {corrupt} are corrupt");
        assert!(corrupt <= 1, "{what}: {corrupt} are corrupt");
        met += corrupt;
    }
    assert!(met > 0, "some damage was met");
}

/// The runs that hold stubs, as their headers say.
fn runs_of_stubs(disk: &SimDisk) -> Vec<String> {
    let runs = names(disk, "runs/").into_iter();
    runs.filter(|run| disk.read_file(run)[40] == 2).collect()
}

/// How many stubs are counted, after all of them were listed, and how many were.
fn stubs(store: &EmbeddedStore) -> (u64, usize) {
    let listed = [State::Finished, State::Cancelled].map(|state| {
        let request = ListRequest::new(name("shop"), ListState::Only(state));
        let request = ListRequest { limit: 100, ..request };
        wait(store.list(SHARD, request)).expect("a list can be read").timers.len()
    });
    let stats = wait(store.stats(SHARD, name("shop"))).expect("counts can be read");
    (stats.expect("it is there").retained, listed.iter().sum())
}

#[test]
fn t11_a_damaged_stub_is_counted_no_longer_when_it_was_met_and_never_comes_back() {
    let left = left();
    let (all, listed) = stubs(&open_busy(&copy(&left.disk, 2), &left.clock, 2).expect("it opens"));
    assert_eq!(all, listed as u64);
    let mut least = all;
    for run in runs_of_stubs(&left.disk) {
        let end = directory_at(&left.disk.read_file(&run));
        for at in (64..end).step_by(61) {
            let mut disk = left.with(|disk| disk.corrupt(&run, at, 16));
            let what = format!("{run}: byte {at} flipped");
            let mut before = None;
            for seed in 2..5 {
                let store = open_busy(&disk, &left.clock, seed).expect("it opens");
                let (counted, listed) = stubs(&store);
                assert_eq!(counted, listed as u64, "{what}, opening {seed}");
                assert_eq!(before.unwrap_or(counted), counted, "{what}, opening {seed}");
                before = Some(counted);
                least = least.min(counted);
                drop(store);
                disk = disk.crash();
            }
        }
    }
    assert!(least < all, "some stubs were damaged");
}

#[test]
fn t11_a_damaged_stub_that_was_asked_for_by_its_id_is_gone_afterwards() {
    let left = left();
    let mut met = 0;
    for run in runs_of_stubs(&left.disk) {
        let end = directory_at(&left.disk.read_file(&run));
        let disk = left.with(|disk| disk.zero(&run, 64..end));
        let get = |store: &EmbeddedStore| wait(store.get(SHARD, name("shop"), timer_id("y00")));
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
