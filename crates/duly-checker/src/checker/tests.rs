//! Tests with hand-written histories of one timer each, and the counts that must be non-zero.

mod stops;

use super::{Count, check};
use crate::history::{
    Action, Answer, Crash, Delivery, Due, End, EndState, History, Operation, Settle, SettleAnswer,
    SettleVerdict, TimerKey, Via, WebhookReply,
};

/// Times in these histories are milliseconds.
const MS: u64 = 1_000;

struct Story(History);

impl Story {
    /// Adds a timer with mark 1, scheduled at 10–20 and due at 100.
    fn scheduled() -> Self {
        Self::sent().op(10, 20, schedule(1, 100), Answer::Created { due_ms: 100 })
    }

    fn sent() -> Self {
        Self(History {
            keys: vec![TimerKey { namespace: "n".to_owned(), id: "a".to_owned() }],
            drained: true,
            ..History::default()
        })
    }

    fn op(mut self, from: u64, to: u64, action: Action, answer: Answer) -> Self {
        self.0.operations.push(Operation {
            key: Some(0),
            sent_us: from * MS,
            ended_us: to * MS,
            action,
            answer,
        });
        self
    }

    fn pulled(self, asked: u64, got: u64, attempt: u32) -> Self {
        self.delivered(asked, got, attempt, 1, 100)
    }

    fn delivered(mut self, asked: u64, got: u64, attempt: u32, mark: u64, due_ms: u64) -> Self {
        self.0.deliveries.push(Delivery {
            key: 0,
            received_us: got * MS,
            mark: Some(mark),
            delivery_id: 7,
            attempt,
            due_ms,
            via: Via::Pull {
                lease_sent_us: asked * MS,
                leased_until_ms: got + 1_000,
                occurrence: 0,
            },
        });
        self
    }

    fn pushed(mut self, got: u64, attempt: u32, reply: WebhookReply) -> Self {
        self = self.delivered(0, got, attempt, 1, 100);
        self.last().via = Via::Push { reply };
        self
    }

    fn last(&mut self) -> &mut Delivery {
        self.0.deliveries.last_mut().unwrap()
    }

    fn id(mut self, delivery_id: u32) -> Self {
        let delivery = self.last();
        delivery.delivery_id = delivery_id;
        if let Via::Pull { occurrence, .. } = &mut delivery.via {
            *occurrence = 1;
        }
        self
    }

    fn mark(mut self, mark: Option<u64>) -> Self {
        self.last().mark = mark;
        self
    }

    fn settle(mut self, of: u32, at: u64, verdict: SettleVerdict, answer: SettleAnswer) -> Self {
        self.0.settles.push(Settle {
            delivery: Some(of),
            sent_us: at * MS,
            ended_us: (at + 5) * MS,
            verdict,
            answer,
        });
        self
    }

    fn ack(self, of: u32, at: u64) -> Self {
        self.settle(of, at, SettleVerdict::Ack, SettleAnswer::Ok)
    }

    fn crash(mut self, killed: u64, ready: u64) -> Self {
        self.0.crashes.push(Crash {
            killed_us: killed * MS,
            reaped_us: (killed + 2) * MS,
            spawned_us: (killed + 3) * MS,
            ready_us: ready * MS,
        });
        self
    }

    fn end(mut self, state: EndState, due_ms: u64, mark: u64) -> Self {
        self.0.ends.push(End {
            key: 0,
            read_us: 100_000 * MS,
            state,
            due_ms: Some(due_ms),
            mark: Some(mark),
        });
        self
    }

    fn finished(self) -> Self {
        self.end(EndState::Finished, 100, 1)
    }
}

fn schedule(mark: u64, due_ms: u64) -> Action {
    Action::Schedule { mark, due: Due::At(due_ms) }
}

fn reschedule(due_ms: u64) -> Action {
    Action::Reschedule { mark: None, due: Some(Due::At(due_ms)) }
}

fn cancelled(attempts: u32, maybe_delivered: bool) -> Answer {
    Answer::Cancelled { attempts, maybe_delivered }
}

