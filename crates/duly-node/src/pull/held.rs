//! Claims of a consumer that stays connected: they go back when it goes.
//!
//! A lease call is over when its answer is written; from then on the consumer holds the lease to its
//! end. A stream goes on, so whoever serves it knows what its consumer has settled and what not, and
//! need not wait for leases to end when it is gone.
//!
//! | when the stream ends the firing | what becomes of it |
//! |---|---|
//! | was settled, or its lease ended | nothing more |
//! | was not written to its end ([`OnItsWay`]) | it goes back, uncounted: nobody can have seen it |
//! | was written and not settled | it is due again at once, and the attempt counts as one whose lease was lost: nobody knows what was done with it |
//!
//! What is still being written when the stream ends is decided when that has succeeded or failed.

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

/// Claims that go back to the store when this is dropped.
#[derive(Debug, Default)]
pub struct Held {
    claims: HashMap<Token, Claim>,
    /// The claims whose leases have an end, the earliest first.
    ends: BTreeMap<End, Token>,
    next_number: u64,
}

/// When a lease ends, and a number that tells claims apart.
type End = (Instant, u64);

#[derive(Debug)]
struct Claim {
    answer: Arc<Handing>,
    namespace: NamespaceName,
    number: u64,
    ends_at: Option<Instant>,
    /// No extension reaches further.
    ends_by: Instant,
}

impl Held {
    /// Takes over the claims of an answer, which is to be written from now on.
    pub fn take(&mut self, leased: &mut Leased, now: Timestamp) -> Option<OnItsWay> {
        let claims = leased.claims.as_mut()?;
        let until = leased.firings.iter().map(|firing| firing.leased_until);
        let handing = Handing { shared: Arc::clone(&claims.shared), written: Mutex::default() };
        let answer = Arc::new(handing);
        let at = Instant::now();
        let ends_by = at + LEASE_MAX.to_std();
        for ((token, namespace), until) in mem::take(&mut claims.tokens).into_iter().zip(until) {
            let ends_at =
                until.map(|until| at + until.saturating_since(now).min(LEASE_MAX).to_std());
            let number = self.next_number;
            self.next_number += 1;
            if let Some(ends_at) = ends_at {
                self.ends.insert((ends_at, number), token.clone());
            }
            let answer = Arc::clone(&answer);
            self.claims.insert(token, Claim { answer, namespace, number, ends_at, ends_by });
        }
        Some(OnItsWay(answer))
    }

    /// Forgets a claim: it is settled, or lost.
    pub fn let_go(&mut self, token: &Token) {
        if let Some(claim) = self.claims.remove(token) {
            self.ends.remove(&claim.end());
        }
    }

    /// A lease was extended and ends so long from now.
    pub fn extend(&mut self, token: &Token, lease: Millis) {
        if let Some(claim) = self.claims.get_mut(token) {
            self.ends.remove(&claim.end());
            claim.ends_at = Some(claim.ends_by.min(Instant::now() + lease.to_std()));
            self.ends.insert(claim.end(), token.clone());
        }
    }

    /// When the next lease ends.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.first_key_value().map(|((ends_at, _), _)| *ends_at)
    }

    /// Forgets the claims whose leases have ended.
    pub fn forget_ended(&mut self, now: Instant) {
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now) {
            self.claims.remove(&first.remove());
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (token, claim) in self.claims.drain() {
            claim.answer.stream_ended(token, claim.namespace);
        }
    }
}

impl Claim {
    /// Its place among the ends; of one without an end, none that is taken.
    fn end(&self) -> End {
        (self.ends_at.unwrap_or(self.ends_by), self.number)
    }
}

/// An answer with firings on its way to the consumer; dropped before [`OnItsWay::written`], it never
/// gets there.
#[derive(Debug)]
#[must_use]
pub struct OnItsWay(Arc<Handing>);

impl OnItsWay {
    /// The answer has been handed to the connection to its end.
    pub fn written(self) {
        self.0.arrived(Written::Yes);
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.arrived(Written::Never);
    }
}

/// An answer that is being handed to its consumer.
#[derive(Debug)]
struct Handing {
    shared: Arc<Shared>,
    written: Mutex<Written>,
}

/// Whether an answer was written.
#[derive(Debug)]
enum Written {
    /// Not yet; with the claims that nobody will settle, because the stream has ended.
    NotYet(Vec<(Token, NamespaceName)>),
    Yes,
    Never,
}

impl Default for Written {
    fn default() -> Self {
        Self::NotYet(Vec::new())
    }
}

impl Handing {
    /// What comes first holds.
    fn arrived(&self, arrived: Written) {
        let mut written = self.written.lock();
        let Written::NotYet(claims) = &mut *written else { return };
        let claims = mem::take(claims);
        *written = arrived;
        for (token, namespace) in claims {
            self.give_back(&written, token, namespace);
        }
    }

    /// Nobody will settle this any more.
    fn stream_ended(&self, token: Token, namespace: NamespaceName) {
        match &mut *self.written.lock() {
            Written::NotYet(claims) => claims.push((token, namespace)),
            written => self.give_back(written, token, namespace),
        }
    }

    fn give_back(&self, written: &Written, token: Token, namespace: NamespaceName) {
        match written {
            Written::Yes => {
                let reason = "the consumer's stream ended before its verdict";
                let verdict = lease_lost(Wait::None, reason);
                self.shared.settle_later(token, namespace, verdict, None);
            }
            Written::NotYet(_) | Written::Never => self.shared.release_later(token, namespace),
        }
    }
}
