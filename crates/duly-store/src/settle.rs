//! Settling: what the holder of a lease says of its firing.

pub use duly_core::settle::{SettleOutcome, SettleVerdict};
use duly_core::{
    Invalid, NamespaceName,
    namespace::{LEASE_MAX, LEASE_MIN},
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