#[track_caller]
fn all(cases: Vec<(&str, Story, &[Count])>) {
    for (name, story, expected) in cases {
        let verdict = check(&story.0);
        let found: Vec<Count> = verdict.counts.keys().copied().collect();
        assert_eq!(found, expected, "{name}:\n{verdict}");
    }
}

const RETRY: SettleVerdict = SettleVerdict::Retry { after_ms: None };
const OK: SettleAnswer = SettleAnswer::Ok;

#[test]
fn delivered_and_read_back() {
    let s = Story::scheduled;
    let doubt = || Story::sent().op(10, 20, schedule(1, 100), Answer::InDoubt);
    all(vec![
        ("on time", s().pulled(90, 101, 1).ack(0, 110).finished(), &[]),
        ("early", s().pulled(90, 99, 1).ack(0, 110).finished(), &[Count::Early]),
        ("lost", s().end(EndState::NotFound, 100, 1), &[Count::Lost]),
        ("finished unseen", s().finished(), &[Count::Lost]),
        ("cancelled by nobody", s().end(EndState::Cancelled, 100, 1), &[Count::Lost]),
        ("in doubt and gone", doubt().crash(15, 30).end(EndState::NotFound, 0, 0), &[]),
        (
            "in doubt and there",
            doubt().crash(15, 30).pulled(90, 101, 1).ack(0, 110).finished(),
            &[],
        ),
        ("a dead letter", s().end(EndState::Dead, 100, 1), &[]),
        (
            "rejected, then gone",
            s().pulled(90, 101, 1).settle(0, 110, RETRY, OK).end(EndState::NotFound, 0, 0),
            &[Count::Lost],
        ),
        (
            "ack in doubt, then finished",
            s().pulled(90, 101, 1)
                .settle(0, 110, SettleVerdict::Ack, SettleAnswer::InDoubt)
                .finished(),
            &[],
        ),
        ("still due", s().end(EndState::Due, 100, 1), &[Count::Stuck]),
        (
            "refused, yet delivered",
            Story::sent()
                .op(10, 20, schedule(1, 100), Answer::Refused)
                .pulled(90, 101, 1)
                .ack(0, 110)
                .finished(),
            &[Count::Unexpected],
        ),
        (
            "nobody's payload",
            s().pulled(90, 101, 1).mark(None).ack(0, 110).finished(),
            &[Count::Lost, Count::Unexpected],
        ),
        (
            "a due time nobody set",
            s().delivered(90, 101, 1, 1, 55).ack(0, 110).finished(),
            &[Count::Unexpected],
        ),
    ]);
}

