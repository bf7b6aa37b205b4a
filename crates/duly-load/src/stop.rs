//! The wish that a run ends now, with the figures so far.

use std::time::Duration;

use tokio::sync::watch;

/// How long calls under way have from then on.
const GRACE: Duration = Duration::from_secs(1);

/// Says that a run is to end.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A pair.
    pub fn new() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(receiver))
    }

    /// Whether it was said.
    pub fn is_wanted(&self) -> bool {
        *self.0.borrow()
    }

    /// Until it is said; for ever, where nobody is left who could.
    pub async fn wanted(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|wanted| *wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Until it was said and calls under way had their time.
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
