use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const FIRST: Load = Load::new(1, 0);
const RETRY: Load = Load::new(0, 1);

impl Breaker {
    /// Returns the limit of a lane with many firings of both kinds.
    fn limit(&self, now: Duration) -> AdmissionLimit {
        self.admission_limit(now, Load::new(100, 100))
    }

    fn report_first(&mut self, admission: Admission, health: ReceiverHealth, now: Duration) {
        self.report(admission, AttemptKind::First, health, now);
    }

    fn report_retry(&mut self, admission: Admission, health: ReceiverHealth, now: Duration) {
        self.report(admission, AttemptKind::Retry, health, now);
    }
}

fn opened(now: Duration) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..FAILURES {
        assert_eq!(breaker.limit(now), AdmissionLimit::Free);
        let admission = breaker.admit(now, FIRST);
        breaker.report_first(admission, ReceiverHealth::Silent, now);
    }
    breaker
}

#[test]
fn consecutive_failures_open_the_breaker() {
    let mut breaker = Breaker::default();
    for i in 0..10 * FAILURES {
        let health = if i % FAILURES == FAILURES - 1 {
            ReceiverHealth::Good
        } else {
            ReceiverHealth::Silent
        };
        breaker.report_first(Admission::Free(0), health, at(0));
        breaker.report_first(Admission::Free(0), ReceiverHealth::Unknown, at(0));
        assert_eq!(breaker.limit(at(0)), AdmissionLimit::Free);
    }
    assert_eq!(opened(at(5)).limit(at(5)), AdmissionLimit::OpenUntil(at(1_005)));
}

#[test]
fn it_closes_after_probes_that_grow_in_number() {
    let mut breaker = opened(at(0));
    let now = at(1_000);
    assert_eq!(breaker.limit(now), AdmissionLimit::Probes(FIRST));
    let first = breaker.admit(now, FIRST);
    assert_eq!(breaker.limit(now), AdmissionLimit::Probes(Load::default()));
    breaker.report_first(first, ReceiverHealth::Good, now);
    assert_eq!(breaker.limit(now), AdmissionLimit::Probes(Load::new(2, 0)));
    let second = breaker.admit(now, Load::new(2, 0));
    assert_eq!(
        (breaker.limit(now), breaker.state()),
        (AdmissionLimit::Probes(Load::default()), BreakerState::HalfOpen)
    );
    breaker.report_first(second, ReceiverHealth::Good, now);
    breaker.report_first(second, ReceiverHealth::Good, now);
    assert_eq!((breaker.limit(now), breaker.is_new()), (AdmissionLimit::Free, true));
}

#[test]
fn each_failed_probe_doubles_the_wait_up_to_its_bound() {
    let mut breaker = opened(at(0));
    let mut now = at(0);
    for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        now += Duration::from_secs(wait_s);
        assert_eq!(breaker.limit(now - at(1)), AdmissionLimit::OpenUntil(now));
        let admission = breaker.admit(now, FIRST);
        breaker.report_first(admission, ReceiverHealth::Silent, now);
    }
}

#[test]
fn old_attempts_cannot_keep_a_breaker_open() {
    let mut breaker = opened(at(0));
    breaker.report_first(Admission::Free(0), ReceiverHealth::Silent, at(500));
    assert_eq!(
        breaker.limit(at(500)),
        AdmissionLimit::OpenUntil(at(1_000)),
        "no longer than it was"
    );
    breaker.report_first(Admission::Free(0), ReceiverHealth::Good, at(600));
    assert_eq!(breaker.limit(at(600)), AdmissionLimit::Probes(FIRST));
    let probe = breaker.admit(at(600), FIRST);
    breaker.report_first(Admission::Free(0), ReceiverHealth::Silent, at(601));
    breaker.report_first(Admission::Probe(77), ReceiverHealth::Silent, at(601));
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "only its own probe counts");
    breaker.report_first(probe, ReceiverHealth::Unknown, at(700));
    assert_eq!(breaker.limit(at(700)), AdmissionLimit::Probes(FIRST), "a lost probe is repeated");
}

