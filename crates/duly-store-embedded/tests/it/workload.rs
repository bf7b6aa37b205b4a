//! The scripted workload of the crash tests: a little of everything, over several segments.
//!
//! Two moments are there on purpose. At one roll nothing in the journal is needed any more except the
//! namespaces. And ids are cancelled, made again and cancelled again.

use duly_core::{Millis, RetryPolicy, Settings, schedule::IfExists};
use duly_store::{SettleVerdict, namespaces::Activity};

use crate::steps::{
    Step, cancel, dead_letter_verdict, fire, payload, purge, put_timer, redrive, repay, reschedule,
    retry_in, schedule,
};

/// Size of a payload: ten of them fill a segment.
pub(crate) const LARGE_BYTES: usize = 6_000;

/// Lifetime of tombstones in namespaces that keep them.
pub(crate) const RETENTION: Millis = Millis::from_secs(600);

/// A step, or a movement of the clock.
#[derive(Debug, Clone)]
pub(crate) enum ScriptStep {
    Take(Step),
    Advance(u64),
}

/// Settings with the waits and leases that the script relies on.
pub(crate) fn settings() -> Settings {
    Settings {
        retry: RetryPolicy::Delays(vec![Millis::from_secs(1), Millis::from_secs(10)]),
        retention: RETENTION,
        ..Settings::default()
    }
}

/// Settings of a namespace that keeps no tombstones.
pub(crate) fn forgetful() -> Settings {
    Settings { retention: Millis::ZERO, weight: 7, ..settings() }
}

/// The whole script.
pub(crate) fn script() -> Vec<ScriptStep> {
    let mut lines = emptied_segment();
    lines.extend(every_operation());
    lines.extend(again_and_again());
    lines
}

/// Makes segment after segment that is dead as soon as the next one begins, beside one timer that stays.
/// It is rescheduled now and then, so that its record moves to a later segment.
pub(crate) fn dying_segments() -> Vec<ScriptStep> {
    let mut lines = vec![take(Step::Put("brief", Box::new(forgetful())))];
    lines.push(brief(vec![schedule("keep", 500_000, 20), schedule("gone", 500_000, 20)]));
    lines.push(brief(vec![cancel("gone")]));
    for round in 0..5 {
        let ids = ["x", "y", "z"];
        let fill = |bytes| ids.iter().map(|id| schedule(id, 400_000, bytes)).collect();
        lines.push(brief(fill(3 * LARGE_BYTES)));
        lines.push(brief(ids.iter().map(|id| cancel(id)).collect()));
        lines.push(brief(vec![reschedule("keep", 600_000 + round)]));
        // Leased and acknowledged in another segment than the one it was made in.
        lines.push(take(Step::Claim("brief", 1)));
        lines.push(take(Step::Settle("brief", "due".to_owned(), SettleVerdict::Ack)));
        lines.push(brief(vec![schedule("due", 0, 20)]));
    }
    lines
}

fn brief(operations: Vec<duly_store::Operation>) -> ScriptStep {
    take(Step::Apply("brief", operations))
}

fn take(step: Step) -> ScriptStep {
    ScriptStep::Take(step)
}

fn ack(id: &str) -> ScriptStep {
    take(Step::Settle("shop", id.to_owned(), SettleVerdict::Ack))
}

fn settle(id: &str, verdict: SettleVerdict) -> ScriptStep {
    take(Step::Settle("shop", id.to_owned(), verdict))
}

fn shop(operations: Vec<duly_store::Operation>) -> ScriptStep {
    take(Step::Apply("shop", operations))
}

