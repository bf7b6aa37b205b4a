//! Keys of callers, and tenants, as a store keeps them.
//!
//! 1. Each change increases the version. Version 0 means that the store never had a key.
//! 2. A change names the version that it is based on, and is refused if there is a newer one. So of two
//!    callers who each remove one of the last two administrators, one is refused.
//! 3. An administrator can always act: a change is refused if it leaves none who can log in, or only until a time
//!    within the hour that is earlier than before, unless it is made offline.
//! 4. Records that were restored from a backup admit no one until an operator confirms them: a key that was
//!    revoked after the backup must not work again.

use std::collections::BTreeMap;

use duly_core::{
    Invalid, Millis, Timestamp,
    access::{AdminLogin, ApiKey, KeyId, LoginPlace, Tenant, TenantName},
};
use serde::{Deserialize, Serialize};

use crate::StoreFuture;

/// Most keys of a store.
pub const KEYS_MAX: usize = 10_000;
/// Most keys of a tenant: its own keys may create keys, and could use up those of others.
pub const TENANT_KEYS_MAX: usize = 1_000;
/// Most keys of one [origin](ApiKey::origin): a key with `keys` could use up those of others, in a tenant or not.
pub const ORIGIN_KEYS_MAX: usize = 1_000;
/// Most tenants of a store.
pub const TENANTS_MAX: usize = 1_000;
/// Time for which a change must leave an administrator: enough to create another one.
pub const ADMIN_LEFT_FOR: Millis = Millis::from_secs(3_600);

/// The calls for the keys of callers, and for tenants.
pub trait AccessStore: Send + Sync {
    /// Returns the keys of callers if their version is not `known`.
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>>;

    /// Changes the keys of callers if their version still is `seen`. Returns the records as they are then;
    /// `None` if another change came first, and nothing was done.
    ///
    /// # Errors
    /// Those of [`AccessRecords::changed`].
    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>>;
}

/// The keys and tenants of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecords {
    /// Grows with each change, and names it: two changes never have one version. 0 if the store never had a
    /// key.
    pub version: u64,
    /// The state of records that were restored from a backup.
    #[serde(default)]
    pub restore: RestoreState,
    /// The keys.
    pub keys: BTreeMap<KeyId, ApiKey>,
    /// The tenants, which have no namespace in common.
    #[serde(default)]
    pub tenants: BTreeMap<TenantName, Tenant>,
    /// The reason for which the stored records cannot be read. There are none here then, and callers get the reason.
    #[serde(skip)]
    pub damage: Option<String>,
}

/// The state of records that were restored from a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreState {
    /// They were not restored, or have been confirmed and used since.
    #[default]
    None,
    /// They admit no one.
    Unconfirmed,
    /// An operator has confirmed them before the first start.
    Confirmed,
}

/// A change of the keys and tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessChange {
    /// Writes a key.
    Put(Box<ApiKey>),
    /// Removes a key.
    Delete(KeyId),
    /// Writes a tenant.
    PutTenant(Box<Tenant>),
    /// Removes a tenant; its namespaces stay.
    DeleteTenant(TenantName),
}

/// Place from which a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// A call: it must leave an administrator who can log in like this.
    Call(AdminLogin),
    /// A command on a store that no server uses.
    Offline,
}

impl AccessRecords {
    /// Returns `true` if a store has had keys: callers without a key are not admitted.
    pub const fn are_required(&self) -> bool {
        self.version > 0
    }

    /// Returns the time until which an administrator can log in; the beginning of time if none can by `now`.
    pub fn admin_ends_at(&self, login: &AdminLogin, now: Timestamp) -> Timestamp {
        self.keys.values().filter_map(|key| login.ends_at(key, now)).max().unwrap_or(Timestamp::MIN)
    }

