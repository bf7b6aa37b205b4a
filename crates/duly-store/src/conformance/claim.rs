//! Claims: never early (P2), in order, and no other or more firings than requested (P9, P10).

use std::collections::BTreeSet;

use duly_core::{
    Destination, Millis, Settings, State, Timestamp,
    destination::LaneKey,
    schedule::{IfExists, Patch, When},
};

use super::{
    CaseResult, Harness,
    scene::{
        SHARD, Scene, dead, http, ids, ms, name, patch_op, retry_in, schedule_op, secs, settings,
        text, timer,
    },
};
use crate::{ClaimRequest, Claimed, Lane, LaneClaim, Owner, SettleVerdict, namespaces::Activity};

pub(super) async fn p12_lateness_of_past_due_times_starts_at_creation(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let hour = secs(3_600);
    scene.advance(hour).await;
    let made_at = scene.now();
    let long_ago = When::At(Timestamp::saturating_from_unix_ms(made_at.unix_ms() - hour.ms()));
    scene.create(timer("past", long_ago)).await;
    scene.create_in("changed", hour).await;
    scene.advance(secs(2)).await;
    let changed_at = scene.now();
    let patch = Patch { when: Some(long_ago), ..Patch::default() };
    scene.apply(patch_op("changed", patch)).await;
    scene.advance(secs(1)).await;
    let mut firings = scene.claim().await;
    firings.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    assert_eq!(ids(&firings), ["changed", "past"]);
    let since = [firings[0].claimable_since, firings[1].claimable_since];
    assert_eq!(since, [changed_at, made_at]);
    // A retry becomes claimable at its own time.
    scene.settled(&firings[1], retry_in(secs(5))).await;
    let next = scene.at(secs(5));
    scene.advance(secs(9)).await;
    let retried = scene.claim_one().await;
    assert_eq!((When::At(retried.claimable_since), retried.attempt), (next, 2));
    CaseResult::Whole
}

pub(super) async fn p2_t1_never_early_by_a_millisecond(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (i, after) in [1, 999, 1_000, 1_001, 60_000, 3_600_000, 86_400_000].into_iter().enumerate()
    {
        let text = format!("t{i}");
        scene.create_in(&text, ms(after)).await;
        scene.advance(ms(after - 1)).await;
        assert!(scene.claim().await.is_empty(), "{after} ms: one too early");
        assert_eq!(scene.state(&text).await, Some(State::Scheduled));
        scene.advance(ms(1)).await;
        assert_eq!(scene.state(&text).await, Some(State::Due));
        let firing = scene.claim_one().await;
        assert_eq!((firing.due_at, firing.claimable_at), (scene.now(), scene.now()), "{after} ms");
        scene.settled(&firing, SettleVerdict::Ack).await;
    }
    CaseResult::Whole
}

pub(super) async fn p2_a_retry_is_never_early_either(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, retry_in(ms(5_000))).await;
    let next = scene.now().saturating_add(ms(5_000));
    let at = scene.view("a").await.timer().and_then(|timer| timer.next_attempt_at);
    assert_eq!(at, Some(next));
    scene.advance(ms(4_999)).await;
    assert!(scene.claim().await.is_empty(), "one too early");
    scene.advance(ms(1)).await;
    let firing = scene.claim_one().await;
    assert_eq!((firing.attempt, firing.claimable_at), (2, next));
    CaseResult::Whole
}

pub(super) async fn p2_first_attempts_come_in_due_order(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for after in [700, 100, 400, 300, 600, 200, 500] {
        scene.create_in(&format!("t{after}"), ms(after)).await;
    }
    scene.advance(secs(1)).await;
    let order = ["t100", "t200", "t300", "t400", "t500", "t600", "t700"];
    let mut request = scene.request(vec![LaneKey::Pull]);
    request.lanes[0].first_max = 3;
    let first = scene.claim_as(request).await;
    assert_eq!(ids(&first.firings), order[..3], "the earliest come first");
    assert_eq!(ids(&scene.claim().await), order[3..]);
    CaseResult::Whole
}

