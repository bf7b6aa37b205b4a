//! Counts of the work of a consumer.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counts of the work of a consumer since its start.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        /// The counts of a running consumer.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)+
        }

        impl Counters {
            pub(super) fn read(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counts! {
    /// Firings that were received.
    received,
    /// Firings that the handler finished with `Ok` and the server acknowledged.
    acked,
    /// Firings that are retried, as settled with the server.
    retried,
    /// Firings that are put off, as settled with the server.
    snoozed,
    /// Firings that were dead-lettered, as settled with the server.
    dead,
    /// Handlers that panicked; they are also counted as retries.
    panicked,
    /// Firings that were acknowledged without calling the handler, because it had handled them before.
    duplicates,
    /// Firings that came again while their handler was still running. The handler continues under the
    /// new lease.
    continued,
    /// Lease extensions.
    extended,
    /// Verdicts and extensions that came too late: the lease was lost.
    lease_lost,
    /// Verdicts that the server refused, or whose outcome it did not know.
    unsettled,
    /// Firings that arrived while the consumer was stopping, and were returned unhandled.
    released,
    /// Handlers that were aborted because they ran too long after a stop.
    aborted,
    /// Connections that were opened.
    connected,
}

/// A count.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn increment(&self) {
        self.add(1);
    }
}
