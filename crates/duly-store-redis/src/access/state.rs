//! States of the keys, and the keys in a state.

use duly_core::access::{ApiKey, KeyId};
use duly_store::{AccessRecords, Result};

use crate::{error::damaged, reply::Reply};

/// Begins the id of a key's record.
const KEY: &str = "key:";
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
            let id = id.strip_prefix(KEY).and_then(|id| KeyId::new(id).ok());
            let id = id.ok_or_else(|| damaged("the id of a key"))?;
            if record.is_empty() {
                records.keys.remove(&id);
                continue;
            }
            let key: ApiKey = serde_json::from_slice(&record)
                .map_err(|error| damaged(format!("key {id}: {error}")))?;
            records.keys.insert(id, key);
        }
        records.version = state.records_version();
        Ok(Self { state, records })
    }

    /// Returns all records.
    pub(super) fn all(&self) -> Records {
        self.records.keys.iter().map(|(id, key)| record(id, Some(key))).collect()
    }
}

/// Returns the record of a key; `None` removes it.
pub(super) fn record(id: &KeyId, key: Option<&ApiKey>) -> (String, Vec<u8>) {
    let record = key.map(|key| serde_json::to_vec(key).expect("keys are JSON"));
    (format!("{KEY}{id}"), record.unwrap_or_default())
}