pub(super) async fn p9_t23_retries_come_after_and_apart(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for text in ["r1", "r2", "r3"] {
        scene.create_in(text, Millis::ZERO).await;
    }
    for (firing, wait) in scene.claim().await.iter().zip([30, 10, 20]) {
        scene.settled(firing, retry_in(secs(wait))).await;
    }
    scene.advance(secs(60)).await;
    scene.create_in("f1", Millis::ZERO).await;
    scene.advance(secs(1)).await;
    scene.create_in("f2", Millis::ZERO).await;
    let with = |first_max, retry_max| {
        let mut request = scene.request(vec![LaneKey::Pull]);
        (request.lanes[0].first_max, request.lanes[0].retry_max) = (first_max, retry_max);
        request
    };
    let nothing = scene.claim_as(with(0, 0)).await;
    assert!(nothing.firings.is_empty() && nothing.more == [scene.lane(LaneKey::Pull)]);
    let mixed = scene.claim_as(with(1, 1)).await.firings;
    assert_eq!(mixed[0].id.as_str(), "f1");
    assert_eq!((mixed[1].attempt, mixed.len()), (2, 2), "then the retry that waited longest");
    let retries = scene.claim_as(with(0, 10)).await.firings;
    assert_eq!(retries.iter().map(|firing| firing.attempt).collect::<Vec<_>>(), [2, 2]);
    let times = [mixed[1].claimable_at, retries[0].claimable_at, retries[1].claimable_at];
    assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
    assert_eq!(ids(&scene.claim_as(with(10, 0)).await.firings), ["f2"]);
    CaseResult::Whole
}

pub(super) async fn p9_only_named_lanes_are_touched(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    let (one, two) = (http("http://one.example/"), http("http://two.example:81/"));
    scene.create_in("pull", Millis::ZERO).await;
    other.create_in("pull", Millis::ZERO).await;
    for (text, destination) in [("one", &one), ("two", &two)] {
        let mut asked = timer(text, scene.at(Millis::ZERO));
        asked.spec.destination = Some(destination.clone());
        scene.create(asked).await;
    }
    let claimed = scene.claim_as(scene.request(vec![one.lane_key()])).await;
    assert_eq!(ids(&claimed.firings), ["one"]);
    assert!(claimed.more.is_empty(), "only named lanes are in `more`: {:?}", claimed.more);
    for (scene, text) in [(&scene, "pull"), (&scene, "two"), (&other, "pull")] {
        assert_eq!(scene.state(text).await, Some(State::Due), "{text}");
    }
    let claimed = scene.claim_as(scene.request(vec![two.lane_key(), LaneKey::Pull])).await;
    assert_eq!(ids(&claimed.firings), ["two", "pull"], "in the order named");
    assert_eq!(other.claim().await.len(), 1);
    let nowhere = ClaimRequest {
        lanes: vec![LaneClaim {
            lane: Lane { namespace: name("nowhere"), key: LaneKey::Pull },
            first_max: 1,
            retry_max: 1,
        }],
        ..scene.request(vec![])
    };
    assert!(scene.claim_as(nowhere).await.firings.is_empty());
    CaseResult::Whole
}

