//! The [`Sink`] trait, and the three results of a delivery.

use duly_core::{
    Millis,
    destination::HttpDestination,
    timer::{AttemptOutcome, Wait},
};
use futures::future::BoxFuture;

use crate::Envelope;

/// Sends firings to one kind of receiver.
///
/// # Promises
///
/// * **S1 confirmed**: [`Delivery::Confirmed`] is returned only after the receiver has confirmed.
/// * **S2 intact**: the payload arrives byte for byte, and so do header values.
/// * **S3 named**: the delivery id, the attempt and the due time are always present, regardless of the
///   headers of the timer or the destination.
/// * **S4 in time**: nothing is sent after [`Envelope::deadline`]. The future ends soon after it, even
///   if the receiver is slow or sends without end.
/// * **S5 allowed**: no connection is made to a refused address, by number or by name.
/// * **S6 discreet**: no secret, header value or URL appears in a reason, an error or a log line. (Text
///   that the receiver itself writes into its reply is kept, without the known secrets of the request,
///   and behind Duly's own words: see [`duly_core::timer::own_reason`].)
/// * **S7 once**: the receiver gets one attempt at most once. A request that it may have got is not
///   repeated before the next attempt, which has its own number.
///
/// # Cancellation safety
///
/// If the future is dropped, the exchange is closed. It is then unknown whether the receiver got it.
pub trait Sink<D = HttpDestination>: Send + Sync + 'static {
    /// Delivers one firing once. Failures are part of the returned [`Delivery`].
    fn deliver(&self, envelope: Envelope<D>) -> BoxFuture<'_, Delivery>;
}

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver confirmed the firing.
    Confirmed,
    /// The attempt was not confirmed; another attempt may succeed.
    Failed {
        /// Outcome of the attempt; says whether the receiver may have the firing.
        kind: AttemptOutcome,
        /// Wait before the next attempt.
        wait: Wait,
        /// Health of the receiver, as the attempt shows it.
        health: ReceiverHealth,
        /// Reason, for operators.
        reason: String,
    },
    /// The receiver cannot handle the firing yet, and said when to try again. The attempt does not count.
    Snoozed {
        /// Wait before the next attempt.
        after: Millis,
    },
    /// The receiver rejected the firing for good.
    Rejected {
        /// Reason, for operators.
        reason: String,
    },
}

/// The health of a receiver, as one attempt shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverHealth {
    /// The receiver works. A response is a sign of it, also one that refuses the firing.
    Good,
    /// The receiver is silent: no connection, or no response.
    Silent,
    /// The receiver responded that it is overloaded or broken.
    Overloaded,
    /// Unknown: the attempt was not made, or was aborted by this node.
    Unknown,
}

impl Delivery {
    /// Creates a failure of a silent receiver; the next attempt waits according to the retry policy.
    pub fn failed(kind: AttemptOutcome, reason: impl Into<String>) -> Self {
        let (wait, health) = (Wait::Policy, ReceiverHealth::Silent);
        Self::Failed { kind, wait, health, reason: reason.into() }
    }

    /// Returns the health of the receiver. A receiver that rejects a firing for good works.
    pub const fn health(&self) -> ReceiverHealth {
        match self {
            Self::Confirmed | Self::Snoozed { .. } | Self::Rejected { .. } => ReceiverHealth::Good,
            Self::Failed { health, .. } => *health,
        }
    }

    /// Returns the outcome of the attempt for the history; a snoozed firing was not handled.
    pub const fn outcome(&self) -> AttemptOutcome {
        match self {
            Self::Confirmed => AttemptOutcome::Delivered,
            Self::Failed { kind, .. } => *kind,
            Self::Snoozed { .. } => AttemptOutcome::Failed,
            Self::Rejected { .. } => AttemptOutcome::Rejected,
        }
    }
}
