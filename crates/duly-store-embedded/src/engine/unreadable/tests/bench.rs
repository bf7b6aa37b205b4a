//! An engine on a disk that can be spoiled, and the comparison of its index with all its counts.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use duly_core::{
    Millis, NamespaceName, Schedule,
    destination::LaneKey,
    env::Clock,
    schedule::{IfExists, When},
};
use duly_store::{
    ClaimRequest, Claimed, Command, Firing, Lane, LaneClaim, Operation, Outcome, Owner,
    SettleVerdict, Settlement, command::Answer, conformance::ManualClock, namespaces::Put,
};

use super::disk::Spoiled;
use crate::{
    disk::{Error, Operation as OnDisk},
    engine::{
        Engine,
        lane_due::DuePlace,
        tests::{id, shop, small},
    },
    format::ALIGN,
    index::{AttemptKind, Cursor, Flags, Key},
    options::Options,
};

pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) disk: Spoiled,
    pub(super) clock: ManualClock,
    /// Steps after each call; `None`: until there is nothing to do.
    pub(super) steps: Option<usize>,
}

impl Bench {
    /// With small resident windows, so that most due timers are spilled.
    pub(super) fn new() -> Self {
        Self::audited_after(Millis::ZERO)
    }

    pub(super) fn audited_after(rest: Millis) -> Self {
        let (disk, clock) = (Spoiled::new(), ManualClock::default());
        let options = Options {
            segment_bytes: 16 << 20,
            near_max: 50,
            overdue_max: 4,
            audit_rest_ms: rest.ms(),
            ..small()
        };
        let by: Arc<dyn Clock> = Arc::new(clock.clone());
        let opened = Engine::open(Arc::new(disk.clone()), options, by, &mut |_| {});
        let mut engine = opened.unwrap_or_else(|error| panic!("it does not open: {error}")).0;
        engine.begin_step();
        engine.put_namespace(&shop(), Put::IfAbsent(Box::default())).unwrap();
        let mut bench = Self { engine, disk, clock, steps: None };
        bench.settle();
        bench
    }

    /// Runs everything that needs no time.
    pub(super) fn settle(&mut self) {
        for _ in 0..self.steps.unwrap_or(10_000) {
            self.engine.begin_step();
            if let Some(mark) = self.engine.commit().unwrap() {
                mark.file.sync_data().unwrap();
                self.engine.synced(mark.lsn, mark.position);
                continue;
            }
            let work = self.engine.take_work();
            if work.is_empty() && !self.engine.is_busy() {
                return;
            }
            work.into_iter().for_each(|work| work()(&mut self.engine));
        }
        assert!(self.steps.is_some(), "it comes to rest");
    }

    pub(super) fn advance(&mut self, by: Millis) {
        self.clock.advance(by);
        self.settle();
    }

    pub(super) fn apply(&mut self, operation: Operation) -> Outcome {
        self.engine.begin_step();
        let outcome =
            self.engine.apply(Command { namespace: shop(), operation, answer: Answer::Whole });
        self.settle();
        outcome
    }

    pub(super) fn schedule(&mut self, schedule: Schedule) -> Key {
        let key = self.engine.key(self.number(), schedule.id.as_str());
        let schedule = Box::new(schedule);
        let outcome = self.apply(Operation::Schedule { schedule, if_exists: IfExists::Fail });
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        key
    }

    /// Schedules timers that become due a millisecond apart, one after the other on the disk.
    pub(super) fn some(&mut self, name: &str, count: u64) -> Vec<Key> {
        let due = |n| When::After(Millis::from_ms(10_000 + n));
        (0..count)
            .map(|n| self.schedule(Schedule::new(id(&format!("{name}{n}")), due(n))))
            .collect()
    }

