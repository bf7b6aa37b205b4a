//! Generates operations from a seed.

use duly_core::{
    Destination, Millis, Payload, RetryPolicy, Settings, TimerId,
    destination::LaneKey,
    limits::Limits,
    retry::Exponential,
    schedule::{Change, IfExists, Tags},
    timer::{AttemptOutcome, Wait},
};

use super::{
    ClaimOp, Disturbance, ImportedHistory, Op, OpCommand, Timing,
    op::{GRAIN_MS, NODES},
};
use crate::{
    SettleVerdict,
    conformance::{
        Restart,
        scene::{http, id, secs, text},
    },
    namespaces::Activity,
    random::SplitMix64,
};

const NAMESPACES: [&str; 2] = ["plain", "tight"];
const ORIGINS: [&str; 2] = ["http://one.example/x", "http://two.example:81/y"];
const IDS: u64 = 14;

/// Generates `steps` operations from `seed`; the first two create the namespaces.
pub fn generate(seed: u64, steps: usize, disturb: Disturbance) -> Vec<Op> {
    let mut generator = OpGenerator { random: SplitMix64::new(seed), disturb };
    let puts = NAMESPACES.map(|namespace| generator.put(namespace));
    let rest = std::iter::repeat_with(|| generator.op());
    puts.into_iter().chain(rest).take(steps).collect()
}

struct OpGenerator {
    random: SplitMix64,
    disturb: Disturbance,
}