    /// Returns the records after a change.
    ///
    /// # Errors
    /// A key with a value out of its bounds; too many keys; a change that leaves no administrator.
    pub fn changed(
        &self,
        change: AccessChange,
        origin: ChangeOrigin,
        now: Timestamp,
    ) -> Result<Self, Invalid> {
        let mut records = self.clone();
        let revokes_another = self.revokes_no_administrator(&change);
        match change {
            AccessChange::Put(key) => {
                let key = key.check()?;
                let same =
                    records.keys.values().find(|it| it.id != key.id && it.subject == key.subject);
                if let (Some(subject), Some(other)) = (&key.subject, same) {
                    let allowed = format!("a subject without a key: key {} has it", other.id);
                    return Err(Invalid::new("subject", subject, allowed));
                }
                if !records.keys.contains_key(&key.id) {
                    records.check_keys_of_tenant(&key)?;
                    records.check_keys_of_origin(&key)?;
                }
                records.keys.insert(key.id.clone(), key);
            }
            AccessChange::Delete(id) => drop(records.keys.remove(&id)),
            AccessChange::PutTenant(tenant) => {
                let tenant = tenant.check()?;
                records.check_namespaces_of(&tenant)?;
                records.tenants.insert(tenant.name.clone(), tenant);
            }
            AccessChange::DeleteTenant(name) => drop(records.tenants.remove(&name)),
        }
        if records.keys.len() > KEYS_MAX {
            let allowed = format!("at most {KEYS_MAX} keys: delete those that are not in use");
            return Err(Invalid::plain("keys", records.keys.len().to_string(), allowed));
        }
        if records.tenants.len() > TENANTS_MAX {
            let allowed =
                format!("at most {TENANTS_MAX} tenants: delete those that are not in use");
            return Err(Invalid::plain("tenants", records.tenants.len().to_string(), allowed));
        }
        if let ChangeOrigin::Call(login) = origin {
            let least = self.admin_ends_at(&login, now).min(now.saturating_add(ADMIN_LEFT_FOR));
            let left = records.admin_ends_at(&login, now);
            if (left <= now || left < least) && !revokes_another {
                return Err(no_admin_left(&login));
            }
        }
        records.version += 1;
        Ok(records)
    }

    /// Returns `true` for a change that disables or deletes a key that is no administrator's. It passes also while no
    /// administrator can log in, such as before the first answer of an issuer.
    fn revokes_no_administrator(&self, change: &AccessChange) -> bool {
        let id = match change {
            AccessChange::Put(key) if key.disabled => &key.id,
            AccessChange::Delete(id) => id,
            _ => return false,
        };
        self.keys.get(id).is_some_and(|key| !key.is_admin())
    }

    /// Checks that the tenant of a new key has a place for it.
    fn check_keys_of_tenant(&self, key: &ApiKey) -> Result<(), Invalid> {
        let tenants = self.tenants.values().filter(|tenant| tenant.has_key(key));
        for tenant in tenants.filter(|_| !key.covers_all()) {
            let count = self.keys.values().filter(|key| tenant.has_key(key)).count();
            if count >= TENANT_KEYS_MAX {
                let allowed = format!(
                    "at most {TENANT_KEYS_MAX} keys of tenant {}: delete those that are not in use",
                    tenant.name
                );
                return Err(Invalid::plain("keys", (count + 1).to_string(), allowed));
            }
        }
        Ok(())
    }

    /// Checks that the origin of a new key has a place for it.
    fn check_keys_of_origin(&self, key: &ApiKey) -> Result<(), Invalid> {
        let Some(origin) = &key.origin else { return Ok(()) };
        let count = self.keys.values().filter(|it| it.origin.as_ref() == Some(origin)).count();
        if count < ORIGIN_KEYS_MAX {
            return Ok(());
        }
        let allowed = format!(
            "at most {ORIGIN_KEYS_MAX} keys that descend from key {origin}: delete those that are not in use, or have \
             an administrator of all namespaces create more"
        );
        Err(Invalid::plain("keys", (count + 1).to_string(), allowed))
    }