    /// Schedules three timers of another namespace and marks them as unreadable.
    pub(super) fn few_unreadable(&mut self, name: &NamespaceName) -> Vec<Key> {
        self.engine.put_namespace(name, Put::IfAbsent(Box::default())).unwrap();
        self.settle();
        let number = self.engine.namespaces.number_of(name).unwrap();
        let keys: Vec<Key> = (0..3)
            .map(|n| {
                let id = id(&format!("few{n}"));
                let key = self.engine.key(number, id.as_str());
                let schedule = Box::new(Schedule::new(id, When::After(Millis::ZERO)));
                let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
                let (namespace, answer) = (name.clone(), Answer::Whole);
                self.engine.apply(Command { namespace, operation, answer });
                self.settle();
                key
            })
            .collect();
        let error = Error::NotFound { operation: OnDisk::Read, name: "it".to_owned() };
        keys.iter().for_each(|key| self.mark_unreadable(*key, &error));
        keys
    }

    pub(super) fn mark_unreadable(&mut self, key: Key, error: &Error) {
        let entry = self.engine.namespaces.live(key).unwrap();
        self.engine.mark_unreadable(key, &entry, error);
    }

    pub(super) fn number(&self) -> u32 {
        self.engine.namespaces.number_of(&shop()).unwrap()
    }

    pub(super) fn bytes_of(&self, key: Key) -> Option<Range<u64>> {
        let at = self.engine.namespaces.live(key)?.location();
        Some(at.unit() * ALIGN..at.unit() * ALIGN + 16)
    }

    pub(super) fn spoil(&self, keys: &[Key]) {
        self.disk.spoil(keys.iter().filter_map(|key| self.bytes_of(*key)));
    }

    pub(super) fn claim(&mut self, most: usize) -> Claimed {
        let lane = Lane { namespace: shop(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: most, retry_max: most }],
            total_max: most,
            bytes_max: u64::MAX,
            owner: Owner::Consumer { lease: None },
        };
        self.engine.begin_step();
        let claimed = self.engine.claim(&request).expect("a claim is answered");
        self.settle();
        claimed
    }

    pub(super) fn give(&mut self, firing: &Firing, verdict: SettleVerdict) {
        let settlement = Settlement { token: firing.token.clone(), namespace: None, verdict };
        self.engine.settle(&settlement).unwrap();
        self.settle();
    }

    /// Claims and acknowledges until no firing is left.
    pub(super) fn deliver(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let claimed = self.claim(10);
            for firing in &claimed.firings {
                self.give(firing, SettleVerdict::Ack);
                ids.push(firing.id.to_string());
            }
            if claimed.firings.is_empty() && claimed.more.is_empty() {
                return ids;
            }
        }
    }

    /// Compares the index with all counts.
    #[track_caller]
    pub(super) fn check(&mut self) {
        let namespace = self.engine.namespaces.get(self.number()).unwrap();
        let (mut due, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = Some(Cursor::START);
        while let Some(scan) = cursor.and_then(|from| namespace.live.scan(from)) {
            cursor = scan.next;
            for entry in scan.entries() {
                let (flags, kind) = (entry.flags(), entry.claimable().kind);
                let place = DuePlace::of(self.number(), &entry);
                let window = namespace.lanes.get(entry.lane()).unwrap().due(kind).window();
                let is_due = flags.has(Flags::COUNTED_DUE);
                assert!(!flags.has(Flags::LEASED) || !flags.has(Flags::DUE), "{entry:?}");
                assert!(is_due || !flags.has(Flags::UNREADABLE), "{entry:?}");
                let is_claimable = is_due && !flags.has(Flags::UNREADABLE);
                assert!(is_claimable || !window.contains(&place), "{entry:?}");
                *due.entry((entry.lane(), kind)).or_insert(0) += u64::from(is_due);
                *unreadable.entry((entry.lane(), kind)).or_insert(0) +=
                    u64::from(flags.has(Flags::UNREADABLE));
            }
        }
        for (slot, lane) in namespace.lanes.iter() {
            for kind in [AttemptKind::First, AttemptKind::Retry] {
                let counted = (lane.due(kind).len(), lane.due(kind).unreadable());
                let found =
                    [&due, &unreadable].map(|of| of.get(&(slot, kind)).copied().unwrap_or(0));
                assert_eq!(counted, (found[0], found[1]), "lane {slot}, {kind:?}");
            }
        }
        let health = self.engine.health();
        assert_eq!(health.unreadable, unreadable.values().sum::<u64>());
        assert_eq!(health.overdue, due.values().sum::<u64>());
        assert_eq!(health.audit_findings, 0);
    }
}
