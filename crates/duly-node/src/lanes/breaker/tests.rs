use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn opened(now: Duration) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..FAILURES {
        assert_eq!(breaker.admission_limit(now), AdmissionLimit::Free);
        let admission = breaker.admit(now, 1);
        breaker.report(admission, ReceiverHealth::Bad, now);
    }
    breaker
}

#[test]
fn consecutive_failures_open_the_breaker() {
    let mut breaker = Breaker::default();
    for i in 0..10 * FAILURES {
        let health =
            if i % FAILURES == FAILURES - 1 { ReceiverHealth::Good } else { ReceiverHealth::Bad };
        breaker.report(Admission::Free(0), health, at(0));
        breaker.report(Admission::Free(0), ReceiverHealth::Unknown, at(0));
        assert_eq!(breaker.admission_limit(at(0)), AdmissionLimit::Free);
    }
    assert_eq!(opened(at(5)).admission_limit(at(5)), AdmissionLimit::OpenUntil(at(1_005)));
}

#[test]
fn it_closes_after_probes_that_grow_in_number() {
    let mut breaker = opened(at(0));
    let now = at(1_000);
    assert_eq!(breaker.admission_limit(now), AdmissionLimit::Probes(1));
    let first = breaker.admit(now, 1);
    assert_eq!(breaker.admission_limit(now), AdmissionLimit::Probes(0));
    breaker.report(first, ReceiverHealth::Good, now);
    assert_eq!(breaker.admission_limit(now), AdmissionLimit::Probes(2));
    let second = breaker.admit(now, 2);
    assert_eq!(
        (breaker.admission_limit(now), breaker.state()),
        (AdmissionLimit::Probes(0), BreakerState::HalfOpen)
    );
    breaker.report(second, ReceiverHealth::Good, now);
    breaker.report(second, ReceiverHealth::Good, now);
    assert_eq!((breaker.admission_limit(now), breaker.is_new()), (AdmissionLimit::Free, true));
}

#[test]
fn each_failed_probe_doubles_the_wait_up_to_its_bound() {
    let mut breaker = opened(at(0));
    let mut now = at(0);
    for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        now += Duration::from_secs(wait_s);
        assert_eq!(breaker.admission_limit(now - at(1)), AdmissionLimit::OpenUntil(now));
        let admission = breaker.admit(now, 1);
        breaker.report(admission, ReceiverHealth::Bad, now);
    }
}

#[test]
fn old_attempts_cannot_keep_a_breaker_open() {
    let mut breaker = opened(at(0));
    breaker.report(Admission::Free(0), ReceiverHealth::Bad, at(500));
    assert_eq!(
        breaker.admission_limit(at(500)),
        AdmissionLimit::OpenUntil(at(1_000)),
        "no longer than it was"
    );
    breaker.report(Admission::Free(0), ReceiverHealth::Good, at(600));
    assert_eq!(breaker.admission_limit(at(600)), AdmissionLimit::Probes(1));
    let probe = breaker.admit(at(600), 1);
    breaker.report(Admission::Free(0), ReceiverHealth::Bad, at(601));
    breaker.report(Admission::Probe(77), ReceiverHealth::Bad, at(601));
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "only its own probe counts");
    breaker.report(probe, ReceiverHealth::Unknown, at(700));
    assert_eq!(
        breaker.admission_limit(at(700)),
        AdmissionLimit::Probes(1),
        "a lost probe is repeated"
    );
}

#[test]
fn old_failures_do_not_reopen_a_closed_breaker() {
    let mut breaker = Breaker::default();
    let before = breaker.admit(at(0), 20);
    for _ in 0..FAILURES {
        breaker.report(before, ReceiverHealth::Bad, at(0));
    }
    for _ in 0..PROBES {
        let probe = breaker.admit(at(1_000), 1);
        breaker.report(probe, ReceiverHealth::Good, at(1_000));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    for _ in 0..FAILURES {
        breaker.report(before, ReceiverHealth::Bad, at(1_001));
    }
    assert_eq!((breaker.state(), breaker.failures()), (BreakerState::Closed, 0));
    // Failures of attempts that started since then count.
    let since = breaker.admit(at(1_002), 1);
    for _ in 0..FAILURES {
        breaker.report(since, ReceiverHealth::Bad, at(1_002));
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

proptest! {
    /// For any sequence of events: nothing is admitted while it is open, and the number of probes under
    /// way never exceeds the limit. When all attempts have ended, something is admitted within the
    /// longest wait.
    #[test]
    fn an_open_breaker_admits_nothing_and_always_recovers(
        steps in proptest::collection::vec((0_u64..3_000, 0_usize..4, 0_usize..3, 0_usize..50), 1..120),
    ) {
        let mut breaker = Breaker::default();
        let mut under_way: Vec<Admission> = Vec::new();
        let mut now = at(0);
        for (wait_ms, begin, end, which) in steps {
            now += at(wait_ms);
            let allowed = match breaker.admission_limit(now) {
                AdmissionLimit::Free => begin,
                AdmissionLimit::Probes(most) => begin.min(most),
                AdmissionLimit::OpenUntil(until) => {
                    prop_assert!(until > now && until <= now + WAIT_MAX);
                    0
                }
            };
            if allowed > 0 {
                let admission = breaker.admit(now, allowed);
                under_way.extend(std::iter::repeat_n(admission, allowed));
            }
            if let BreakerPhase::HalfOpen { under_way: probes, successes } = breaker.state {
                let real = under_way.iter().filter(|p| **p == Admission::Probe(breaker.period)).count();
                prop_assert_eq!(probes as usize, real);
                prop_assert!(probes <= successes + 1 && successes < PROBES);
            }
            for i in 0..end {
                if under_way.is_empty() {
                    break;
                }
                let admission = under_way.swap_remove(which % under_way.len());
                let health = [ReceiverHealth::Bad, ReceiverHealth::Good, ReceiverHealth::Unknown, ReceiverHealth::Bad];
                breaker.report(admission, health[(which + i) % 4], now);
            }
        }
        for admission in under_way {
            breaker.report(admission, ReceiverHealth::Bad, now);
        }
        now += WAIT_MAX;
        prop_assert!(matches!(breaker.admission_limit(now), AdmissionLimit::Free | AdmissionLimit::Probes(1..)));
    }
}
