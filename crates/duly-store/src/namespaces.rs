//! Namespaces: the calls for them ([`Namespaces`]), their settings, pause and resume, and deletion.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{Millis, NamespaceName, Settings, Timestamp, shard::ShardId};
use futures::FutureExt;

use crate::{Error, StoreFuture};

/// Default maximum number of namespaces of a store.
pub const NAMESPACES_MAX: u64 = 100_000;

/// Returns the error for a namespace beyond the maximum number.
pub fn too_many(max: u64) -> Error {
    Error::Overloaded {
        reason: format!(
            "there are {max} namespaces, as many as limits.namespaces_max allows; delete some, or raise \
             it"
        ),
        retry_after: Millis::from_secs(60),
    }
}

/// The calls for namespaces. See [`Store`](crate::Store) for the promises.
pub trait Namespaces: Send + Sync {
    /// Writes settings. Returns the namespace, and `true` if it is new.
    ///
    /// A namespace beyond the store's limit is refused ([`too_many`]). Over
    /// several shards, namespaces that are created at the same moment may exceed the limit by their number.
    /// Like the other changes of a namespace, the call returns when every shard has the change. After an
    /// error some shards may have it; repeat the same call.
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)>;

    /// Returns one namespace.
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>>;

    /// Returns at most `limit` namespaces in order of their names, after the name `after`.
    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>>;

    /// Pauses or resumes a namespace. After `Paused` is returned no claim is granted. A namespace that
    /// resumes at a time grants claims from that time on; [`Ready::next_due_in`](crate::Ready::next_due_in) takes this time into
    /// account.
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace>;

    /// Deletes a namespace with all its timers, tombstones and dead letters.
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()>;

    /// Checks a page of implicit namespaces, and removes those that have been idle for
    /// [`IDLE_AFTER`].
    ///
    /// 1. A namespace is idle if it has no pending timer, no dead letter, no tombstone and no lease call.
    /// 2. `waited` names the namespaces on which lease calls of this node have waited since its previous
    ///    pass.
    /// 3. The time counts from the first pass that finds a namespace idle, so it may exist for longer.
    /// 4. A namespace that holds something at the moment of its removal stays. So a timer that was scheduled
    ///    before is kept, and a later schedule finds no such namespace.
    fn remove_idle(
        &self,
        _from: Option<IdleCursor>,
        _waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        async move { Ok(IdlePage::default()) }.boxed()
    }

    /// Restores the record of a namespace that its coordinator shard has lost, from the other shards.
    ///
    /// The other shards may hold the namespace under several numbers. Only one of them can be kept: the
    /// repair is refused with a list of them unless `keep` names one. The timers under the other numbers are
    /// then lost. A namespace that needs no repair stays as it is. In a store that keeps or loses all its
    /// data together, no namespace ever needs a repair.
    fn repair_namespace(
        &self,
        name: NamespaceName,
        _keep: Option<String>,
    ) -> StoreFuture<'_, Repaired> {
        async move {
            let namespace = self.get_namespace(name.clone()).await?;
            let namespace = namespace.ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
            Ok(Repaired::not_needed(namespace))
        }
        .boxed()
    }
}

/// A namespace as the API returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// Its settings.
    pub settings: Arc<Settings>,
    /// `true`: claims are refused.
    pub paused: bool,
    /// The time at which it resumes, while it is paused.
    pub resumes_at: Option<Timestamp>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of the last change of its settings.
    pub updated_at: Timestamp,
    /// `true`: the coordinator shard of the namespace was unavailable, and the settings are those of another
    /// shard, which may be one change behind. A change must not start from them.
    pub maybe_outdated: bool,
}

/// Time for which an implicit namespace must be idle before
/// [`Namespaces::remove_idle`] removes it.
pub const IDLE_AFTER: Millis = Millis::from_secs(24 * 3_600);

/// A page of a background pass over implicit namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdlePage {
    /// Namespaces that were removed.
    pub removed: Vec<NamespaceName>,
    /// The start of the next page; `None` after the last.
    pub next: Option<IdleCursor>,
}

/// A position in a background pass over implicit namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleCursor {
    /// The coordinator shard of the namespaces.
    pub shard: ShardId,
    /// The last name that was checked; `None` for the first of the shard.
    pub after: Option<NamespaceName>,
}

/// The mode of a write of settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Put {
    /// Replaces the settings, or creates the namespace.
    Replace {
        /// The settings. Their `signing_secrets` are ignored with [`Secrets::Keep`].
        settings: Box<Settings>,
        /// The mode for signing secrets.
        secrets: Secrets,
    },
    /// Creates the namespace; an existing one does not change. The namespace is *implicit* until another
    /// call changes it: [`Namespaces::remove_idle`] may remove it.
    IfAbsent(Box<Settings>),
}

/// The effect of a PUT on signing secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// The secrets of the request replace the existing ones.
    Set,
    /// The existing secrets stay.
    Keep,
}

/// The activity of a namespace: it grants claims, or it is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It grants claims.
    Running,
    /// It grants no claims until a caller resumes it; schedules and cancels still work.
    Paused,
    /// A paused namespace resumes at this time by the store's wall clock. A namespace that is not paused
    /// stays as it is.
    ResumeAt(Timestamp),
}

impl Activity {
    /// Returns the new state of a namespace: `true` if it is paused, and the time until which it is.
    pub fn applied(
        self,
        paused: bool,
        resumes_at: Option<Timestamp>,
        now: Timestamp,
    ) -> (bool, Option<Timestamp>) {
        match self {
            Self::Running => (false, None),
            Self::Paused => (true, None),
            Self::ResumeAt(at) if paused && at <= now => (false, None),
            Self::ResumeAt(at) if paused => (true, Some(at)),
            Self::ResumeAt(_) => (paused, resumes_at),
        }
    }
}

/// The mode of deletion for a namespace that holds timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteMode {
    /// The deletion is refused while it holds pending timers or dead letters.
    IfEmpty,
    /// Pending timers and dead letters are deleted too.
    Force,
}

/// The result of a repair of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The namespace as it is now.
    pub namespace: Namespace,
    /// `true`: its record was missing and is restored.
    pub restored: bool,
    /// Number of pending timers that were lost.
    pub pending_lost: u64,
    /// Number of dead letters that were lost.
    pub dead_lost: u64,
}

impl Repaired {
    /// Returns the result for a namespace that needed no repair.
    pub const fn not_needed(namespace: Namespace) -> Self {
        Self { namespace, restored: false, pending_lost: 0, dead_lost: 0 }
    }
}