/// A store need not say what else is claimable, but what it says must be true.
pub(super) async fn p9_nothing_else_in_a_claim_reply_is_true(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    for after in [10, 20, 500] {
        scene.create_in(&format!("t{after}"), ms(after)).await;
    }
    other.create_in("sooner", ms(400)).await;
    scene.advance(ms(10)).await;
    let here = |claimed: &Claimed, ms: u64| {
        claimed.next_here.is_none_or(|next| next.as_millis() == u128::from(ms))
    };
    let claimed = scene.claim_as(scene.request(vec![LaneKey::Pull])).await;
    assert!(here(&claimed, 10), "{:?}", claimed.next_here);
    scene.advance(ms(10)).await;
    let claimed = scene.claim_as(scene.request(vec![LaneKey::Pull])).await;
    assert!(here(&claimed, 480), "the lane's own: {:?}", claimed.next_here);
    assert_eq!(claimed.next_due_in, Some(ms(380).to_std()), "the shard's");
    scene.advance(ms(380)).await;
    let claimed = scene.claim_as(scene.request(vec![LaneKey::Pull])).await;
    assert!(claimed.firings.is_empty() && !claimed.nothing_else, "another namespace has something");
    scene.advance(ms(100)).await;
    let claimed = other.claim_as(other.request(vec![LaneKey::Pull])).await;
    assert!(claimed.firings.len() == 1 && claimed.next_here.is_none());
    assert!(!claimed.nothing_else, "and so has this one");
    let claimed = scene.claim_as(scene.request(vec![LaneKey::Pull])).await;
    assert!(claimed.firings.len() == 1 && claimed.next_here.is_none());
    CaseResult::Whole
}

pub(super) async fn p10_a_claim_keeps_to_its_number_and_bytes(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for i in 0..6 {
        let mut asked = timer(&format!("t{i}"), scene.at(ms(i)));
        asked.spec.payload = Some(text("x".repeat(1_000)));
        scene.create(asked).await;
    }
    scene.advance(secs(1)).await;
    let with = |total_max, bytes_max| ClaimRequest {
        total_max,
        bytes_max,
        ..scene.request(vec![LaneKey::Pull])
    };
    assert!(scene.claim_as(with(0, u64::MAX)).await.firings.is_empty());
    let large = scene.claim_as(with(10, 10)).await;
    assert_eq!(ids(&large.firings), ["t0"], "the first is granted whatever its size");
    assert_eq!(large.more, [scene.lane(LaneKey::Pull)]);
    let two = scene.claim_as(with(10, 2_000)).await;
    assert_eq!(ids(&two.firings), ["t1", "t2"], "the third does not fit");
    assert_eq!(ids(&scene.claim_as(with(1, u64::MAX)).await.firings), ["t3"]);
    let rest = scene.claim_as(with(10, u64::MAX)).await;
    assert_eq!((ids(&rest.firings), rest.more.len()), (vec!["t4", "t5"], 0));
    CaseResult::Whole
}

pub(super) async fn p3_a_lane_named_twice_grants_each_firing_once(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (i, text) in ["t0", "t1", "t2", "t3", "t4"].into_iter().enumerate() {
        let mut asked = timer(text, scene.at(ms(i as u64)));
        // Timers with their own destination and timers without one are kept apart.
        asked.spec.destination = (i % 2 == 0).then_some(Destination::Pull);
        scene.create(asked).await;
    }
    scene.advance(ms(4)).await;
    let mut request = scene.request(vec![LaneKey::Pull, LaneKey::Pull]);
    request.lanes[0].first_max = 3;
    let claimed = scene.claim_as(request).await;
    assert_eq!(ids(&claimed.firings), ["t0", "t1", "t2", "t3", "t4"]);
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p3_a_firing_is_granted_once(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for i in 0..50 {
        scene.create_in(&format!("t{i:02}"), ms(i)).await;
    }
    scene.advance(secs(1)).await;
    let mut tokens = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let mut request = scene.request(vec![LaneKey::Pull]);
        request.total_max = 3;
        for firing in scene.claim_as(request).await.firings {
            assert!(seen.insert(firing.id.to_string()), "{} was granted before", firing.id);
            assert!(tokens.insert(firing.token.to_string()), "tokens differ");
            assert_eq!(firing.attempt, 1);
        }
    }
    assert_eq!(seen.len(), 50, "and none was left out");
    CaseResult::Whole
}