#[test]
fn cancels_and_changes() {
    let s = Story::scheduled;
    let end = |s: Story| s.end(EndState::Cancelled, 100, 1);
    let changed = Answer::Changed { due_ms: 500 };
    all(vec![
        ("cancelled", end(s().op(30, 40, Action::Cancel, cancelled(0, false))), &[]),
        (
            "claimed after it",
            end(s().op(30, 40, Action::Cancel, cancelled(0, false)).pulled(90, 101, 1)),
            &[Count::ClaimAfterCancel],
        ),
        (
            "overlapping, by an attempt it knew of",
            end(s().op(90, 120, Action::Cancel, cancelled(1, true)).pulled(95, 110, 1)),
            &[],
        ),
        (
            "an attempt it did not know of",
            end(s().op(90, 105, Action::Cancel, cancelled(0, false)).pulled(95, 110, 1)),
            &[Count::ClaimAfterCancel],
        ),
        (
            "pushed after it",
            end(s().op(90, 105, Action::Cancel, cancelled(1, false)).pushed(
                110,
                1,
                WebhookReply::Confirmed,
            )),
            &[Count::ClaimAfterCancel],
        ),
        (
            "pushed before a crash, read after the cancel",
            end(s().crash(102, 103).op(104, 105, Action::Cancel, cancelled(1, true)).pushed(
                110,
                1,
                WebhookReply::Confirmed,
            )),
            &[],
        ),
        (
            "pushed before a crash, read after another timer in its place was cancelled",
            s().crash(102, 103)
                .op(104, 105, schedule(2, 500), Answer::Replaced { due_ms: 500 })
                .op(106, 107, Action::Cancel, cancelled(0, false))
                .pushed(110, 1, WebhookReply::Confirmed)
                .end(EndState::Cancelled, 500, 2),
            &[],
        ),
        (
            "in doubt",
            s().op(30, 40, Action::Cancel, Answer::InDoubt)
                .pulled(90, 101, 1)
                .ack(0, 110)
                .finished(),
            &[],
        ),
        (
            "cancelled, and there again",
            s().op(30, 40, Action::Cancel, cancelled(0, false)).end(
                EndState::Scheduled,
                900_000_000,
                1,
            ),
            &[Count::Resurrected],
        ),
        (
            "scheduled again",
            s().op(30, 40, Action::Cancel, cancelled(0, false))
                .op(50, 60, schedule(2, 200), Answer::Created { due_ms: 200 })
                .delivered(190, 201, 1, 2, 200)
                .ack(0, 210)
                .finished(),
            &[],
        ),
        (
            "rescheduled",
            s().op(30, 40, reschedule(500), changed)
                .delivered(490, 501, 1, 1, 500)
                .ack(0, 510)
                .finished(),
            &[],
        ),
        (
            "rescheduled, at the old time",
            s().op(30, 40, reschedule(500), changed).pulled(90, 101, 1).ack(0, 110).finished(),
            &[Count::OldTime],
        ),
        (
            "claimed while it was being rescheduled",
            s().op(95, 120, reschedule(500), changed)
                .pulled(96, 110, 1)
                .settle(0, 111, RETRY, SettleAnswer::LeaseLost)
                .delivered(490, 501, 1, 1, 500)
                .id(8)
                .ack(1, 510)
                .finished(),
            &[],
        ),
        (
            "rescheduled, and undone",
            s().op(30, 40, reschedule(900_000), Answer::Changed { due_ms: 900_000 }).end(
                EndState::Scheduled,
                800_000,
                1,
            ),
            &[Count::Undone],
        ),
        (
            "replaced, old payload",
            s().op(30, 40, schedule(2, 100), Answer::Replaced { due_ms: 100 })
                .pulled(90, 101, 1)
                .ack(0, 110)
                .finished(),
            &[Count::Lost, Count::OldTime],
        ),
        (
            "the dead letter of an earlier timer, redriven",
            s().pulled(90, 101, 1)
                .settle(0, 110, SettleVerdict::Dead, OK)
                .op(120, 130, schedule(2, 300), Answer::Created { due_ms: 300 })
                .op(140, 150, reschedule(400), Answer::Changed { due_ms: 400 })
                .delivered(390, 401, 1, 2, 400)
                .id(8)
                .ack(1, 410)
                .op(500, 510, Action::Redrive, Answer::Redriven)
                .pulled(520, 530, 2)
                .ack(2, 540)
                .finished(),
            &[],
        ),
        (
            "the dead letter of an earlier timer, dead again",
            s().pulled(90, 101, 1)
                .settle(0, 110, SettleVerdict::Dead, OK)
                .op(120, 130, schedule(2, 300), Answer::Created { due_ms: 300 })
                .delivered(290, 301, 1, 2, 300)
                .id(8)
                .ack(1, 310)
                .op(500, 510, Action::Redrive, Answer::Redriven)
                .pulled(520, 530, 2)
                .settle(2, 540, SettleVerdict::Dead, OK)
                .end(EndState::Dead, 100, 1),
            &[],
        ),
        (
            "redriven after dead",
            s().pulled(90, 101, 1)
                .settle(0, 110, SettleVerdict::Dead, OK)
                .op(120, 130, Action::Redrive, Answer::Redriven)
                .pulled(140, 150, 2)
                .ack(1, 160)
                .finished(),
            &[],
        ),
    ]);
}

