//! Row `lists`: pages of lists while a writer schedules at full speed: the time of a page, and its
//! effect on commits.
//!
//! Intervals with and without lists alternate, and their order changes from pair to pair. So the
//! growth of the store affects both alike.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use duly_core::NamespaceName;
use duly_store::{
    ListRequest, Store as _,
    query::{ListState, PAGE_MAX, Position},
};
use futures::executor::block_on;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use super::{
    Bench, Name, ingest, rows,
    scene::{Due, SHARD, Scene, Setup},
    writer::{Expected, Sent, Writer},
};
use crate::{
    error::{Error, Result},
    latency::Latencies,
    progress::Progress,
};

/// Namespaces, unless there are fewer timers.
const NAMESPACES: u32 = 1_000;
/// Most pages that are read without a writer, as the baseline.
const QUIET_PAGES: u64 = 200;
/// Longest time of the baseline.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Seconds of a pair of intervals.
const PAIR_SECONDS: u32 = 2;

/// Lists in an interval: on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Off,
    On,
}

/// Pages that were read.
#[derive(Debug)]
struct Pages {
    latencies: Latencies,
    calls: u64,
    timers: u64,
}

/// Measures the row.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let mut setup = Setup::new(Due::Spread, options.payload_bytes);
    setup.namespaces = NAMESPACES.min(options.timers);
    let scene = Scene::fresh(bench.folder, &setup)?;
    ingest::fill(&scene, options.timers, options.batch, options.in_flight)?;
    let mut lister = Lister::new(&scene, options.timers);
    let mut quiet = Pages::none();
    let began = Instant::now();
    while quiet.latencies.count() < QUIET_PAGES && began.elapsed() < QUIET_MAX {
        lister.visit(&mut quiet)?;
    }

    let pairs = (options.seconds / PAIR_SECONDS).max(1);
    let stretch = options.duration() / (2 * pairs);
    let mut numbers = options.timers..u32::MAX;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut pages = Pages::none();
    let mut progress = Progress::new("pairs of stretches", pairs.into());
    for pair in 0..pairs {
        let order = if pair % 2 == 0 { [Lists::Off, Lists::On] } else { [Lists::On, Lists::Off] };
        for lists in order {
            let sent = run_stretch(bench, &scene, stretch, lists, &mut numbers, |stop| {
                while !stop.load(Ordering::Relaxed) {
                    lister.visit(&mut pages)?;
                }
                Ok(())
            })?;
            if lists == Lists::On { &mut with } else { &mut without }.push(Ok(sent));
        }
        progress.at(pair.into());
    }
    let (without, with) = (Sent::sum(without)?, Sent::sum(with)?);
    let pending = u64::from(options.timers) + without.items + with.items;
    Error::unless_equal("pending timers", pending, scene.pending()?)?;

    let about = format!(
        "pages of {PAGE_MAX} of one of {} namespaces while one writer schedules all it can; p50… of \
         a page",
        setup.namespaces
    );
    let (p999_without, p999_with) =
        (without.latencies.quantile_ms(0.999), with.latencies.quantile_ms(0.999));
    let count = pages.latencies.count();
    let row = bench.report.row(Name::Lists.as_str(), about, count);
    let stretches = stretch * pairs;
    row.add("per_second", "/s", rows::per_second(count, stretches));
    rows::add_latencies(row, &pages.latencies);
    let floor = "the same while nothing is written";
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        row.beside(name, floor, quiet.latencies.quantile_ms(share));
    }
    row.add("timers a page", "", rows::each(pages.timers, count))
        .add("calls a page", "", rows::each(pages.calls, count))
        .add("schedules", "/s", rows::per_second(with.items, stretches))
        .beside("schedules", "without lists", rows::per_second(without.items, stretches))
        .add("commit p99.9", "ms", p999_with)
        .beside("commit p99.9", "without lists", p999_without)
        .add("commit p99.9 ratio", "x", p999_with / p999_without.max(1e-6));
    scene.remove()
}

/// Schedules at full speed for one interval, with lists beside if `lists` says so.
fn run_stretch(
    bench: &Bench<'_>,
    scene: &Scene,
    stretch: Duration,
    lists: Lists,
    numbers: &mut impl Iterator<Item = u32>,
    list: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<Sent> {
    let options = bench.options;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let listing = (lists == Lists::On).then(|| scope.spawn(|| list(&stop)));
        let began = Instant::now();
        let batches = ingest::batches(&scene.workload, numbers, options.batch)
            .take_while(|_| began.elapsed() < stretch);
        let writer = Writer { store: scene.store(), in_flight: options.in_flight };
        let sent = writer.send(batches, Expected::Created, Progress::silent());
        stop.store(true, Ordering::Relaxed);
        if let Some(listing) = listing {
            listing.join().expect("listing does not panic")?;
        }
        sent
    })
}

/// Reads pages and checks them.
struct Lister<'a> {
    scene: &'a Scene,
    random: SmallRng,
    /// Fewest timers that each namespace has.
    least: usize,
}

impl<'a> Lister<'a> {
    fn new(scene: &'a Scene, timers: u32) -> Self {
        let least = timers as usize / scene.namespaces.len();
        Self { scene, random: SmallRng::seed_from_u64(1), least }
    }

    /// Reads the first page of a random namespace, and the second if there is one.
    fn visit(&mut self, pages: &mut Pages) -> Result<()> {
        let place = self.random.random_range(0..self.scene.namespaces.len());
        let namespace = &self.scene.namespaces[place];
        let next = self.page(namespace, None, self.least, pages)?;
        if next.is_some() {
            self.page(namespace, next, self.least.saturating_sub(PAGE_MAX), pages)?;
        }
        Ok(())
    }

    /// Reads one page as a caller sees it: calls until the page is full or the list ends.
    fn page(
        &self,
        namespace: &NamespaceName,
        after: Option<Position>,
        least: usize,
        pages: &mut Pages,
    ) -> Result<Option<Position>> {
        let mut request = ListRequest::new(namespace.clone(), ListState::Pending);
        request.after = after;
        let (began, mut timers) = (Instant::now(), 0);
        let mut last = request.after.clone();
        loop {
            request.limit = PAGE_MAX - timers;
            let page = block_on(self.scene.store().list(SHARD, request.clone()))?;
            pages.calls += 1;
            timers += page.timers.len();
            for view in &page.timers {
                let position = Position::of(view);
                if view.namespace != *namespace || last.as_ref() >= Some(&position) {
                    let expected = format!("timers of {namespace} in order, after {last:?}");
                    return Err(Error::Unexpected { expected, found: format!("{position:?}") });
                }
                last = Some(position);
            }
            request.after = page.next;
            if timers >= PAGE_MAX || request.after.is_none() {
                break;
            }
        }
        pages.latencies.record(began.elapsed());
        pages.timers += timers as u64;
        if timers < least.min(PAGE_MAX) {
            let expected = format!("{} timers on a page", least.min(PAGE_MAX));
            return Err(Error::Unexpected { expected, found: timers.to_string() });
        }
        Ok(request.after)
    }
}

impl Pages {
    fn none() -> Self {
        Self { latencies: Latencies::new(), calls: 0, timers: 0 }
    }
}
