//! The phases of a node's life: running, draining, cut off, left. They only go forward.

use tokio::sync::watch;

/// Where a node is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It claims and delivers.
    Running,
    /// It claims no more; attempts under way may finish.
    Draining,
    /// Attempts under way are given up.
    CutOff,
    /// Nothing is under way any more, and the other nodes know it.
    Left,
}

/// The phase, to be set and waited for.
#[derive(Debug)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Phases {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }

    /// Moves forward; a phase behind the present one changes nothing.
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

    /// Waits until `phase` is reached. Cancellation safe.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut receiver = self.0.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        receiver.wait_for(|now| *now >= phase).await.ok();
    }
}