#[test]
fn repetitions_and_settlements() {
    let s = || Story::scheduled().pulled(90, 101, 1);
    let stale = &[Count::StaleSettleAccepted][..];
    all(vec![
        ("retried", s().settle(0, 110, RETRY, OK).pulled(120, 130, 2).ack(1, 140).finished(), &[]),
        (
            "retried too soon",
            s().settle(0, 110, SettleVerdict::Retry { after_ms: Some(500) }, OK)
                .pulled(120, 130, 2)
                .ack(1, 140)
                .finished(),
            &[Count::Early],
        ),
        ("lease over", s().pulled(1_100, 1_110, 2).ack(1, 1_120).finished(), &[]),
        (
            "lease not over",
            s().pulled(500, 510, 2).ack(1, 520).finished(),
            &[Count::DuplicateUnexplained],
        ),
        (
            "lease not over, but a crash",
            s().crash(300, 400).pulled(500, 510, 2).ack(1, 520).finished(),
            &[],
        ),
        ("acked, and again", s().ack(0, 110).pulled(500, 510, 2).finished(), &[Count::Resurrected]),
        (
            "acked, and again after a crash",
            s().ack(0, 110).crash(300, 400).pulled(500, 510, 2).finished(),
            &[Count::Resurrected],
        ),
        (
            "ack in doubt, and again",
            s().settle(0, 110, SettleVerdict::Ack, SettleAnswer::InDoubt)
                .crash(111, 200)
                .pulled(500, 510, 2)
                .ack(1, 520)
                .finished(),
            &[],
        ),
        (
            "another id",
            s().settle(0, 110, RETRY, OK).pulled(120, 130, 2).id(8).ack(1, 140).finished(),
            &[Count::DeliveryIdChanged],
        ),
        ("stale: overtaken", s().pulled(1_100, 1_110, 2).ack(0, 1_120).finished(), stale),
        (
            "stale: refused",
            s().pulled(1_100, 1_110, 2)
                .settle(0, 1_120, SettleVerdict::Ack, SettleAnswer::LeaseLost)
                .ack(1, 1_125)
                .finished(),
            &[],
        ),
        ("stale: lapsed", s().ack(0, 1_300).finished(), stale),
        (
            "extended in time",
            s().settle(0, 900, SettleVerdict::Extend { lease_ms: 1_000 }, OK)
                .ack(0, 1_300)
                .finished(),
            &[],
        ),
        ("stale: two verdicts", s().settle(0, 110, RETRY, OK).ack(0, 120).finished(), stale),
        (
            "stale: cancelled",
            s().op(110, 115, Action::Cancel, cancelled(1, true)).ack(0, 120).end(
                EndState::Cancelled,
                100,
                1,
            ),
            stale,
        ),
    ]);
}

#[test]
fn webhooks() {
    let s = |reply| Story::scheduled().pushed(101, 1, reply);
    all(vec![
        (
            "rejected",
            s(WebhookReply::Rejected).pushed(200, 2, WebhookReply::Confirmed).finished(),
            &[],
        ),
        (
            "confirmed, and again",
            s(WebhookReply::Confirmed).pushed(200, 2, WebhookReply::Confirmed).finished(),
            &[Count::DuplicateUnexplained],
        ),
        (
            "confirmed, crash, and again",
            s(WebhookReply::Confirmed)
                .crash(102, 150)
                .pushed(200, 2, WebhookReply::Confirmed)
                .finished(),
            &[],
        ),
        (
            "no answer, and again",
            s(WebhookReply::Unknown).pushed(200, 2, WebhookReply::Confirmed).finished(),
            &[],
        ),
        (
            "given up, and again",
            s(WebhookReply::GaveUp).pushed(200, 2, WebhookReply::Confirmed).finished(),
            &[Count::Resurrected],
        ),
        ("given up", s(WebhookReply::GaveUp).end(EndState::Dead, 100, 1), &[]),
        (
            "given up and gone",
            s(WebhookReply::GaveUp).end(EndState::NotFound, 100, 1),
            &[Count::Lost],
        ),
    ]);
}

#[test]
fn a_made_up_token_and_a_server_made_id() {
    let mut story = Story::scheduled().pulled(90, 101, 1).ack(0, 110).finished();
    story.0.operations[0].key = None;
    story.0.operations[0].answer = Answer::InDoubt;
    assert!(check(&story.0).is_clean());
    story.0.settles.push(Settle {
        delivery: None,
        sent_us: 0,
        ended_us: 1,
        verdict: SettleVerdict::Ack,
        answer: SettleAnswer::Ok,
    });
    assert_eq!(check(&story.0).count(Count::StaleSettleAccepted), 1);
}
