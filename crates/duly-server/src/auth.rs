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
//! 4. A missing, malformed, unknown, expired or disabled key gets the same answer.
//! 5. Streams check their key again with each part: a key that was revoked ends them.
//! 6. Nodes that share a store poll its keys ([`follow`]). A node that cannot admits the keys that it knows for
//!    a while, and then none.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::response::Response;
use duly_core::{
    Code, Millis, NamespaceName, Timestamp,
    access::{Action, Actions, ApiKey, KeyId, NamespacePattern, PresentedKey},
};
use duly_store::{AccessRecords, Error, RestoreState};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use parking_lot::RwLock;

use crate::{call, problem::Problem, telemetry};

mod follow;
pub(crate) mod rules;

pub(crate) use follow::follow;
pub(crate) use rules::Rule;

/// Begins the value of the header with a key.
const SCHEME: &str = "bearer ";

/// The address that a request came from; a Unix socket has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) Option<IpAddr>);

/// The keys of a server; cheap to clone.
#[derive(Debug, Clone)]
pub struct Auth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `true`: a caller needs a key. It never becomes `false`.
    is_required: AtomicBool,
    /// The key of `auth.root_key_file`: valid while there is no administrator key.
    root: Option<Arc<ApiKey>>,
    /// `true`: callers of `server.admin_listen` need a key for metrics.
    guards_admin: bool,
    /// Keys of the store that were created before this time are refused.
    not_before: Timestamp,
    /// `true`: the keys in use may be out of date, and admit no one.
    is_stale: AtomicBool,
    table: RwLock<Arc<KeyTable>>,
}

/// The keys in use, for look-ups.
#[derive(Debug, Default)]
struct KeyTable {
    records: Arc<AccessRecords>,
    keys: HashMap<KeyId, Arc<ApiKey>>,
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
    presented: PresentedKey,
    peer: Peer,
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
            root,
            guards_admin,
            not_before: Timestamp::MIN,
            is_stale: AtomicBool::default(),
            table: RwLock::default(),
        }))
    }

    /// Refuses keys of the store that were created before a time. Called before it is shared.
    #[must_use]
    pub fn not_before(mut self, time: Timestamp) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.not_before = time;
        }
        self
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
            *present = Arc::new(KeyTable { keys: keys.collect(), records: Arc::new(records) });
        }
    }

    /// Returns the records in use.
    pub(crate) fn records(&self) -> Arc<AccessRecords> {
        Arc::clone(&self.0.table.read().records)
    }

    /// Returns `true` if callers need a key.
    pub(crate) fn is_required(&self) -> bool {
        self.0.is_required.load(Ordering::Acquire)
    }

    /// Returns `true` if callers of `server.admin_listen` need a key for metrics.
    pub(crate) fn guards_admin(&self) -> bool {
        self.0.guards_admin && self.is_required()
    }

    /// Admits a call of an operation with this rule. Returns the id of the caller's key too, also if the
    /// call is denied.
    pub(crate) fn admit(
        &self,
        rule: Rule,
        headers: &HeaderMap,
        peer: Peer,
        now: Timestamp,
    ) -> (Option<KeyId>, Result<Caller, Problem>) {
        if !self.is_required() {
            return (None, Ok(Caller::Anyone));
        }
        let caller = self.authenticate(headers, peer, now);
        let key = caller.as_ref().ok().and_then(Caller::key).map(|key| key.id.clone());
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
        (key, admitted)
    }

    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        now: Timestamp,
    ) -> Result<Caller, Problem> {
        self.expect_current()?;
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (value, other) = (values.next(), values.next());
        let text = value.filter(|_| other.is_none()).and_then(|value| value.to_str().ok());
        let presented = text
            .and_then(|text| text.split_at_checked(SCHEME.len()))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME))
            .and_then(|(_, key)| key.trim().parse::<PresentedKey>().ok());
        let found = presented.and_then(|presented| {
            self.find(&presented, peer, now).map(|key| Holder {
                auth: self.clone(),
                key,
                presented,
                peer,
            })
        });
        found.map(|holder| Caller::Holder(Arc::new(holder))).ok_or_else(unauthenticated)
    }

    /// Checks that the keys in use are not out of date.
    fn expect_current(&self) -> Result<(), Problem> {
        if !self.0.is_stale.load(Ordering::Acquire) {
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

    fn find(&self, presented: &PresentedKey, peer: Peer, now: Timestamp) -> Option<Arc<ApiKey>> {
        let table = Arc::clone(&self.0.table.read());
        let hash = presented.hash();
        let is_confirmed = table.records.restore != RestoreState::Unconfirmed;
        let key = match &self.0.root {
            Some(root) if root.id == presented.id => {
                let is_admin =
                    |key: &&ApiKey| key.is_admin() && key.is_valid(now) && self.is_recent(key);
                let is_replaced =
                    is_confirmed && table.records.keys.values().any(|it| is_admin(&it));
                Some(root).filter(|_| !is_replaced)
            }
            _ => table.keys.get(&presented.id).filter(|key| is_confirmed && self.is_recent(key)),
        };
        key.filter(|key| key.admits(&hash, peer.0, now)).map(Arc::clone)
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
        let found = holder.auth.find(&holder.presented, holder.peer, now);
        let is_same = found.is_some_and(|key| {
            holder.key.actions.is_within(key.actions) && key.namespaces == holder.key.namespaces
        });
        if is_same { Ok(()) } else { Err(unauthenticated()) }
    }

    /// Returns the address of the caller, if it has a key.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Anyone | Self::Unidentified => Peer(None),
            Self::Holder(holder) => holder.peer,
        }
    }

    /// Returns the key of the caller.
    pub(crate) fn key(&self) -> Option<&ApiKey> {
        match self {
            Self::Anyone | Self::Unidentified => None,
            Self::Holder(holder) => Some(&holder.key),
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

/// Returns the answer to a caller without a valid key. It is the same for every reason.
fn unauthenticated() -> Problem {
    let allowed = "\"Bearer \" and a valid key";
    let detail = "this server admits callers with a valid key only: send the header \
                  'authorization: Bearer duly_…' (commands: --key-file, or DULY_API_KEY_FILE)";
    Problem::new(Code::Unauthenticated, detail).at("authorization", None, allowed)
}

/// Adds the header that a response with status 401 must have.
pub(crate) fn challenge(response: &mut Response) {
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
}

#[cfg(test)]
pub(crate) mod tests;