#[test]
fn old_failures_do_not_reopen_a_closed_breaker() {
    let mut breaker = Breaker::default();
    let before = breaker.admit(at(0), Load::new(20, 0));
    for _ in 0..FAILURES {
        breaker.report_first(before, ReceiverHealth::Silent, at(0));
    }
    for _ in 0..PROBES {
        let probe = breaker.admit(at(1_000), FIRST);
        breaker.report_first(probe, ReceiverHealth::Good, at(1_000));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    for _ in 0..FAILURES {
        breaker.report_first(before, ReceiverHealth::Silent, at(1_001));
    }
    assert_eq!((breaker.state(), breaker.failures()), (BreakerState::Closed, 0));
    // Failures of attempts that started since then count.
    let since = breaker.admit(at(1_002), FIRST);
    for _ in 0..FAILURES {
        breaker.report_first(since, ReceiverHealth::Silent, at(1_002));
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn failed_retries_do_not_hold_up_first_attempts() {
    let mut breaker = Breaker::default();
    let before = breaker.admit(at(0), Load::new(0, 20));
    for _ in 0..FAILURES {
        breaker.report_retry(before, ReceiverHealth::Silent, at(0));
    }
    let mut now = at(0);
    for wait_s in [1, 2, 4, 8] {
        assert_eq!(breaker.limit(now), AdmissionLimit::Probes(FIRST), "a first attempt at once");
        let retries_at = now + Duration::from_secs(wait_s);
        assert_eq!(breaker.admission_limit(now, RETRY), AdmissionLimit::OpenUntil(retries_at));
        now = retries_at;
        let probe = breaker.admit(now, RETRY);
        assert_eq!(breaker.limit(now), AdmissionLimit::Probes(FIRST), "beside the retry");
        breaker.report_retry(probe, ReceiverHealth::Silent, now);
    }
    // A first attempt that fails makes both kinds wait, the first attempts for the shorter time.
    let probe = breaker.admit(now, FIRST);
    breaker.report_first(probe, ReceiverHealth::Silent, now);
    assert_eq!(breaker.limit(now), AdmissionLimit::OpenUntil(now + WAIT_MIN));
    let retries_at = now + Duration::from_secs(32);
    assert_eq!(breaker.admission_limit(now, RETRY), AdmissionLimit::OpenUntil(retries_at));
}

#[test]
fn probes_are_first_attempts_while_any_is_due() {
    let mut breaker = opened(at(0));
    let now = at(1_000);
    assert_eq!(breaker.limit(now), AdmissionLimit::Probes(FIRST));
    assert_eq!(breaker.admission_limit(now, RETRY), AdmissionLimit::Probes(RETRY));
    let probe = breaker.admit(now, FIRST);
    breaker.report_first(probe, ReceiverHealth::Good, now);
    let both = Load::new(1, 5);
    assert_eq!(breaker.admission_limit(now, both), AdmissionLimit::Probes(Load::new(1, 1)));
}

proptest! {
    /// For any sequence of events: nothing is admitted while it is open, and the number of probes under
    /// way never exceeds the limit. When all attempts have ended, something is admitted within the
    /// longest wait.
    #[test]
    fn an_open_breaker_admits_nothing_and_always_recovers(
        steps in proptest::collection::vec((0_u64..3_000, (0_usize..4, 0_usize..4), 0_usize..3, 0_usize..50), 1..120),
    ) {
        let mut breaker = Breaker::default();
        let mut under_way: Vec<(Admission, AttemptKind)> = Vec::new();
        let mut now = at(0);
        for (wait_ms, (first, retry), end, which) in steps {
            now += at(wait_ms);
            let demand = Load::new(first, retry);
            let allowed = match breaker.admission_limit(now, demand) {
                AdmissionLimit::Free => demand,
                AdmissionLimit::Probes(most) => {
                    Load::new(first.min(most.first), retry.min(most.retry))
                }
                AdmissionLimit::OpenUntil(until) => {
                    prop_assert!(until > now && until <= now + WAIT_MAX);
                    Load::default()
                }
            };
            if allowed.sum() > 0 {
                let admission = breaker.admit(now, allowed);
                under_way.extend(std::iter::repeat_n((admission, AttemptKind::First), allowed.first));
                under_way.extend(std::iter::repeat_n((admission, AttemptKind::Retry), allowed.retry));
            }
            if let BreakerPhase::HalfOpen { under_way: probes, successes } = breaker.state {
                let real = under_way.iter().filter(|(p, _)| *p == Admission::Probe(breaker.period)).count();
                prop_assert_eq!(probes.sum(), real);
                let most = successes as usize + 1;
                prop_assert!(probes.first <= most && probes.retry <= most && successes < PROBES);
            }
            for i in 0..end {
                if under_way.is_empty() {
                    break;
                }
                let (admission, kind) = under_way.swap_remove(which % under_way.len());
                let health = [ReceiverHealth::Silent, ReceiverHealth::Good, ReceiverHealth::Unknown, ReceiverHealth::Overloaded];
                breaker.report(admission, kind, health[(which + i) % 4], now);
            }
        }
        for (admission, kind) in under_way {
            breaker.report(admission, kind, ReceiverHealth::Silent, now);
        }
        now += WAIT_MAX;
        prop_assert!(breaker.admission_limit(now, FIRST).admits());
        prop_assert!(breaker.admission_limit(now, RETRY).admits());
    }
}
