//! A server in memory, in which a bug can be planted: the canaries of the judge.
//!
//! [`run`] drives the server through a seeded life of overlapping calls, lost answers, lapsed
//! leases and crashes, on a clock of its own, and answers the history that an observer would have
//! written. Without a bug the judge must find nothing in it, whatever the seed; with one it must
//! find that one.

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
    /// A crash forgets some acknowledged timers.
    Lost,
    /// Some acked timers become due again.
    Resurrected,
    /// Some accepted reschedules leave the old time standing as well.
    OldTime,
    /// Some retries have another delivery id.
    ChangedDeliveryId,
    /// A token whose lease is lost may still ack.
    StaleSettle,
    /// Some cancelled timers fire all the same.
    ClaimAfterCancel,
    /// Some leases end sooner than told.
    ShortLease,
    /// A crash takes back some accepted reschedules.
    ForgottenChange,
    /// Some payloads are mixed up.
    WrongPayload,
    /// Some timers are never claimed.
    Stuck,
    /// A crash takes back some acknowledged cancels.
    CancelUndone,
}
