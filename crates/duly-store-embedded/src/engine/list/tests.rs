//! Lists of large namespaces: the cost of a page and of a slice, counted in tables and records.

use duly_core::{
    Millis, Schedule,
    schedule::{IfExists, Tags, When},
    timer::{AttemptOutcome, Wait},
};
use duly_store::{Command, Operation, SettleVerdict, command::Answer};

use super::{candidates::CANDIDATES_MAX, *};
use crate::engine::tests::{Bench, shop};

const MANY: usize = 30_000;

/// The cost of a page.
#[derive(Debug, Default)]
struct Cost {
    tables: usize,
    reads: usize,
}

fn page(bench: &mut Bench, request: &ListRequest) -> (Page, Cost) {
    let mut cost = Cost::default();
    let mut listing = Listing::new(&bench.engine, request.clone()).expect("it is allowed");
    loop {
        let page = listing.slice(&mut bench.engine);
        let SliceUsage { tables, reads, bytes } = listing.spent;
        assert!(tables <= TABLES_PER_SLICE, "{tables} tables in a slice");
        assert!(reads <= READS_PER_SLICE, "{reads} records in a slice");
        assert!(bytes <= 2 * BYTES_PER_SLICE, "{bytes} bytes in a slice");
        cost.tables += tables;
        cost.reads += reads;
        if let Some(page) = page {
            return (page.expect("a page can be read"), cost);
        }
    }
}

/// Returns every page, and the most that one has cost.
fn whole(bench: &mut Bench, mut request: ListRequest) -> (Vec<String>, usize, Cost) {
    let (mut ids, mut pages, mut most) = (Vec::new(), 0, Cost::default());
    loop {
        let (page, cost) = page(bench, &request);
        pages += 1;
        most.tables = most.tables.max(cost.tables);
        most.reads = most.reads.max(cost.reads);
        ids.extend(page.timers.iter().map(|view| view.id().to_string()));
        let Some(next) = page.next else {
            return (ids, pages, most);
        };
        assert!(request.after.as_ref().is_none_or(|after| next > *after), "it gets further");
        request.after = Some(next);
    }
}

fn name_of(n: usize) -> String {
    format!("t{n:06}")
}

fn schedule(bench: &mut Bench, n: usize, after: Millis) {
    let id = TimerId::new(&name_of(n)).expect("a short id");
    let mut schedule = Schedule::new(id, When::After(after));
    schedule.spec.tags = Tags::new(vec![format!("tag{}", n % 2)]).expect("a short tag");
    let schedule = Box::new(schedule);
    let operation = Operation::Schedule { schedule, if_exists: IfExists::Replace };
    bench.engine.apply(Command { namespace: shop(), operation, answer: Answer::Brief });
}

/// `MANY` timers, some of them due at the same times.
fn many() -> Bench {
    let mut bench = Bench::with_large_segments();
    (0..MANY).for_each(|n| schedule(&mut bench, n, Millis::from_secs(1 + n as u64 / 3)));
    bench.sync();
    bench
}

fn request() -> ListRequest {
    ListRequest::new(shop(), ListState::Pending)
}

/// One walk over the index.
const TABLES_MAX: usize = MANY / 512;

#[test]
fn filter_without_matches_has_bounded_reads_per_call() {
    let mut bench = many();
    let now = bench.engine.now.wall();
    let nothing = [
        ListRequest { id_prefix: Some("u".into()), ..request() },
        ListRequest { tag: Some("tag2".into()), ..request() },
        ListRequest {
            tag: Some("tag2".into()),
            state: ListState::Only(State::Scheduled),
            due_from: Some(now.saturating_add(Millis::from_secs(100))),
            ..request()
        },
    ];
    for request in nothing {
        let (ids, pages, most) = whole(&mut bench, request.clone());
        assert_eq!(ids, [""; 0]);
        assert!(pages >= MANY / CANDIDATES_MAX, "{request:?}: {pages} pages");
        assert!(most.reads <= CANDIDATES_MAX + 3, "{request:?}: {most:?}");
        assert!(most.tables <= TABLES_MAX, "{request:?}: {most:?}");
    }
    let unread = [
        ListRequest { state: ListState::Only(State::Retrying), ..request() },
        ListRequest { state: ListState::Only(State::Dead), ..request() },
        ListRequest { state: ListState::Only(State::Finished), ..request() },
        ListRequest { due_from: Some(Timestamp::MAX), ..request() },
        ListRequest { due_to: Some(now), ..request() },
    ];
    for request in unread {
        let (page, cost) = page(&mut bench, &request);
        assert_eq!((page, cost.reads), (Page::default(), 0), "{request:?}");
        assert!(cost.tables <= TABLES_MAX, "{request:?}: {cost:?}");
    }
}

