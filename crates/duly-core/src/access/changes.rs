//! Changes of keys: who may make them, and the administrators that they must leave.
//!
//! 1. A caller changes only keys that permit no more than its own ([`ApiKey::is_within`]).
//! 2. A key with a subject takes the place of the keys of its holder's groups, and its removal brings them back. So
//!    only an administrator of all namespaces changes such a key in any way.
//! 3. A disabled key is changed only with all rights of the caller who disabled it: otherwise its holder's team
//!    could enable the key again.
//! 4. A caller who takes something else from a key, such as its time or a network, decides too: only a caller with as many
//!    rights gives the key more again.

use std::{net::IpAddr, slice::from_ref};

use serde::{Deserialize, Serialize};

use super::{Actions, ApiKey, NamespacePattern, covers_patterns};
use crate::Timestamp;

/// The rights of the caller who disabled or restricted a key, as they were then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedBy {
    /// The id of the caller's key.
    pub key: String,
    /// The actions that it permitted.
    pub actions: Actions,
    /// The namespaces in which it permitted them.
    pub namespaces: Vec<NamespacePattern>,
}

/// The reason for which a caller may not create, change or remove a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// The key permits more than that of the caller.
    Wider,
    /// The key has a subject, and the caller is no administrator of all namespaces.
    Subject,
    /// The key was disabled by a caller with more rights: one with this key, or an unknown one.
    Disabled(Option<String>),
    /// The change gives the key more again, and a caller with more rights took something from it: one with this key.
    Restricted(String),
}

impl DecidedBy {
    fn new(caller: &ApiKey) -> Self {
        Self {
            key: caller.id.to_string(),
            actions: caller.actions,
            namespaces: caller.namespaces.clone(),
        }
    }

    /// Returns the rights of both: each of two callers without those of the other took something.
    fn and(&self, caller: &ApiKey) -> Self {
        let mut namespaces = self.namespaces.clone();
        let is_new = |it: &&NamespacePattern| !covers_patterns(&self.namespaces, from_ref(*it));
        let more = caller.namespaces.iter().filter(is_new);
        namespaces.extend(more.cloned());
        let actions = self.actions.iter().chain(caller.actions.iter()).collect();
        Self { key: self.key.clone(), actions, namespaces }
    }

    /// Returns `true` if a caller has as many rights.
    fn is_within(&self, caller: &ApiKey) -> bool {
        self.actions.is_within(caller.actions)
            && covers_patterns(&caller.namespaces, &self.namespaces)
    }
}

impl ApiKey {
    /// Checks that the holder of the key `caller` may create, change, rotate or remove this key.
    ///
    /// # Errors
    /// The first reason for which it may not.
    pub fn check_change_by(&self, caller: &Self) -> Result<(), ChangeRefusal> {
        if !self.is_within(caller) {
            return Err(ChangeRefusal::Wider);
        }
        if self.subject.is_some() && !caller.is_admin() {
            return Err(ChangeRefusal::Subject);
        }
        let has_rights = match &self.disabled_by {
            _ if !self.disabled => true,
            Some(by) => by.is_within(caller),
            // Disabled offline, or by a build that did not keep the rights.
            None => caller.is_admin(),
        };
        if has_rights {
            return Ok(());
        }
        Err(ChangeRefusal::Disabled(self.disabled_by.as_ref().map(|by| by.key.clone())))
    }

    /// Returns the key as the holder of the key `caller` creates it.
    #[must_use]
    pub fn created_with(self, caller: &Self) -> Self {
        let is_own = !caller.is_admin();
        let origin = is_own.then(|| caller.origin.as_ref().unwrap_or(&caller.id).clone());
        let is_restricted = self.expires_at.is_some() || !self.networks.is_empty();
        let restricted_by = is_restricted.then(|| DecidedBy::new(caller));
        Self { created_by: caller.id.to_string(), origin, restricted_by, ..self }
    }

    /// Disables the key with the rights of the key `caller`.
    pub fn disable_by(&mut self, caller: &Self) {
        self.disabled = true;
        self.disabled_by = Some(DecidedBy::new(caller));
    }

    /// Returns this key, which the holder of the key `caller` makes of `before`. It keeps who took something from it.
    ///
    /// # Errors
    /// When it permits more than before, and a caller with more rights took something from it.
    pub fn changed_by(mut self, before: &Self, caller: &Self) -> Result<Self, ChangeRefusal> {
        let has_rights = before.restricted_by.as_ref().is_none_or(|by| by.is_within(caller));
        if let Some(by) = before.restricted_by.as_ref().filter(|_| !has_rights)
            && !self.is_within(before)
        {
            return Err(ChangeRefusal::Restricted(by.key.clone()));
        }
        let takes = !before.is_within(&self);
        // Who gave something back may have left something else taken, so the decision stays.
        self.restricted_by = match &before.restricted_by {
            Some(by) if takes && !has_rights => Some(by.and(caller)),
            _ if takes => Some(DecidedBy::new(caller)),
            by => by.clone(),
        };
        if self.is_admin() && caller.is_admin() {
            self.origin = None;
        }
        Ok(self)
    }