    /// Checks that no other tenant has namespaces of this one.
    fn check_namespaces_of(&self, tenant: &Tenant) -> Result<(), Invalid> {
        for other in self.tenants.values().filter(|other| other.name != tenant.name) {
            for pattern in &tenant.namespaces {
                if let Some(theirs) = other.namespaces.iter().find(|it| pattern.overlaps(it)) {
                    let allowed = format!(
                        "patterns without namespaces of another tenant: {} has {}",
                        other.name,
                        theirs.as_str()
                    );
                    return Err(Invalid::new("namespaces", pattern.as_str(), allowed));
                }
            }
        }
        Ok(())
    }
}

/// Returns the refusal of a change that leaves no administrator.
fn no_admin_left(login: &AdminLogin) -> Invalid {
    let place = match login.from {
        LoginPlace::Anywhere => "",
        LoginPlace::Address(_) => ", from the address of this call too",
    };
    let allowed = format!(
        "left with at least one enabled key with the role admin in all namespaces (*) that auth.mode admits for \
         another hour{place}: create or change another one first"
    );
    Invalid::unseen("keys", allowed)
}

#[cfg(test)]
mod tests {
    use duly_core::access::{Actions, NamespacePattern, PresentedKey, Role, Subject, TenantLimits};

    use super::*;

    const NOW: Timestamp = Timestamp::saturating_from_unix_ms(1_800_000_000_000);

    fn key(digit: u8, actions: Actions) -> Box<ApiKey> {
        let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
        let rights = (actions, vec![NamespacePattern::all()]);
        let created = (NOW, "offline".to_owned());
        Box::new(ApiKey::new(&presented, format!("key {digit}"), rights, created))
    }

    #[test]
    fn the_last_administrator_stays_unless_offline() {
        let admin = key(1, Actions::all());
        let change = |records: &AccessRecords, change, origin| records.changed(change, origin, NOW);
        let (call, offline) = (ChangeOrigin::Call(AdminLogin::ANY), ChangeOrigin::Offline);
        let first = AccessRecords::default();
        let producer = AccessChange::Put(key(2, Role::Producer.actions()));
        assert!(change(&first, producer.clone(), call).is_err());
        let one = change(&first, AccessChange::Put(admin.clone()), offline).unwrap();
        assert_eq!((one.version, one.are_required(), first.are_required()), (1, true, false));
        let two = change(&one, producer, call).unwrap();
        assert_eq!((two.version, two.keys.len()), (2, 2));
        let end_of = |records: &AccessRecords| records.admin_ends_at(&AdminLogin::ANY, NOW);
        assert_eq!((end_of(&first), end_of(&two)), (Timestamp::MIN, Timestamp::MAX));
        let ends = ApiKey { expires_at: Some(NOW), ..*admin.clone() };
        let ending = change(&two, AccessChange::Put(Box::new(ends)), offline).unwrap();
        assert_eq!(end_of(&ending), NOW);
        let delete = AccessChange::Delete(admin.id.clone());
        assert!(change(&two, delete.clone(), call).is_err());
        let disabled = AccessChange::Put(Box::new(ApiKey { disabled: true, ..*admin.clone() }));
        assert!(change(&two, disabled, call).is_err());
        let ended = AccessChange::Put(Box::new(ApiKey { expires_at: Some(NOW), ..*admin }));
        assert!(change(&two, ended, call).is_err());
        // While no administrator can log in, other keys can be revoked, and no more.
        let leaked = *key(2, Role::Producer.actions());
        let disabled = AccessChange::Put(Box::new(ApiKey { disabled: true, ..leaked.clone() }));
        assert!(change(&ending, disabled, call).is_ok());
        assert!(change(&ending, AccessChange::Delete(leaked.id.clone()), call).is_ok());
        assert!(change(&ending, AccessChange::Put(Box::new(leaked)), call).is_err());
        assert!(change(&two, delete.clone(), offline).is_ok());
        let second = AccessChange::Put(key(3, Actions::all()));
        let three = change(&two, second, call).unwrap();
        assert!(change(&three, delete, call).is_ok());
    }

