//! The trait itself, and the three ends that a delivery can have.

use duly_core::timer::{AttemptOutcome, Wait};
use futures::future::BoxFuture;

use crate::Envelope;

/// Hands firings to one kind of far side.
///
/// # Promises
///
/// * **S1 confirmed**: [`Delivery::Confirmed`] is said only after the far side confirmed.
/// * **S2 intact**: the payload arrives byte for byte, header values too.
/// * **S3 named**: the delivery id, the attempt and the due time are always there, whatever headers
///   the timer or the destination carries.
/// * **S4 in time**: nothing is sent past [`Envelope::deadline`], and the future ends soon after
///   it, however slow or endless the far side is.
/// * **S5 allowed**: no connection is made to a refused address, by number or by name.
/// * **S6 discreet**: no secret, header value or URL stands in a reason, an error or a log line.
///   (What a receiver itself writes into its answer is kept as it came.)
/// * **S7 once**: the far side sees one attempt at most once. What it may have seen is not repeated
///   before the next attempt, which has a number of its own.
///
/// # Cancellation safety
///
/// Dropping the future closes the exchange; whether the far side got it is then unknown.
pub trait Sink: Send + Sync + 'static {
    /// Delivers one firing once. Never fails otherwise than by its answer.
    fn deliver(&self, envelope: Envelope) -> BoxFuture<'_, Delivery>;
}

/// What became of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The far side confirmed it.
    Confirmed,
    /// Not confirmed; another attempt may help.
    Failed {
        /// How it ended; decides whether the far side may have it.
        kind: AttemptOutcome,
        /// How long to wait.
        wait: Wait,
        /// Why, for a person.
        reason: String,
    },
    /// The far side said never again.
    Rejected {
        /// Why, for a person.
        reason: String,
    },
}

impl Delivery {
    /// A failure that waits as the retry policy says.
    pub fn failed(kind: AttemptOutcome, reason: impl Into<String>) -> Self {
        Self::Failed { kind, wait: Wait::Policy, reason: reason.into() }
    }

    /// How the attempt ended, as the history tells it.
    pub const fn outcome(&self) -> AttemptOutcome {
        match self {
            Self::Confirmed => AttemptOutcome::Delivered,
            Self::Failed { kind, .. } => *kind,
            Self::Rejected { .. } => AttemptOutcome::Rejected,
        }
    }
}
