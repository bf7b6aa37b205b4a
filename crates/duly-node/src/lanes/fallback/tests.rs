use duly_sink::ReceiverHealth;

use super::*;
use crate::lanes::{
    breaker::{FAILURES, PROBES},
    tests::options,
};

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn name(name: &str) -> NamespaceName {
    NamespaceName::new(name).unwrap()
}

fn report(
    lanes: &mut Lanes,
    namespace: &NamespaceName,
    admission: Admission,
    health: ReceiverHealth,
) {
    let kind = AttemptKind::Retry;
    lanes.fallbacks.change(namespace, |breaker| breaker.report(admission, kind, health, at(0)));
}

/// Opens the fallback's breaker and closes it again; returns the admission of an attempt that started
/// before.
fn opened_and_closed(lanes: &mut Lanes, shop: &NamespaceName) -> Admission {
    let before = divert(lanes, shop, 0).unwrap();
    for _ in 0..FAILURES {
        report(lanes, shop, before, ReceiverHealth::Silent);
    }
    assert_eq!(divert(lanes, shop, 0), None, "it is open");
    for _ in 0..PROBES {
        let probe = divert(lanes, shop, 1_000).unwrap();
        assert!(matches!(probe, Admission::Probe(_)));
        report(lanes, shop, probe, ReceiverHealth::Good);
    }
    before
}

fn divert(lanes: &mut Lanes, namespace: &NamespaceName, ms: u64) -> Option<Admission> {
    lanes.divert(namespace, AttemptKind::Retry, at(ms))
}

fn is_open(lanes: &mut Lanes, namespace: &NamespaceName) -> bool {
    divert(lanes, namespace, 0).is_none()
}

#[test]
fn old_failures_do_not_reopen_a_fallback_breaker() {
    let mut lanes = Lanes::new(1, &options(10, 10), false);
    let shop = name("shop");
    let before = opened_and_closed(&mut lanes, &shop);
    // An attempt starts meanwhile.
    let since = divert(&mut lanes, &shop, 1_000).unwrap();
    for _ in 0..2 * FAILURES {
        report(&mut lanes, &shop, before, ReceiverHealth::Silent);
    }
    assert!(!is_open(&mut lanes, &shop));
    for _ in 0..FAILURES {
        report(&mut lanes, &shop, since, ReceiverHealth::Silent);
    }
    assert!(is_open(&mut lanes, &shop), "failures of what began since do");
}

#[test]
fn a_fallback_is_seen_with_its_breaker() {
    let mut lanes = Lanes::new(1, &options(10, 10), false);
    let shop = name("shop");
    let seen = |lanes: &Lanes, ms| {
        let load = lanes.fallback(&name("shop"), at(ms));
        (load.breaker, load.failures, load.next_probe_in, lanes.fallback_breakers())
    };
    assert_eq!(seen(&lanes, 0), (BreakerState::Closed, 0, None, [0, 0, 0]));
    let admission = divert(&mut lanes, &shop, 0).unwrap();
    report(&mut lanes, &shop, admission, ReceiverHealth::Silent);
    assert_eq!(seen(&lanes, 0), (BreakerState::Closed, 1, None, [1, 0, 0]));
    for _ in 1..FAILURES {
        report(&mut lanes, &shop, admission, ReceiverHealth::Silent);
    }
    assert_eq!(seen(&lanes, 400), (BreakerState::Open, FAILURES, Some(at(600)), [0, 1, 0]));
    let probe = divert(&mut lanes, &shop, 1_000).unwrap();
    assert_eq!(seen(&lanes, 1_000), (BreakerState::HalfOpen, FAILURES, None, [0, 0, 1]));
    report(&mut lanes, &shop, probe, ReceiverHealth::Good);
    for _ in 1..PROBES {
        let probe = divert(&mut lanes, &shop, 1_000).unwrap();
        report(&mut lanes, &shop, probe, ReceiverHealth::Good);
    }
    assert_eq!(seen(&lanes, 1_000), (BreakerState::Closed, 0, None, [1, 0, 0]));
    lanes.fallbacks.drop_idle();
    assert_eq!(seen(&lanes, 1_000), (BreakerState::Closed, 0, None, [0, 0, 0]));
}

#[test]
fn failures_count_also_right_after_a_success() {
    let mut lanes = Lanes::new(1, &options(10, 10), false);
    let shop = name("shop");
    let admission = divert(&mut lanes, &shop, 0).unwrap();
    report(&mut lanes, &shop, admission, ReceiverHealth::Good);
    for _ in 0..FAILURES {
        report(&mut lanes, &shop, admission, ReceiverHealth::Silent);
    }
    assert!(is_open(&mut lanes, &shop));
}

#[test]
fn reports_to_a_dropped_breaker_are_ignored() {
    let mut lanes = Lanes::new(1, &options(10, 10), false);
    let shop = name("shop");
    let before = opened_and_closed(&mut lanes, &shop);
    let also_before = divert(&mut lanes, &shop, 1_000).unwrap();
    lanes.fallbacks.drop_idle();
    assert!(lanes.fallbacks.breakers.is_empty());
    let since = divert(&mut lanes, &shop, 1_000).unwrap();
    for _ in 0..FAILURES {
        report(&mut lanes, &shop, before, ReceiverHealth::Silent);
        report(&mut lanes, &shop, also_before, ReceiverHealth::Silent);
    }
    assert!(!is_open(&mut lanes, &shop));
    for _ in 0..FAILURES {
        report(&mut lanes, &shop, since, ReceiverHealth::Silent);
    }
    assert!(is_open(&mut lanes, &shop));
}

#[test]
fn p10_fallback_breakers_are_bounded() {
    let mut most_idle = 0;
    let mut lanes = Lanes::new(1, &options(10, 10), false);
    for i in 0..3 * IDLE_REMEMBERED_MAX {
        let namespace = name(&format!("idle{i}"));
        let admission = divert(&mut lanes, &namespace, 0).unwrap();
        report(&mut lanes, &namespace, admission, ReceiverHealth::Good);
        most_idle = most_idle.max(lanes.fallbacks.breakers.len());
    }
    assert_eq!(most_idle, IDLE_REMEMBERED_MAX);
    // Breakers with failures are remembered for longer, and open ones longest.
    let dead = name("dead");
    let admission = divert(&mut lanes, &dead, 0).unwrap();
    for _ in 0..FAILURES {
        report(&mut lanes, &dead, admission, ReceiverHealth::Silent);
    }
    let mut most = 0;
    for i in 0..2 * REMEMBERED_MAX {
        let namespace = name(&format!("once{i}"));
        let admission = divert(&mut lanes, &namespace, 0).unwrap();
        report(&mut lanes, &namespace, admission, ReceiverHealth::Silent);
        most = most.max(lanes.fallbacks.breakers.len());
    }
    assert_eq!(most, REMEMBERED_MAX);
    assert!(is_open(&mut lanes, &dead));
    assert_eq!(lanes.fallback_breakers(), [lanes.fallbacks.breakers.len() - 1, 1, 0]);
}
