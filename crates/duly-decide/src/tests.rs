//! The loops over rows in memory, which other callers change in between.

use std::{collections::BTreeMap, sync::Arc};

use duly_core::{
    Millis, NamespaceName, Schedule, Settings, State, Timer, TimerId, Timestamp, Tombstone,
    operate::Operation,
    schedule::{IfExists, Patch, When},
    shard::ShardId,
    timer::{AttemptOutcome, DeadLetterId, Wait},
};
use duly_record::packed::Record;
use duly_store::{
    Answer, Command, Error, Outcome, Refusal, Result, SettleOutcome, SettleVerdict, Settlement,
    Token,
};

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::saturating_from_unix_ms(1_900_000_000_000 + ms)
}

fn id(text: &str) -> TimerId {
    TimerId::new(text).unwrap()
}

#[derive(Debug, Default, Clone)]
struct Stored {
    live: Option<LiveTimer>,
    tombstone: Option<Tombstone>,
    dead_letter: Option<Record>,
}

/// A table of one namespace, at a fixed time.
#[derive(Debug)]
struct Table {
    rows: BTreeMap<TimerId, Stored>,
    /// Number of writes that find their row changed.
    lost_races: usize,
    /// Number of writes that find the namespace full.
    full: usize,
    has_room: bool,
    loads: usize,
    sweeps: usize,
    /// Number of changes of each write.
    writes: Vec<usize>,
    /// `true`: the namespace `other` appears when it is looked for.
    appears: bool,
    has_appeared: bool,
    refuses: bool,
}

impl Table {
    fn new() -> Self {
        let rows = BTreeMap::new();
        Self {
            rows,
            lost_races: 0,
            full: 0,
            has_room: false,
            loads: 0,
            sweeps: 0,
            writes: Vec::new(),
            appears: false,
            has_appeared: false,
            refuses: false,
        }
    }

    fn lease(&mut self, text: &str, nonce: u64, holder: Holder) {
        let live = self.rows.get_mut(&id(text)).and_then(|row| row.live.as_mut()).unwrap();
        live.lease = Some(Lease { nonce, since: at(0), claimable_at: at(0), holder });
    }

    fn state(&self, text: &str) -> Option<State> {
        self.case(&id(text)).view().map(|view| view.state)
    }

    fn case(&self, id: &TimerId) -> Case {
        let Stored { live, tombstone, dead_letter } =
            self.rows.get(id).cloned().unwrap_or_default();
        Case {
            id: id.clone(),
            now: at(1_000),
            namespace: name("orders"),
            settings: Arc::new(Settings::default()),
            dead: 0,
            live,
            has_tombstone_row: tombstone.is_some(),
            tombstone,
            dead_letter,
            other_dead_letter: None,
        }
    }
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

impl Rows for Table {
    type Row = Case;

    async fn load(&mut self, wanted: &[Wanted<'_>]) -> Vec<Result<Option<Case>>> {
        self.loads += 1;
        let row = |wanted: &Wanted<'_>| match wanted {
            Wanted::Command(command)
                if command.namespace != name("orders") && !self.has_appeared =>
            {
                None
            }
            Wanted::Command(command) => Some(self.case(command.operation.id().unwrap_or(&id("-")))),
            Wanted::Settlement(settlement) => {
                Some(self.case(&id(std::str::from_utf8(settlement.token.own()).unwrap())))
            }
        };
        wanted.iter().map(|wanted| Ok(row(wanted))).collect()
    }

    async fn write(&mut self, changes: &[Change<'_, Case>]) -> Vec<Result<Written>> {
        self.writes.push(changes.len());
        let mut write = |change: &Change<'_, Case>| {
            if self.refuses {
                return Written::Refused(Refusal::UnknownNamespace(name("refused")));
            }
            if self.lost_races > 0 {
                self.lost_races -= 1;
                return Written::Changed;
            }
            if self.full > 0 && change.draft.quota_use.pending {
                self.full -= 1;
                return Written::Full(LimitKind::Pending);
            }
            let row = self.rows.entry(change.row.id.clone()).or_default();
            match &change.draft.live {
                None => {}
                Some(LiveChange::Removed) => row.live = None,
                Some(LiveChange::Put(record)) => {
                    row.live = Some(LiveTimer { record: (**record).clone(), lease: None });
                }
                Some(LiveChange::Stopped(record)) => {
                    row.live.as_mut().unwrap().record = (**record).clone();
                }
                Some(LiveChange::Extended(by)) => {
                    let lease = row.live.as_mut().unwrap().lease.as_mut().unwrap();
                    lease.holder = Holder::Consumer(change.row.now.saturating_add(*by));
                }
            }
            if change.draft.drop_tombstone {
                row.tombstone = None;
            }
            if let Some(tombstone) = &change.draft.ended {
                row.tombstone = Some(tombstone.clone());
            }
            if let Some(record) = &change.draft.dead_letter {
                row.dead_letter = Some((**record).clone());
            }
            Written::Done
        };
        changes.iter().map(|change| Ok(write(change))).collect()
    }