    #[test]
    fn an_administrator_who_cannot_log_in_does_not_count() {
        let after = |seconds| Some(NOW.saturating_add(Millis::from_secs(seconds)));
        let network = |text: &str| vec![text.parse().unwrap()];
        let subject = |text: &str| Some(Subject::new(text).unwrap());
        let from = LoginPlace::Address(Some("10.0.0.1".parse().unwrap()));
        let login = AdminLogin { tokens: false, from, ..AdminLogin::ANY };
        let admin = key(1, Actions::all());
        let other = *key(2, Actions::all());
        let others = [
            (ApiKey { disabled: true, ..other.clone() }, false),
            (ApiKey { expires_at: after(2), ..other.clone() }, false),
            (ApiKey { expires_at: after(3_600), ..other.clone() }, true),
            (ApiKey { not_before: after(2), ..other.clone() }, false),
            (ApiKey { networks: network("192.0.2.0/24"), ..other.clone() }, false),
            (ApiKey { networks: network("10.0.0.0/8"), ..other.clone() }, true),
            (other.clone().with_subject(subject("jwt:sub:ops")), false),
            (other.clone().with_subject(subject("cert:ops")), true),
            (ApiKey { secrets: Vec::new(), ..other.clone() }, false),
            (*key(2, Role::Operator.actions()), false),
            (other, true),
        ];
        let put = |key: ApiKey| AccessChange::Put(Box::new(key));
        let without = |change: fn(&mut ApiKey)| {
            let mut key = (*admin).clone();
            change(&mut key);
            put(key)
        };
        let removals = [
            AccessChange::Delete(admin.id.clone()),
            without(|key| key.disabled = true),
            without(|key| key.actions = Role::Operator.actions()),
            without(|key| key.namespaces = vec![NamespacePattern::new("a*").unwrap()]),
            without(|key| key.networks = vec!["192.0.2.0/24".parse().unwrap()]),
            without(|key| key.expires_at = Some(NOW.saturating_add(Millis::from_secs(2)))),
            without(|key| key.secrets[0].ends_at = Some(NOW)),
        ];
        for (other, is_usable) in others {
            let keys = [(*admin).clone(), other.clone()].map(|key| (key.id.clone(), key));
            let records = AccessRecords { version: 1, keys: keys.into(), ..Default::default() };
            for removal in &removals {
                let changed = records.changed(removal.clone(), ChangeOrigin::Call(login), NOW);
                assert_eq!(changed.is_ok(), is_usable, "{removal:?} beside {other:?}");
                assert!(records.changed(removal.clone(), ChangeOrigin::Offline, NOW).is_ok());
            }
        }
        // An administration that ends within the hour can be prolonged, and used until then.
        let ending = ApiKey { expires_at: after(60), ..(*admin).clone() };
        let keys = [(ending.id.clone(), ending.clone())].into();
        let records = AccessRecords { version: 1, keys, ..Default::default() };
        let change = |change| records.changed(change, ChangeOrigin::Call(login), NOW);
        assert!(change(put(*key(3, Role::Producer.actions()))).is_ok());
        assert!(change(put(ApiKey { expires_at: after(120), ..ending.clone() })).is_ok());
        let error = change(put(ApiKey { expires_at: after(59), ..ending })).unwrap_err();
        assert!(error.to_string().contains("from the address of this call"), "{error}");
    }

    /// Returns keys like this one, each with an id of its own.
    fn like(key: &ApiKey, count: usize) -> BTreeMap<KeyId, ApiKey> {
        let with_id = |digit: usize| {
            let mut random = [0; 10];
            let digits = digit.to_le_bytes();
            let nibbles = digits[..2].iter().flat_map(|byte| [byte & 15, byte >> 4]);
            random.iter_mut().zip(nibbles).for_each(|(to, from)| *to = from);
            ApiKey { id: KeyId::generate(random), ..key.clone() }
        };
        (0..count).map(with_id).map(|key| (key.id.clone(), key)).collect()
    }

