//! Counts: equal to a full scan at any time, never negative, and monotonic if they are totals.

use std::collections::BTreeMap;

use duly_core::{Millis, NamespaceName, State, destination::LaneKey, schedule::IfExists};

use super::{
    CaseResult, Harness,
    scene::{
        Scene, cancel_op, dead, fire_op, http, id, patch_op, retry_in, schedule_op, secs, settings,
        timer,
    },
};
use crate::{
    Outcome, Partial, SettleOutcome, SettleVerdict, Sharded, Stats,
    command::DeadLetterId,
    namespaces::{Activity, DeleteMode},
    query::ListState,
};

/// Compares the counts with the results of lists.
async fn scanned(scene: &Scene<'_>, when: &str) -> Stats {
    let stats = scene.stats().await;
    let mut counts: BTreeMap<State, u64> = BTreeMap::new();
    let (mut oldest, mut next) = (None, None);
    for state in State::ALL {
        let found = scene.list_whole(scene.list_request(ListState::Only(state))).await;
        counts.insert(state, found.len() as u64);
        for view in &found {
            let timer = view.timer();
            let at = timer.map(|timer| timer.claimable_at()).filter(|at| *at > scene.now());
            match state {
                State::Due => oldest = oldest.into_iter().chain([view.due_at()]).min(),
                State::Scheduled | State::Retrying => next = next.into_iter().chain(at).min(),
                _ => {}
            }
        }
    }
    let of = |state| counts[&state];
    let counted = [stats.scheduled, stats.due, stats.in_flight, stats.retrying, stats.dead];
    let listed = [
        of(State::Scheduled),
        of(State::Due),
        of(State::InFlight),
        of(State::Retrying),
        of(State::Dead),
    ];
    assert_eq!(counted, listed, "{when}");
    assert_eq!(stats.retained, of(State::Finished) + of(State::Cancelled), "{when}");
    assert_eq!((stats.oldest_due_at, stats.next_due_at), (oldest, next), "{when}");
    assert_eq!(stats.pending_bytes > 0, stats.pending() > 0, "{when}");
    let in_lanes: u64 = stats.lanes.iter().map(|lane| lane.in_flight).sum();
    let due_in_lanes: u64 = stats.lanes.iter().map(|lane| lane.due).sum();
    assert_eq!((in_lanes, due_in_lanes), (stats.in_flight, stats.due), "{when}");
    let names = [scene.namespace.clone(), NamespaceName::new("none").expect("a name")];
    let store = scene.store();
    let counts =
        Sharded::new(&*store).counts(&names).await.and_then(Partial::whole).expect("counts");
    let plain = |stats: &Stats| Stats { lanes: Vec::new(), next_due_at: None, ..stats.clone() };
    let counts: Vec<_> = counts.iter().map(|counts| counts.as_ref().map(plain)).collect();
    assert_eq!(counts, [Some(plain(&stats)), None], "{when}");
    stats
}

pub(super) async fn t28_counts_equal_a_full_scan_after_a_mixed_run(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut last = Stats::default().totals;
    for round in 0..60_u64 {
        let text = |n: u64| format!("t{}", n % 23);
        let when = scene.at(secs(round % 7));
        let mut operations = vec![
            schedule_op(timer(&text(round), when), IfExists::Replace),
            schedule_op(timer(&text(round * 5 + 1), when), IfExists::Keep),
            schedule_op(timer(&text(round * 3), when), IfExists::Fail),
            fire_op(&text(round * 11)),
        ];
        if round % 3 == 0 {
            operations.push(cancel_op(&text(round * 7)));
            let patch = duly_core::schedule::Patch { when: Some(when), ..Default::default() };
            operations.push(patch_op(&text(round * 2), patch));
        }
        scene.apply_all(operations).await;
        scene.advance(secs(round % 4)).await;
        for (i, firing) in scene.claim().await.into_iter().enumerate() {
            let verdict = match (round as usize + i) % 6 {
                0 => retry_in(secs(3)),
                1 => dead(),
                2 => SettleVerdict::Release,
                3 => continue,
                _ => SettleVerdict::Ack,
            };
            assert_ne!(scene.settle(&firing, verdict).await, SettleOutcome::InvalidToken);
        }
        if round % 10 == 9 {
            scene.redrive(DeadLetterId::Timer(id(&text(round))), secs(1)).await;
            scene.purge(DeadLetterId::Timer(id(&text(round + 3)))).await;
            scene.advance(secs(29)).await;
        }
        let totals = scanned(&scene, &format!("round {round}")).await.totals;
        let grown = [
            (last.scheduled, totals.scheduled),
            (last.fired, totals.fired),
            (last.delivered, totals.delivered),
            (last.failed, totals.failed),
            (last.cancelled, totals.cancelled),
            (last.rescheduled, totals.rescheduled),
            (last.dead, totals.dead),
        ];
        assert!(grown.iter().all(|(before, after)| before <= after), "{grown:?}");
        last = totals;
    }
    assert!(last.scheduled > 0 && last.delivered > 0 && last.failed > 0 && last.dead > 0);
    CaseResult::Whole
}

