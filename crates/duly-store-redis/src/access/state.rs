//! States of the keys, and the keys and tenants in a state.
//!
//! Each shard keeps a log of its last 1,000 changes, so the states before the present one are known: the
//! *history*. Two lines of changes that begin with the same state have different tags from there on, so a
//! node recognizes keys that do not follow from those that it knows. An item of the log is
//!
//! | text | the state |
//! |---|---|
//! | `version:tag` | was made by the change of the record with the id after it |
//! | `version:tag~` | came before all keys were written at once |
//! | `version:tag!` | was known to a node and lost by the shards, and an operator has decided what follows it |

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
/// Most states of a history; the log of a shard is as long.
const HISTORY_MAX: usize = 1_000;

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
    /// The states before it and itself, the oldest first.
    history: Vec<Past>,
}

/// A state in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Past {
    state: AccessState,
    /// `true`: the shards had lost it, and the operator's decision counts for each node that knows it or an
    /// older one.
    is_replaced: bool,
}

/// A record or an item of the log, as scripts take and return them.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    /// The state in the log; empty for a record of another time.
    pub(super) made: String,
    /// The id of the record; empty without one.
    pub(super) id: String,
    /// The record; it is removed if this is empty.
    pub(super) record: Vec<u8>,
}

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

impl Past {
    fn parse(text: &str) -> Option<Self> {
        let state = AccessState::parse(text.trim_end_matches(['~', '!']))?;
        Some(Self { state, is_replaced: text.ends_with('!') })
    }

    /// Returns the item of a log whose records are all written at once.
    fn to_entry(self) -> Entry {
        let mark = if self.is_replaced { '!' } else { '~' };
        Entry { made: format!("{}{mark}", self.state.to_text()), ..Entry::default() }
    }
}

impl Snapshot {
    /// Returns the snapshot with the records that have changed since, or with all records.
    pub(super) fn with(
        &self,
        state: AccessState,
        mode: WriteMode,
        changed: Vec<Entry>,
    ) -> Result<Self> {
        let (mut records, mut history) = match mode {
            WriteMode::All => (AccessRecords::default(), Vec::new()),
            WriteMode::Changes => (self.records.clone(), self.history.clone()),
        };
        for Entry { made, id, record } in changed {
            if !made.is_empty() {
                let past = Past::parse(&made).ok_or_else(|| damaged("the log of keys"))?;
                if history.last() != Some(&past) {
                    history.push(past);
                }
            }
            let key = id.strip_prefix(KEY).map(KeyId::new);
            let tenant = id.strip_prefix(TENANT).map(TenantName::new);
            match (key, tenant) {
                (Some(Ok(key)), _) => apply(&mut records.keys, key, &record, &id)?,
                (_, Some(Ok(tenant))) => apply(&mut records.tenants, tenant, &record, &id)?,
                _ if id.is_empty() => {}
                _ => return Err(damaged(format!("the id of a record of keys: {id:?}"))),
            }
        }
        Ok(Self { state, records, history }.trimmed())
    }

    /// Returns the snapshot that follows this one with these records. If it `replaces` another state, nodes
    /// that know that one take it too.
    pub(super) fn next(
        &self,
        state: AccessState,
        records: AccessRecords,
        replaces: Option<AccessState>,
    ) -> Self {
        let replaced = replaces.map(|state| Past { state, is_replaced: true });
        let own = Past { state, is_replaced: false };
        let history = self.history.iter().copied().chain(replaced).chain([own]).collect();
        Self { state, records, history }.trimmed()
    }

    fn trimmed(mut self) -> Self {
        self.history.drain(..self.history.len().saturating_sub(HISTORY_MAX));
        self.records.version = self.state.records_version();
        self
    }

    /// Returns `false` if a state is not known to come before this one: the shards lost it, or it is newer. A
    /// state that is older than the history counts as one that comes before.
    pub(super) fn follows(&self, known: AccessState) -> bool {
        let is_decided = |past: &Past| past.is_replaced && past.state.version >= known.version;
        let is_past = |past: &Past| past.state == known || is_decided(past);
        let begins_later =
            self.history.first().is_none_or(|first| first.state.version > known.version);
        let is_newer = self.state.version > known.version;
        self.state == known || self.history.iter().any(is_past) || (is_newer && begins_later)
    }