#[test]
fn a_page_reads_little_more_than_it_shows() {
    let mut bench = many();
    let (page, cost) = page(&mut bench, &ListRequest { limit: 100, ..request() });
    assert_eq!(page.timers.len(), 100);
    assert!(cost.reads <= 100 + 4, "{cost:?}");
}

#[test]
fn pages_have_everything_once_and_in_order() {
    let mut bench = many();
    let all: Vec<_> = (0..MANY).map(name_of).collect();
    let (ids, ..) = whole(&mut bench, request());
    assert!(ids == all, "all are listed, in order");
    let half = ListRequest { tag: Some("tag1".into()), limit: 700, ..request() };
    let (ids, ..) = whole(&mut bench, half);
    assert!(ids.iter().eq(all.iter().skip(1).step_by(2)), "every other one, in order");
}

#[test]
fn timers_past_candidates_max_at_one_instant_sort_by_id() {
    let mut bench = Bench::with_large_segments();
    let count = 2 * CANDIDATES_MAX + 500;
    schedule(&mut bench, 0, Millis::from_secs(1));
    (1..count).for_each(|n| schedule(&mut bench, n, Millis::from_secs(60)));
    schedule(&mut bench, count, Millis::from_secs(90));
    bench.sync();
    let (ids, ..) = whole(&mut bench, request());
    assert!(ids.iter().eq((0..=count).map(name_of).collect::<Vec<_>>().iter()));
    let none = ListRequest { id_prefix: Some("u".into()), ..request() };
    let (ids, pages, _) = whole(&mut bench, none);
    assert!(ids.is_empty() && pages > 1, "{pages} pages");
}

#[test]
fn retries_stand_among_the_candidates_by_their_due_time() {
    let mut bench = Bench::with_large_segments();
    let count = 2 * CANDIDATES_MAX;
    // Every 512th is due already, by its number. After a failed attempt it waits for long.
    let is_early = |n: usize| n.is_multiple_of(512);
    (0..count).filter(|n| is_early(*n)).for_each(|n| schedule(&mut bench, n, Millis::ZERO));
    bench.sync();
    bench.settle_down();
    for _ in 0..count / 512 {
        for firing in bench.claim() {
            let (wait, outcome) = (Wait::Exactly(Millis::from_secs(1)), AttemptOutcome::Failed);
            bench.settle(&firing, SettleVerdict::Retry { wait, outcome, reason: "no".into() });
        }
    }
    (0..count)
        .filter(|n| !is_early(*n))
        .for_each(|n| schedule(&mut bench, n, Millis::from_secs(1 + n as u64)));
    bench.sync();
    let (ids, ..) = whole(&mut bench, ListRequest { limit: 1_000, ..request() });
    let early = (0..count).filter(|n| is_early(*n));
    let late = (0..count).filter(|n| !is_early(*n));
    assert!(ids.iter().eq(early.chain(late).map(name_of).collect::<Vec<_>>().iter()));
}

#[test]
fn cursor_advances_past_unreadable_records() {
    let position = before(1_000).expect("an id of the largest characters");
    let view = |due_ms| Position {
        due_at: Timestamp::saturating_from_unix_ms(due_ms),
        ..position.clone()
    };
    assert_eq!(position, view(999));
    assert!(position < view(1_000) && position > view(998));
}
