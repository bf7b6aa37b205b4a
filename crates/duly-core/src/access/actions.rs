//! The rights of a key, in sets, and the short names of usual sets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Invalid, similar_name::with_similar};

crate::named_enum! {
    /// A right of a key.
    pub enum Action {
        /// Schedule, change and cancel timers.
        Schedule = "schedule",
        /// Lease firings and settle them.
        Consume = "consume",
        /// Read timers without payload and headers, and counts and settings of namespaces.
        Read = "read",
        /// Read payloads and headers of timers.
        Payload = "payload",
        /// Pause and resume namespaces; fire, redrive, purge, and cancel by filter.
        Operate = "operate",
        /// Create, change and delete namespaces.
        Namespace = "namespace",
        /// Export and import timers, with the secrets of their destinations.
        Transfer = "transfer",
        /// Read metrics and the reasons of readiness.
        Metrics = "metrics",
        /// Back up and repair the store, and read the state of the cluster.
        Store = "store",
        /// Read and change keys and tenants, and read the audit log.
        Keys = "keys",
    }

    /// A short name for a set of actions.
    pub enum Role {
        /// `schedule` and `read`.
        Producer = "producer",
        /// `consume`.
        Consumer = "consumer",
        /// `read` and `metrics`.
        Viewer = "viewer",
        /// Every action except `transfer`, `store` and `keys`.
        Operator = "operator",
        /// Every action.
        Admin = "admin",
    }
}

/// A set of actions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct Actions(u16);

impl Actions {
    /// Returns the set of all actions.
    pub fn all() -> Self {
        Action::ALL.into_iter().collect()
    }

    /// Returns `true` if the action is in the set.
    pub const fn contains(self, action: Action) -> bool {
        self.0 & 1 << action as u16 != 0
    }

    /// Returns `true` if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if every action of the set is in `other`.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the actions, in the order of [`Action::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.contains(*action))
    }

    /// Reads names of actions and roles.
    ///
    /// # Errors
    /// Names the first unknown name, and all known ones.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, Invalid> {
        let mut actions = Self::default();
        for name in names {
            let action = Action::ALL.into_iter().find(|action| action.as_str() == name);
            let role = Role::ALL.into_iter().find(|role| role.as_str() == name);
            match (action, role) {
                (Some(action), _) => actions.0 |= 1 << action as u16,
                (None, Some(role)) => actions.0 |= role.actions().0,
                (None, None) => {
                    let allowed = format!(
                        "one of the actions {}, or one of the roles {}",
                        Action::NAMES.join(", "),
                        Role::NAMES.join(", ")
                    );
                    let known = Action::NAMES.into_iter().chain(Role::NAMES);
                    let allowed = with_similar(allowed, name, known);
                    return Err(Invalid::new("actions", name, allowed));
                }
            }
        }
        Ok(actions)
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        Self(actions.into_iter().fold(0, |set, action| set | 1 << action as u16))
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Vec::from(*self).join(", "))
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

impl From<Actions> for Vec<String> {
    fn from(actions: Actions) -> Self {
        actions.iter().map(|action| action.as_str().to_owned()).collect()
    }
}

impl TryFrom<Vec<String>> for Actions {
    type Error = Invalid;

    fn try_from(names: Vec<String>) -> Result<Self, Invalid> {
        Self::parse(names.iter().map(String::as_str))
    }
}

impl Role {
    /// Returns the actions that the role stands for.
    pub fn actions(self) -> Actions {
        use Action::{Consume, Keys, Metrics, Read, Schedule, Store, Transfer};
        let is_operators = |action: &Action| !matches!(action, Transfer | Store | Keys);
        match self {
            Self::Producer => [Schedule, Read].into_iter().collect(),
            Self::Consumer => [Consume].into_iter().collect(),
            Self::Viewer => [Read, Metrics].into_iter().collect(),
            Self::Operator => Action::ALL.into_iter().filter(is_operators).collect(),
            Self::Admin => Actions::all(),
        }
    }
}
