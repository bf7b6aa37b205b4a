//! Settling: what the holder of a lease says of its firing.

use duly_core::{
    Millis, NamespaceName,
    timer::{AttemptOutcome, Wait},
};

use crate::Token;

/// A verdict on one leased firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Names the lease.
    pub token: Token,
    /// Where the caller believes it to be; a token of another namespace is `InvalidToken`.
    pub namespace: Option<NamespaceName>,
    /// The verdict.
    pub verdict: SettleVerdict,
}

/// What the holder says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleVerdict {
    /// Confirmed by the receiver.
    Ack,
    /// Not delivered; to be tried again by the retry policy.
    Retry {
        /// How long to wait.
        wait: Wait,
        /// How the attempt ended.
        outcome: AttemptOutcome,
        /// Why, for a person.
        reason: String,
    },
    /// Never to be tried again: a dead letter.
    Dead {
        /// Why, for a person.
        reason: String,
    },
    /// The lease is to end this long from now, at most 12 h after the claim. A length outside
    /// `LEASE_MIN..=LEASE_MAX` refuses the whole call before anything is done.
    Extend {
        /// How long from now.
        lease: Millis,
    },
    /// Handed back untouched; the attempt does not count.
    Release,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettleOutcome {
    /// Taken.
    Ok,
    /// Taken; that retry was the last attempt, so it is a dead letter now.
    Dead,
    /// The same token was settled the same way before. Known for the token that was settled last,
    /// while the timer is pending, dead, or finished with a stub; `LeaseLost` otherwise.
    AlreadySettled,
    /// The lease is not held any more; nothing changed (P8).
    LeaseLost,
    /// No token of this store or namespace.
    InvalidToken,
}

impl SettleOutcome {
    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Dead => "dead",
            Self::AlreadySettled => "already_settled",
            Self::LeaseLost => "lease_lost",
            Self::InvalidToken => "invalid_token",
        }
    }
}
