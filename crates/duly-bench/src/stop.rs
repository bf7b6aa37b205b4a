//! Signal that ends a run early, with the figures so far.

use std::time::Duration;

use tokio::sync::watch;

/// Time for the calls in flight after the signal.
const GRACE: Duration = Duration::from_secs(1);

/// Sender of the signal.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Receiver of the signal.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Creates a connected pair.
    pub fn new() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(receiver))
    }

    /// Returns `true` if the run is to stop.
    pub fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the signal; forever if the sender was dropped without one.
    pub async fn wanted(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the signal and for the grace period of calls in flight.
    pub(crate) async fn passed(&self) {
        self.wanted().await;
        tokio::time::sleep(GRACE).await;
    }
}

impl Stopper {
    /// Ends the run.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
