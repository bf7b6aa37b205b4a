//! Authentication and authorization of callers.
//!
//! ```text
//!   request ──► guard ──► Auth::admit: which caller? which right? ──► body, handler
//!                                                                       │ caller().check_namespace(…)
//!                                                                       ▼
//!                                                                    the names inside of the message
//! ```
//!
//! 1. Keys are required if the configuration says so (`auth.mode`), or if the store has ever had a key.
//! 2. Before the body is read, the caller needs the action of the operation ([`rules`]). An operation
//!    without a row there needs every action.
//! 3. A namespace that a key does not cover is not found, whether or not it exists.
//! 4. A caller proves who it is with a key, a certificate ([`Peer`]), or a signed token ([`tokens`]). All
//!    lead to an [`ApiKey`]: certificates and tokens by its subject.
//! 5. A missing, malformed, unknown, expired or disabled key gets the same answer.
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

use axum::response::Response;
use duly_core::{
    Code, Millis, NamespaceName, Timestamp,
    access::{Action, Actions, ApiKey, KeyId, NamespacePattern, PresentedKey, Subject},
};
use duly_store::{AccessRecords, Error, RestoreState};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use parking_lot::RwLock;

use self::{proof::Proof, tokens::Tokens};
use crate::{
    call,
    problem::Problem,
    telemetry,
    tenants::{TenantState, Tenants},
};

mod follow;
mod proof;
pub(crate) mod rules;
pub(crate) mod tokens;

pub(crate) use follow::follow;
pub(crate) use proof::{Identity, Peer, PeerCertificate};
pub(crate) use rules::Rule;

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
    /// The time from which on the keys in use admit no one, unless they are read again; `None` for keys of a
    /// store that this process alone uses.
    stale_at: RwLock<Option<Instant>>,
    table: RwLock<Arc<KeyTable>>,
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

/// The sender of a call.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Anyone: the server requires no keys.
    Anyone,
    /// A caller without a key, on a path that is open.
    Unidentified,
    /// The holder of a key.
    Holder(Arc<Holder>),
}

/// The holder of a key.
#[derive(Debug)]
pub(crate) struct Holder {
    auth: Auth,
    key: Arc<ApiKey>,
    proof: Proof,
    peer: Peer,
    tenant: Option<Arc<TenantState>>,
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
            stale_at: RwLock::default(),
            table: RwLock::default(),
        }))
    }

    /// Refuses keys of the store that were created before a time. Called before it is shared.
    #[must_use]
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.inner_mut().not_before = time;
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
        let mut present = self.0.table.write();
        if records.version >= present.records.version {
            self.0.is_required.fetch_or(records.are_required(), Ordering::Release);
            if records.are_required() {
                telemetry::set_admin_key_end(records.admin_end());
            }
            let keys = records.keys.iter().map(|(id, key)| (id.clone(), Arc::new(key.clone())));
            let keys: HashMap<_, _> = keys.collect();
            let subjects =
                keys.values().filter_map(|key| Some((key.subject.clone()?, Arc::clone(key))));
            let subjects = subjects.collect();
            let tenants = Arc::new(Tenants::new(&records, &present.tenants));
            *present = Arc::new(KeyTable { subjects, keys, tenants, records: Arc::new(records) });
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

    /// Returns `true` if callers of `server.admin_listen` need a key for metrics.
    pub(crate) fn guards_admin(&self) -> bool {
        self.0.guards_admin && self.is_required()
    }

    /// Admits a call of an operation with this rule. Returns the identity of the caller too, also if the call
    /// is denied.
    pub(crate) fn admit(
        &self,
        rule: Rule,
        headers: &HeaderMap,
        peer: Peer,
        now: Timestamp,
    ) -> (Option<Identity>, Result<Caller, Problem>) {
        if !self.is_required() {
            return (None, Ok(Caller::Anyone));
        }
        let caller = self.authenticate(headers, peer, now);
        let identity = caller.as_ref().ok().and_then(Caller::identity);
        let admitted = match (rule, caller) {
            (Rule::Open, caller) => Ok(caller.unwrap_or(Caller::Unidentified)),
            (Rule::AnyKey, caller) => caller,
            (Rule::Needs(action), caller) => {
                caller.and_then(|caller| caller.check(action).map(|()| caller))
            }
            (Rule::NeedsAll, caller) => caller.and_then(|caller| {
                Action::ALL.into_iter().try_for_each(|action| caller.check(action)).map(|()| caller)
            }),
        };
        (identity, admitted)
    }

    fn authenticate(
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
        found.map(|holder| Caller::Holder(Arc::new(holder))).ok_or_else(|| self.unauthenticated())
    }

    /// Returns the answer to a caller without a valid key. It is the same for every reason.
    fn unauthenticated(&self) -> Problem {
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

    /// Checks that the keys in use are not out of date.
    fn expect_current(&self) -> Result<(), Problem> {
        let stale_at = *self.0.stale_at.read();
        if stale_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        let reason = "this node has reached no majority of the shards for longer than auth.cache, so it \
                      does not know which keys are still valid";
        let retry_after = Millis::from_secs(1);
        Err(Error::Unavailable { reason: reason.to_owned(), retry_after }.into())
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
                    let is_admin =
                        |key: &&ApiKey| key.is_admin() && key.is_valid(now) && self.is_recent(key);
                    let is_replaced =
                        is_confirmed && table.records.keys.values().any(|it| is_admin(&it));
                    Some(root).filter(|_| !is_replaced && self.0.modes.keys)
                }
                _ => table.keys.get(&presented.id).filter(is_usable).filter(|_| self.0.modes.keys),
            }
            .filter(|key| key.admits(&presented.hash(), peer.address, now)),
        };
        key.map(Arc::clone)
    }
}

