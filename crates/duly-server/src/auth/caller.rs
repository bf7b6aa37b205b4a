//! The sender of a call, and what it may do.

use std::{net::IpAddr, sync::Arc};

use duly_core::{
    Code, NamespaceName, Timestamp,
    access::{Action, ApiKey, NamespacePattern},
};

use super::{Auth, Identity, Peer, proof::Proof, unauthenticated};
use crate::{problem::Problem, tenants::TenantState};

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
    pub(super) auth: Auth,
    pub(super) key: Arc<ApiKey>,
    pub(super) proof: Proof,
    pub(super) peer: Peer,
    pub(super) tenant: Option<Arc<TenantState>>,
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

    fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Anyone | Self::Unidentified => None,
            Self::Holder(holder) => Some(holder),
        }
    }

    /// Returns the address of the caller, if it has a key.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.holder()?.peer.address
    }

    /// Returns the identity of the caller, if it has a key.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let holder = self.holder()?;
        let subjects = holder.proof.subjects().map(|(subjects, _)| subjects);
        let subject = subjects.and_then(|subjects| subjects.first().cloned());
        let (key, origin) = (holder.key.id.clone(), holder.key.origin.clone());
        Some(Identity { key, subject, origin })
    }

    /// Returns the key of the caller.
    pub(crate) fn key(&self) -> Option<&ApiKey> {
        self.holder().map(Holder::key)
    }

    /// Returns the tenant of the caller's key.
    pub(crate) fn tenant(&self) -> Option<&Arc<TenantState>> {
        self.holder()?.tenant.as_ref()
    }

    /// Returns the first name after `name` with which a name that the caller may know can begin; `None` if
    /// there is none.
    pub(crate) fn next_covered(&self, name: &str) -> Option<NamespaceName> {
        let stems = self.key()?.namespaces.iter().map(NamespacePattern::stem);
        stems.filter(|stem| *stem > name).min().and_then(|stem| NamespaceName::new(stem).ok())
    }
}