impl OpGenerator {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let i = self.below(from.len() as u64);
        from[usize::try_from(i).unwrap_or(0)].clone()
    }

    fn grains(&mut self, below: u64) -> Millis {
        Millis::from_ms(self.below(below) * GRAIN_MS)
    }

    fn op(&mut self) -> Op {
        let namespace = self.pick(&NAMESPACES);
        match self.below(100) {
            0..=37 => {
                let count = 1 + self.below(6);
                let mut requests: Vec<OpCommand> = (1..=count).map(|i| self.request(i)).collect();
                // At most one, because all of a call would be due at the same millisecond.
                if self.one_in(3) {
                    requests.push(OpCommand::Fire(self.id()));
                }
                Op::Apply { namespace, requests }
            }
            38..=62 => Op::Claim(self.claim_op()),
            63..=82 => {
                let count = 1 + self.below(4);
                Op::Settle((0..count).map(|_| (self.below(10), self.verdict())).collect())
            }
            83..=92 => Op::Advance(self.grains(7)),
            93 => Op::Advance(self.grains(70)),
            94 => Op::ReleaseNode(self.below(NODES)),
            95 => Op::SetActivity(namespace, Activity::Paused),
            96 | 97 => Op::SetActivity(namespace, Activity::Running),
            98 => self.put(namespace),
            _ => self.disturbance(),
        }
    }

    fn disturbance(&mut self) -> Op {
        match self.disturb {
            Disturbance::Nothing => Op::Advance(self.grains(3)),
            Disturbance::Restarts => Op::Restart(self.pick(&[Restart::Kill, Restart::Clean])),
            Disturbance::ClockSteps => {
                let by_ms = i64::try_from(self.grains(20).ms()).unwrap_or(0);
                Op::StepWall(if self.one_in(2) { by_ms } else { -by_ms })
            }
        }
    }

    fn id(&mut self) -> TimerId {
        id(&format!("t{:02}", self.below(IDS)))
    }

    /// Returns a time that no other command of the run has. `i` distinguishes the commands of one call.
    fn timing(&mut self, i: u64) -> Timing {
        let ahead_ms = self.grains(9).ms();
        match self.below(4) {
            0 => Timing::At(i64::try_from(i).unwrap_or(0) - i64::try_from(ahead_ms).unwrap_or(0)),
            1 => Timing::At(i64::try_from(ahead_ms + i).unwrap_or(0)),
            _ => Timing::After(Millis::from_ms(ahead_ms + i)),
        }
    }

    fn payload(&mut self) -> Payload {
        let bytes = self.pick(&[0, 1, 10, 200, 400]);
        text(char::from(b'a' + self.below(26) as u8).to_string().repeat(bytes))
    }

    fn destination(&mut self) -> Option<Destination> {
        match self.below(4) {
            0 => Some(http(self.pick(&ORIGINS))),
            1 => Some(Destination::Pull),
            _ => None,
        }
    }

    fn policy(&mut self) -> RetryPolicy {
        match self.below(3) {
            // Without jitter: it is derived from the delivery id, so it differs between stores.
            0 => RetryPolicy::Exponential(Exponential { jitter: 0.0, ..Exponential::default() }),
            _ => RetryPolicy::Delays(vec![self.grains(4), self.grains(9)]),
        }
    }

    fn revision(&mut self) -> Option<u32> {
        let revision = u32::try_from(1 + self.below(3)).ok();
        revision.filter(|_| self.one_in(4))
    }

    fn request(&mut self, i: u64) -> OpCommand {
        let id = self.id();
        match self.below(18) {
            0..=7 => {
                let payload = self.one_in(2).then(|| self.payload());
                let tags = if self.one_in(3) { vec!["red".to_owned()] } else { Vec::new() };
                let expires = self.disturb != Disturbance::ClockSteps && self.one_in(4);
                OpCommand::Schedule {
                    id,
                    timing: self.timing(i),
                    payload,
                    tags: Tags::new(tags).expect("a short tag"),
                    destination: self.destination(),
                    retry: self.one_in(3).then(|| self.policy()),
                    expire_after: expires.then(|| self.grains(8)),
                    if_exists: self.pick(&[
                        IfExists::Fail,
                        IfExists::Keep,
                        IfExists::Replace,
                        IfExists::Restart,
                    ]),
                }
            }
            8 | 9 => OpCommand::Reschedule {
                id,
                timing: self.one_in(2).then(|| self.timing(i)),
                payload: match self.below(3) {
                    0 => Change::Set(self.payload()),
                    1 => Change::Reset,
                    _ => Change::Keep,
                },
                destination: match self.destination() {
                    Some(destination) => Change::Set(destination),
                    None => Change::Keep,
                },
                if_revision: self.revision(),
            },
            10..=12 => {
                OpCommand::Cancel { id, if_revision: self.revision(), or_stop: self.one_in(2) }
            }
            13 => OpCommand::Redrive(id, self.grains(3)),
            14 => OpCommand::RedriveFiring(self.below(10), self.grains(3)),
            15 => OpCommand::DeadLetter(id, self.grains(3)),
            16 => self.import(id, i),
            _ if self.one_in(3) => OpCommand::Forget(id),
            _ if self.one_in(2) => OpCommand::Purge(id),
            _ => OpCommand::PurgeFiring(self.below(10)),
        }
    }

    fn import(&mut self, id: TimerId, i: u64) -> OpCommand {
        let history =
            self.pick(&[ImportedHistory::First, ImportedHistory::Retry, ImportedHistory::Dead]);
        // A timer that was attempted was due before.
        let ago_ms = i64::try_from(self.grains(9).ms() + i).unwrap_or(0);
        OpCommand::Import {
            id,
            incarnation: 1 + self.below(2),
            occurrence: u32::try_from(self.below(2)).unwrap_or(0),
            timing: if history == ImportedHistory::First {
                self.timing(i)
            } else {
                Timing::At(-ago_ms)
            },
            history,
        }
    }

    /// Claims all retries of a lane or none, because two of them may have the same time.
    fn claim_op(&mut self) -> ClaimOp {
        let mut lanes = Vec::new();
        for namespace in NAMESPACES {
            for origin in ORIGINS {
                lanes.push((namespace, http(origin).lane_key()));
            }
            lanes.push((namespace, LaneKey::Pull));
            lanes.push((namespace, LaneKey::Overflow));
        }
        lanes.rotate_left(usize::try_from(self.below(8)).unwrap_or(0));
        lanes.truncate(usize::try_from(1 + self.below(8)).unwrap_or(1));
        let retries = self.one_in(2);
        ClaimOp {
            lanes,
            first_max: usize::try_from(self.below(6)).unwrap_or(0),
            retry_max: if retries { 10_000 } else { 0 },
            bytes_max: if retries { u64::MAX } else { self.pick(&[0, 300, 1_000_000]) },
            lease: match self.below(4) {
                0 => None,
                1 => Some(self.grains(2)),
                _ => Some(secs(10 + self.below(5) * 10)),
            },
            node: self.one_in(2).then(|| self.below(NODES)),
        }
    }

    fn verdict(&mut self) -> SettleVerdict {
        match self.below(14) {
            0..=3 => SettleVerdict::Ack,
            4..=7 => SettleVerdict::Retry {
                wait: match self.below(4) {
                    0 => Wait::Policy,
                    1 => Wait::AtLeast(self.grains(3)),
                    2 => Wait::None,
                    _ => Wait::Exactly(self.grains(5)),
                },
                outcome: self.pick(&[
                    AttemptOutcome::Failed,
                    AttemptOutcome::TimedOut,
                    AttemptOutcome::NotConnected,
                ]),
                reason: "status 503".to_owned(),
            },
            8 => SettleVerdict::Dead { reason: "never again".to_owned() },
            9 => SettleVerdict::Release,
            10 | 11 => SettleVerdict::Snooze { after: self.grains(5) },
            _ => SettleVerdict::Extend { lease: Millis::from_ms(self.below(6) * GRAIN_MS) },
        }
    }

    fn put(&mut self, namespace: &'static str) -> Op {
        let limits = match namespace {
            "tight" => Limits {
                max_pending: Some(8),
                max_payload_bytes: 300,
                max_delay: Some(secs(60)),
                max_dead: 4,
                max_retained: 3,
                ..Limits::default()
            },
            _ => Limits::default(),
        };
        let settings = Settings {
            destination: self.destination().unwrap_or_default(),
            retry: RetryPolicy::Delays(vec![self.grains(2), self.grains(5), self.grains(9)]),
            lease: secs(10 + self.below(5) * 10),
            retention: match (self.disturb, namespace) {
                (Disturbance::ClockSteps, _) => secs(86_400),
                (_, "tight") => secs(600),
                _ => secs(1_200),
            },
            weight: u32::try_from(1 + self.below(9)).unwrap_or(1),
            limits,
            ..Settings::default()
        };
        Op::Put(namespace, Box::new(settings))
    }
}
