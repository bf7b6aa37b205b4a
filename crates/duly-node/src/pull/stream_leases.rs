//! The leases of a consumer that stays connected: they are released when its stream ends.
//!
//! A lease call ends when its reply is written; after that the consumer holds the lease to its end. A
//! stream stays open, so the server knows which firings its consumer has settled. It need not wait for
//! the leases to expire when the consumer is gone.
//!
//! | state of the firing when the stream ends | result |
//! |---|---|
//! | settled, or its lease expired | none |
//! | not completely written ([`PendingReply`]) | released and not counted: the consumer cannot have seen it |
//! | written and not settled | due again at once; counted as an attempt whose lease was lost |
//!
//! If the firing is still being written when the stream ends, the decision waits until the write has
//! succeeded or failed.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
};

use duly_core::{Millis, NamespaceName, Timestamp, namespace::LEASE_MAX, timer::Wait};
use duly_store::Token;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Leased;
use crate::{settler::lease_lost, state::Shared};

/// Leases that are released when this value is dropped.
#[derive(Debug, Default)]
pub struct StreamLeases {
    claims: HashMap<Token, StreamLease>,
    /// The leases that expire, the earliest first.
    expiries: BTreeMap<Expiry, Token>,
    next_number: u64,
}

/// The end of a lease, and a number that makes it unique.
type Expiry = (Instant, u64);

#[derive(Debug)]
struct StreamLease {
    write: Arc<ReplyWrite>,
    namespace: NamespaceName,
    number: u64,
    ends_at: Option<Instant>,
    /// The latest end that an extension can reach.
    ends_by: Instant,
}

impl StreamLeases {
    /// Takes over the leases of a reply that is written from now on.
    pub fn take(&mut self, leased: &mut Leased, now: Timestamp) -> Option<PendingReply> {
        let claims = leased.claims.as_mut()?;
        let until = leased.firings.iter().map(|firing| firing.leased_until);
        let written = Mutex::new(WriteProgress::NotYet(Vec::new()));
        let write = Arc::new(ReplyWrite { shared: Arc::clone(&claims.shared), written });
        let at = Instant::now();
        let ends_by = at + LEASE_MAX.to_std();
        for ((token, namespace), until) in mem::take(&mut claims.tokens).into_iter().zip(until) {
            let ends_at =
                until.map(|until| at + until.saturating_since(now).min(LEASE_MAX).to_std());
            let number = self.next_number;
            self.next_number += 1;
            if let Some(ends_at) = ends_at {
                self.expiries.insert((ends_at, number), token.clone());
            }
            let write = Arc::clone(&write);
            self.claims.insert(token, StreamLease { write, namespace, number, ends_at, ends_by });
        }
        Some(PendingReply(write))
    }

    /// Removes a lease that is settled or lost.
    pub fn remove(&mut self, token: &Token) {
        if let Some(claim) = self.claims.remove(token) {
            self.expiries.remove(&claim.expiry());
        }
    }

    /// Sets the end of an extended lease: `lease` from now.
    pub fn extend(&mut self, token: &Token, lease: Millis) {
        if let Some(claim) = self.claims.get_mut(token) {
            self.expiries.remove(&claim.expiry());
            claim.ends_at = Some(claim.ends_by.min(Instant::now() + lease.to_std()));
            self.expiries.insert(claim.expiry(), token.clone());
        }
    }

    /// Returns the end of the lease that expires next.
    pub fn next_end(&self) -> Option<Instant> {
        self.expiries.first_key_value().map(|((ends_at, _), _)| *ends_at)
    }

    /// Removes the leases that have expired.
    pub fn forget_ended(&mut self, now: Instant) {
        while let Some(first) = self.expiries.first_entry().filter(|first| first.key().0 <= now) {
            self.claims.remove(&first.remove());
        }
    }

    /// Returns the number of leases.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Returns `true` if there are no leases.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Drop for StreamLeases {
    fn drop(&mut self) {
        for (token, claim) in self.claims.drain() {
            claim.write.stream_ended(token, claim.namespace);
        }
    }
}

impl StreamLease {
    /// Returns the key of the lease in `expiries`; for a lease without an end, a key that is not in use.
    fn expiry(&self) -> Expiry {
        (self.ends_at.unwrap_or(self.ends_by), self.number)
    }
}

/// A reply with firings that is being written to the consumer. If it is dropped before
/// [`PendingReply::written`], the reply counts as not delivered.
#[derive(Debug)]
#[must_use]
pub struct PendingReply(Arc<ReplyWrite>);

impl PendingReply {
    /// Marks the reply as completely written to the connection.
    pub fn written(self) {
        self.0.finish(WriteProgress::Yes);
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.0.finish(WriteProgress::Never);
    }
}

/// The write of a reply.
#[derive(Debug)]
struct ReplyWrite {
    shared: Arc<Shared>,
    written: Mutex<WriteProgress>,
}

/// The progress of the write.
#[derive(Debug)]
enum WriteProgress {
    /// In progress; with the leases that the ended stream will not settle.
    NotYet(Vec<(Token, NamespaceName)>),
    Yes,
    Never,
}

impl ReplyWrite {
    /// Sets the result of the write; only the first call counts.
    fn finish(&self, result: WriteProgress) {
        let mut written = self.written.lock();
        let WriteProgress::NotYet(claims) = &mut *written else { return };
        let claims = mem::take(claims);
        *written = result;
        for (token, namespace) in claims {
            self.end_lease(&written, token, namespace);
        }
    }

    /// Gives back a lease of a stream that has ended, now or when the write ends.
    fn stream_ended(&self, token: Token, namespace: NamespaceName) {
        match &mut *self.written.lock() {
            WriteProgress::NotYet(claims) => claims.push((token, namespace)),
            written => self.end_lease(written, token, namespace),
        }
    }

    fn end_lease(&self, written: &WriteProgress, token: Token, namespace: NamespaceName) {
        match written {
            WriteProgress::Yes => {
                let reason = "the consumer's stream ended before its verdict";
                let verdict = lease_lost(Wait::None, reason);
                self.shared.settle_later(token, namespace, verdict, None);
            }
            WriteProgress::NotYet(_) | WriteProgress::Never => {
                self.shared.release_later(token, namespace)
            }
        }
    }
}
