//! The phases of a node's life: running, draining, cut off, left. A node only moves forward through
//! them.

use std::time::Duration;

use tokio::sync::watch;

/// A phase of a node's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The node claims and delivers.
    Running,
    /// The node claims nothing more; attempts under way may finish.
    Draining,
    /// Attempts under way are aborted.
    CutOff,
    /// No attempt is under way any more, and the node tells the others that it leaves.
    Left,
}

/// The current phase of a node, with a wait for a later one.
#[derive(Debug)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Phases {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }

    /// Moves to `phase`. A phase before the current one changes nothing.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }

    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Sleeps for `time`, or until the node drains; returns `true` if the node still runs. Cancellation safe.
    pub(crate) async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => self.now() == Phase::Running,
            () = self.reached(Phase::Draining) => false,
        }
    }

    /// Waits until `phase` is reached. Cancellation safe.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut receiver = self.0.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        receiver.wait_for(|now| *now >= phase).await.ok();
    }
}
