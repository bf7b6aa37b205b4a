//! Settlements: verdicts of the holders of leases.

pub use duly_core::settle::{SettleOutcome, SettleVerdict};
use duly_core::{
    Invalid, NamespaceName,
    namespace::{LEASE_MAX, LEASE_MIN},
};

use crate::Token;

/// Maximum number of settlements of one call to [`crate::Timers::settle`]; a call with more is refused.
pub const SETTLEMENTS_MAX: usize = 10_000;

/// A verdict on one leased firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The token of the lease.
    pub token: Token,
    /// The namespace that the caller expects; the outcome for a token of another namespace is
    /// `InvalidToken`.
    pub namespace: Option<NamespaceName>,
    /// The verdict.
    pub verdict: SettleVerdict,
}

/// Checks the values of a call before anything is done.
///
/// # Errors
/// `Invalid` past [`SETTLEMENTS_MAX`], and for an extension outside `LEASE_MIN..=LEASE_MAX`.
pub fn check(settlements: &[Settlement]) -> crate::Result<()> {
    if settlements.len() > SETTLEMENTS_MAX {
        let allowed = format!("at most {SETTLEMENTS_MAX} per call");
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