/// Fills a segment with timers that all end before the next one begins.
fn emptied_segment() -> Vec<ScriptStep> {
    let mut lines = vec![
        take(Step::Put("brief", Box::new(forgetful()))),
        take(Step::Activity("brief", Activity::Paused)),
        take(Step::Activity("brief", Activity::Running)),
    ];
    for round in 0..7 {
        let ids = [format!("b{round}"), format!("c{round}")];
        let made = vec![schedule(&ids[0], 0, LARGE_BYTES), schedule(&ids[1], 0, LARGE_BYTES)];
        lines.push(take(Step::Apply("brief", made)));
        lines.push(take(Step::Claim("brief", 1)));
        lines.push(take(Step::Settle("brief", ids[0].clone(), SettleVerdict::Ack)));
        lines.push(take(Step::Settle("brief", ids[1].clone(), SettleVerdict::Ack)));
        lines.push(take(Step::Apply("brief", ids.iter().map(|id| cancel(id)).collect())));
    }
    lines
}

/// Every operation in every state that accepts it.
fn every_operation() -> Vec<ScriptStep> {
    let replacement = put_timer("b", 40_000, payload("new b", 50), IfExists::Replace);
    vec![
        take(Step::Put("shop", Box::new(settings()))),
        take(Step::Put("gone", Box::new(settings()))),
        shop(vec![
            schedule("a", 0, 100),
            schedule("b", 5_000, LARGE_BYTES),
            schedule("c", 1_000, 100),
            schedule("d", 60_000, LARGE_BYTES),
            schedule("e", 0, 10),
            schedule("f", 0, 10),
            schedule("g", 0, 10),
            schedule("h", 0, 10),
        ]),
        take(Step::Apply("gone", vec![schedule("x", 0, LARGE_BYTES), schedule("y", 9_000, 9)])),
        take(Step::Claim("gone", 1)),
        shop(vec![reschedule("c", 20_000), replacement, cancel("d")]),
        take(Step::Claim("shop", 10)),
        ack("a"),
        settle("e", retry_in(5_000)),
        settle("f", dead_letter_verdict()),
        settle("g", SettleVerdict::Release),
        settle("h", SettleVerdict::Extend { lease: Millis::from_secs(120) }),
        take(Step::Delete("gone")),
        shop(vec![repay("e", payload("other", LARGE_BYTES)), fire("e"), fire("c")]),
        take(Step::Claim("shop", 1)),
        shop(vec![redrive("f", 2_000), cancel("g"), schedule("d", 3_000, 10)]),
        take(Step::Activity("shop", Activity::Paused)),
        ScriptStep::Advance(2_500),
        take(Step::Claim("shop", 10)),
        take(Step::Activity("shop", Activity::Running)),
        take(Step::Claim("shop", 10)),
        settle("f", dead_letter_verdict()),
        settle("e", SettleVerdict::Ack),
        shop(vec![purge("f"), cancel("f")]),
        ScriptStep::Advance(31_000),
        shop(vec![cancel("c")]),
        take(Step::Claim("shop", 3)),
        take(Step::Put("shop", Box::new(Settings { weight: 3, ..settings() }))),
    ]
}

/// The same few ids again and again, until the segments with their first lives are gone.
fn again_and_again() -> Vec<ScriptStep> {
    let mut lines = Vec::new();
    for round in 0..6 {
        let later = 100_000 + round * 1_000;
        lines.push(shop(vec![
            schedule("p", later, LARGE_BYTES),
            schedule("q", later, LARGE_BYTES),
            schedule("r", later, LARGE_BYTES),
        ]));
        lines.push(shop(vec![cancel("p"), reschedule("q", later + 500), cancel("r")]));
        lines.push(shop(vec![
            schedule("p", later, LARGE_BYTES),
            put_timer("q", later, payload(&format!("q{round}"), 40), IfExists::Replace),
            cancel("q"),
            cancel("p"),
        ]));
        lines.push(ScriptStep::Advance(700));
    }
    // The tombstones of the first lives end, and with them the need for their segments.
    lines.push(ScriptStep::Advance(650_000));
    lines.push(shop(vec![schedule("z", 700_000, 3), schedule("late", 2_000_000, LARGE_BYTES)]));
    for _ in 0..10 {
        lines.push(shop(vec![repay("late", payload("again", LARGE_BYTES))]));
    }
    lines
}
