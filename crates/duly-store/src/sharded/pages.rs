//! One page over all shards, in the order of a single list.
//!
//! Every shard returns a page from the same position on. The pages are merged up to the position that the
//! slowest shard has reached, so the next page never has to go back.

use crate::{Page, query::Position};

/// Merges one page of each shard into one page of at most `limit` timers.
pub(super) fn merge(mut pages: Vec<Page>, limit: usize) -> Page {
    if let [_] = pages[..] {
        return pages.swap_remove(0);
    }
    let examined = pages.iter().map(|page| page.examined).sum();
    let reached: Option<Position> = pages.iter().filter_map(|page| page.next.clone()).min();
    let timers = pages.into_iter().flat_map(|page| page.timers);
    let mut positioned: Vec<_> = timers.map(|view| (Position::of(&view), view)).collect();
    positioned.sort_by(|a, b| a.0.cmp(&b.0));
    let count = positioned.len();
    if let Some(reached) = &reached {
        positioned.retain(|(position, _)| position <= reached);
    }
    let has_withheld = positioned.len() < count;
    let is_cut = positioned.len() > limit;
    positioned.truncate(limit);
    let next = if is_cut {
        positioned.last().map(|(position, _)| position.clone())
    } else if has_withheld || reached.is_some() {
        reached
    } else {
        None
    };
    Page { timers: positioned.into_iter().map(|(_, view)| view).collect(), next, examined }
}

#[cfg(test)]
mod tests {
    use duly_core::{
        Incarnation, NamespaceName, Schedule, State, Timer, TimerId, Timestamp, schedule::When,
    };

    use super::*;
    use crate::TimerView;

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
        let merged =
            merge(vec![page(&[("b", 1), ("a", 3)], None), page(&[("a", 1), ("z", 2)], None)], 10);
        assert_eq!(ids(&merged), ["a", "b", "z", "a"]);
        assert_eq!((merged.next, merged.examined), (None, 4));
    }

    #[test]
    fn goes_no_further_than_the_slowest_shard() {
        let merged = merge(vec![page(&[("a", 1), ("b", 2)], Some(1)), page(&[("c", 3)], None)], 10);
        assert_eq!(ids(&merged), ["a", "b"]);
        assert_eq!(merged.next, Some(Position::of(&view("b", 2))));
    }

    #[test]
    fn a_full_page_goes_on_after_its_last() {
        let merged = merge(vec![page(&[("a", 1), ("c", 3)], None), page(&[("b", 2)], None)], 2);
        assert_eq!(ids(&merged), ["a", "b"]);
        assert_eq!(merged.next, Some(Position::of(&view("b", 2))));
    }
}