pub(super) async fn p2_a_paused_namespace_resumes_at_its_time(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let at = scene.now().saturating_add(secs(60));
    let running = scene.set_activity(Activity::ResumeAt(at)).await;
    assert_eq!((running.paused, running.resumes_at), (false, None), "it runs already");
    scene.set_activity(Activity::Paused).await;
    let waits = scene.set_activity(Activity::ResumeAt(at)).await;
    assert_eq!((waits.paused, waits.resumes_at), (true, Some(at)));
    let next = scene.store().ready(SHARD, None, 10).await.expect("the call succeeds").next_due_in;
    assert!(next.is_some_and(|next| next <= secs(60).to_std()), "{next:?}");
    harness.restart(super::Restart::Kill).await;
    scene.advance(Millis::from_ms(59_999)).await;
    assert!(scene.claim().await.is_empty(), "not a millisecond early");
    scene.advance(Millis::from_ms(1)).await;
    assert_eq!(scene.claim().await.len(), 1);
    assert!(!scene.stats().await.paused);
    let known = scene.store().get_namespace(scene.namespace.clone()).await;
    let known = known.expect("the call succeeds").expect("it is there");
    assert_eq!((known.paused, known.resumes_at), (false, None));

    let later = scene.now().saturating_add(secs(60));
    scene.set_activity(Activity::Paused).await;
    scene.set_activity(Activity::ResumeAt(later)).await;
    let again = scene.set_activity(Activity::Paused).await;
    assert_eq!((again.paused, again.resumes_at), (true, None), "a pause has no end of its own");
    scene.advance(secs(61)).await;
    assert!(scene.stats().await.paused);
    let past = scene.set_activity(Activity::ResumeAt(later)).await;
    assert_eq!((past.paused, past.resumes_at), (false, None), "a time that has passed is now");
    CaseResult::Whole
}

pub(super) async fn p4_a_paused_namespace_grants_nothing(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    assert!(scene.set_activity(Activity::Paused).await.paused);
    let claimed = scene.claim_as(scene.request(vec![LaneKey::Pull])).await;
    assert!(claimed.firings.is_empty() && claimed.more.is_empty());
    let ready = scene.ready(None, 100).await;
    assert!(ready.lanes.is_empty(), "a paused namespace is not ready");
    assert!(scene.stats().await.paused);
    scene.create_in("b", Millis::ZERO).await;
    assert_eq!(scene.stats().await.due, 2, "scheduling goes on");
    assert!(!scene.set_activity(Activity::Running).await.paused);
    assert_eq!(scene.claim().await.len(), 2);
    CaseResult::Whole
}

pub(super) async fn p9_ready_names_lanes_with_something_claimable(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    let origin = http("http://one.example/");
    scene.create_in("later", secs(60)).await;
    let ready = scene.ready(None, 100).await;
    assert!(ready.lanes.is_empty() && ready.cursor.is_none());
    let mut asked = timer("hook", scene.at(Millis::ZERO));
    asked.spec.destination = Some(origin.clone());
    scene.create(asked).await;
    other.create_in("a", Millis::ZERO).await;
    scene.create_in("b", Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, retry_in(Millis::ZERO)).await;
    let expected =
        [other.lane(LaneKey::Pull), scene.lane(LaneKey::Pull), scene.lane(origin.lane_key())];
    let mut ready = scene.ready(None, 100).await;
    ready.lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
    let lanes: Vec<_> = ready.lanes.iter().map(|ready| ready.lane.clone()).collect();
    assert_eq!((lanes, ready.cursor), (expected.to_vec(), None));
    let counts: Vec<_> = ready.lanes.iter().map(|r| (r.first > 0, r.retry > 0)).collect();
    assert_eq!(counts, [(true, false), (false, true), (true, false)]);
    let (mut after, mut paged) = (None, Vec::new());
    for _ in 0..10 {
        let page = scene.ready(after, 1).await;
        paged.extend(page.lanes.into_iter().map(|ready| ready.lane));
        after = page.cursor;
        if after.is_none() {
            break;
        }
    }
    paged.sort();
    assert_eq!(paged, expected, "page by page");
    CaseResult::Whole
}

