//! Access control: keys of callers, and the decision whether a key permits a call.
//!
//! 1. A caller presents a key: `duly_<id>_<secret>_<checksum>`. The id is public. The checksum finds
//!    typing errors before anything is looked up.
//! 2. Duly keeps the SHA-256 of each secret. A secret has 256 random bits, so a slow hash would add nothing.
//! 3. A key permits a set of [`Action`]s in the namespaces that its patterns match. Every action is
//!    permitted in each of these namespaces.
//! 4. A key may have a [`Subject`] instead of secrets: then callers prove with a certificate or a signed
//!    token that they are that subject.
//! 5. A key has a second secret during a rotation. The older one ends at a time.
//! 6. A key that no administrator created has an [origin](ApiKey::origin): a key with `keys` gets no further shares by
//!    creating keys.
//! 7. A [`Tenant`] is a set of namespaces with limits. A key belongs to it if it covers none but these.

mod actions;
mod changes;
mod secret;
mod subject;
mod tenant;

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use self::{
    actions::{Action, Actions, Role},
    changes::{AdminLogin, ChangeRefusal, DecidedBy, LoginPlace},
    secret::{PresentedKey, SECRET_BYTES, SecretHash},
    subject::{SUBJECT_BYTES_MAX, Subject},
    tenant::{HostPattern, TENANT_LIST_MAX, Tenant, TenantLimit, TenantLimits, TenantName},
};
use crate::{Invalid, NamespaceName, Timestamp, ids::NAMESPACE_ALLOWED};

/// Characters of a key's id.
pub const KEY_ID_CHARS: usize = 10;
/// Longest name of a key, in bytes of UTF-8.
pub const KEY_NAME_BYTES_MAX: usize = 100;
/// Most patterns of namespaces, and most networks, of a key.
pub const KEY_LIST_MAX: usize = 100;
/// Most secrets of a key: two during a rotation.
pub const KEY_SECRETS_MAX: usize = 2;

/// Base 32 without letters that look like digits (Crockford).
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A pattern of namespaces: a name, or the beginning of names followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NamespacePattern(String);

impl NamespacePattern {
    /// Creates a pattern from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if text == "*" || NamespaceName::new(stem).is_ok() {
            return Ok(Self(text.to_owned()));
        }
        let allowed =
            format!("a namespace ({NAMESPACE_ALLOWED}), the beginning of one with *, or *");
        Err(Invalid::new("namespaces", text, allowed))
    }

    /// Returns the pattern of all namespaces.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Returns `true` if the pattern matches a namespace.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => name == self.0,
        }
    }

    /// Returns `true` if every namespace that the pattern matches is matched by `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self.0.strip_suffix('*'), other.0.strip_suffix('*')) {
            (Some(own), Some(stem)) => own.starts_with(stem),
            (Some(_), None) => false,
            (None, _) => other.matches(&self.0),
        }
    }

    /// Returns `true` if a namespace can match both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_within(other) || other.is_within(self)
    }

    /// Returns the name, or the beginning of names.
    pub fn stem(&self) -> &str {
        self.0.strip_suffix('*').unwrap_or(&self.0)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<NamespacePattern> for String {
    fn from(pattern: NamespacePattern) -> Self {
        pattern.0
    }
}

impl TryFrom<String> for NamespacePattern {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

/// The public id of a key: ten characters of base 32.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KeyId([u8; KEY_ID_CHARS]);

impl KeyId {
    /// Creates an id from random bytes.
    pub fn generate(random: [u8; KEY_ID_CHARS]) -> Self {
        Self(random.map(|byte| ALPHABET[usize::from(byte % 32)]))
    }

    /// Creates an id from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let id = text
            .as_bytes()
            .try_into()
            .ok()
            .filter(|id: &[u8; KEY_ID_CHARS]| id.iter().all(|byte| ALPHABET.contains(byte)));
        let allowed = "the id of a key: ten characters of 0-9 a-z without i l o u";
        id.map(Self).ok_or_else(|| Invalid::new("id", text, allowed))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("the alphabet is ASCII")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.as_str().to_owned()
    }
}

impl TryFrom<String> for KeyId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

/// A secret of a key, by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySecret {
    /// The hash.
    pub hash: SecretHash,
    /// The end of the secret, if it has been replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
}

/// A key as Duly keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// A name for people.
    pub name: String,
    /// What it permits.
    pub actions: Actions,
    /// The namespaces in which it permits that.
    pub namespaces: Vec<NamespacePattern>,
    /// Its secrets, the newest first; at most [`KEY_SECRETS_MAX`]. None if it has a subject.
    pub secrets: Vec<KeySecret>,
    /// The subject of certificates or tokens whose holders hold this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Networks from which it may be used; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<IpNet>,
    /// Before this time it permits nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// From this time on it permits nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `true`: it permits nothing until it is enabled.
    #[serde(default)]
    pub disabled: bool,
    /// The caller who disabled it; unknown if it was disabled offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_by: Option<DecidedBy>,
    /// The caller who last took a right, a network or time from it. Only as many rights give it more again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted_by: Option<DecidedBy>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The id of the key that created it, or `offline`.
    pub created_by: String,
    /// The key of the caller behind this one: the first of its creators who is no administrator of all namespaces.
    /// `None` if an administrator created this key. Keys of one origin count as one caller where callers have shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<KeyId>,
}

