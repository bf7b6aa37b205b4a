//! The audit log, as a store keeps it: what administrators have done.
//!
//! A store keeps [`AUDIT_ENTRIES_MAX`] entries of the last [`AUDIT_AGE_MAX`]. A full log loses the oldest entry of
//! the caller who has the most: so callers with fewer entries lose none, and no caller erases the entries of
//! another one. A caller is the key with the subject that an entry names; keys that descend from one key are one caller,
//! since one holder can create many. A store does not know more of an entry.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque, binary_heap::PeekMut},
    str::FromStr,
};

use duly_core::{Invalid, Millis, Timestamp};
use serde::Deserialize;

use crate::StoreFuture;

/// Most entries that a store keeps.
pub const AUDIT_ENTRIES_MAX: usize = 10_000;
/// Longest time for which a store keeps an entry.
pub const AUDIT_AGE_MAX: Millis = Millis::from_secs(90 * 86_400);

/// Digits of an id: 16 of the time and 16 random ones.
const ID_DIGITS: usize = 32;

/// The calls of a store that keeps an audit log. See [`Store::audit`](crate::Store::audit).
pub trait AuditStore: Send + Sync {
    /// Adds entries to the audit log, which is bounded. An entry that is there already stays. Returns the number of
    /// entries that the log lost because it was full: none of a caller while another one has more.
    fn append_audit(&self, entries: Vec<AuditEntry>) -> StoreFuture<'_, usize>;

    /// Returns at most `limit` entries of the audit log before an id, the newest first.
    fn read_audit(&self, before: Option<AuditId>, limit: usize)
    -> StoreFuture<'_, Vec<AuditEntry>>;
}

/// The id of an entry. Ids are in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditId(u128);

impl AuditId {
    /// Creates the id of an entry that is made at a time.
    pub fn new(at: Timestamp, random: u64) -> Self {
        Self(u128::from(at.unix_ms()) << 64 | u128::from(random))
    }

    /// Returns the lowest id of the entries that are at most this much older.
    #[must_use]
    pub fn earlier(self, by: Millis) -> Self {
        Self((self.0 >> 64).saturating_sub(u128::from(by.ms())) << 64)
    }
}

impl std::fmt::Display for AuditId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for AuditId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_id = text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u128::from_str_radix(text, 16).ok().filter(|_| is_id).map(Self);
        id.ok_or_else(|| Invalid::new("cursor", text, "the cursor of the page before"))
    }
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// What was done: one line of JSON.
    pub line: String,
}

/// The caller who made an entry.
#[derive(Debug, Default, Deserialize)]
struct EntryCaller<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    subject: Option<Cow<'a, str>>,
    /// The key from which `key` descends.
    #[serde(borrow)]
    origin: Option<Cow<'a, str>>,
}

impl<'a> EntryCaller<'a> {
    /// Returns the key and the subject whose entries count together.
    fn share(self) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        (self.origin.or(self.key), self.subject)
    }
}

/// Entries in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditEntries(BTreeMap<AuditId, String>);

impl AuditEntries {
    /// Adds entries, and removes those that are too many or too old. Returns the number of those that were too many.
    pub fn append(
        &mut self,
        entries: impl IntoIterator<Item = AuditEntry>,
        now: Timestamp,
    ) -> usize {
        self.merge(entries);
        let oldest = AuditId::new(now, 0).earlier(AUDIT_AGE_MAX);
        self.0 = self.0.split_off(&oldest);
        let surplus = self.surplus();
        for id in &surplus {
            self.0.remove(id);
        }
        surplus.len()
    }

    /// Adds entries, and removes none.
    pub fn merge(&mut self, entries: impl IntoIterator<Item = AuditEntry>) {
        self.0.extend(entries.into_iter().map(|entry| (entry.id, entry.line)));
    }

    /// Returns the entries that are too many: one by one the oldest of the caller who has the most.
    pub fn surplus(&self) -> Vec<AuditId> {
        let count = self.0.len().saturating_sub(AUDIT_ENTRIES_MAX);
        if count == 0 {
            return Vec::new();
        }
        let mut callers = BTreeMap::<_, VecDeque<AuditId>>::new();
        for (id, line) in &self.0 {
            let caller = serde_json::from_str::<EntryCaller<'_>>(line).unwrap_or_default();
            callers.entry(caller.share()).or_default().push_back(*id);
        }
        let mut most: BinaryHeap<_> =
            callers.into_values().map(|ids| (ids.len(), Reverse(ids))).collect();
        let removed = (0..count).filter_map(|_| {
            let mut first = most.peek_mut()?;
            let (left, Reverse(ids)) = &mut *first;
            *left -= 1;
            let id = ids.pop_front();
            if *left == 0 {
                PeekMut::pop(first);
            }
            id
        });
        removed.collect()
    }