impl Holder {
    /// Returns the key.
    pub(crate) fn key(&self) -> &ApiKey {
        &self.key
    }
}

impl Caller {
    /// Returns `true` if the caller has the right to an action.
    pub(crate) fn permits(&self, action: Action) -> bool {
        match self {
            Self::Anyone => true,
            Self::Unidentified => false,
            Self::Holder(holder) => holder.key.actions.contains(action),
        }
    }

    /// Checks the right to an action.
    pub(crate) fn check(&self, action: Action) -> Result<(), Problem> {
        if self.permits(action) {
            return Ok(());
        }
        let Self::Holder(holder) = self else {
            return Err(unauthenticated());
        };
        call::note(|notes| notes.is_denied = true);
        let (id, has) = (&holder.key.id, holder.key.actions);
        let detail = format!(
            "the key in authorization, {id}, permits {has}, and this call needs the action {:?}: use \
             another key, or have an administrator change this one",
            action.as_str()
        );
        Err(Problem::new(Code::PermissionDenied, detail).at(
            "authorization",
            Some(has.to_string()),
            action.as_str(),
        ))
    }

    /// Returns `true` if the caller may know of a namespace.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Unidentified => false,
            Self::Holder(holder) => holder.key.covers(namespace),
        }
    }

    /// Checks that the caller may use a namespace.
    pub(crate) fn check_namespace(&self, name: &NamespaceName) -> Result<(), Problem> {
        call::note(|notes| {
            notes.namespace = Some(name.clone());
            notes.is_denied |= !self.covers(name.as_str());
        });
        match self {
            Self::Anyone => Ok(()),
            Self::Unidentified => Err(unauthenticated()),
            Self::Holder(holder) if holder.key.covers(name.as_str()) => Ok(()),
            Self::Holder(holder) => {
                let patterns: Vec<_> =
                    holder.key.namespaces.iter().map(NamespacePattern::as_str).collect();
                let detail = format!(
                    "there is no namespace {:?} for key {}, whose namespaces are {}: check the name, or \
                     use another key",
                    name.as_str(),
                    holder.key.id,
                    patterns.join(", ")
                );
                Err(Problem::new(Code::NotFound, detail))
            }
        }
    }

    /// Checks that the caller's key is still valid, for calls that take long.
    pub(crate) fn check_still_valid(&self, now: Timestamp) -> Result<(), Problem> {
        let holder = match self {
            Self::Anyone => return Ok(()),
            Self::Unidentified => return Err(unauthenticated()),
            Self::Holder(holder) => holder,
        };
        holder.auth.expect_current()?;
        let found = holder.auth.find(&holder.proof, &holder.peer, now);
        // A key with fewer rights, or an earlier end, must not go on with the old ones.
        let is_same = found.is_some_and(|key| {
            holder.key.is_within(&key) && key.namespaces == holder.key.namespaces
        });
        if is_same { Ok(()) } else { Err(holder.auth.unauthenticated()) }
    }

    /// Returns the address of the caller, if it has a key.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Anyone | Self::Unidentified => None,
            Self::Holder(holder) => holder.peer.address,
        }
    }

    /// Returns the identity of the caller, if it has a key.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let Self::Holder(holder) = self else { return None };
        let subjects = holder.proof.subjects().map(|(subjects, _)| subjects);
        let subject = subjects.and_then(|subjects| subjects.first().cloned());
        Some(Identity { key: holder.key.id.clone(), subject })
    }

    /// Returns the key of the caller.
    pub(crate) fn key(&self) -> Option<&ApiKey> {
        match self {
            Self::Anyone | Self::Unidentified => None,
            Self::Holder(holder) => Some(&holder.key),
        }
    }

    /// Returns the tenant of the caller's key.
    pub(crate) fn tenant(&self) -> Option<&Arc<TenantState>> {
        match self {
            Self::Anyone | Self::Unidentified => None,
            Self::Holder(holder) => holder.tenant.as_ref(),
        }
    }

    /// Returns the first name after `name` with which a name that the caller may know can begin; `None` if
    /// there is none.
    pub(crate) fn next_covered(&self, name: &str) -> Option<NamespaceName> {
        let stems = self.key()?.namespaces.iter().map(|pattern| pattern.as_str());
        let stems = stems.map(|stem| stem.strip_suffix('*').unwrap_or(stem));
        stems.filter(|stem| *stem > name).min().and_then(|stem| NamespaceName::new(stem).ok())
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

/// Adds the header that a response with status 401 must have.
pub(crate) fn challenge(response: &mut Response) {
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
pub(crate) mod tests;