    #[test]
    fn a_tenant_uses_up_no_keys_of_others() {
        let of = |digit, name: &str| {
            let namespaces = vec![NamespacePattern::new(name).unwrap()];
            ApiKey { namespaces, ..*key(digit, Role::Producer.actions()) }
        };
        let tenant = Tenant {
            name: TenantName::new("acme").unwrap(),
            namespaces: vec![NamespacePattern::new("acme-*").unwrap()],
            limits: TenantLimits::default(),
            implicit_namespaces: false,
            destinations: None,
        };
        let mut keys = like(&of(1, "acme-a"), TENANT_KEYS_MAX);
        let admin = *key(31, Actions::all());
        keys.insert(admin.id.clone(), admin);
        let tenants = [(tenant.name.clone(), tenant)].into();
        let records = AccessRecords { version: 1, keys, tenants, ..Default::default() };
        let put = |key: ApiKey| {
            let put = AccessChange::Put(Box::new(key));
            records.changed(put, ChangeOrigin::Call(AdminLogin::ANY), NOW)
        };
        let error = put(of(30, "acme-b")).unwrap_err().to_string();
        assert!(error.contains("tenant acme") && error.contains("1000"), "{error}");
        assert!(put(of(30, "other")).is_ok() && put(of(30, "*")).is_ok());
        // Its keys can be changed, and there is a place after one is gone.
        let first = records.keys.values().next().unwrap().clone();
        assert!(put(ApiKey { disabled: true, ..first.clone() }).is_ok());
        let origin = ChangeOrigin::Call(AdminLogin::ANY);
        let less = records.changed(AccessChange::Delete(first.id), origin, NOW).unwrap();
        let put = AccessChange::Put(Box::new(of(30, "acme-b")));
        assert!(less.changed(put, origin, NOW).is_ok());
    }

    #[test]
    fn a_key_with_keys_uses_up_no_keys_of_others() {
        let (admin, team) = (*key(31, Actions::all()), *key(30, Role::Admin.actions()));
        let patterns = vec![NamespacePattern::new("orders*").unwrap()];
        let team = ApiKey { namespaces: patterns, ..team };
        let (own, of_admin) = (team.clone().created_with(&team), team.clone().created_with(&admin));
        let mut keys = like(&own, ORIGIN_KEYS_MAX);
        let first = keys.values().next().unwrap().clone();
        keys.extend([admin, team].map(|key| (key.id.clone(), key)));
        let records = AccessRecords { version: 1, keys, ..Default::default() };
        let origin = ChangeOrigin::Call(AdminLogin::ANY);
        let put = |records: &AccessRecords, key: &ApiKey| {
            let key = ApiKey { id: KeyId::generate([29; 10]), ..key.clone() };
            records.changed(AccessChange::Put(Box::new(key)), origin, NOW)
        };
        for key in [own.clone(), own.clone().created_with(&first)] {
            let error = put(&records, &key).unwrap_err().to_string();
            assert!(error.contains("1000 keys that descend from"), "{error}");
        }
        assert!(put(&records, &of_admin).is_ok());
        let less = records.changed(AccessChange::Delete(first.id), origin, NOW).unwrap();
        assert!(put(&less, &own).is_ok());
    }

    #[test]
    fn keys_are_bounded() {
        let keys = like(&key(1, Actions::all()), KEYS_MAX);
        let records = AccessRecords { keys, ..AccessRecords::default() };
        assert_eq!(records.keys.len(), KEYS_MAX);
        let more = AccessChange::Put(Box::new(ApiKey {
            id: KeyId::generate([31; 10]),
            ..*key(1, Actions::all())
        }));
        let error = records
            .changed(more, ChangeOrigin::Call(AdminLogin::ANY), NOW)
            .unwrap_err()
            .to_string();
        assert!(error.contains("10000"), "{error}");
    }
}
