//! Claims of a consumer that stays connected: they go back when it goes.
//!
//! A lease call is over when its answer is written; from then on the consumer holds the lease to its
//! end. A stream goes on, so whoever serves it knows what its consumer has settled and what not, and
//! need not wait for leases to end when it is gone.

use std::{collections::HashMap, mem, sync::Arc};

use duly_core::{NamespaceName, Timestamp};
use duly_store::Token;

use super::Leased;
use crate::state::Shared;

/// Claims that go back to the store, uncounted, when this is dropped.
#[derive(Debug, Default)]
pub struct Held {
    claims: HashMap<Token, Claim>,
}

#[derive(Debug)]
struct Claim {
    shared: Arc<Shared>,
    namespace: NamespaceName,
    leased_until: Option<Timestamp>,
}

impl Held {
    /// Takes over the claims of an answer.
    pub fn take(&mut self, leased: &mut Leased) {
        let Some(claims) = &mut leased.claims else { return };
        let until = leased.firings.iter().map(|firing| firing.leased_until);
        for ((token, namespace), leased_until) in
            mem::take(&mut claims.tokens).into_iter().zip(until)
        {
            let shared = Arc::clone(&claims.shared);
            self.claims.insert(token, Claim { shared, namespace, leased_until });
        }
    }

    /// Forgets a claim: it is settled, or lost.
    pub fn let_go(&mut self, token: &Token) {
        self.claims.remove(token);
    }

    /// A lease that is extended ends later; it is kept until somebody says that it is over.
    pub fn keep(&mut self, token: &Token) {
        if let Some(claim) = self.claims.get_mut(token) {
            claim.leased_until = None;
        }
    }

    /// Forgets the claims whose leases have ended.
    pub fn forget_ended(&mut self, now: Timestamp) {
        self.claims.retain(|_, claim| claim.leased_until.is_none_or(|until| until > now));
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
            claim.shared.release_later(token, claim.namespace);
        }
    }
}
