//! Settling: what the holder of a lease says of its firing.

use duly_core::{
    Invalid, Millis, NamespaceName,
    namespace::{LEASE_MAX, LEASE_MIN},
    timer::{AttemptOutcome, Wait},
};

use crate::Token;

/// Most settlements of one call to [`crate::Store::settle`]; more refuse the call.
pub const SETTLEMENTS_MAX: usize = 10_000;

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

/// Refuses a call whose values are not allowed, before anything is done.
///
/// # Errors
/// `Invalid` past [`SETTLEMENTS_MAX`], and for an extension outside `LEASE_MIN..=LEASE_MAX`.
pub fn check(settlements: &[Settlement]) -> crate::Result<()> {
    if settlements.len() > SETTLEMENTS_MAX {
        let allowed = format!("at most {SETTLEMENTS_MAX} a call");
        return Err(Invalid::new("settlements", settlements.len(), allowed).into());
    }
    for (i, settlement) in settlements.iter().enumerate() {
        if let SettleVerdict::Extend { lease } = settlement.verdict {
            let field = format!("settlements[{i}].extend.lease");
            lease.within(LEASE_MIN, LEASE_MAX).map_err(|invalid| invalid.within(&field))?;
        }
    }
    Ok(())
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
    /// The lease is to end this long from now, at most 12 h after the claim; a node's lease has no
    /// end to move. A length outside `LEASE_MIN..=LEASE_MAX` refuses the whole call before anything
    /// is done.
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
    /// while the timer is pending, dead, or finished with a tombstone; `LeaseLost` otherwise.
    AlreadySettled,
    /// The lease is not held any more; nothing changed (P8).
    LeaseLost,
    /// No token of this store or namespace.
    InvalidToken,
    /// Whether it was taken is not known: settle the same way again.
    InDoubt,
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
            Self::InDoubt => "in_doubt",
        }
    }
}
