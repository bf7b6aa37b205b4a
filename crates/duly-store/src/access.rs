//! Keys of callers, and tenants, as a store keeps them.
//!
//! 1. Each change increases the version. Version 0 means that the store never had a key.
//! 2. A change names the version that it is based on, and is refused if there is a newer one. So of two
//!    callers who each remove one of the last two administrators, one is refused.
//! 3. An administrator can always act: a change that leaves no valid administrator key is refused, unless it
//!    is made offline.
//! 4. Records that were restored from a backup admit no one until an operator confirms them: a key that was
//!    revoked after the backup must not work again.

use std::collections::BTreeMap;

use duly_core::{
    Invalid, Timestamp,
    access::{ApiKey, KeyId, Tenant, TenantName},
};
use serde::{Deserialize, Serialize};

/// Most keys of a store.
pub const KEYS_MAX: usize = 10_000;
/// Most tenants of a store.
pub const TENANTS_MAX: usize = 1_000;

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
    /// A call: it must leave a valid administrator key.
    Call,
    /// A command on a store that no server uses.
    Offline,
}

impl AccessRecords {
    /// Returns `true` if a store has had keys: callers without a key are not admitted.
    pub const fn are_required(&self) -> bool {
        self.version > 0
    }

    /// Returns `true` if there is an administrator key that is valid at `now`.
    pub fn has_admin(&self, now: Timestamp) -> bool {
        self.keys.values().any(|key| key.is_admin() && key.is_valid(now))
    }

    /// Returns the end of the enabled administrator key that is valid longest; `None` if it has no end, and
    /// the beginning of time if there is no such key.
    pub fn admin_end(&self) -> Option<Timestamp> {
        let admins = self.keys.values().filter(|key| key.is_admin() && !key.disabled);
        let ends: Option<Vec<Timestamp>> = admins.map(|key| key.expires_at).collect();
        ends.map(|ends| ends.into_iter().max().unwrap_or(Timestamp::MIN))
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
        match change {
            AccessChange::Put(key) => {
                let key = key.check()?;
                let same =
                    records.keys.values().find(|it| it.id != key.id && it.subject == key.subject);
                if let (Some(subject), Some(other)) = (&key.subject, same) {
                    let allowed = format!("a subject without a key: key {} has it", other.id);
                    return Err(Invalid::new("subject", subject, allowed));
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
        if origin == ChangeOrigin::Call && !records.has_admin(now) {
            let allowed = "left with at least one enabled key with the role admin in all namespaces \
                           (*): create another one first";
            return Err(Invalid::unseen("keys", allowed));
        }
        records.version += 1;
        Ok(records)
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

#[cfg(test)]
mod tests {
    use duly_core::access::{Actions, NamespacePattern, PresentedKey, Role};

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
        let (call, offline) = (ChangeOrigin::Call, ChangeOrigin::Offline);
        let first = AccessRecords::default();
        let producer = AccessChange::Put(key(2, Role::Producer.actions()));
        assert!(change(&first, producer.clone(), call).is_err());
        let one = change(&first, AccessChange::Put(admin.clone()), offline).unwrap();
        assert_eq!((one.version, one.are_required(), first.are_required()), (1, true, false));
        let two = change(&one, producer, call).unwrap();
        assert_eq!((two.version, two.keys.len()), (2, 2));
        assert_eq!((first.admin_end(), two.admin_end()), (Some(Timestamp::MIN), None));
        let ends = ApiKey { expires_at: Some(NOW), ..*admin.clone() };
        let ending = change(&two, AccessChange::Put(Box::new(ends)), offline).unwrap();
        assert_eq!(ending.admin_end(), Some(NOW));
        let delete = AccessChange::Delete(admin.id.clone());
        assert!(change(&two, delete.clone(), call).is_err());
        let disabled = AccessChange::Put(Box::new(ApiKey { disabled: true, ..*admin.clone() }));
        assert!(change(&two, disabled, call).is_err());
        let ended = AccessChange::Put(Box::new(ApiKey { expires_at: Some(NOW), ..*admin }));
        assert!(change(&two, ended, call).is_err());
        assert!(change(&two, delete.clone(), offline).is_ok());
        let second = AccessChange::Put(key(3, Actions::all()));
        let three = change(&two, second, call).unwrap();
        assert!(change(&three, delete, call).is_ok());
    }

    #[test]
    fn keys_are_bounded() {
        let mut records = AccessRecords::default();
        for digit in 0..KEYS_MAX {
            let mut random = [0; 10];
            let digits = digit.to_le_bytes();
            let nibbles = digits[..2].iter().flat_map(|byte| [byte & 15, byte >> 4]);
            random.iter_mut().zip(nibbles).for_each(|(to, from)| *to = from);
            let key = ApiKey { id: KeyId::generate(random), ..*key(1, Actions::all()) };
            records.keys.insert(key.id.clone(), key);
        }
        assert_eq!(records.keys.len(), KEYS_MAX);
        let more = AccessChange::Put(Box::new(ApiKey {
            id: KeyId::generate([31; 10]),
            ..*key(1, Actions::all())
        }));
        let error = records.changed(more, ChangeOrigin::Call, NOW).unwrap_err().to_string();
        assert!(error.contains("10000"), "{error}");
    }
}
