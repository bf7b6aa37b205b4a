//! States of the keys, and the keys and tenants in a state.

use std::collections::BTreeMap;

use duly_core::access::{KeyId, TenantName};
use duly_store::{AccessChange, AccessRecords, Result};
use serde::{Serialize, de::DeserializeOwned};

use crate::{error::damaged, reply::Reply};

/// Begins the id of a key's record.
const KEY: &str = "key:";
/// Begins the id of a tenant's record.
const TENANT: &str = "tenant:";
/// Bits of a tag.
const TAG_BITS: u32 = 24;

/// The state of the keys in a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessState {
    /// Version of the keys; 0 if there never was a key.
    pub(super) version: u64,
    /// Random number of the change that made the version.
    pub(super) tag: u32,
}

/// The keys in a state.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) state: AccessState,
    pub(super) records: AccessRecords,
}

/// Records by their ids, as scripts take and return them: an empty record is removed.
pub(super) type Records = Vec<(String, Vec<u8>)>;

/// The way in which a script writes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// Writes these records.
    Changes,
    /// Replaces all records by these.
    All,
}

impl AccessState {
    /// Parses the text of a marker; it is empty if there never was a key.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let (version, tag) = text.split_once(':')?;
        let tag = u32::from_str_radix(tag, 16).ok().filter(|tag| *tag >> TAG_BITS == 0)?;
        Some(Self { version: version.parse().ok()?, tag })
    }

    /// Parses the next text of a reply.
    pub(crate) fn from_reply(reply: &mut Reply) -> Result<Self> {
        Self::parse(&reply.text()?).ok_or_else(|| damaged("the state of keys"))
    }

    /// Returns the text of a marker.
    pub(super) fn to_text(self) -> String {
        if self.version == 0 { String::new() } else { format!("{}:{:06x}", self.version, self.tag) }
    }

    /// Returns another state, of this version.
    pub(super) fn new(version: u64) -> Self {
        Self { version, tag: rand::random::<u32>() >> (u32::BITS - TAG_BITS) }
    }

    /// Returns the version of the records: that of the state, and its tag in the lowest bits.
    pub(super) fn records_version(self) -> u64 {
        self.version << TAG_BITS | u64::from(self.tag)
    }
}

impl Snapshot {
    /// Returns the snapshot with the records that have changed since, or with all records.
    pub(super) fn with(
        &self,
        state: AccessState,
        mode: WriteMode,
        changed: Records,
    ) -> Result<Self> {
        let mut records = match mode {
            WriteMode::All => AccessRecords::default(),
            WriteMode::Changes => self.records.clone(),
        };
        for (id, record) in changed {
            let key = id.strip_prefix(KEY).map(KeyId::new);
            let tenant = id.strip_prefix(TENANT).map(TenantName::new);
            match (key, tenant) {
                (Some(Ok(key)), _) => apply(&mut records.keys, key, &record, &id)?,
                (_, Some(Ok(tenant))) => apply(&mut records.tenants, tenant, &record, &id)?,
                _ => return Err(damaged(format!("the id of a record of keys: {id:?}"))),
            }
        }
        records.version = state.records_version();
        Ok(Self { state, records })
    }

    /// Returns all records.
    pub(super) fn all(&self) -> Records {
        let AccessRecords { keys, tenants, .. } = &self.records;
        let keys = keys.iter().map(|(id, key)| (format!("{KEY}{id}"), text(key)));
        let tenants = tenants.iter().map(|(name, it)| (format!("{TENANT}{name}"), text(it)));
        keys.chain(tenants).collect()
    }
}

/// Writes a record into a map; an empty one is removed.
fn apply<K: Ord, V: DeserializeOwned>(
    map: &mut BTreeMap<K, V>,
    key: K,
    record: &[u8],
    id: &str,
) -> Result<()> {
    if record.is_empty() {
        map.remove(&key);
        return Ok(());
    }
    let value = serde_json::from_slice(record);
    map.insert(key, value.map_err(|error| damaged(format!("{id}: {error}")))?);
    Ok(())
}

/// Returns the record that a change writes, as it was checked; an empty one is removed.
pub(super) fn changed_record(change: &AccessChange) -> (String, Vec<u8>) {
    match change {
        AccessChange::Put(key) => (format!("{KEY}{}", key.id), text(key)),
        AccessChange::Delete(id) => (format!("{KEY}{id}"), Vec::new()),
        AccessChange::PutTenant(tenant) => (format!("{TENANT}{}", tenant.name), text(tenant)),
        AccessChange::DeleteTenant(name) => (format!("{TENANT}{name}"), Vec::new()),
    }
}

fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("keys and tenants are JSON")
}
