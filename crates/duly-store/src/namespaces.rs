//! Namespaces: their settings, pause and resume, and the end of one.

use std::sync::Arc;

use duly_core::{Millis, NamespaceName, Settings, Timestamp, shard::ShardId};

use crate::Error;

/// Namespaces that a store has at most, unless its operator says otherwise.
pub const NAMESPACES_MAX: u64 = 100_000;

/// Returns the refusal of one namespace more than a store may have.
pub fn too_many(max: u64) -> Error {
    Error::Overloaded {
        reason: format!(
            "there are {max} namespaces, as many as limits.namespaces_max allows; delete some, or raise \
             it"
        ),
        retry_after: Millis::from_secs(60),
    }
}

/// A namespace as it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Whether claims are refused.
    pub paused: bool,
    /// When it goes on by itself, while it is paused.
    pub resumes_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its settings were last changed.
    pub updated_at: Timestamp,
}

/// How long an implicit namespace has to be idle before [`Store::remove_idle`](crate::Store::remove_idle)
/// removes it.
pub const IDLE_AFTER: Millis = Millis::from_secs(24 * 3_600);

/// A page of a pass over implicit namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdlePage {
    /// Namespaces that were removed.
    pub removed: Vec<NamespaceName>,
    /// Where the next page begins; `None` behind the last.
    pub next: Option<IdleCursor>,
}

/// A place in a pass over implicit namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleCursor {
    /// The shard that orders the changes of the namespaces.
    pub shard: ShardId,
    /// The last name that was looked at; `None` for the first of the shard.
    pub after: Option<NamespaceName>,
}

/// How settings are written.
#[derive(Debug, Clone, PartialEq)]
pub enum Put {
    /// These settings, whatever was there. `None` for the secrets keeps those that are there.
    Replace {
        /// The settings; their `signing_secrets` are ignored when `keep_secrets` says so.
        settings: Box<Settings>,
        /// Whether the secrets that are there stay.
        secrets: Secrets,
    },
    /// Only if there is no such namespace yet; otherwise nothing changes. The namespace is *implicit* until
    /// another call changes it: [`Store::remove_idle`](crate::Store::remove_idle) may remove it.
    IfAbsent(Box<Settings>),
}

/// What a PUT does with signing secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// The request's replace them.
    Set,
    /// Those that are there stay.
    Keep,
}

/// Whether a namespace hands out claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It does.
    Running,
    /// It does not, until somebody resumes it; scheduling and cancelling go on.
    Paused,
    /// While it is paused: it stays so until this time by the store's wall clock, and then goes on.
    /// What is not paused stays as it is.
    ResumeAt(Timestamp),
}

impl Activity {
    /// What a namespace is like after this: whether it is paused, and until when.
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

/// Whether a namespace is deleted although it holds timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteMode {
    /// Refuse while it holds pending timers or dead letters.
    IfEmpty,
    /// Drop them too.
    Force,
}

/// Result of a repair of a namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The namespace as it is now.
    pub namespace: Namespace,
    /// Whether its record was missing and is restored.
    pub restored: bool,
    /// Pending timers that were given up.
    pub pending_lost: u64,
    /// Dead letters that were given up.
    pub dead_lost: u64,
}

impl Repaired {
    /// A namespace that wanted no repair.
    pub const fn not_needed(namespace: Namespace) -> Self {
        Self { namespace, restored: false, pending_lost: 0, dead_lost: 0 }
    }
}