    /// Returns at most `limit` entries before an id, the newest first.
    pub fn page(&self, before: Option<AuditId>, limit: usize) -> Vec<AuditEntry> {
        let newest_first = self.0.iter().rev();
        let wanted = newest_first.filter(|(id, _)| before.is_none_or(|before| **id < before));
        wanted.take(limit).map(|(id, line)| AuditEntry { id: *id, line: line.clone() }).collect()
    }

    /// Returns all entries, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = AuditEntry> {
        self.0.iter().map(|(id, line)| AuditEntry { id: *id, line: line.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::saturating_from_unix_ms(1_800_000_000_000 + ms)
    }

    fn entry(ms: u64) -> AuditEntry {
        AuditEntry { id: AuditId::new(at(ms), ms), line: ms.to_string() }
    }

    #[test]
    fn entries_are_bounded_by_count_and_age() {
        let mut entries = AuditEntries::default();
        let all = 0..AUDIT_ENTRIES_MAX as u64 + 5;
        entries.append(all.map(entry), at(0));
        assert_eq!((entries.0.len(), entries.iter().next()), (AUDIT_ENTRIES_MAX, Some(entry(5))));
        entries.append([], at(AUDIT_AGE_MAX.ms() + 100));
        assert_eq!(entries.iter().next(), Some(entry(100)));
    }

    #[test]
    fn a_caller_with_many_entries_displaces_none_of_others() {
        let max = AUDIT_ENTRIES_MAX as u64;
        let by = |key: &str, subject: &str, ms: u64| AuditEntry {
            line: format!(r#"{{"key":"{key}","subject":"{subject}","n":{ms}}}"#),
            ..entry(ms)
        };
        let few = (0..9).map(|ms| by("admin", "ann", ms)).chain([entry(9)]);
        let mut entries = AuditEntries::default();
        assert_eq!(entries.append(few.clone(), at(0)), 0);
        assert_eq!(entries.append((10..max + 500).map(|ms| by("admin", "bob", ms)), at(0)), 500);
        let kept = few.chain((510..max + 500).map(|ms| by("admin", "bob", ms)));
        assert!(entries.iter().eq(kept), "the oldest of the caller with the most");
        // A second flood takes half of the log.
        entries.append((max + 500..3 * max).map(|ms| by("weak", "", ms)), at(0));
        let count = |text: &str| entries.iter().filter(|it| it.line.contains(text)).count();
        assert_eq!((count("ann"), count("bob"), count("weak")), (9, 4_995, 4_995));
    }

    #[test]
    fn keys_of_one_origin_are_one_caller() {
        let max = AUDIT_ENTRIES_MAX as u64;
        let by = |key: u64, origin: &str, ms: u64| AuditEntry {
            line: format!(r#"{{"key":"{key}",{origin}"n":{ms}}}"#),
            ..entry(ms)
        };
        let admin = (0..200).map(|ms| by(1, "", ms));
        let mut entries = AuditEntries::default();
        entries.append(admin.clone(), at(0));
        let flood = (200..3 * max).map(|ms| by(2 + ms % 1_000, r#""origin":"2","#, ms));
        entries.append(flood, at(0));
        assert!(entries.iter().take(200).eq(admin), "none of the administrator is lost");
    }

    #[test]
    fn pages_go_back_in_time() {
        let mut entries = AuditEntries::default();
        entries.append((1..=5).map(entry), at(5));
        let page = entries.page(None, 2);
        assert_eq!(page, [entry(5), entry(4)]);
        let cursor: AuditId = page[1].id.to_string().parse().unwrap();
        assert_eq!(entries.page(Some(cursor), 9), [entry(3), entry(2), entry(1)]);
        for text in ["", "1", "+0000000000000000000000000000001", "x"] {
            assert!(text.parse::<AuditId>().is_err(), "{text}");
        }
    }
}
