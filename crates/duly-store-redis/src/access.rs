//! Keys of callers.
//!
//! 1. Every shard has all keys, so the loss of a server loses none and revives none. The marker of a shard
//!    has their *state*: the version of the [`AccessRecords`], and a random tag of their last change.
//! 2. Shard 0 orders the changes: a change names the state that it is based on. The other shards take it
//!    from there. It is acknowledged when a majority of all shards, and of the coordinator shards of the
//!    members, has it. So while the server of shard 0 is away, keys work and cannot be changed.
//! 3. A node that polls a majority of the coordinator shards sees every acknowledged change.
//! 4. A shard that misses a change is given it by the next poll of all shards, or by a repair.
//! 5. Shard 0 may lose its last change in a failover, and give its version to another one. Then the keys
//!    that most shards have win, under a new version.
//! 6. From the first key on, markers have another format: builds that know no keys refuse the database.

use std::collections::BTreeMap;

use duly_core::{
    Millis, Timestamp,
    access::{ApiKey, KeyId},
    shard::ShardId,
};
use duly_store::{AccessChange, AccessRecords, ChangeOrigin, Error, Result};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;

use crate::{
    change::{TRIES, at_once, digits},
    deployment::Deployment,
    error::{damaged, in_doubt, unavailable},
    marker::KEYS_FORMAT,
    reply::Reply,
    script::Script,
};

/// Shard that orders the changes.
const COORDINATOR: ShardId = ShardId(0);
/// Begins the id of a key's record.
const KEY: &str = "key:";

/// The state of the keys in a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessState {
    /// Version of the records; 0 if there never was a key.
    version: u64,
    /// Random text, of the change that made the version.
    tag: String,
}

/// The keys in a state.
#[derive(Debug, Clone, Default)]
struct Snapshot {
    state: AccessState,
    records: AccessRecords,
}

/// What this node knows of the keys.
#[derive(Debug, Default)]
pub(crate) struct KnownAccess {
    /// The newest state that it has seen, and a shard that has it.
    newest: Mutex<(AccessState, ShardId)>,
    /// The keys that it has read.
    read: tokio::sync::Mutex<Snapshot>,
}

/// Records by their ids, as scripts take and return them: an empty record is removed.
type Records = Vec<(String, Vec<u8>)>;

/// The way in which a script writes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
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
        Some(Self { version: version.parse().ok()?, tag: tag.to_owned() })
    }

    /// Parses the next text of a reply.
    pub(crate) fn from_reply(reply: &mut Reply) -> Result<Self> {
        Self::parse(&reply.text()?).ok_or_else(|| damaged("the state of keys"))
    }

    fn to_text(&self) -> String {
        if self.version == 0 { String::new() } else { format!("{}:{}", self.version, self.tag) }
    }

    /// Returns another state, of this version.
    fn new(version: u64) -> Self {
        Self { version, tag: format!("{:016x}", rand::random::<u64>()) }
    }
}

impl Snapshot {
    /// Applies records that have changed since, or all records.
    fn apply(&mut self, state: AccessState, mode: WriteMode, changed: Records) -> Result<()> {
        if mode == WriteMode::All {
            self.records.keys.clear();
        }
        for (id, record) in changed {
            let id = id.strip_prefix(KEY).and_then(|id| KeyId::new(id).ok());
            let id = id.ok_or_else(|| damaged("the id of a key"))?;
            if record.is_empty() {
                self.records.keys.remove(&id);
                continue;
            }
            let key: ApiKey = serde_json::from_slice(&record)
                .map_err(|error| damaged(format!("key {id}: {error}")))?;
            self.records.keys.insert(id, key);
        }
        self.records.version = state.version;
        self.state = state;
        Ok(())
    }

    /// Returns all records.
    fn all(&self) -> Records {
        self.records.keys.iter().map(|(id, key)| record(id, Some(key))).collect()
    }
}

/// Returns the record of a key; `None` removes it.
fn record(id: &KeyId, key: Option<&ApiKey>) -> (String, Vec<u8>) {
    let record = key.map(|key| serde_json::to_vec(key).expect("keys are JSON"));
    (format!("{KEY}{id}"), record.unwrap_or_default())
}

impl KnownAccess {
    /// Notes that a shard has a state.
    pub(crate) fn note(&self, shard: ShardId, state: AccessState) {
        let mut newest = self.newest.lock();
        if state >= newest.0 {
            *newest = (state, shard);
        }
    }

    /// Returns `true` if there have been keys.
    pub(crate) fn is_used(&self) -> bool {
        self.newest.lock().0.version > 0
    }
}

