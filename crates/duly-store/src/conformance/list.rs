//! Lists: sorted, filtered, and paged so that an unchanged timer is returned exactly once.

use duly_core::{
    Millis, State,
    schedule::{Change, IfExists, Patch, Tags},
};

use super::{
    CaseResult, Harness,
    scene::{
        SHARD, Scene, cancel_op, dead, id, ms, name, patch_op, schedule_op, secs, text, timer,
    },
};
use crate::{
    Answer, Command, Error, ListRequest, Operation, Outcome, SettleVerdict, TimerView,
    query::{ListState, PAGE_BYTES, PAGE_MAX},
};

pub(super) async fn t22_lists_come_in_due_order_then_by_id(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (text, after) in [("b", 5), ("a", 5), ("c", 1), ("é", 5), ("B", 5), ("z", 0)] {
        scene.create_in(text, secs(after)).await;
    }
    let whole = ["z", "c", "B", "a", "b", "é"];
    for limit in [1, 2, 3, 6, PAGE_MAX] {
        let mut request = scene.list_request(ListState::Pending);
        request.limit = limit;
        assert_eq!(scene.list_ids(request).await, whole, "pages of {limit}");
    }
    CaseResult::Whole
}

pub(super) async fn t22_lists_pick_by_state(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in State::ALL.into_iter().filter(|state| *state != State::Due) {
        scene.bring(state.as_str(), state).await;
    }
    scene.bring("due", State::Due).await;
    for state in State::ALL {
        let request = scene.list_request(ListState::Only(state));
        let found = scene.list_whole(request).await;
        let states: Vec<_> = found.iter().map(|view| (view.id().as_str(), view.state)).collect();
        assert_eq!(states, [(state.as_str(), state)]);
        assert_eq!(found[0], scene.view(state.as_str()).await, "the same as reading it");
    }
    let mut pending = scene.list_ids(scene.list_request(ListState::Pending)).await;
    pending.sort();
    assert_eq!(pending, ["due", "in_flight", "retrying", "scheduled"]);
    CaseResult::Whole
}

pub(super) async fn t22_lists_pick_by_time_prefix_and_tag(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let start = scene.now();
    for i in 0..10_u64 {
        let mut asked = timer(&format!("{}-{i}", if i < 5 { "x" } else { "y" }), scene.at(secs(i)));
        let tags = if i % 2 == 0 {
            vec!["even".to_owned(), "all".to_owned()]
        } else {
            vec!["all".to_owned()]
        };
        asked.spec.tags = Tags::new(tags).expect("short tags");
        scene.create(asked).await;
    }
    let base = || scene.list_request(ListState::Pending);
    let at = |seconds| Some(start.saturating_add(secs(seconds)));
    let mut window = base();
    (window.due_from, window.due_to) = (at(2), at(4));
    assert_eq!(scene.list_ids(window).await, ["x-2", "x-3"], "from is in, to is not");
    let mut prefix = base();
    prefix.id_prefix = Some("y-".into());
    assert_eq!(scene.list_ids(prefix.clone()).await, ["y-5", "y-6", "y-7", "y-8", "y-9"]);
    let mut tagged = base();
    tagged.tag = Some("even".into());
    assert_eq!(scene.list_ids(tagged).await, ["x-0", "x-2", "x-4", "y-6", "y-8"]);
    prefix.tag = Some("even".into());
    prefix.due_to = at(8);
    prefix.limit = 1;
    assert_eq!(scene.list_ids(prefix).await, ["y-6"], "all at once, page by page");
    let mut none = base();
    none.tag = Some("eve".into());
    assert!(scene.list_ids(none.clone()).await.is_empty());
    let page = scene.store().list(SHARD, none).await.expect("a page");
    assert_eq!((page.next, page.examined), (None, 10), "it says that it looked at all");
    CaseResult::Whole
}

pub(super) async fn t22_unchanged_timers_come_exactly_once_while_others_change(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for i in 0..40_u64 {
        scene.create_in(&format!("stays{i:02}"), secs(100 + i)).await;
        scene.create_in(&format!("goes{i:02}"), ms(100_500 + 1_000 * i)).await;
    }
    let mut request = scene.list_request(ListState::Pending);
    request.limit = 7;
    let mut found = Vec::new();
    for round in 0..40_u64 {
        let page = scene.store().list(SHARD, request.clone()).await.expect("a page");
        found.extend(page.timers.iter().map(|view| view.id().to_string()));
        let Some(next) = page.next else {
            break;
        };
        request.after = Some(next);
        let (gone, moved) = (format!("goes{round:02}"), format!("goes{:02}", 39 - round));
        scene.apply(cancel_op(&gone)).await;
        let again = timer(&moved, scene.at(secs(90 + round)));
        scene.apply(schedule_op(again, IfExists::Replace)).await;
        scene.create_in(&format!("comes{round:02}"), secs(95 + round)).await;
    }
    found.retain(|text| text.starts_with("stays"));
    let expected: Vec<String> = (0..40).map(|i| format!("stays{i:02}")).collect();
    assert_eq!(found, expected);
    CaseResult::Whole
}

pub(super) async fn t22_every_dead_letter_of_an_id_is_listed(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let when = scene.at(Millis::ZERO);
    let mut expected = Vec::new();
    for round in 0..5 {
        let mut asked = timer("a", when);
        asked.spec.payload = Some(text(format!("round {round}")));
        scene.apply(schedule_op(asked, IfExists::Replace)).await;
        let firing = scene.claim_one().await;
        scene.settled(&firing, dead()).await;
        expected.push(firing.delivery_id);
    }
    for limit in [1, 2, PAGE_MAX] {
        let mut request = scene.list_request(ListState::Only(State::Dead));
        request.limit = limit;
        let letters = scene.list_whole(request).await;
        let mut found: Vec<_> = letters
            .iter()
            .filter_map(|view| view.timer().map(|timer| timer.delivery_id("shop")))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "pages of {limit}, though due time and id are the same");
    }
    CaseResult::Whole
}

