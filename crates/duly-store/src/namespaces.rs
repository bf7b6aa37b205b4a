//! Namespaces: their settings, pause and resume, and the end of one.

use std::sync::Arc;

use duly_core::{NamespaceName, Settings, Timestamp};

/// A namespace as it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Whether claims are refused.
    pub paused: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its settings were last changed.
    pub updated_at: Timestamp,
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
    /// Only if there is no such namespace yet; otherwise nothing changes.
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
    /// It does not; scheduling and cancelling go on.
    Paused,
}

/// Whether a namespace is deleted although it holds timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteMode {
    /// Refuse while it holds pending timers or dead letters.
    IfEmpty,
    /// Drop them too.
    Force,
}
