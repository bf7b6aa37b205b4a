//! Delivery by webhooks to a receiver on this machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use super::{Run, at};
use crate::{drain::GRACE, ledger::Drained, options::Delivery, receiver::Receiver, usage::Using};

/// Time between two progress polls.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time until the server has recorded all confirmations.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

/// Receive time of each timer, Unix µs; 0 before it is received.
pub(super) type Times = Arc<[AtomicU64]>;

impl Run {
    /// Starts the receiver of the main namespace, if the run delivers by webhooks.
    pub(super) fn start_receiver(&self) -> Result<Option<Receiver>> {
        let is_webhook = self.options.delivery == Some(Delivery::Webhook);
        is_webhook.then(|| self.receive(None)).transpose()
    }

    /// Starts a receiver that records the lateness of each delivery, and its time in `times`.
    pub(super) fn receive(&self, times: Option<Times>) -> Result<Receiver> {
        ensure!(
            self.client.is_on_this_machine(),
            "webhooks are sent to a receiver on this machine, so the server has to be here too"
        );
        let (ledger, measured) = (Arc::clone(&self.ledger), Arc::clone(&self.measured));
        Receiver::start(Arc::new(move |id, received_us| {
            let number = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
            let Some(late_us) = ledger.fired(number, received_us) else { return };
            measured.record(late_us, 1);
            let place = number.and_then(|number| usize::try_from(number).ok());
            if let Some(time) = times.as_ref().zip(place).and_then(|(times, at)| times.get(at)) {
                time.store(received_us, Relaxed);
            }
        }))
    }

    /// Waits until all timers of the run are received, the last of which is due at `last_ms`.
    /// Measures the resources meanwhile.
    pub(super) async fn await_deliveries(&mut self, last_ms: u64) {
        let using = Using::begin(self.pid());
        let until = at(last_ms).max(Instant::now()) + GRACE;
        while self.ledger.fired_so_far() < self.timers
            && Instant::now() < until
            && !self.stop.is_wanted()
        {
            sleep(LOOK).await;
        }
        self.used = using.end();
        if !self.stop.is_wanted() {
            self.drained = Drained::Yes;
        }
    }

    /// Checks that no timer stays pending although its delivery was confirmed.
    pub(super) async fn ensure_confirmed(&mut self, namespaces: Arc<[String]>) -> Result<()> {
        self.say("looking whether anything is left");
        let until = Instant::now() + CONFIRMED_WITHIN;
        loop {
            let left = Arc::new(AtomicU64::new(0));
            let (sum, names) = (Arc::clone(&left), Arc::clone(&namespaces));
            let target = Arc::clone(&self.target);
            self.each_of(namespaces.len(), move |line, place| {
                let (sum, names) = (Arc::clone(&sum), Arc::clone(&names));
                let target = Arc::clone(&target);
                async move {
                    let pending = target.transport.pending(line, &names[place]).await?;
                    sum.fetch_add(pending, Relaxed);
                    Ok(())
                }
            })
            .await?;
            let left = left.load(Relaxed);
            if left == 0 || self.stop.is_wanted() {
                return Ok(());
            }
            if Instant::now() > until {
                self.differs = Some(format!("{left} timers are pending although all came"));
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}
