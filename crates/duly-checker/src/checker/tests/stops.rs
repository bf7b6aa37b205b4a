//! Tests with histories in which a process was stopped.

use super::{MS, RETRY, Story, all, reschedule};
use crate::checker::Count;
use crate::history::{Answer, SettleAnswer, Stop, StoppedProcess, WebhookReply};

impl Story {
    fn stop(mut self, who: StoppedProcess, from: u64, to: u64) -> Self {
        self.0.stops.push(Stop { who, from_us: from * MS, to_us: to * MS });
        self
    }
}

#[test]
fn a_stop_excuses_only_timed_out_webhooks() {
    let hook = |reply| Story::scheduled().pushed(101, 1, reply);
    let again = |s: Story| s.pushed(9_000, 2, WebhookReply::Confirmed).finished();
    let pull = || Story::scheduled().pulled(90, 101, 1);
    let stale = &[Count::StaleSettleAccepted][..];
    let late = || {
        Story::scheduled().op(8_000, 8_010, reschedule(8_500), Answer::Changed { due_ms: 8_500 })
    };
    all(vec![
        (
            "confirmed to one that stood",
            again(hook(WebhookReply::Confirmed).stop(StoppedProcess::Server, 102, 5_000)),
            &[],
        ),
        (
            "given up to one that stood",
            again(hook(WebhookReply::GaveUp).stop(StoppedProcess::Server, 102, 5_000)),
            &[],
        ),
        (
            "by one that stood",
            again(hook(WebhookReply::Confirmed).stop(StoppedProcess::Receiver, 50, 100)),
            &[],
        ),
        (
            "while a consumer stood",
            again(hook(WebhookReply::Confirmed).stop(StoppedProcess::Worker, 102, 5_000)),
            &[Count::DuplicateUnexplained],
        ),
        (
            "read by one that stood, after a change",
            late()
                .stop(StoppedProcess::Receiver, 100, 8_050)
                .pushed(8_060, 1, WebhookReply::Confirmed)
                .finished(),
            &[],
        ),
        (
            "read after a change",
            late().pushed(8_060, 1, WebhookReply::Confirmed).finished(),
            &[Count::OldTime],
        ),
        (
            "lapsed while it stood",
            pull().stop(StoppedProcess::Worker, 102, 1_300).ack(0, 1_300).finished(),
            stale,
        ),
        (
            "lapsed before the server",
            pull().stop(StoppedProcess::Server, 102, 1_300).ack(0, 1_300).finished(),
            stale,
        ),
        (
            "lease not over",
            pull()
                .stop(StoppedProcess::Server, 102, 400)
                .pulled(500, 510, 2)
                .ack(1, 520)
                .finished(),
            &[Count::DuplicateUnexplained],
        ),
        (
            "came late to one that stood, who is refused",
            pull()
                .stop(StoppedProcess::Worker, 102, 1_300)
                .pulled(1_150, 1_160, 2)
                .settle(0, 1_300, RETRY, SettleAnswer::LeaseLost)
                .ack(1, 1_310)
                .finished(),
            &[],
        ),
    ]);
}
