//! Subjects with a full history: `mixed`, and `recovery`, which kills the server during the mix.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use duly_checker::history::{Action, Due};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Run,
    mix::{HORIZON_MS, Mix},
    scattered,
};
use crate::{
    clock::now_ms,
    drain::GRACE,
    own_server::{OwnServer, Start},
    recording_client::{CONSUMERS, RecordingClient},
    stop::Stop,
    transport::{Ask, Settings},
    usage::Using,
};

/// Lease of a firing. It is short, so a firing whose lease was lost is delivered again while the
/// run waits.
const LEASE: Duration = Duration::from_secs(5);
/// Timers that become due just after the kill.
const OVERDUE: u64 = 1_000;
/// Delay of these timers after the kill.
const OVERDUE_AFTER_MS: u64 = 10;
/// Delay of the timers that stay pending through the kill. Their due times are spread over the same
/// duration again.
const RESTING_MS: u64 = 24 * 3_600_000;
/// Time between two polls of the pending timers.
const LOOK: Duration = Duration::from_millis(50);

impl Run {
    pub(super) async fn mixed(&mut self) -> Result<()> {
        let recording = self.start_recording().await?;
        self.load(&recording, None).await
    }

    /// Keeps timers pending in the main namespace, offers the mix in another one, and kills the
    /// server meanwhile.
    pub(super) async fn recovery(&mut self) -> Result<()> {
        let first_ms = now_ms() + RESTING_MS;
        self.fill(move |number| first_ms + scattered(number) % RESTING_MS).await?;
        let recording = self.start_recording().await?;
        let half_ms = self.options.seconds() * 500;
        let kill_ms = now_ms() + half_ms;
        let due = Due::At(kill_ms + OVERDUE_AFTER_MS);
        let operations = self.options.paced_timers();
        let overdue: Vec<_> = (operations..operations + OVERDUE)
            .map(|number| Ask {
                number,
                action: Action::Schedule { mark: number, due },
                replaces: false,
            })
            .collect();
        recording.ask(0, &overdue).await;
        self.load(&recording, Some(kill_ms)).await?;
        if !self.stop.is_wanted() {
            self.compare_pending().await?;
        }
        Ok(())
    }

    async fn start_recording(&mut self) -> Result<Arc<RecordingClient>> {
        let settings = Settings { url: None, lease: Some(LEASE) };
        let namespace = self.target.make(0, "mixed", &settings).await?;
        let transport = self.client.recording().context("a history is recorded at a server")?;
        let (target, beside) = (Arc::clone(&self.target), self.options.paced_timers());
        let recording = Arc::new(RecordingClient::new(transport, target, namespace, beside));
        self.recording = Some(Arc::clone(&recording));
        Ok(recording)
    }

    /// Offers the mix while consumers lease the firings, waits until no timer is pending, and reads
    /// every timer back.
    async fn load(&mut self, recording: &Arc<RecordingClient>, kill_ms: Option<u64>) -> Result<()> {
        let operations = self.options.paced_timers();
        let (batch, lines) = (self.batch(), self.lines());
        let rate = self.options.paced().unwrap_or(1).into();
        let mix = Mix { recording: Arc::clone(recording), operations, batch, rate };
        let offer =
            self.offered(self.pace(operations.div_ceil(batch), batch), lines, Arc::new(mix))?;
        recording.lateness.begin(Instant::now());
        let consumers = recording.consume(lines);
        // The figures of a process end when it is killed.
        let using = kill_ms.is_none().then(|| Using::begin(self.pid()));
        let offered = crate::offer::offer(offer, &self.stop);
        let (unsent, killed) =
            tokio::join!(offered, crash(self.own.as_mut(), recording, kill_ms, &self.stop));
        self.unsent = unsent?;
        killed?;
        if self.stop.is_wanted() {
            return Ok(());
        }
        self.say("waiting for the last firings");
        let namespace = recording.namespace();
        let until = Instant::now() + Duration::from_millis(HORIZON_MS) + GRACE;
        while self.target.transport.pending(0, namespace).await? > 0 && Instant::now() < until {
            sleep(LOOK).await;
        }
        self.used = using.and_then(Using::end);
        recording.is_over();
        consumers.join_all().await;
        self.expect_pending(namespace, 0).await?;
        recording.has_waited();
        self.say("reading every timer back");
        recording.read_back(lines.max(CONSUMERS)).await
    }
}

async fn crash(
    own: Option<&mut OwnServer>,
    recording: &RecordingClient,
    kill_ms: Option<u64>,
    stop: &Stop,
) -> Result<()> {
    let (Some(own), Some(at_ms)) = (own, kill_ms) else { return Ok(()) };
    tokio::select! {
        () = sleep_until(super::at(at_ms)) => {}
        () = stop.wanted() => return Ok(()),
    }
    recording.goes_down();
    recording.is_back(own.crash(Start::Warm).await?);
    Ok(())
}
