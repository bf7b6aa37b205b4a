//! The text of receivers and consumers, where their namespace may keep no more of it.

use duly_core::timer::Wait;
use duly_store::{SettleVerdict, Settlement};

use super::{pull::try_lease, *};
use crate::ReasonLimit;

const STATUS: &str = "HTTP 503 (repeated if the retry policy allows)";

#[tokio::test(start_paused = true)]
async fn p10_both_ways_to_settle_leave_out_the_text() {
    let mut world =
        World::start_with(|options| options.reasons = ReasonLimit::new(|_, _| false)).await;
    let retry = || SettleVerdict::Retry {
        wait: Wait::Policy,
        outcome: AttemptOutcome::Failed,
        reason: "words".to_owned(),
    };
    let dead = || SettleVerdict::Dead { reason: "words".to_owned() };
    for (id, verdict, state) in [("r", retry(), State::Retrying), ("d", dead(), State::Dead)] {
        world.schedule_pull(id, ms(0)).await;
        let leased = try_lease(&world, 1).await;
        let token = leased.firings[0].token.clone();
        leased.delivered();
        let namespace = Some(world.namespace.clone());
        let settlement = Settlement { token, namespace, verdict };
        world.handle.settle(vec![settlement], None).await.unwrap()[0].as_ref().unwrap();
        assert_eq!(world.until(id, state).await.timer().unwrap().history[0].reason, "");
    }
    let words = || format!("{STATUS}: {}", "words ".repeat(100));
    for (id, delivery, state) in [
        ("f", Delivery::failed(AttemptOutcome::Failed, words()), State::Retrying),
        ("g", Delivery::Rejected { reason: words() }, State::Dead),
    ] {
        world.schedule(id, ms(0), A).await;
        world.call().await.answer(delivery);
        assert_eq!(world.until(id, state).await.timer().unwrap().history[0].reason, STATUS);
    }
}