    async fn find(&mut self, _: &NamespaceName) -> Result<bool> {
        self.has_appeared = self.appears;
        Ok(self.appears)
    }

    async fn sweep(&mut self) -> Result<()> {
        self.sweeps += 1;
        Ok(())
    }

    async fn make_room(&mut self, _: &Case, _: LimitKind) -> Result<bool> {
        Ok(self.has_room)
    }
}

fn command(operation: Operation) -> Command {
    Command { namespace: name("orders"), operation, answer: Answer::Whole }
}

fn schedule(text: &str, ms: u64) -> Command {
    let schedule = Box::new(Schedule::new(id(text), When::At(at(ms))));
    command(Operation::Schedule { schedule, if_exists: IfExists::Fail })
}

fn cancel(text: &str) -> Command {
    command(Operation::Cancel { id: id(text), if_revision: None })
}

async fn carry_out(table: &mut Table, commands: &[Command]) -> Vec<Result<Outcome>> {
    let items: Vec<_> =
        commands.iter().zip(1..).map(|(command, random)| Item { command, random }).collect();
    apply(table, &items).await
}

#[tokio::test]
async fn a_batch_loads_and_writes_at_once_and_keeps_its_order() {
    let mut table = Table::new();
    let first = carry_out(&mut table, &[schedule("a", 5_000), schedule("b", 5_000)]).await;
    assert!(first.iter().all(|outcome| matches!(outcome, Ok(Outcome::Created(_)))), "{first:?}");
    assert_eq!((table.loads, &table.writes[..]), (1, &[2][..]));
    let mut elsewhere = schedule("c", 5_000);
    elsewhere.namespace = name("other");
    let reschedule = Operation::Reschedule {
        id: id("b"),
        patch: Box::new(Patch { when: Some(When::At(at(9_000))), ..Patch::default() }),
        if_revision: None,
    };
    let batch =
        [schedule("a", 5_000), cancel("none"), command(reschedule), elsewhere, cancel("a2")];
    // Three of these write nothing; the change of b loses two races.
    table.lost_races = 2;
    let outcomes = carry_out(&mut table, &batch).await;
    let [a, none, b, other, _] = &outcomes[..] else { panic!("five") };
    assert!(matches!(a, Ok(Outcome::Existing(_))), "{a:?}");
    assert!(matches!(none, Ok(Outcome::Refused(Refusal::UnknownTimer { .. }))), "{none:?}");
    assert!(matches!(b, Ok(Outcome::Changed(_))), "{b:?}");
    assert!(matches!(other, Ok(Outcome::Refused(Refusal::UnknownNamespace(_)))), "{other:?}");
    assert_eq!((table.loads, table.lost_races), (4, 0));
    assert_eq!(table.writes, [2, 1, 1, 1], "nothing is written for the others");
    let due_at = table.case(&id("b")).live.unwrap().record.timer.due_at;
    assert_eq!(due_at, at(9_000));
}

#[tokio::test]
async fn an_item_that_always_loses_is_refused_as_overload() {
    let mut table = Table { lost_races: usize::MAX, ..Table::new() };
    let outcomes = carry_out(&mut table, &[schedule("a", 5_000)]).await;
    assert!(matches!(&outcomes[..], [Err(Error::Overloaded { .. })]), "{outcomes:?}");
    assert_eq!(table.loads, TRIES);
    assert!(table.rows.is_empty());
}

#[tokio::test]
async fn p10_a_full_namespace_is_swept_and_then_makes_room_or_refuses() {
    let mut table = Table { full: 2, has_room: true, ..Table::new() };
    let outcomes = carry_out(&mut table, &[schedule("a", 5_000)]).await;
    assert!(matches!(&outcomes[..], [Ok(Outcome::Created(_))]), "{outcomes:?}");
    assert_eq!((table.sweeps, table.full), (1, 0));
    let is_refused = |outcomes: &[Result<Outcome>]| {
        matches!(outcomes, [Ok(Outcome::Refused(Refusal::QuotaExceeded { .. }))])
    };
    let mut table = Table { full: 2, ..Table::new() };
    let outcomes = carry_out(&mut table, &[schedule("a", 5_000)]).await;
    assert!(is_refused(&outcomes), "{outcomes:?}");
    // Others take the room each time.
    let mut table = Table { full: usize::MAX, has_room: true, ..Table::new() };
    let outcomes = carry_out(&mut table, &[schedule("a", 5_000)]).await;
    assert!(is_refused(&outcomes), "{outcomes:?}");
}

#[tokio::test]
async fn p3_an_ended_lease_is_written_before_the_operation() {
    let mut table = Table::new();
    drop(carry_out(&mut table, &[schedule("a", 0)]).await);
    table.lease("a", 7, Holder::Consumer(at(500)));
    let outcomes = carry_out(&mut table, &[cancel("a")]).await;
    let [Ok(Outcome::Cancelled { attempts: 1, maybe_delivered: true, .. })] = &outcomes[..] else {
        panic!("the lease was lost first: {outcomes:?}");
    };
    assert_eq!(table.loads, 3);
}

#[tokio::test]
async fn a_refused_write_and_an_unknown_dead_letter_change_nothing() {
    let mut table = Table { refuses: true, ..Table::new() };
    let outcomes = carry_out(&mut table, &[schedule("a", 5_000)]).await;
    assert!(matches!(&outcomes[..], [Ok(Outcome::Refused(_))]), "{outcomes:?}");
    assert!(table.rows.is_empty());
    // The dead letter may be one by the clock: it is looked for again after a sweep.
    let letter = DeadLetterId::Delivery(Timer::every_field().delivery_id("orders"));
    let outcomes = carry_out(&mut table, &[command(Operation::Purge { letter })]).await;
    let unknown =
        matches!(&outcomes[..], [Ok(Outcome::Refused(Refusal::UnknownDeadLetter { .. }))]);
    assert!(unknown, "{outcomes:?}");
    assert_eq!((&table.writes[..], table.sweeps), (&[1][..], 1));
}

#[tokio::test]
async fn a_namespace_that_appears_is_read_again() {
    let mut table = Table { appears: true, ..Table::new() };
    let mut elsewhere = schedule("a", 5_000);
    elsewhere.namespace = name("other");
    let outcomes = carry_out(&mut table, &[elsewhere]).await;
    assert!(matches!(&outcomes[..], [Ok(Outcome::Created(_))]), "{outcomes:?}");
    assert_eq!(table.loads, 2);
}

fn settlement(text: &str, verdict: SettleVerdict) -> Settlement {
    Settlement { token: Token::new(ShardId(0), text.as_bytes()), namespace: None, verdict }
}

#[tokio::test]
async fn p8_settlements_follow_the_lease_of_their_token() {
    let mut table = Table::new();
    let all = ["a", "b", "c", "d", "e"];
    drop(carry_out(&mut table, &all.map(|text| schedule(text, 0))).await);
    for text in all {
        table.lease(text, 7, Holder::Consumer(at(50_000)));
    }
    let extend = SettleVerdict::Extend { lease: Millis::from_secs(90) };
    let retry = SettleVerdict::Retry {
        wait: Wait::Policy,
        outcome: AttemptOutcome::Failed,
        reason: "no".to_owned(),
    };
    let mut foreign = settlement("d", SettleVerdict::Ack);
    foreign.namespace = Some(name("other"));
    let settlements = [
        settlement("a", SettleVerdict::Ack),
        settlement("b", extend),
        settlement("c", retry),
        foreign,
        settlement("e", SettleVerdict::Ack),
        settlement("none", SettleVerdict::Ack),
    ];
    let nonces = [7, 7, 7, 7, 8, 7];
    let items: Vec<_> = settlements
        .iter()
        .zip(nonces)
        .map(|(settlement, nonce)| SettleItem { settlement, nonce })
        .collect();
    table.lost_races = 3;
    let outcomes = settle(&mut table, &items).await;
    let lost = SettleOutcome::LeaseLost;
    let expected = [
        SettleOutcome::Ok,
        SettleOutcome::Ok,
        SettleOutcome::Ok,
        SettleOutcome::InvalidToken,
        lost,
        lost,
    ];
    assert_eq!(outcomes, expected.map(Ok));
    assert_eq!(table.state("a"), Some(State::Finished));
    let until = table.case(&id("b")).live.unwrap().lease.unwrap().until();
    assert_eq!(until, Some(at(91_000)));
    assert_eq!(table.state("c"), Some(State::Retrying));
    assert_eq!(table.state("d"), Some(State::InFlight));
    // The same token again finds its verdict.
    let again = settle(&mut table, &items[..1]).await;
    assert_eq!(again, [Ok(SettleOutcome::AlreadySettled)]);
}
