//! Canaries of the checker: a server in memory, in which a bug can be planted.
//!
//! [`run`] drives the server through a seeded run with overlapping calls, lost responses, expired
//! leases and crashes, on its own clock. It returns the history that an observer would have
//! recorded. Without a bug the checker must find nothing in it, for any seed. With a bug it must
//! find that bug.

mod driver;
mod server;

#[cfg(test)]
mod tests;

pub use driver::run;

/// A bug to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Some claims are granted a few milliseconds before the due time.
    EarlyFire,
    /// A crash loses some acknowledged timers.
    Lost,
    /// Some acked timers become due again.
    Resurrected,
    /// Some accepted reschedules keep the old due time as well.
    OldTime,
    /// Some retries have another delivery id.
    ChangedDeliveryId,
    /// A token whose lease is lost may still ack.
    StaleSettle,
    /// Some cancelled timers still fire.
    ClaimAfterCancel,
    /// Some leases end before their reported end.
    ShortLease,
    /// A crash undoes some accepted reschedules.
    ForgottenChange,
    /// Some payloads are mixed up.
    WrongPayload,
    /// Some timers are never claimed.
    Stuck,
    /// A crash undoes some acknowledged cancels.
    CancelUndone,
}