    /// Enables the key.
    pub fn enable(&mut self) {
        (self.disabled, self.disabled_by) = (false, None);
    }
}

/// The conditions under which an administrator can log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminLogin {
    /// `true`: keys with a secret are admitted.
    pub keys: bool,
    /// `true`: subjects of certificates are admitted.
    pub certificates: bool,
    /// `true`: subjects of tokens are admitted.
    pub tokens: bool,
    /// Keys that were created before this time are refused.
    pub created_since: Timestamp,
    /// The place of the login.
    pub from: LoginPlace,
}

/// The place of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPlace {
    /// Any network.
    Anywhere,
    /// An address; a Unix socket has none.
    Address(Option<IpAddr>),
}

impl AdminLogin {
    /// Every proof, from anywhere.
    pub const ANY: Self = Self {
        keys: true,
        certificates: true,
        tokens: true,
        created_since: Timestamp::MIN,
        from: LoginPlace::Anywhere,
    };

    /// Returns the time until which an administrator of all namespaces can log in with a key, if it can by `now`.
    pub fn ends_at(&self, key: &ApiKey, now: Timestamp) -> Option<Timestamp> {
        let is_admitted = match key.subject.as_ref().map(super::Subject::is_of_certificate) {
            None => self.keys,
            Some(true) => self.certificates,
            Some(false) => self.tokens,
        };
        let is_near = match self.from {
            LoginPlace::Anywhere => true,
            LoginPlace::Address(address) => key.is_allowed_from(address),
        };
        let has_begun = key.not_before.is_none_or(|from| from <= now);
        let is_usable = key.is_admin() && !key.disabled && is_admitted && is_near && has_begun;
        if !is_usable || key.created_at < self.created_since {
            return None;
        }
        let end = key.expires_at.unwrap_or(Timestamp::MAX);
        if key.subject.is_some() {
            return Some(end);
        }
        let secrets = key.secrets.iter().map(|secret| secret.ends_at.unwrap_or(Timestamp::MAX));
        secrets.max().map(|secret| secret.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Millis,
        access::{Action, KeyId, PresentedKey, Subject},
    };

    const NOW: Timestamp = Timestamp::saturating_from_unix_ms(1_800_000_000_000);

    fn key(digit: u8, actions: Actions, namespaces: &[&str]) -> ApiKey {
        let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
        let patterns = namespaces.iter().map(|it| NamespacePattern::new(it).unwrap()).collect();
        ApiKey::new(&presented, "key".to_owned(), (actions, patterns), (NOW, String::new()))
    }

    #[test]
    fn a_disabled_key_needs_the_rights_of_who_disabled_it() {
        let narrow = |actions: &[Action]| actions.iter().copied().collect::<Actions>();
        let helper = key(1, narrow(&[Action::Keys, Action::Read]), &["a"]);
        let team = key(2, narrow(&[Action::Keys, Action::Read]), &["a", "b*"]);
        let admin = key(3, Actions::all(), &["*"]);
        let own = key(4, narrow(&[Action::Read]), &["a"]);
        let by = |caller: &ApiKey| {
            let mut disabled = own.clone();
            disabled.disable_by(caller);
            disabled
        };
        let unknown = ApiKey { disabled: true, ..own.clone() };
        for (changed, refused) in [
            (own.clone(), &[][..]),
            (by(&helper), &[]),
            (by(&team), &[1]),
            (by(&admin), &[1, 2]),
            (unknown, &[1, 2]),
        ] {
            for (caller, digit) in [(&helper, 1), (&team, 2), (&admin, 3)] {
                let checked = changed.check_change_by(caller);
                let by = changed.disabled_by.as_ref().map(|by| by.key.clone());
                let expected = match refused.contains(&digit) {
                    true => Err(ChangeRefusal::Disabled(by)),
                    false => Ok(()),
                };
                assert_eq!(checked, expected, "{:?} {digit}", changed.disabled_by);
            }
        }
        let mut enabled = by(&admin);
        enabled.enable();
        assert_eq!(enabled, own);
        let subject = own.clone().with_subject(Some(Subject::new("jwt:sub:a").unwrap()));
        assert_eq!(subject.check_change_by(&team), Err(ChangeRefusal::Subject));
        assert_eq!(subject.check_change_by(&admin), Ok(()));
        assert_eq!(team.check_change_by(&helper), Err(ChangeRefusal::Wider));
    }

    #[test]
    fn what_an_administrator_took_only_as_many_rights_give_back() {
        let keys = [Action::Keys, Action::Read, Action::Schedule];
        let helper = key(1, keys.into_iter().collect(), &["a", "b"]);
        let admin = key(3, Actions::all(), &["*"]);
        let own = key(4, keys.into_iter().collect(), &["a", "b"]);
        let near = vec!["192.0.2.0/25".parse().unwrap()];
        let takes: [fn(&mut ApiKey); 4] = [
            |it| it.expires_at = Some(NOW),
            |it| it.networks = vec!["192.0.2.0/24".parse().unwrap()],
            |it| it.actions = [Action::Read].into_iter().collect(),
            |it| it.namespaces.truncate(1),
        ];
        for take in takes {
            let taken = |caller| {
                let mut next = own.clone();
                take(&mut next);
                next.changed_by(&own, caller).unwrap()
            };
            let by_admin = taken(&admin);
            let refused = own.clone().changed_by(&by_admin, &helper);
            assert_eq!(refused, Err(ChangeRefusal::Restricted(admin.id.to_string())));
            let given = own.clone().changed_by(&by_admin, &admin).unwrap();
            assert_eq!(
                given,
                ApiKey { restricted_by: by_admin.restricted_by.clone(), ..own.clone() }
            );
            // A helper may take more, and the decision stays.
            let less = ApiKey { networks: near.clone(), ..by_admin.clone() };
            let less = less.changed_by(&by_admin, &helper).unwrap();
            assert_eq!(less.restricted_by, by_admin.restricted_by);
            assert!(own.clone().changed_by(&less, &helper).is_err());
            // A name is no right.
            let named = ApiKey { name: "other".to_owned(), ..by_admin.clone() };
            assert!(named.changed_by(&by_admin, &helper).is_ok());
            assert!(own.clone().changed_by(&taken(&helper), &helper).is_ok());
        }
        // A part that is given back leaves the decision about the rest.
        let ends = |at: Option<Timestamp>| ApiKey { expires_at: at, ..own.clone() };
        let later = NOW.saturating_add(Millis::from_secs(60));
        let ended = ends(Some(NOW)).changed_by(&own, &admin).unwrap();
        let corrected = ApiKey { expires_at: Some(later), ..ended.clone() };
        let corrected = corrected.changed_by(&ended, &admin).unwrap();
        assert!(ends(None).changed_by(&corrected, &helper).is_err());
        // So does the end of a new key.
        let created = ends(Some(NOW)).created_with(&admin);
        assert!(ends(None).changed_by(&created, &helper).is_err());
        // Two callers of whom none has the rights of the other.
        let lead = key(5, keys.into_iter().chain([Action::Operate]).collect(), &["a"]);
        let narrowed = ApiKey { networks: near, ..own.clone() }.changed_by(&own, &helper).unwrap();
        let both = ApiKey { expires_at: Some(NOW), ..narrowed.clone() };
        let both = both.changed_by(&narrowed, &lead).unwrap();
        for caller in [&helper, &lead] {
            assert!(own.clone().changed_by(&both, caller).is_err());
        }
        assert!(own.clone().changed_by(&both, &admin).is_ok());
    }

    #[test]
    fn administrators_count_if_they_can_log_in() {
        let later = NOW.saturating_add(Millis::from_secs(60));
        let admin = key(1, Actions::all(), &["*"]);
        let end_of = |login: AdminLogin, change: &dyn Fn(&mut ApiKey)| {
            let mut key = admin.clone();
            change(&mut key);
            login.ends_at(&key, NOW)
        };
        let (any, max) = (AdminLogin::ANY, Some(Timestamp::MAX));
        let of = |subject: &'static str| {
            move |key: &mut ApiKey| {
                *key = key.clone().with_subject(Some(Subject::new(subject).unwrap()));
            }
        };
        assert_eq!(end_of(any, &|_| {}), max);
        assert_eq!(end_of(any, &|key| key.expires_at = Some(later)), Some(later));
        assert_eq!(end_of(any, &|key| key.secrets[0].ends_at = Some(later)), Some(later));
        assert_eq!(end_of(any, &|key| key.disabled = true), None);
        assert_eq!(end_of(any, &|key| key.not_before = Some(later)), None);
        assert_eq!(end_of(any, &|key| key.actions = [Action::Keys].into_iter().collect()), None);
        assert_eq!(end_of(any, &|key| key.secrets.clear()), None);
        assert_eq!(end_of(any, &of("cert:a")), max);
        assert_eq!(end_of(any, &of("jwt:group:a")), max);
        assert_eq!(end_of(AdminLogin { certificates: false, ..any }, &of("cert:a")), None);
        assert_eq!(end_of(AdminLogin { tokens: false, ..any }, &of("jwt:sub:a")), None);
        assert_eq!(end_of(AdminLogin { keys: false, ..any }, &|_| {}), None);
        assert_eq!(end_of(AdminLogin { created_since: later, ..any }, &|_| {}), None);
        let from = |address: &str| AdminLogin {
            from: LoginPlace::Address(Some(address.parse().unwrap())),
            ..any
        };
        let ten = |key: &mut ApiKey| key.networks = vec!["10.0.0.0/8".parse().unwrap()];
        assert_eq!(end_of(any, &ten), max);
        assert_eq!(end_of(from("10.0.0.1"), &ten), max);
        assert_eq!(end_of(from("192.0.2.1"), &ten), None);
        assert_eq!(end_of(AdminLogin { from: LoginPlace::Address(None), ..any }, &ten), None);
    }
}
