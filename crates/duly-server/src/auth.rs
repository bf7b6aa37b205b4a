//! Authentication and authorization of callers.
//!
//! ```text
//!   request ──► guard ──► Auth::admit: which caller? which right? ──► body, handler
//!                                                                       │ Admitted::check_namespace
//!                                                                       ▼
//!                                                                    the names inside of the message
//! ```
//!
//! 1. Keys are required if the configuration says so (`auth.mode`), or if the store has ever had a key.
//! 2. Before the body is read, the caller needs the action of the operation ([`crate::operations`]). A method
//!    without a row there needs every action.
//! 3. A namespace that a key does not cover is not found, whether or not it exists.
//! 4. A caller proves who it is with a key, a certificate ([`Peer`]), or a signed token ([`tokens`]). All
//!    lead to an [`ApiKey`]: certificates and tokens by its subject.
//! 5. A missing, malformed, unknown, expired or disabled key gets the same answer. An address with very many
//!    of them gets another one ([`failures`]).
//! 6. Streams check their key again with each part: a key that was revoked ends them.
//! 7. A key may belong to a tenant, whose limits concern its calls ([`crate::tenants`]).
//! 8. Nodes that share a store poll its keys ([`follow`]). A node that cannot admits the keys that it knows for
//!    a while, and then none.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use duly_core::{
    Code, Millis, Timestamp,
    access::{
        Action, Actions, AdminLogin, ApiKey, KeyId, LoginPlace, NamespacePattern, PresentedKey,
        Subject,
    },
    error_code::Retry,
};
use duly_store::{AccessRecords, Error, RestoreState};
use http::{HeaderMap, header::AUTHORIZATION};
use parking_lot::{Mutex, RwLock};

use self::{
    failures::{Failures, PER_SECOND_DEFAULT},
    proof::Proof,
    tokens::Tokens,
};
use crate::{operations::Right, problem::Problem, telemetry, tenants::Tenants};

mod caller;
mod failures;
mod follow;
mod proof;
pub(crate) mod tokens;

pub(crate) use caller::{Caller, Holder};
pub(crate) use failures::network_of;
pub(crate) use follow::follow;
pub(crate) use proof::{Identity, Peer, PeerCertificate};

/// Begins the value of the header with a key.
const SCHEME: &str = "bearer ";

/// Means by which callers may prove who they are.
#[derive(Debug, Clone)]
pub(crate) struct AuthModes {
    /// Keys with a secret.
    pub(crate) keys: bool,
    /// Certificates.
    pub(crate) certificates: bool,
    /// Tokens of an issuer.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// The keys of a server; cheap to clone.
#[derive(Debug, Clone)]
pub struct Auth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `true`: a caller needs a key. It never becomes `false`.
    is_required: AtomicBool,
    modes: AuthModes,
    /// The key of `auth.root_key_file`: valid while there is no administrator key.
    root: Option<Arc<ApiKey>>,
    /// `true`: callers of `server.admin_listen` need a key for metrics.
    guards_admin: bool,
    /// Keys of the store that were created before this time are refused.
    not_before: Timestamp,
    failures: Failures,
    /// The time from which on the keys in use admit no one, unless they are read again; `None` for keys of a
    /// store that this process alone uses.
    stale_at: RwLock<Option<Instant>>,
    table: RwLock<Arc<KeyTable>>,
    /// Held while the next table is built.
    building: Mutex<()>,
}

/// The keys in use, for look-ups.
#[derive(Debug, Default)]
struct KeyTable {
    records: Arc<AccessRecords>,
    keys: HashMap<KeyId, Arc<ApiKey>>,
    /// Those with a subject.
    subjects: HashMap<Subject, Arc<ApiKey>>,
    tenants: Arc<Tenants>,
}

impl Auth {
    /// Creates it without keys of a store. With `is_required` every caller needs a key.
    pub fn new(is_required: bool, root: Option<&PresentedKey>, guards_admin: bool) -> Self {
        let root = root.map(|presented| {
            let rights = (Actions::all(), vec![NamespacePattern::all()]);
            let created = (Timestamp::MIN, "configuration".to_owned());
            Arc::new(ApiKey::new(presented, "auth.root_key_file".to_owned(), rights, created))
        });
        let is_required = AtomicBool::new(is_required);
        Self(Arc::new(Inner {
            is_required,
            modes: AuthModes { keys: true, certificates: false, tokens: None },
            root,
            guards_admin,
            not_before: Timestamp::MIN,
            failures: Failures::new(PER_SECOND_DEFAULT),
            stale_at: RwLock::default(),
            table: RwLock::default(),
            building: Mutex::default(),
        }))
    }

