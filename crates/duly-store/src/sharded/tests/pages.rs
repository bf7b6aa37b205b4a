//! The merging of pages.

use duly_core::{
    Incarnation, NamespaceName, Schedule, State, Timer, TimerId, Timestamp, schedule::When,
};

use crate::{Page, TimerView, query::Position, sharded::merge_pages};

fn view(id: &str, due_ms: u64) -> TimerView {
    let due_at = Timestamp::from_unix_ms(due_ms).unwrap();
    let schedule = Schedule::new(TimerId::new(id).unwrap(), When::At(due_at));
    let timer = Timer::new(schedule, Timestamp::MIN, Incarnation(1)).unwrap();
    TimerView::whole(NamespaceName::new("n").unwrap(), State::Scheduled, timer)
}

fn page(timers: &[(&str, u64)], next: Option<usize>) -> Page {
    let timers: Vec<_> = timers.iter().map(|(id, due)| view(id, *due)).collect();
    let next = next.map(|i| Position::of(&timers[i]));
    Page { examined: timers.len() as u64, timers, next }
}

fn ids(page: &Page) -> Vec<&str> {
    page.timers.iter().map(|view| view.id().as_str()).collect()
}

#[test]
fn merges_by_due_time_then_id() {
    let pages = vec![page(&[("b", 1), ("a", 3)], None), page(&[("a", 1), ("z", 2)], None)];
    let merged = merge_pages(pages, 10);
    assert_eq!(ids(&merged), ["a", "b", "z", "a"]);
    assert_eq!((merged.next, merged.examined), (None, 4));
}

#[test]
fn goes_no_further_than_the_slowest_shard() {
    let pages = vec![page(&[("a", 1), ("b", 2)], Some(1)), page(&[("c", 3)], None)];
    let merged = merge_pages(pages, 10);
    assert_eq!(ids(&merged), ["a", "b"]);
    assert_eq!(merged.next, Some(Position::of(&view("b", 2))));
}

#[test]
fn a_full_page_goes_on_after_its_last() {
    let pages = vec![page(&[("a", 1), ("c", 3)], None), page(&[("b", 2)], None)];
    let merged = merge_pages(pages, 2);
    assert_eq!(ids(&merged), ["a", "b"]);
    assert_eq!(merged.next, Some(Position::of(&view("b", 2))));
}
