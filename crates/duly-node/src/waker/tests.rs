use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn bells(count: usize) -> Arc<[Notifier]> {
    (0..count).map(|_| Notifier::default()).collect()
}

#[test]
fn targets_are_taken_when_their_time_has_come() {
    let at = |ms| Duration::from_millis(ms);
    let mut targets = targets::Targets::new(3);
    assert_eq!(targets.earliest(), None);
    targets.lower(ShardId(0), at(30));
    targets.lower(ShardId(1), at(20));
    targets.lower(ShardId(0), at(40));
    assert_eq!(targets.earliest(), Some(at(20)));
    targets.lower(ShardId(0), at(10));
    assert_eq!(targets.earliest(), Some(at(10)));
    assert!(targets.take_due(at(9)).is_empty());
    assert_eq!(targets.take_due(at(20)), [0, 1]);
    assert_eq!(targets.earliest(), None);
    targets.lower(ShardId(2), at(50));
    assert_eq!(targets.take_all(), [2]);
    // An unknown shard changes nothing.
    targets.lower(ShardId(9), at(1));
    assert_eq!(targets.earliest(), None);
}

async fn rings_in_time(waker: Box<dyn Waker>, bells: &[Notifier]) {
    // Later first, so that an earlier time has to overtake it.
    waker.wake_by(ShardId(0), wall() + Duration::from_secs(3_600));
    let target = wall() + Duration::from_millis(20);
    waker.wake_by(ShardId(1), target);
    bells[1].rung().await;
    assert!(wall() >= target, "rung too early");
    assert!(bells[1].take_timed());
    assert!(!bells[0].take_timed(), "the other shard sleeps on");
    // A time in the past notifies at once.
    waker.wake_by(ShardId(0), wall() - Duration::from_secs(1));
    bells[0].rung().await;
    assert!(bells[0].take_timed());
    // It continues to notify.
    for _ in 0..50 {
        waker.wake_by(ShardId(0), wall() + Duration::from_micros(200));
        bells[0].rung().await;
        assert!(bells[0].take_timed());
    }
}

#[tokio::test]
async fn the_system_waker_notifies_in_time() {
    let bells = bells(2);
    rings_in_time(system(Arc::clone(&bells)).unwrap(), &bells).await;
}

/// Without the restart this would wait for ever.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn t27_a_waker_that_broke_down_goes_on_after_a_restart() {
    let bells = bells(2);
    let waker = timerfd::TimerFd::start(Arc::clone(&bells)).unwrap();
    waker.wake_by(ShardId(1), wall() + Duration::from_millis(1));
    bells[1].rung().await;
    let before = waker.turns();
    waker.break_down();
    // Requests made while it is down are served after the restart.
    waker.wake_by(ShardId(0), wall() + Duration::from_millis(1));
    waker.restart().unwrap();
    bells[0].rung().await;
    assert!(waker.turns() > before);
    assert!(bells.iter().all(Notifier::take_timed), "each was rung once");
    rings_in_time(Box::new(waker), &bells).await;
}

#[tokio::test]
async fn the_stepping_waker_notifies_in_time() {
    let bells = bells(2);
    let waker = stepping::Stepping::start(Arc::clone(&bells)).unwrap();
    rings_in_time(Box::new(waker), &bells).await;
}