    /// Refuses keys of the store that were created before a time. Called before it is shared.
    #[must_use]
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.inner_mut().not_before = time;
        self
    }

    /// Sets the failures of an address that get a usual answer. Called before it is shared.
    #[must_use]
    pub(crate) fn failures_per_second(mut self, per_second: u32) -> Self {
        self.inner_mut().failures = Failures::new(per_second);
        self
    }

    /// Sets the means by which callers may prove who they are; keys alone without it. Called before it is
    /// shared.
    #[must_use]
    pub(crate) fn with_modes(mut self, modes: AuthModes) -> Self {
        self.inner_mut().modes = modes;
        self
    }

    fn inner_mut(&mut self) -> &mut Inner {
        Arc::get_mut(&mut self.0).expect("it is not shared yet")
    }

    /// Returns the tokens that callers may present.
    pub(crate) fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.0.modes.tokens.as_ref()
    }

    /// Uses these records from now on, unless they are older than those in use.
    pub(crate) fn use_records(&self, records: AccessRecords) {
        // The table is built while the present one serves callers.
        let _turn = self.0.building.lock();
        let present = Arc::clone(&self.0.table.read());
        if records.version >= present.records.version {
            self.0.is_required.fetch_or(records.are_required(), Ordering::Release);
            if records.are_required() {
                let login = self.admin_login(LoginPlace::Anywhere);
                // Those that begin later count too.
                telemetry::set_admin_key_end(records.admin_ends_at(&login, Timestamp::MAX));
            }
            let keys = records.keys.iter().map(|(id, key)| (id.clone(), Arc::new(key.clone())));
            let keys: HashMap<_, _> = keys.collect();
            let subjects =
                keys.values().filter_map(|key| Some((key.subject.clone()?, Arc::clone(key))));
            let subjects = subjects.collect();
            let tenants = Arc::new(Tenants::new(&records, &present.tenants));
            let records = Arc::new(records);
            *self.0.table.write() = Arc::new(KeyTable { records, keys, subjects, tenants });
        }
    }

    /// Returns the records in use.
    pub(crate) fn records(&self) -> Arc<AccessRecords> {
        Arc::clone(&self.0.table.read().records)
    }

    /// Returns the tenants.
    pub(crate) fn tenants(&self) -> Arc<Tenants> {
        Arc::clone(&self.0.table.read().tenants)
    }

    /// Returns `true` if callers need a key.
    pub(crate) fn is_required(&self) -> bool {
        self.0.is_required.load(Ordering::Acquire)
    }

    /// Returns the conditions under which this server admits an administrator.
    pub(crate) fn admin_login(&self, from: LoginPlace) -> AdminLogin {
        let AuthModes { keys, certificates, tokens } = &self.0.modes;
        AdminLogin {
            keys: *keys,
            certificates: *certificates,
            // An issuer whose keys were never read admits no one.
            tokens: tokens.as_ref().is_some_and(|it| it.has_keys()),
            created_since: self.0.not_before,
            from,
        }
    }

    /// Returns `true` if callers of `server.admin_listen` need a key for metrics.
    pub(crate) fn guards_admin(&self) -> bool {
        self.0.guards_admin && self.is_required()
    }

    /// Admits a call of an operation that needs this right. Returns the caller too, also if the call is denied.
    pub(crate) fn admit(
        &self,
        right: Right,
        headers: &HeaderMap,
        peer: Peer,
        now: Timestamp,
    ) -> (Option<Caller>, Result<Caller, Problem>) {
        if !self.is_required() {
            return (None, Ok(Caller::Anyone));
        }
        let address = peer.address;
        let caller = self.authenticate(headers, peer, now);
        let known = caller.as_ref().ok().cloned();
        let admitted = match (right, caller) {
            (Right::Open, caller) => Ok(caller.unwrap_or(Caller::Unidentified)),
            (_, Err(problem)) => Err(self.limited(problem, address)),
            (Right::AnyKey, caller) => caller,
            (Right::Needs(action), caller) => {
                caller.and_then(|caller| caller.check(action).map(|()| caller))
            }
            (Right::NeedsAll, caller) => caller.and_then(|caller| {
                Action::ALL.into_iter().try_for_each(|action| caller.check(action)).map(|()| caller)
            }),
        };
        (known, admitted)
    }

    /// Returns the caller of a request, who has a valid key. A failed proof is not counted.
    ///
    /// # Errors
    /// `unauthenticated` without a valid key; another code if this node cannot look at keys.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        now: Timestamp,
    ) -> Result<Caller, Problem> {
        self.expect_current()?;
        let found = self.proof(headers, &peer, now).and_then(|proof| {
            let key = self.find(&proof, &peer, now)?;
            let tenant = self.tenants().of_key(&key.id).map(Arc::clone);
            Some(Holder { auth: self.clone(), key, proof, peer, tenant })
        });
        match found {
            Some(holder) => Ok(Caller::Holder(Arc::new(holder))),
            None => Err(self.unauthenticated()),
        }
    }

    /// Returns the answer to a caller without a valid key. It is the same for every reason.
    pub(crate) fn unauthenticated(&self) -> Problem {
        let modes = &self.0.modes;
        let key = "a key in the header 'authorization: Bearer duly_…' (commands: --key-file, or \
                   DULY_API_KEY_FILE)";
        let token = "a signed token in the header 'authorization: Bearer …' (commands: --key-file)";
        let certificate = "a certificate with a key of its subject (commands: --cert-file)";
        let means =
            [(modes.keys, key), (modes.tokens.is_some(), token), (modes.certificates, certificate)];
        let means: Vec<_> =
            means.into_iter().filter(|(is_on, _)| *is_on).map(|(_, it)| it).collect();
        unauthenticated_by(&means)
    }

    /// Counts a failed proof, and returns the answer to its caller.
    fn limited(&self, problem: Problem, address: Option<IpAddr>) -> Problem {
        if problem.code() != Code::Unauthenticated {
            return problem;
        }
        let Err(wait) = self.0.failures.count(address) else { return problem };
        let detail = "too many calls without a valid key come from this address \
                      (auth.failures_per_second, which the operator of the server can raise): check the \
                      key, and call again after the wait; calls with a valid key are admitted";
        Problem::new(Code::ResourceExhausted, detail).with_retry(Retry::After(wait))
    }

    /// Returns the proof that a caller sends: in a header, or else by the certificate of its connection.
    fn proof(&self, headers: &HeaderMap, peer: &Peer, now: Timestamp) -> Option<Proof> {
        let modes = &self.0.modes;
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (value, other) = (values.next(), values.next());
        let Some(value) = value else {
            let certificate = peer.certificate.as_ref().filter(|_| modes.certificates)?;
            return Some(Proof::Certificate(Arc::clone(certificate)));
        };
        let text = value.to_str().ok().filter(|_| other.is_none())?;
        let (scheme, text) = text.split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        let text = text.trim();
        if let Ok(presented) = text.parse::<PresentedKey>() {
            return Some(Proof::Key(presented));
        }
        modes.tokens.as_ref()?.verify(text, now).map(Proof::Token)
    }

    /// Checks that the keys in use can be read, and are not out of date.
    fn expect_current(&self) -> Result<(), Problem> {
        match self.unusable() {
            None => Ok(()),
            Some((reason, retry_after)) => Err(Error::Unavailable { reason, retry_after }.into()),
        }
    }

    /// Returns the reason for which the server can admit no caller, and the wait before a retry. Every refused caller gets both.
    pub(crate) fn unusable(&self) -> Option<(String, Millis)> {
        if let Some(damage) = &self.0.table.read().records.damage {
            return Some((damage.clone(), Millis::from_secs(60)));
        }
        let stale_at = *self.0.stale_at.read();
        if stale_at.is_none_or(|at| Instant::now() < at) {
            return None;
        }
        let reason = "this node has reached no majority of the shards for longer than auth.cache, so it \
                      does not know which keys are still valid";
        Some((reason.to_owned(), Millis::from_secs(1)))
    }

    /// Returns `true` if a key was not created before `auth.not_before`.
    fn is_recent(&self, key: &ApiKey) -> bool {
        key.created_at >= self.0.not_before
    }

    /// Returns the key that a caller has proved to hold, if it is valid.
    fn find(&self, proof: &Proof, peer: &Peer, now: Timestamp) -> Option<Arc<ApiKey>> {
        let table = Arc::clone(&self.0.table.read());
        let is_confirmed = table.records.restore != RestoreState::Unconfirmed;
        let is_usable = |key: &&Arc<ApiKey>| is_confirmed && self.is_recent(key);
        let key = match proof {
            Proof::Certificate(_) | Proof::Token(_) => {
                let (subjects, ends_at) = proof.subjects()?;
                let is_current = match (proof, self.tokens()) {
                    (Proof::Token(verified), Some(tokens)) => tokens.is_current(verified),
                    _ => true,
                };
                let found = subjects.iter().find_map(|subject| table.subjects.get(subject));
                let found = found.filter(|_| is_current && now < ends_at).filter(is_usable);
                return found.filter(|key| key.admits_subject(peer.address, now)).map(Arc::clone);
            }
            Proof::Key(presented) => match &self.0.root {
                Some(root) if root.id == presented.id => {
                    let login = self.admin_login(LoginPlace::Anywhere);
                    let is_replaced =
                        is_confirmed && table.records.admin_ends_at(&login, now) > now;
                    Some(root).filter(|_| !is_replaced && self.0.modes.keys)
                }
                _ => table.keys.get(&presented.id).filter(is_usable).filter(|_| self.0.modes.keys),
            }
            .filter(|key| key.admits(&presented.hash(), peer.address, now)),
        };
        key.map(Arc::clone)
    }
}

/// Returns the answer to a caller without a valid key, on a path where keys are not looked at.
fn unauthenticated() -> Problem {
    unauthenticated_by(&[
        "a key in the header 'authorization: Bearer duly_…' (commands: --key-file)",
    ])
}

/// Returns the answer to a caller who has not proved by one of these means to hold a valid key.
fn unauthenticated_by(means: &[&str]) -> Problem {
    let detail = format!(
        "this server admits callers who prove to hold a valid key only; send {}",
        means.join(", or ")
    );
    Problem::new(Code::Unauthenticated, detail).at(
        "authorization",
        None,
        "\"Bearer \" and a valid key",
    )
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod revoked;
#[cfg(test)]
pub(crate) mod tests;