pub(super) async fn t28_each_total_counts_its_own(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let totals = async || {
        let t = scene.stats().await.totals;
        [t.scheduled, t.fired, t.delivered, t.failed, t.cancelled, t.rescheduled, t.dead]
    };
    assert_eq!(totals().await, [0; 7]);
    let make = |after| schedule_op(timer("a", scene.at(secs(after))), IfExists::Replace);
    scene.apply_all(vec![make(10), make(20), make(20)]).await;
    assert_eq!(totals().await, [2, 0, 0, 0, 0, 0, 0], "made and replaced, not the repetition");
    scene.apply(fire_op("a")).await;
    assert_eq!(totals().await, [2, 0, 0, 0, 0, 1, 0]);
    let firing = scene.claim_one().await;
    assert_eq!(totals().await, [2, 1, 0, 0, 0, 1, 0]);
    scene.settled(&firing, retry_in(Millis::ZERO)).await;
    assert_eq!(totals().await, [2, 1, 0, 1, 0, 1, 0]);
    scene.claim_one().await;
    scene.advance(secs(30)).await;
    assert_eq!(totals().await, [2, 2, 0, 2, 0, 1, 0], "a lost lease is a failed attempt");
    scene.settled(&scene.claim_one().await, dead()).await;
    assert_eq!(totals().await, [2, 3, 0, 3, 0, 1, 1]);
    scene.redrive(DeadLetterId::Timer(id("a")), Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, SettleVerdict::Ack).await;
    assert_eq!(totals().await, [2, 4, 1, 3, 0, 1, 1], "a redrive is no change by a caller");
    scene.create_in("b", secs(10)).await;
    scene.apply_all(vec![cancel_op("b"), cancel_op("b"), cancel_op("a")]).await;
    assert_eq!(totals().await, [3, 4, 1, 3, 1, 1, 1]);
    CaseResult::Whole
}

pub(super) async fn t28_lanes_are_counted_apart(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let origin = http("http://one.example/");
    for (text, after) in [("h1", 0), ("h2", 0), ("h3", 60)] {
        let mut asked = timer(text, scene.at(secs(after)));
        asked.spec.destination = Some(origin.clone());
        scene.create(asked).await;
    }
    scene.create_in("p1", Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, retry_in(Millis::ZERO)).await;
    scene.create_in("p2", Millis::ZERO).await;
    let second = scene.claim().await;
    let waiting = second.iter().find(|firing| firing.id == id("p2"));
    let again = second.iter().find(|firing| firing.id == id("p1"));
    let (waiting, again) = (waiting.expect("it is due"), again.expect("it is due"));
    scene.settled(waiting, retry_in(secs(60))).await;
    scene.settled(again, SettleVerdict::Release).await;
    let mut request = scene.request(vec![origin.lane_key()]);
    request.total_max = 1;
    scene.claim_as(request).await;
    let mut lanes = scene.stats().await.lanes;
    lanes.sort_by(|a, b| a.key.cmp(&b.key));
    let counts: Vec<_> = lanes
        .into_iter()
        .map(|lane| (lane.key, lane.due, lane.retry_due, lane.in_flight))
        .collect();
    assert_eq!(counts, [(LaneKey::Pull, 0, 1, 0), (origin.lane_key(), 1, 0, 1)]);
    CaseResult::Whole
}

pub(super) async fn t28_health_sums_the_namespaces(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    assert!(scene.store().health().not_ready.is_empty());
    scene.bring("dead", State::Dead).await;
    scene.bring("held", State::InFlight).await;
    scene.create_in("later", secs(60)).await;
    other.create_in("due", Millis::ZERO).await;
    scene.advance(secs(5)).await;
    let health = scene.store().health();
    assert_eq!((health.pending, health.in_flight, health.overdue, health.dead), (3, 1, 1, 1));
    assert_eq!(health.oldest_due_age, Some(secs(5)));
    assert!(!scene.store().location().is_empty());
    CaseResult::Whole
}

pub(super) async fn t28_health_counts_the_namespaces_that_are_stopped(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    let stopped = || {
        let health = scene.store().health();
        (health.namespaces_paused, health.namespaces_dead_full)
    };
    let limit = async |max_dead| {
        let mut limited = settings();
        limited.limits.max_dead = max_dead;
        scene.put(limited).await;
    };
    assert_eq!(stopped(), (0, 0));
    scene.bring("t", State::Dead).await;
    limit(2).await;
    assert_eq!(stopped(), (0, 0));
    limit(1).await;
    assert_eq!(stopped(), (0, 1), "the limit came down to what is there");
    other.set_activity(Activity::Paused).await;
    other.set_activity(Activity::ResumeAt(scene.now().saturating_add(secs(5)))).await;
    scene.set_activity(Activity::Paused).await;
    assert_eq!(stopped(), (2, 1));
    limit(2).await;
    scene.set_activity(Activity::Running).await;
    assert_eq!(stopped(), (1, 0));
    scene.advance(secs(5)).await;
    assert_eq!(stopped(), (0, 0), "its time has come");
    limit(1).await;
    scene.set_activity(Activity::Paused).await;
    let gone = scene.store().delete_namespace(scene.namespace.clone(), DeleteMode::Force).await;
    assert_eq!(gone, Ok(()));
    assert_eq!(stopped(), (0, 0));
    CaseResult::Whole
}

pub(super) async fn t28_an_empty_namespace_counts_nothing(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    assert_eq!(scanned(&scene, "empty").await, Stats::default());
    let outcome = scene.apply(cancel_op("unknown")).await;
    assert!(matches!(outcome, Outcome::Refused(_)));
    scene.create_in("a", secs(1)).await;
    scene.apply(cancel_op("a")).await;
    let stats = scanned(&scene, "cancelled").await;
    assert_eq!((stats.pending(), stats.pending_bytes, stats.retained), (0, 0, 1));
    let nowhere = super::scene::name("nowhere");
    let stats = scene.store().stats(super::scene::SHARD, nowhere).await;
    assert_eq!(stats, Ok(None));
    CaseResult::Whole
}
