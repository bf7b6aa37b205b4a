//! Subject `waiting`: lease calls that wait, and the lateness of a call that gets a firing.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{Run, at, scattered};
use crate::{
    clock::{now_ms, now_us},
    drain::GRACE,
    ledger::Drained,
    transport::Verdict,
    usage::resident_bytes,
};

/// Time until all calls wait.
const WARM_UP: Duration = Duration::from_secs(3);
/// Longest wait of a call, in milliseconds: the longest that the server allows.
const WAIT_MS: u32 = 60_000;

impl Run {
    /// Lets one call wait for each timer, on a connection of its own; each gets one firing.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) async fn waiting(&mut self) -> Result<()> {
        let base = self.pid().map(resident_bytes).transpose()?;
        let transport = self.client.separate(usize::try_from(self.timers)?)?.transport();
        let (first_ms, span_ms) =
            (now_ms() + 2 * Self::lead_ms(self.timers) + 5_000, self.options.seconds() * 1_000);
        let until = at(first_ms + span_ms) + GRACE;
        self.measured.begin(at(first_ms));
        let mut calls = JoinSet::new();
        for line in 0..usize::try_from(self.timers)? {
            let (transport, target) = (Arc::clone(&transport), Arc::clone(&self.target));
            let (ledger, measured) = (Arc::clone(&self.ledger), Arc::clone(&self.measured));
            calls.spawn(async move {
                while Instant::now() < until {
                    let leased = transport.lease(line, &target.namespace, 1, WAIT_MS).await?;
                    let received_us = now_us();
                    let Some(firing) = leased.first() else { continue };
                    if let Some(late_us) = ledger.fired(firing.number, received_us) {
                        measured.record(late_us, 1);
                    }
                    let tokens = [firing.token.as_str()];
                    let namespace = &target.namespace;
                    transport.settle(line, namespace, &tokens, Verdict::Ack).await?;
                    firing.number.map(|number| ledger.settled(number));
                    break;
                }
                anyhow::Ok(())
            });
        }
        self.say("waiting");
        sleep(WARM_UP).await;
        if let Some((pid, base)) = self.pid().zip(base) {
            let resident = resident_bytes(pid)?.saturating_sub(base) as f64;
            self.table.add(
                "resident memory of a call that waits",
                "B",
                resident / self.timers as f64,
            );
        }
        self.fill(move |number| first_ms + scattered(number) % span_ms).await?;
        self.ensure_still_ahead(first_ms)?;
        while let Some(call) = calls.join_next().await {
            call??;
        }
        self.drained = Drained::Yes;
        Ok(())
    }
}