    /// Returns all records and the history.
    pub(super) fn all(&self) -> Vec<Entry> {
        let AccessRecords { keys, tenants, .. } = &self.records;
        let keys = keys.iter().map(|(id, key)| (format!("{KEY}{id}"), text(key)));
        let tenants = tenants.iter().map(|(name, it)| (format!("{TENANT}{name}"), text(it)));
        let records = keys.chain(tenants);
        let records = records.map(|(id, record)| Entry { id, record, ..Entry::default() });
        let past = self.history.iter().filter(|past| past.state != self.state);
        let own = Entry { made: self.state.to_text(), ..Entry::default() };
        past.map(|past| past.to_entry()).chain([own]).chain(records).collect()
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
pub(super) fn changed_record(change: &AccessChange, state: AccessState) -> Entry {
    let (id, record) = match change {
        AccessChange::Put(key) => (format!("{KEY}{}", key.id), text(key)),
        AccessChange::Delete(id) => (format!("{KEY}{id}"), Vec::new()),
        AccessChange::PutTenant(tenant) => (format!("{TENANT}{}", tenant.name), text(tenant)),
        AccessChange::DeleteTenant(name) => (format!("{TENANT}{name}"), Vec::new()),
    };
    Entry { made: state.to_text(), id, record }
}

fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("keys and tenants are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> AccessState {
        AccessState::parse(text).expect("a state")
    }

    /// Returns the keys of a state, as a shard with this log returns them.
    fn read(text: &str, log: &[&str]) -> Snapshot {
        let entry = |made: &&str| Entry { made: (*made).to_owned(), ..Entry::default() };
        let log = log.iter().map(entry).collect();
        Snapshot::default().with(state(text), WriteMode::All, log).expect("a log")
    }

    #[test]
    fn keys_follow_from_states_of_their_own_line() {
        let line = &["4:a", "5:b", "6:c"];
        let written_back = &["4:a", "5:b", "6:c", "7:d!", "8:e"];
        let check = |text: &str, log: &[&str], known: &str, expected: bool| {
            assert_eq!(read(text, log).follows(state(known)), expected, "{text} {log:?} {known}");
        };
        for known in ["", "4:a", "5:b", "6:c"] {
            check("6:c", line, known, true);
            check("8:e", written_back, known, true);
        }
        for known in ["5:f", "6:f", "7:f"] {
            check("6:c", line, known, false);
        }
        check("6:c", line, "3:f", true);
        check("6:c", &["6:c"], "5:f", true);
        check("", &[], "1:f", false);
        // The state that was replaced, and older ones of its line; a newer one is not known to be in it.
        for (known, expected) in [("5:f", true), ("7:d", true), ("8:f", false), ("9:f", false)] {
            check("8:e", written_back, known, expected);
        }
    }

    #[test]
    fn history_survives_a_write_of_all_keys() {
        let before = read("6:c", &["4:a", "5:b", "5:b", "6:c"]);
        let next = before.next(state("8:e"), AccessRecords::default(), Some(state("7:d")));
        let log: Vec<_> = next.all().into_iter().map(|entry| entry.made).collect();
        assert_eq!(log, ["4:00000a~", "5:00000b~", "6:00000c~", "7:00000d!", "8:00000e"]);
        let log: Vec<_> = log.iter().map(String::as_str).collect();
        assert_eq!(read("8:e", &log).history, next.history);
    }

    #[test]
    fn history_is_bounded() {
        let mut keys = Snapshot::default();
        for version in 1..=1_100 {
            let state = AccessState { version, tag: 0 };
            keys = keys.next(state, AccessRecords::default(), None);
        }
        assert_eq!((keys.history.len(), keys.history[0].state.version), (1_000, 101));
        assert!(keys.follows(state("7:f")), "it is older than the history");
    }
}