impl Deployment {
    /// Returns the keys if their version is not `known`.
    ///
    /// # Errors
    /// When no majority of the coordinator shards of the members replies.
    pub(crate) async fn read_access(&self, known: u64) -> Result<Option<AccessRecords>> {
        let list = self.list.lock().own.shards.clone();
        let needed = list.len() / 2 + 1;
        let polls = list.iter().map(|shard| self.access_state(*shard).boxed());
        let mut polls = FuturesUnordered::from_iter(polls);
        let (mut replied, mut failed) = (0, None);
        // A shard that hangs delays nothing.
        while let Some(state) = polls.next().await {
            match state {
                Ok(_) => replied += 1,
                Err(error) => failed = Some(error),
            }
            if replied == needed {
                break;
            }
        }
        if replied < needed {
            return Err(failed.unwrap_or_else(|| unavailable("there is no coordinator shard")));
        }
        let mut read = self.access.read.lock().await;
        let (state, shard) = self.access.newest.lock().clone();
        if state > read.state {
            self.load(shard, &mut read).await?;
        }
        Ok(Some(read.records.clone()).filter(|records| records.version != known))
    }

    /// Changes the keys if their version still is `seen`. Returns them as they are then; `None` if another
    /// change came first.
    pub(crate) async fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> Result<Option<AccessRecords>> {
        let older = self.older_members().await?;
        if !older.is_empty() {
            let reason = format!(
                "keys can be changed once no node of an older version is there: {}",
                older.join(", ")
            );
            return Err(Error::Unavailable { reason, retry_after: Millis::from_secs(1) });
        }
        let states = self.access_states().await;
        let replied: Vec<ShardId> = states.iter().map(|(shard, _)| *shard).collect();
        if !self.is_majority(&replied) {
            return Err(unavailable("keys cannot be changed: no majority of the shards replies"));
        }
        self.settle_access(states).await?;
        let mut read = self.access.read.lock().await;
        let now = self.load(COORDINATOR, &mut read).await.map_err(away)?;
        if read.records.version != seen {
            return Ok(None);
        }
        let before = read.state.clone();
        let id = change.id().clone();
        let records = read.records.changed(change, origin, now)?;
        let state = AccessState::new(records.version);
        let changed = vec![record(&id, records.keys.get(&id))];
        let write = self.write_access(COORDINATOR, WriteMode::Changes, [&before, &state], &changed);
        if write.await.map_err(away)?.is_some() {
            return Ok(None);
        }
        *read = Snapshot { state, records };
        let next = read.clone();
        drop(read);
        self.access.note(COORDINATOR, next.state.clone());
        self.spread_access(&before, &next, &changed).await?;
        Ok(Some(next.records))
    }

    /// Has the other shards take a change.
    ///
    /// # Errors
    /// When no majority of all shards, or of the coordinator shards of the members, has taken it.
    async fn spread_access(
        &self,
        before: &AccessState,
        next: &Snapshot,
        changed: &Records,
    ) -> Result<()> {
        let takes = self.others(COORDINATOR).map(async |shard| {
            let taken = self.take_access(shard, before, next, changed).await;
            (shard, taken)
        });
        let mut have = vec![COORDINATOR];
        let mut missing = None;
        for (shard, taken) in at_once(takes).await {
            match taken {
                Ok(()) => have.push(shard),
                Err(error) => missing = Some(error),
            }
        }
        if self.is_majority(&have) {
            return Ok(());
        }
        let missing = missing.map_or_else(String::new, |error| error.to_string());
        Err(in_doubt(format!("the keys are not in a majority of the shards yet: {missing}")))
    }

    /// Returns `true` if these are a majority of all shards, and of the coordinator shards of the members.
    fn is_majority(&self, shards: &[ShardId]) -> bool {
        let list = &self.list.lock().own.shards;
        let listed = list.iter().filter(|shard| shards.contains(shard)).count();
        shards.len() * 2 > usize::from(self.shards) && listed * 2 > list.len()
    }

    /// Has a shard take a change, or all keys if it has missed an earlier one.
    async fn take_access(
        &self,
        shard: ShardId,
        before: &AccessState,
        next: &Snapshot,
        changed: &Records,
    ) -> Result<()> {
        let states = [before, &next.state];
        let mut found = self.write_access(shard, WriteMode::Changes, states, changed).await?;
        for _ in 0..TRIES {
            match found {
                None => return Ok(()),
                Some(other) if other == next.state || other.version > next.state.version => {
                    return Ok(());
                }
                Some(other) if other.version == next.state.version => break,
                Some(other) => {
                    let states = [&other, &next.state];
                    found = self.write_access(shard, WriteMode::All, states, &next.all()).await?;
                }
            }
        }
        Err(unavailable(format!("shard {} has other keys", shard.0)))
    }

    /// Returns the states of the shards that reply and take calls.
    pub(crate) async fn access_states(&self) -> Vec<(ShardId, AccessState)> {
        let shards = (0..self.shards).map(ShardId);
        let polls =
            at_once(shards.map(async |shard| (shard, self.access_state(shard).await))).await;
        let polls = polls.into_iter();
        polls.filter_map(|(shard, state)| Some((shard, state.ok()?))).collect()
    }

