use std::sync::Arc;

use duly_core::{
    Millis, Schedule, Settings,
    schedule::{IfExists, When},
    tombstone::Ended,
};
use duly_store::{
    Command, Operation, Outcome,
    command::Answer,
    namespaces::{Put, Secrets},
};

use super::*;
use crate::{
    effect::Effect,
    engine::tests::{id, opened, shop, small},
    format::record::NamespaceRecord,
    index::Location,
};

/// Enough for several steps of a pass.
const TOMBSTONES: u32 = 40_000;

struct Bench {
    engine: Engine,
    number: u32,
    made: u32,
}

impl Bench {
    /// A namespace with a large number of tombstones, and a limit for them.
    fn new(max_retained: u64) -> Self {
        let (mut engine, ..) = opened(small());
        let number = engine.namespaces.number_of(&shop()).expect("it was made");
        let ended_ms = engine.now.wall_ms;
        engine.namespace(number).record.totals.cancelled = TOMBSTONES.into();
        for order in 0..TOMBSTONES {
            let key = engine.key(number, &format!("old {order}"));
            engine.keep_tombstone(key, NewTombstone { ended_ms, number: order, location: place() });
        }
        let mut bench = Self { engine, number, made: 0 };
        bench.limit(max_retained);
        bench
    }

    fn limit(&mut self, max_retained: u64) {
        let mut settings = Settings::default();
        settings.limits.max_retained = max_retained;
        let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
        self.engine.put_namespace(&shop(), put).expect("room");
    }

    fn retain_for(&mut self, retention: Millis) {
        let settings = Box::new(Settings { retention, ..Settings::default() });
        let put = Put::Replace { settings, secrets: Secrets::Set };
        self.engine.put_namespace(&shop(), put).expect("room");
    }

    fn apply(&mut self, operation: Operation) -> Outcome {
        let command = Command { namespace: shop(), operation, answer: Answer::Whole };
        self.engine.apply(command)
    }

    /// Ends one more timer.
    fn end_one(&mut self) {
        let id = id(&format!("new {}", self.made));
        self.made += 1;
        let schedule = Box::new(Schedule::new(id.clone(), When::After(Millis::from_secs(9))));
        self.apply(Operation::Schedule { schedule, if_exists: IfExists::Fail });
        let cancelled = self.apply(Operation::Cancel { id, if_revision: None });
        assert!(matches!(cancelled, Outcome::Cancelled { .. }), "{cancelled:?}");
    }

    fn step(&mut self) {
        self.engine.commit().expect("a healthy disk");
        self.engine.begin_step();
    }

    fn has(&self, id: &str) -> bool {
        let key = self.engine.key(self.number, id);
        self.engine
            .namespaces
            .get(self.number)
            .is_some_and(|ns| ns.tombstones.get(key, self.engine.now.wall_ms).is_some())
    }

    fn len(&self) -> u64 {
        self.engine.namespaces.get(self.number).map_or(0, |namespace| namespace.tombstones.len())
    }
}

/// No record is read there.
fn place() -> Location {
    Location::new(0, 4, 64)
}

#[test]
fn p6_oldest_tombstones_are_evicted_while_others_are_added() {
    let max = u64::from(TOMBSTONES) - 1_000;
    let mut bench = Bench::new(max);
    assert_eq!(bench.len(), u64::from(TOMBSTONES), "they are not looked for at once");
    let mut steps = 0;
    while bench.len() > max || bench.engine.is_busy() {
        if steps < 50 {
            bench.end_one();
        }
        bench.step();
        steps += 1;
        assert!(steps < 1_000, "{} are left", bench.len());
    }
    assert!(bench.made > 2, "some came while the oldest were looked for");
    assert_eq!(bench.len(), max);
    let evicted = 1_000 + bench.made;
    for order in 0..TOMBSTONES {
        assert_eq!(bench.has(&format!("old {order}")), order >= evicted, "{order} of {evicted}");
    }
    assert!((0..bench.made).all(|new| bench.has(&format!("new {new}"))), "none of the new ones");
}

#[test]
fn no_step_evicts_more_than_a_few_thousand() {
    let mut bench = Bench::new(10);
    let mut before = bench.len();
    for _ in 0..1_000 {
        bench.step();
        assert!(before - bench.len() <= 4_096, "{} went in one step", before - bench.len());
        before = bench.len();
    }
    assert_eq!(before, 10);
}

#[test]
fn a_shorter_retention_frees_memory_in_small_steps() {
    let mut bench = Bench::new(u64::MAX);
    bench.retain_for(Millis::ZERO);
    let mut before = bench.len();
    assert_eq!(before, u64::from(TOMBSTONES), "the call itself frees nothing");
    assert!(!bench.has("old 0"), "no lookup finds one any more");
    for _ in 0..100 {
        bench.step();
        assert!(before - bench.len() <= 8_192, "{} went in one step", before - bench.len());
        before = bench.len();
    }
    assert_eq!(before, 0);
}

#[test]
fn only_a_changed_retention_starts_a_pass() {
    let mut bench = Bench::new(u64::MAX);
    while bench.engine.is_busy() {
        bench.step();
    }
    for (retention, starts) in
        [(Settings::default().retention, false), (Millis::from_secs(9), true)]
    {
        bench.retain_for(retention);
        let namespace = bench.engine.namespaces.get(bench.number).expect("it was made");
        let pass_at_ms = namespace.tombstones.pass_at_ms;
        assert_eq!(pass_at_ms <= bench.engine.now.wall_ms, starts, "{retention:?}");
    }
}

/// A checkpoint can copy a namespace after a change of its retention, and let replay begin before it.
#[test]
fn p6_replay_restores_no_tombstone_that_was_over_at_a_raise() {
    let mut bench = Bench::new(u64::MAX);
    let (short, long) = (Millis::from_secs(10), Millis::from_secs(1_000));
    bench.retain_for(long);
    let (number, now_ms) = (bench.number, bench.engine.now.wall_ms);
    let record = bench.engine.namespaces.get(number).expect("it was made").record.clone();
    let settings = Settings { retention: long, ..Settings::clone(&record.settings) };
    bench.engine.replaying = true;
    bench.engine.replay_lsn = 5;
    bench.engine.namespace(number).captured_lsn = 9;
    for (id, ended_ms) in [("over", now_ms - 10_000), ("kept", now_ms - 9_999)] {
        let ended = Effect::Ended {
            key: bench.engine.key(number, id),
            ended: Ended::Cancelled,
            ended_ms,
            ends_ms: Some(ended_ms + short.ms()),
            number: TOMBSTONES,
        };
        bench.engine.absorb(place(), number, ended);
    }
    let raised = NamespaceRecord { settings: Arc::new(settings), ..record };
    bench.engine.absorb(place(), number, Effect::Namespace(Box::new(raised)));
    assert_eq!((bench.has("over"), bench.has("kept")), (false, true));
}
