//! Forecasts: every pending timer is counted once, at the time from which it can be claimed.

use duly_core::{Millis, State, schedule::IfExists};

use super::{
    CaseResult, Harness,
    scene::{SHARD, Scene, cancel_op, fire_op, name, retry_in, schedule_op, secs, timer},
};
use crate::{
    ForecastRequest, SettleVerdict,
    forecast::{BUCKET_MAX, BUCKET_MIN, BUCKETS_MAX},
    query::ListState,
};

/// Advances to the start of a bucket of this length.
async fn align(scene: &Scene<'_>, bucket: Millis) {
    let past_ms = scene.now().unix_ms() % bucket.ms();
    scene.advance(Millis::from_ms(bucket.ms() - past_ms)).await;
}

pub(super) async fn t28_forecast_counts_each_pending_timer_in_its_bucket(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    align(&scene, secs(10)).await;
    assert_eq!(scene.forecast(secs(10), 3).await.pending(), 0);
    scene.bring("held", State::InFlight).await;
    scene.create_in("again", Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, retry_in(secs(15))).await;
    scene.bring("dead", State::Dead).await;
    scene.bring("gone", State::Cancelled).await;
    scene.advance(secs(2)).await;
    let now = scene.now();
    for (text, after_ms) in
        [("now", 0), ("next", 1), ("end", 7_999), ("second", 8_000), ("third", 18_000)]
    {
        scene.create_in(text, Millis::from_ms(after_ms)).await;
    }
    for (text, after_ms) in [("last", 27_999), ("later", 28_000), ("much later", 900_000_000)] {
        scene.create_in(text, Millis::from_ms(after_ms)).await;
    }
    let forecast = scene.forecast(secs(10), 3).await;
    assert_eq!((forecast.now, forecast.bucket), (now, secs(10)));
    assert_eq!(forecast.from.saturating_add(secs(2)), now, "buckets begin at multiples");
    assert_eq!(forecast.buckets, [2, 2, 2], "with the retry in the second");
    assert_eq!((forecast.overdue, forecast.in_flight, forecast.later), (1, 1, 2));
    assert_eq!(forecast.pending(), scene.stats().await.pending());
    let other = scene.other("bank", super::scene::settings()).await;
    assert_eq!(other.forecast(secs(10), 3).await.pending(), 0, "each namespace has its own");
    let nowhere = ForecastRequest { namespace: name("nowhere"), bucket: secs(1), count: 1 };
    assert_eq!(scene.store().forecast(SHARD, nowhere).await, Ok(None));
    CaseResult::Whole
}

/// Compares a forecast with the results of lists.
async fn listed(scene: &Scene<'_>, bucket: Millis, count: usize, when: &str) {
    let forecast = scene.forecast(bucket, count).await;
    let (now, mut expected) = (scene.now(), forecast.clone());
    (expected.overdue, expected.in_flight, expected.later) = (0, 0, 0);
    expected.buckets.fill(0);
    for view in scene.list_whole(scene.list_request(ListState::Pending)).await {
        let timer = view.timer().expect("a pending timer is whole");
        let at = timer.claimable_at();
        let ahead_ms = at.saturating_since(forecast.from).ms() / bucket.ms();
        let number = usize::try_from(ahead_ms).unwrap_or(usize::MAX);
        if view.state == State::InFlight {
            expected.in_flight += 1;
        } else if at <= now {
            expected.overdue += 1;
        } else if number < count {
            expected.buckets[number] += 1;
        } else {
            expected.later += 1;
        }
    }
    assert_eq!(forecast, expected, "{when}");
}

pub(super) async fn t28_a_forecast_equals_what_lists_find_after_a_mixed_run(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for round in 0..40_u64 {
        let text = |n: u64| format!("t{}", n % 29);
        let after = |n: u64| scene.at(Millis::from_ms(n * 1_700 % 40_000));
        let operations = vec![
            schedule_op(timer(&text(round), after(round)), IfExists::Replace),
            schedule_op(timer(&text(round * 5 + 1), after(round * 3)), IfExists::Keep),
            schedule_op(timer(&text(round * 3), after(round * 7)), IfExists::Replace),
            fire_op(&text(round * 11)),
            cancel_op(&text(round * 7)),
        ];
        scene.apply_all(operations).await;
        scene.advance(Millis::from_ms(round % 4 * 1_300)).await;
        for (i, firing) in scene.claim().await.into_iter().enumerate() {
            let verdict = match (round as usize + i) % 4 {
                0 => continue,
                1 => SettleVerdict::Ack,
                2 => SettleVerdict::Release,
                _ => retry_in(secs(7)),
            };
            scene.settle(&firing, verdict).await;
        }
        for (bucket, count) in [(secs(1), 10), (secs(7), 3), (secs(3_600), 1)] {
            listed(&scene, bucket, count, &format!("round {round}, buckets of {bucket}")).await;
        }
    }
    CaseResult::Whole
}

pub(super) async fn t28_a_forecast_moves_on_with_the_clock(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    align(&scene, secs(1)).await;
    for i in 0..5 {
        scene.create_in(&format!("t{i}"), Millis::from_ms(500 + i * 1_000)).await;
    }
    for passed in 0..6_usize {
        let forecast = scene.forecast(secs(1), 5).await;
        let mut expected = [0; 5];
        expected[..5 - passed.min(5)].fill(1);
        assert_eq!((forecast.overdue, &forecast.buckets[..]), (passed as u64, &expected[..]));
        scene.advance(secs(1)).await;
    }
    CaseResult::Whole
}

pub(super) async fn p10_a_forecast_past_its_limits_is_refused(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(1)).await;
    let ask = async |bucket: Millis, count: usize| {
        let namespace = scene.namespace.clone();
        let request = ForecastRequest { namespace, bucket, count };
        scene.store().forecast(SHARD, request).await
    };
    for (bucket, count) in [
        (Millis::ZERO, 1),
        (Millis::from_ms(BUCKET_MIN.ms() - 1), 1),
        (Millis::from_ms(BUCKET_MAX.ms() + 1), 1),
        (BUCKET_MIN, 0),
        (BUCKET_MIN, BUCKETS_MAX + 1),
    ] {
        let error = ask(bucket, count).await.expect_err("it is refused");
        assert_eq!(error.code().as_str(), "invalid_argument", "{bucket} {count}");
    }
    for (bucket, count) in [(BUCKET_MIN, BUCKETS_MAX), (BUCKET_MAX, BUCKETS_MAX)] {
        let forecast = ask(bucket, count).await.expect("it is allowed").expect("it is there");
        assert_eq!((forecast.buckets.len(), forecast.pending()), (count, 1));
    }
    CaseResult::Whole
}