impl ApiKey {
    /// Returns a key of which a caller presents `presented`: enabled, without an end, from every network.
    pub fn new(
        presented: &PresentedKey,
        name: String,
        (actions, namespaces): (Actions, Vec<NamespacePattern>),
        (created_at, created_by): (Timestamp, String),
    ) -> Self {
        Self {
            id: presented.id.clone(),
            name,
            actions,
            namespaces,
            secrets: vec![KeySecret { hash: presented.hash(), ends_at: None }],
            subject: None,
            networks: Vec::new(),
            not_before: None,
            expires_at: None,
            disabled: false,
            disabled_by: None,
            restricted_by: None,
            created_at,
            created_by,
            origin: None,
        }
    }

    /// Checks every bound. Each error names its field.
    pub fn check(self) -> Result<Self, Invalid> {
        let has_control = self.name.chars().any(char::is_control);
        if has_control || !(1..=KEY_NAME_BYTES_MAX).contains(&self.name.len()) {
            let allowed =
                format!("1 to {KEY_NAME_BYTES_MAX} bytes of UTF-8 without control characters");
            return Err(Invalid::new("name", self.name, allowed));
        }
        if self.actions.is_empty() {
            let allowed = format!("at least one of {}", Action::NAMES.join(", "));
            return Err(Invalid::unseen("actions", allowed));
        }
        if !(1..=KEY_LIST_MAX).contains(&self.namespaces.len()) {
            return Err(Invalid::unseen("namespaces", format!("1 to {KEY_LIST_MAX} patterns")));
        }
        if self.networks.len() > KEY_LIST_MAX {
            return Err(Invalid::unseen("networks", format!("at most {KEY_LIST_MAX} networks")));
        }
        if let (Some(from), Some(to)) = (self.not_before, self.expires_at)
            && from >= to
        {
            return Err(Invalid::new(
                "expires_at",
                to,
                format!("after not_before, which is {from}"),
            ));
        }
        Ok(self)
    }

    /// Returns `true` if the caller who presents `hash` from `address` at `now` holds this key, and the key
    /// is valid.
    pub fn admits(&self, hash: &SecretHash, address: Option<IpAddr>, now: Timestamp) -> bool {
        // Every secret is compared, so the time does not tell which one matched.
        let held = self.secrets.iter().fold(false, |held, secret| {
            let is_current = secret.ends_at.is_none_or(|end| now < end);
            held | (secret.hash == *hash && is_current)
        });
        held && self.admits_subject(address, now)
    }

    /// Returns `true` if a caller who has proved to hold this key may use it from `address` at `now`.
    pub fn admits_subject(&self, address: Option<IpAddr>, now: Timestamp) -> bool {
        self.is_valid(now) && self.is_allowed_from(address)
    }

    /// Returns the key with a subject instead of secrets.
    #[must_use]
    pub fn with_subject(self, subject: Option<Subject>) -> Self {
        match subject {
            Some(_) => Self { subject, secrets: Vec::new(), ..self },
            None => self,
        }
    }

    /// Returns `true` if the key is enabled and within its time.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        !self.disabled
            && self.not_before.is_none_or(|from| from <= now)
            && self.expires_at.is_none_or(|end| now < end)
    }

    /// Returns `true` if the key may be used from an address; a Unix socket has none.
    fn is_allowed_from(&self, address: Option<IpAddr>) -> bool {
        self.networks.is_empty()
            || address.is_some_and(|address| {
                let address = address.to_canonical();
                self.networks.iter().any(|network| network.contains(&address))
            })
    }

    /// Returns `true` if the key covers a namespace.
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    /// Returns `true` if the key permits nothing that `other` does not permit: no action, no namespace, no
    /// network and no time.
    pub fn is_within(&self, other: &Self) -> bool {
        let is_inside = |own: &IpNet| other.networks.iter().any(|it| it.contains(own));
        let ends_before = |end: &Timestamp| self.expires_at.is_some_and(|own| own <= *end);
        self.actions.is_within(other.actions)
            && covers_patterns(&other.namespaces, &self.namespaces)
            && (other.networks.is_empty()
                || !self.networks.is_empty() && self.networks.iter().all(is_inside))
            && other.expires_at.as_ref().is_none_or(ends_before)
    }

    /// Returns `true` if the key covers every namespace.
    pub fn covers_all(&self) -> bool {
        self.namespaces.iter().any(|pattern| pattern.as_str() == "*")
    }

    /// Returns `true` if the key permits every action in every namespace.
    pub fn is_admin(&self) -> bool {
        Actions::all().is_within(self.actions) && self.covers_all()
    }
}

/// Returns `true` if every namespace of `narrower` is one of `wider`, pattern by pattern.
fn covers_patterns(wider: &[NamespacePattern], narrower: &[NamespacePattern]) -> bool {
    narrower.iter().all(|own| wider.iter().any(|it| own.is_within(it)))
}

#[cfg(test)]
mod tests;