    /// Gives each of these shards the newest keys.
    pub(crate) async fn settle_access(&self, states: Vec<(ShardId, AccessState)>) -> Result<()> {
        let Some(version) = states.iter().map(|(_, state)| state.version).max() else {
            return Ok(());
        };
        let mut holders: BTreeMap<AccessState, Vec<ShardId>> = BTreeMap::new();
        for (shard, state) in &states {
            if state.version == version {
                holders.entry(state.clone()).or_default().push(*shard);
            }
        }
        let has_conflict = holders.len() > 1;
        let most = holders.into_iter().max_by_key(|(_, shards)| shards.len());
        let (state, holder) = most.map(|(state, shards)| (state, shards[0])).expect("it has one");
        if states.iter().all(|(_, other)| *other == state) {
            return Ok(());
        }
        let mut newest = Snapshot::default();
        self.load(holder, &mut newest).await?;
        if has_conflict {
            tracing::warn!(
                version,
                "shards had different keys of one version after a failover; those of most shards are kept"
            );
            newest.records.version += 1;
            newest.state = AccessState::new(newest.records.version);
            let own = states.iter().find(|(shard, _)| *shard == COORDINATOR);
            let (_, own) =
                own.ok_or_else(|| unavailable("the server of shard 0 does not reply"))?;
            let states = [own, &newest.state];
            let all = newest.all();
            if self.write_access(COORDINATOR, WriteMode::All, states, &all).await?.is_some() {
                return Err(unavailable("keys changed meanwhile"));
            }
            self.access.note(COORDINATOR, newest.state.clone());
        }
        let newest = &newest;
        let takes = states.into_iter().filter(|(_, state)| *state != newest.state);
        let takes = takes.map(|(shard, state)| async move {
            let (mode, records) = match has_conflict {
                true => (WriteMode::All, newest.all()),
                false => match self.read_records(holder, &state).await? {
                    (_, found, mode, records) if found == newest.state => (mode, records),
                    // A change that is under way reaches the shard without this.
                    _ => return Ok(()),
                },
            };
            self.write_access(shard, mode, [&state, &newest.state], &records).await.map(drop)
        });
        at_once(takes).await.into_iter().collect()
    }

    /// Reads the state of the keys in a shard.
    async fn access_state(&self, shard: ShardId) -> Result<AccessState> {
        let marker = self.router.marker(shard).await?;
        let marker = marker.filter(|it| it.identity.id == self.identity.id && it.held.is_none());
        let state =
            marker.ok_or_else(|| unavailable(format!("shard {} takes no calls", shard.0)))?;
        self.access.note(shard, state.access.clone());
        Ok(state.access)
    }

    /// Reads what a shard has changed since a snapshot into the snapshot. Returns the time there.
    async fn load(&self, shard: ShardId, snapshot: &mut Snapshot) -> Result<Timestamp> {
        let (now, state, mode, records) = self.read_records(shard, &snapshot.state).await?;
        snapshot.apply(state, mode, records)?;
        Ok(now)
    }

    /// Reads the records of a shard that have changed since a state, or all of them.
    async fn read_records(
        &self,
        shard: ShardId,
        since: &AccessState,
    ) -> Result<(Timestamp, AccessState, WriteMode, Records)> {
        let arguments = vec![since.to_text().into_bytes()];
        let mut reply = self.call_script(shard, Script::Access, arguments).await?;
        let (now, state) = (reply.time()?, AccessState::from_reply(&mut reply)?);
        let mode = match reply.text()?.as_str() {
            "all" => WriteMode::All,
            _ => WriteMode::Changes,
        };
        Ok((now, state, mode, reply.rest(|reply| Ok((reply.text()?, reply.bytes()?)))?))
    }

    /// Writes records in a shard whose state is the first of `states`; the second one is its state then.
    /// Returns its state instead if it is another one.
    async fn write_access(
        &self,
        shard: ShardId,
        mode: WriteMode,
        [before, next]: [&AccessState; 2],
        records: &Records,
    ) -> Result<Option<AccessState>> {
        let mode = match mode {
            WriteMode::Changes => "changes",
            WriteMode::All => "all",
        };
        let mut arguments = vec![mode.into(), before.to_text().into(), next.to_text().into()];
        arguments.push(digits(KEYS_FORMAT));
        arguments
            .extend(records.iter().flat_map(|(id, record)| [id.clone().into(), record.clone()]));
        let mut reply = self.call_script(shard, Script::ChangeAccess, arguments).await?;
        if reply.text()? == "DONE" {
            return Ok(None);
        }
        AccessState::from_reply(&mut reply).map(Some)
    }
}

/// Returns the error of a change while shard 0 does not reply.
fn away(error: Error) -> Error {
    match error {
        Error::Unavailable { reason, retry_after } => {
            let reason = format!("keys cannot be changed while shard 0 takes no calls: {reason}");
            Error::Unavailable { reason, retry_after }
        }
        error => error,
    }
}
