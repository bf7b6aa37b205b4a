use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn opened(now: Duration) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..FAILURES {
        assert_eq!(breaker.gate(now), Gate::Free);
        let pass = breaker.pass(now, 1);
        breaker.report(pass, Reception::Bad, now);
    }
    breaker
}

#[test]
fn consecutive_failures_open_the_breaker() {
    let mut breaker = Breaker::default();
    for i in 0..10 * FAILURES {
        let reception = if i % FAILURES == FAILURES - 1 { Reception::Good } else { Reception::Bad };
        breaker.report(Pass::Free(0), reception, at(0));
        breaker.report(Pass::Free(0), Reception::Unknown, at(0));
        assert_eq!(breaker.gate(at(0)), Gate::Free);
    }
    assert_eq!(opened(at(5)).gate(at(5)), Gate::ShutUntil(at(1_005)));
}

#[test]
fn it_closes_after_probes_that_grow_in_number() {
    let mut breaker = opened(at(0));
    let now = at(1_000);
    assert_eq!(breaker.gate(now), Gate::Probes(1));
    let first = breaker.pass(now, 1);
    assert_eq!(breaker.gate(now), Gate::Probes(0));
    breaker.report(first, Reception::Good, now);
    assert_eq!(breaker.gate(now), Gate::Probes(2));
    let second = breaker.pass(now, 2);
    assert_eq!((breaker.gate(now), breaker.state()), (Gate::Probes(0), BreakerState::HalfOpen));
    breaker.report(second, Reception::Good, now);
    breaker.report(second, Reception::Good, now);
    assert_eq!((breaker.gate(now), breaker.is_new()), (Gate::Free, true));
}

#[test]
fn each_failed_probe_doubles_the_wait_up_to_its_bound() {
    let mut breaker = opened(at(0));
    let mut now = at(0);
    for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        now += Duration::from_secs(wait_s);
        assert_eq!(breaker.gate(now - at(1)), Gate::ShutUntil(now));
        let pass = breaker.pass(now, 1);
        breaker.report(pass, Reception::Bad, now);
    }
}

#[test]
fn old_attempts_cannot_keep_a_breaker_open() {
    let mut breaker = opened(at(0));
    breaker.report(Pass::Free(0), Reception::Bad, at(500));
    assert_eq!(breaker.gate(at(500)), Gate::ShutUntil(at(1_000)), "no longer than it was");
    breaker.report(Pass::Free(0), Reception::Good, at(600));
    assert_eq!(breaker.gate(at(600)), Gate::Probes(1));
    let probe = breaker.pass(at(600), 1);
    breaker.report(Pass::Free(0), Reception::Bad, at(601));
    breaker.report(Pass::Probe(77), Reception::Bad, at(601));
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "only its own probe counts");
    breaker.report(probe, Reception::Unknown, at(700));
    assert_eq!(breaker.gate(at(700)), Gate::Probes(1), "a lost probe is repeated");
}

#[test]
fn old_failures_do_not_reopen_a_closed_breaker() {
    let mut breaker = Breaker::default();
    let before = breaker.pass(at(0), 20);
    for _ in 0..FAILURES {
        breaker.report(before, Reception::Bad, at(0));
    }
    for _ in 0..PROBES {
        let probe = breaker.pass(at(1_000), 1);
        breaker.report(probe, Reception::Good, at(1_000));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    for _ in 0..FAILURES {
        breaker.report(before, Reception::Bad, at(1_001));
    }
    assert_eq!((breaker.state(), breaker.failures()), (BreakerState::Closed, 0));
    // Failures of attempts that started since then count.
    let since = breaker.pass(at(1_002), 1);
    for _ in 0..FAILURES {
        breaker.report(since, Reception::Bad, at(1_002));
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
        let mut under_way: Vec<Pass> = Vec::new();
        let mut now = at(0);
        for (wait_ms, begin, end, which) in steps {
            now += at(wait_ms);
            let allowed = match breaker.gate(now) {
                Gate::Free => begin,
                Gate::Probes(most) => begin.min(most),
                Gate::ShutUntil(until) => {
                    prop_assert!(until > now && until <= now + WAIT_MAX);
                    0
                }
            };
            if allowed > 0 {
                let pass = breaker.pass(now, allowed);
                under_way.extend(std::iter::repeat_n(pass, allowed));
            }
            if let State::HalfOpen { under_way: probes, successes } = breaker.state {
                let real = under_way.iter().filter(|p| **p == Pass::Probe(breaker.period)).count();
                prop_assert_eq!(probes as usize, real);
                prop_assert!(probes <= successes + 1 && successes < PROBES);
            }
            for i in 0..end {
                if under_way.is_empty() {
                    break;
                }
                let pass = under_way.swap_remove(which % under_way.len());
                let reception = [Reception::Bad, Reception::Good, Reception::Unknown, Reception::Bad];
                breaker.report(pass, reception[(which + i) % 4], now);
            }
        }
        for pass in under_way {
            breaker.report(pass, Reception::Bad, now);
        }
        now += WAIT_MAX;
        prop_assert!(matches!(breaker.gate(now), Gate::Free | Gate::Probes(1..)));
    }
}