pub(super) async fn p9_paused_namespaces_do_not_hide_other_lanes(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for i in 0..7 {
        let paused = scene.other(&format!("a-{i}"), settings()).await;
        paused.create_in("t", Millis::ZERO).await;
        paused.set_activity(Activity::Paused).await;
    }
    let last = scene.other("zz", settings()).await;
    last.create_in("t", Millis::ZERO).await;
    let (mut after, mut found) = (None, Vec::new());
    for _ in 0..100 {
        let page = scene.ready(after, 1).await;
        found.extend(page.lanes.into_iter().map(|ready| ready.lane));
        after = page.cursor;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, [last.lane(LaneKey::Pull)]);
    CaseResult::Whole
}

pub(super) async fn p2_the_next_due_time_is_never_overslept(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("late", secs(500)).await;
    scene.create_in("early", secs(40)).await;
    let soon = scene.ready(None, 1).await.next_due_in.expect("something is scheduled");
    assert!(soon <= secs(40).to_std() && !soon.is_zero(), "{soon:?}");
    scene.advance(secs(40)).await;
    let firing = scene.claim_one().await;
    let lease = scene.ready(None, 1).await.next_due_in.expect("a lease is running");
    assert!(lease <= secs(30).to_std(), "a lease end counts: {lease:?}");
    scene.settled(&firing, retry_in(secs(7))).await;
    let retry = scene.ready(None, 1).await.next_due_in.expect("a retry waits");
    assert!(retry <= secs(7).to_std() && !retry.is_zero(), "{retry:?}");
    CaseResult::Whole
}

pub(super) async fn p10_dead_letters_at_their_limit_stop_the_lanes(
    harness: &dyn Harness,
) -> CaseResult {
    let mut limited = settings();
    limited.limits.max_dead = 2;
    let scene = Scene::with(harness, limited.clone()).await;
    for text in ["d1", "d2"] {
        scene.create_in(text, Millis::ZERO).await;
        scene.settled(&scene.claim_one().await, dead()).await;
    }
    let outcome =
        scene.apply(schedule_op(timer("a", scene.at(Millis::ZERO)), IfExists::Fail)).await;
    assert!(matches!(outcome, crate::Outcome::Created(_)), "scheduling goes on");
    assert!(scene.claim().await.is_empty(), "no claim while dead letters are at their limit");
    let ready = scene.ready(None, 100).await;
    assert!(ready.lanes.is_empty());
    let outcome = scene.purge(crate::command::DeadLetterId::Timer(super::scene::id("d1"))).await;
    assert_eq!(outcome, crate::Outcome::Purged);
    assert_eq!(scene.claim_one().await.id.as_str(), "a");
    CaseResult::Whole
}

pub(super) async fn p9_a_timer_without_destination_follows_its_namespace(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    let destination = http("http://one.example/hook");
    scene.put(Settings { destination: destination.clone(), ..settings() }).await;
    scene.advance(secs(10)).await;
    assert!(scene.claim().await.is_empty(), "not in the pull lane any more");
    let claimed = scene.claim_as(scene.request(vec![destination.lane_key()])).await;
    assert_eq!(claimed.firings.len(), 1);
    assert_eq!(*claimed.firings[0].destination(), destination);
    assert_eq!(claimed.firings[0].lane, destination.lane_key());
    CaseResult::Whole
}

pub(super) async fn p10_a_lease_of_a_length_not_allowed_is_refused(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    for lease in [ms(999), secs(12 * 3_600 + 1), Millis::ZERO, Millis::MAX] {
        let owner = Owner::Consumer { lease: Some(lease) };
        let request = ClaimRequest { owner, ..scene.request(vec![LaneKey::Pull]) };
        let error = scene.store().claim(SHARD, request).await.expect_err("it is refused");
        assert_eq!(error.code().as_str(), "invalid_argument", "{lease}");
    }
    assert_eq!(scene.state("a").await, Some(State::Due), "nothing was claimed");
    let owner = Owner::Consumer { lease: Some(secs(90)) };
    let request = ClaimRequest { owner, ..scene.request(vec![LaneKey::Pull]) };
    let firing = scene.claim_as(request).await.firings.remove(0);
    assert_eq!(firing.leased_until, Some(scene.now().saturating_add(secs(90))));
    CaseResult::Whole
}