pub(super) async fn p10_a_page_has_1_to_1000_timers(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(1)).await;
    for limit in [0, PAGE_MAX + 1, usize::MAX] {
        let mut request = scene.list_request(ListState::Pending);
        request.limit = limit;
        let error = scene.store().list(SHARD, request).await.expect_err("it is refused");
        assert_eq!(error.code().as_str(), "invalid_argument", "{limit}");
    }
    let mut request = scene.list_request(ListState::Pending);
    request.namespace = name("nowhere");
    let error = scene.store().list(SHARD, request).await.expect_err("it is refused");
    assert_eq!(error.code().as_str(), "not_found");
    CaseResult::Whole
}

pub(super) async fn p5_a_list_shows_the_present(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    let only = |state| scene.list_request(ListState::Only(state));
    assert_eq!(scene.list_ids(only(State::Scheduled)).await, ["a"]);
    scene.advance(secs(10)).await;
    assert!(scene.list_ids(only(State::Scheduled)).await.is_empty());
    assert_eq!(scene.list_ids(only(State::Due)).await, ["a"]);
    let firing = scene.claim_one().await;
    let found = scene.list_whole(only(State::InFlight)).await;
    assert_eq!(found[0].leased_until, firing.leased_until);
    assert_eq!((found[0].attempt_under_way, found[0].attempts()), (Some(1), 1));
    scene.settled(&firing, SettleVerdict::Ack).await;
    assert!(scene.list_ids(scene.list_request(ListState::Pending)).await.is_empty());
    assert_eq!(*scene.list_whole(only(State::Finished)).await[0].id(), id("a"));
    CaseResult::Whole
}

pub(super) async fn p10_a_page_takes_no_more_memory_than_it_may(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let payload_bytes = 100 << 10;
    for i in 0..30 {
        let mut asked = timer(&format!("t-{i:02}"), scene.at(secs(60 + i)));
        asked.spec.payload = Some(text("x".repeat(payload_bytes)));
        scene.create(asked).await;
    }
    let expected: Vec<_> = (0..30).map(|i| format!("t-{i:02}")).collect();
    for bytes_max in [PAGE_BYTES, 1 << 20, 110 << 10] {
        let mut request = ListRequest { bytes_max, ..scene.list_request(ListState::Pending) };
        let mut seen = Vec::new();
        for _ in 0..60 {
            let page = scene.store().list(SHARD, request.clone()).await.expect("a page comes");
            let bytes: u64 = page.timers.iter().map(TimerView::memory_bytes).sum();
            assert!(bytes <= bytes_max, "{bytes} bytes where {bytes_max} are allowed");
            seen.extend(page.timers.iter().map(|view| view.id().to_string()));
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "in pages of {bytes_max} bytes");
    }
    CaseResult::Whole
}

pub(super) async fn p10_a_timer_that_does_not_fit_is_not_read(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let mut asked = timer("large", scene.at(secs(60)));
    asked.spec.payload = Some(text("x".repeat(100 << 10)));
    scene.create_in("small", secs(50)).await;
    let same = scene.create(asked.clone()).await;
    assert_eq!(scene.view("large").await.memory_bytes(), same.memory_bytes());
    let needed = same.memory_bytes();
    let list = |bytes_max, after| {
        let request = scene.list_request(ListState::Pending);
        store.list(SHARD, ListRequest { bytes_max, after, ..request })
    };
    let page = list(needed - 1, None).await.expect("the small one fits");
    assert_eq!((page.timers.len(), page.timers[0].id().as_str()), (1, "small"));
    assert!(page.next.is_some(), "there is more");
    let refused = list(needed - 1, page.next.clone()).await;
    assert_eq!(refused, Err(Error::TooLarge { bytes: needed }));
    let page = list(needed, page.next).await.expect("it fits");
    assert_eq!((page.timers.len(), page.next), (1, None));
    let get = |bytes_max| store.get(SHARD, scene.namespace.clone(), id("large"), bytes_max);
    assert_eq!(get(needed - 1).await, Err(Error::TooLarge { bytes: needed }));
    assert_eq!(get(needed).await.expect("it fits").as_ref(), Some(&*same));
    let tags = Patch {
        tags: Change::Set(Tags::new(vec!["a".into()]).expect("a tag")),
        ..Patch::default()
    };
    let fire = Operation::Fire { id: id("large") };
    for operation in [schedule_op(asked, IfExists::Fail), patch_op("large", tags), fire] {
        let apply = |bytes_max| {
            let (namespace, operation) = (scene.namespace.clone(), operation.clone());
            let command = Command { namespace, operation, answer: Answer::Within(bytes_max) };
            store.apply(SHARD, vec![command])
        };
        let before = scene.view("large").await;
        let refused = apply(1_000).await.expect("the call succeeds").remove(0);
        let Outcome::Failed(Error::TooLarge { bytes }) = refused else { panic!("{refused:?}") };
        assert!(bytes >= before.memory_bytes(), "it says what is needed: {operation:?}");
        assert_eq!(scene.view("large").await, before, "nothing has changed");
        let done = apply(bytes).await.expect("the call succeeds").remove(0);
        let (Outcome::Existing(view) | Outcome::Changed(view)) = done else { panic!("{done:?}") };
        let payload = view.timer().and_then(|timer| timer.spec.payload.as_ref());
        assert!(payload.is_some(), "the answer is whole");
    }
    CaseResult::Whole
}
