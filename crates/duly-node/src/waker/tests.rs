use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn notifiers(count: usize) -> Arc<[Notifier]> {
    (0..count).map(|_| Notifier::default()).collect()
}

#[test]
fn targets_are_taken_when_their_time_has_come() {
    let at = |ms| Duration::from_millis(ms);
    let mut targets = Targets::new(3);
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

async fn notifies_in_time(waker: Box<dyn Waker>, notifiers: &[Notifier]) {
    // Later first, so that an earlier time has to overtake it.
    waker.wake_by(ShardId(0), wall() + Duration::from_secs(3_600));
    let target = wall() + Duration::from_millis(20);
    waker.wake_by(ShardId(1), target);
    notifiers[1].notified().await;
    assert!(wall() >= target, "notified too early");
    assert!(notifiers[1].take_timed());
    assert!(!notifiers[0].take_timed(), "the other shard sleeps on");
    // A time in the past notifies at once.
    waker.wake_by(ShardId(0), wall() - Duration::from_secs(1));
    notifiers[0].notified().await;
    assert!(notifiers[0].take_timed());
    // It continues to notify.
    for _ in 0..50 {
        waker.wake_by(ShardId(0), wall() + Duration::from_micros(200));
        notifiers[0].notified().await;
        assert!(notifiers[0].take_timed());
    }
}

#[tokio::test]
async fn the_system_waker_notifies_in_time() {
    let notifiers = notifiers(2);
    notifies_in_time(system(Arc::clone(&notifiers)).unwrap(), &notifiers).await;
}

/// Without the restart this would wait for ever.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn t27_a_waker_that_broke_down_goes_on_after_a_restart() {
    let notifiers = notifiers(2);
    let waker = timerfd::TimerFd::start(Arc::clone(&notifiers)).unwrap();
    waker.wake_by(ShardId(1), wall() + Duration::from_millis(1));
    notifiers[1].notified().await;
    let before = waker.iterations();
    waker.break_down();
    // Requests made while it is down are served after the restart.
    waker.wake_by(ShardId(0), wall() + Duration::from_millis(1));
    waker.restart().unwrap();
    notifiers[0].notified().await;
    assert!(waker.iterations() > before);
    assert!(notifiers.iter().all(Notifier::take_timed), "each was notified once");
    notifies_in_time(Box::new(waker), &notifiers).await;
}

#[tokio::test]
async fn the_stepping_waker_notifies_in_time() {
    let notifiers = notifiers(2);
    let waker = stepping::Stepping::start(Arc::clone(&notifiers)).unwrap();
    notifies_in_time(Box::new(waker), &notifiers).await;
}
