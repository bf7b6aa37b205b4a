//! Keys of callers.
//!
//! 1. Every shard has all keys, so the loss of a server loses none and revives none. The marker of a shard
//!    has their *state*: a version, and a random tag of the change that made it. Shards with one state have
//!    the same keys. [`AccessRecords::version`] has both, so nodes never take one change for another.
//! 2. Shard 0 orders the changes: a change names the state that it is based on. The other shards take it
//!    from there. It is acknowledged when a majority of all shards, and of the coordinator shards of the
//!    members, has it. So while the server of shard 0 is away, keys work and cannot be changed.
//! 3. A node that polls a majority of the coordinator shards sees every acknowledged change.
//! 4. A shard that misses a change is given it by the next poll of all shards, by the next change, or by a
//!    repair.
//! 5. Shard 0 may lose its last change in a failover, and give its version to another one; or a node may have
//!    read a change that is lost. Then the keys that most shards have win, under a version above all that
//!    were seen. While too few shards reply to know what most have, nothing is decided.
//! 6. A change that a majority of the shards had is never given up without an operator: see [`rolled_back`].
//! 7. From the first key on, markers have the feature `keys`: builds that know no keys refuse the database.

mod poll;
mod rolled_back;
mod state;

use std::sync::Arc;

use duly_core::{Millis, Timestamp, shard::ShardId};
use duly_store::{AccessChange, AccessRecords, ChangeOrigin, Error, Result};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;

pub(crate) use self::{poll::AccessPoll, state::AccessState};
use self::{
    poll::{Holders, most},
    rolled_back::RolledBack,
    state::{Entry, Snapshot, WriteMode, changed_record},
};
use crate::{
    change::{TRIES, at_once},
    deployment::Deployment,
    error::{before_change, in_doubt, unavailable},
    features::KEYS,
    marker::list_of,
    script::Script,
};

/// Shard that orders the changes.
const COORDINATOR: ShardId = ShardId(0);
/// What this node knows of the keys.
#[derive(Debug, Default)]
pub(crate) struct KnownAccess {
    /// The newest state that it has seen in any shard.
    newest: Mutex<AccessState>,
    /// The keys that it has read.
    read: Mutex<Arc<Snapshot>>,
    /// The newest keys that a majority of the shards had, as far as it knows.
    settled: Mutex<Arc<Snapshot>>,
    /// The state that the latest poll of the coordinator shards found.
    polled: Mutex<Option<AccessState>>,
    /// The fault of shards whose keys do not follow from the settled ones.
    rolled_back: Mutex<Option<RolledBack>>,
}

/// The result of giving a change to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// The shard has it.
    Has,
    /// The shard has a newer change, which may be based on this one or not.
    Newer,
}

impl KnownAccess {
    /// Notes that a shard has a state.
    pub(crate) fn note(&self, state: AccessState) {
        let mut newest = self.newest.lock();
        *newest = state.max(*newest);
    }

    /// Returns `true` if there have been keys.
    pub(crate) fn is_used(&self) -> bool {
        self.newest.lock().version > 0
    }

    fn read(&self) -> Arc<Snapshot> {
        Arc::clone(&self.read.lock())
    }

    /// Keeps keys that were read, unless newer ones are there.
    fn keep(&self, snapshot: Arc<Snapshot>) {
        let mut read = self.read.lock();
        if snapshot.state > read.state {
            *read = snapshot;
        }
    }
}

impl Deployment {
    /// Returns the keys if their version is not `known`.
    ///
    /// # Errors
    /// When no majority of the coordinator shards of the members replies.
    pub(crate) async fn read_access(&self, known: u64) -> Result<Option<AccessRecords>> {
        let settled = self.access.settled();
        let list = self.list.lock().own.shards.clone();
        let needed = list.len() / 2 + 1;
        let polls =
            list.iter().map(|shard| async move { (*shard, self.access_state(*shard).await) });
        let mut polls = FuturesUnordered::from_iter(polls.map(FutureExt::boxed));
        let (mut found, mut failed) = (Vec::new(), None);
        // A shard that hangs delays nothing.
        while let Some((shard, state)) = polls.next().await {
            match state {
                Ok(state) => found.push((state, shard)),
                Err(error) => failed = Some(error),
            }
            if found.len() == needed {
                break;
            }
        }
        if found.len() < needed {
            return Err(self.too_few_reply(&list, found.len(), failed));
        }
        found.sort_unstable();
        let newest = found.last().map(|(state, _)| *state).unwrap_or_default();
        *self.access.polled.lock() = Some(newest);
        let mut snapshot = self.access.read();
        for (_, shard) in found.iter().rev().filter(|(state, _)| *state == newest) {
            if newest <= snapshot.state {
                break;
            }
            match self.load(*shard, &snapshot).await {
                Ok((_, loaded)) if loaded.follows(settled.state) => snapshot = loaded,
                // Callers are admitted by the keys of before, and the next poll of all shards reports it.
                Ok(_) => {
                    failed = None;
                    break;
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed.filter(|_| newest > snapshot.state) {
            return Err(error);
        }
        self.access.keep(Arc::clone(&snapshot));
        let is_known = snapshot.records.version == known;
        Ok((!is_known).then(|| snapshot.records.clone()))
    }

    /// Returns the error of a read of the keys to which too few of the coordinator shards in `list` reply. It names the
    /// masters and shards that cannot be used, with the remedy of each.
    fn too_few_reply(&self, list: &[ShardId], replies: usize, failed: Option<Error>) -> Error {
        let mut causes = self.health.lock().warnings.clone();
        if causes.is_empty() {
            causes.extend(failed.map(|error| error.to_string()));
        }
        unavailable(format!(
            "the keys of callers are read from a majority of the coordinator shards {}, and {replies} of them \
             can be read: {}. Where no server runs, `duly store repair` takes `--config FILE`",
            list_of(list),
            causes.join("; "),
        ))
    }

    /// Changes the keys if their version still is `seen`. Returns them as they are then; `None` if another
    /// change came first.
    pub(crate) async fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> Result<Option<AccessRecords>> {
        let (now, before) = before_change(self.access_before_change().await)?;
        if before.records.version != seen {
            return Ok(None);
        }
        let state = AccessState::new(before.state.version + 1);
        let changed = [changed_record(&change, state)];
        let records = before.records.changed(change, origin, now)?;
        let next = Arc::new(before.next(state, records, None));
        let states = [before.state, state];
        let written = self.write_access(COORDINATOR, WriteMode::Changes, states, &changed).await;
        let doubt = match written {
            Ok(None) => None,
            Ok(Some(_)) => return Ok(None),
            // If it was made all the same, the other shards must have it too.
            Err(error @ Error::InDoubt { .. }) => match self.access_state(COORDINATOR).await {
                Ok(found) if found == state => Some(error),
                _ => return Err(error),
            },
            Err(error) => return Err(away(error)),
        };
        self.access.note(state);
        self.access.keep(Arc::clone(&next));
        self.spread_access(before.state, &next, &changed).await?;
        self.access.settle(&next);
        doubt.map_or(Ok(()), Err)?;
        Ok(Some(next.records.clone()))
    }

    /// Brings the shards that reply to the same keys, and returns those of shard 0 with its time. A majority
    /// must reply: a change that cannot be acknowledged is not made.
    async fn access_before_change(&self) -> Result<(Timestamp, Arc<Snapshot>)> {
        let older = self.older_members().await?;
        if !older.is_empty() {
            let reason = format!(
                "keys can be changed once no node of an older version is there: {}",
                older.join(", ")
            );
            return Err(Error::Unavailable { reason, retry_after: Millis::from_secs(1) });
        }
        let poll = self.access_states_of_majority().await?;
        let settled = self.settle_access(poll, COORDINATOR).await?;
        let (now, snapshot) = self.load(COORDINATOR, &self.access.read()).await.map_err(away)?;
        if snapshot.state < settled {
            // It has failed over meanwhile.
            return Err(unavailable("shard 0 has lost a change of keys: repeat the call"));
        }
        self.access.keep(Arc::clone(&snapshot));
        Ok((now, snapshot))
    }

    /// Returns the states of the shards that reply, which are a majority and have shard 0.
    async fn access_states_of_majority(&self) -> Result<AccessPoll> {
        let poll = self.access_states().await;
        poll.own()?;
        if !self.is_majority(&poll.shards()) {
            return Err(unavailable("keys cannot be changed: no majority of the shards replies"));
        }
        Ok(poll)
    }

    /// Has the other shards take a change.
    ///
    /// # Errors
    /// When no majority of all shards, or of the coordinator shards of the members, has taken it.
    async fn spread_access(
        &self,
        before: AccessState,
        next: &Snapshot,
        changed: &[Entry],
    ) -> Result<()> {
        let takes = self.others(COORDINATOR).map(async |shard| {
            let taken = self.take_access(shard, before, next, changed).await;
            (shard, taken)
        });
        let (mut have, mut is_passed, mut missing) = (vec![COORDINATOR], false, None);
        for (shard, taken) in at_once(takes).await {
            match taken {
                Ok(taken) => {
                    have.push(shard);
                    is_passed |= taken == Taken::Newer;
                }
                Err(error) => missing = Some(error),
            }
        }
        if is_passed {
            // Shard 0 may have lost it before the newer one was made.
            let (_, _, mode, _) = self.read_records(COORDINATOR, next.state).await?;
            if mode == WriteMode::All {
                return Err(in_doubt("other changes of keys came in between"));
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
        before: AccessState,
        next: &Snapshot,
        changed: &[Entry],
    ) -> Result<Taken> {
        let states = [before, next.state];
        let mut found = self.write_access(shard, WriteMode::Changes, states, changed).await?;
        for _ in 0..TRIES {
            match found {
                None => return Ok(Taken::Has),
                Some(other) if other == next.state => return Ok(Taken::Has),
                Some(other) if other.version > next.state.version => return Ok(Taken::Newer),
                Some(other) if other.version == next.state.version => break,
                Some(other) => {
                    let states = [other, next.state];
                    found = self.write_access(shard, WriteMode::All, states, &next.all()).await?;
                }
            }
        }
        Err(unavailable(format!("shard {} has other keys", shard.0)))
    }

    /// Returns the states of the shards that reply and take calls.
    pub(crate) async fn access_states(&self) -> AccessPoll {
        let poll = self.access.begin_poll();
        let shards = (0..self.shards).map(ShardId);
        let polls =
            at_once(shards.map(async |shard| (shard, self.access_state(shard).await))).await;
        let polls = polls.into_iter();
        let states = polls.filter_map(|(shard, state)| Some((shard, state.ok()?))).collect();
        AccessPoll { states, ..poll }
    }

    /// Gives each of these shards the newest keys. Returns their state.
    ///
    /// # Errors
    /// When the keys do not follow from those that a majority had; when it cannot be decided which keys most
    /// shards have, or when `needed` does not take them. Other shards may fail: they get the keys later.
    pub(crate) async fn settle_access(
        &self,
        poll: AccessPoll,
        needed: ShardId,
    ) -> Result<AccessState> {
        let known = *self.access.newest.lock();
        let holders = poll.holders();
        let (state, holder) = most(&holders)?;
        self.expect_settled(&poll, &holders).await?;
        let states = &poll.states;
        let has_conflict = holders.len() > 1;
        // A change that this node has read, and that no shard has any more.
        let is_lost = known.version >= state.version && !holders.contains_key(&known);
        if !has_conflict && !is_lost && states.iter().all(|(_, other)| *other == state) {
            return Ok(state);
        }
        let mut winner = self.load(holder, &Arc::new(Snapshot::default())).await?.1;
        if has_conflict || is_lost {
            self.expect_most(&poll, &holders)?;
            let next = AccessState::new(known.version.max(state.version) + 1);
            winner = Arc::new(winner.next(next, winner.records.clone(), None));
            self.rewrite_access(&poll, &winner).await?;
            tracing::warn!(
                version = next.version,
                "shards had different keys of one version after a failover; those of most shards are kept"
            );
        }
        let (is_new, winner) = (has_conflict || is_lost, &winner);
        let takes = states
            .iter()
            .copied()
            .filter(|(shard, state)| *state != winner.state && !(is_new && *shard == COORDINATOR));
        let takes = takes.map(|(shard, state)| async move {
            let taken = self.bring_up(shard, state, winner, (!is_new).then_some(holder)).await;
            if taken.is_err() && shard != needed { Ok(()) } else { taken }
        });
        at_once(takes).await.into_iter().collect::<Result<()>>()?;
        Ok(winner.state)
    }

    /// Checks that the shards that do not reply cannot have other keys of the newest version than most shards.
    fn expect_most(&self, poll: &AccessPoll, holders: &Holders) -> Result<()> {
        let (state, _) = most(holders)?;
        let losers = holders.iter().filter(|(other, _)| **other != state);
        let largest = losers.map(|(_, shards)| shards.len()).max().unwrap_or(0);
        let others = usize::from(self.shards) - poll.states.len();
        if (largest + others) * 2 > usize::from(self.shards) {
            return Err(unavailable("too few shards reply to know which keys most of them have"));
        }
        Ok(())
    }

    /// Writes all keys in shard 0, unless its state has changed since a poll.
    async fn rewrite_access(&self, poll: &AccessPoll, next: &Snapshot) -> Result<()> {
        let states = [poll.own()?, next.state];
        if self.write_access(COORDINATOR, WriteMode::All, states, &next.all()).await?.is_some() {
            return Err(unavailable("keys changed meanwhile"));
        }
        self.access.note(next.state);
        Ok(())
    }

    /// Gives a shard of this state the winning keys: what has changed since, as a holder of them knows it, or
    /// all.
    async fn bring_up(
        &self,
        shard: ShardId,
        state: AccessState,
        winner: &Snapshot,
        holder: Option<ShardId>,
    ) -> Result<()> {
        let (mode, records) = match holder {
            None => (WriteMode::All, winner.all()),
            Some(holder) => match self.read_records(holder, state).await? {
                (_, found, WriteMode::All, records) if found == winner.state => (
                    WriteMode::All,
                    Snapshot::default().with(found, WriteMode::All, records)?.all(),
                ),
                (_, found, mode, records) if found == winner.state => (mode, records),
                // A change that is under way reaches the shard without this.
                _ => return Ok(()),
            },
        };
        self.write_access(shard, mode, [state, winner.state], &records).await.map(drop)
    }

    /// Reads the state of the keys in a shard.
    async fn access_state(&self, shard: ShardId) -> Result<AccessState> {
        let marker = self.router.marker(shard).await?;
        let marker = marker.filter(|it| it.identity.id == self.identity.id && it.held.is_none());
        let state =
            marker.ok_or_else(|| unavailable(format!("shard {} takes no calls", shard.0)))?;
        self.access.note(state.access);
        Ok(state.access)
    }

    /// Returns the keys of a shard, of which those in a snapshot need not be read, and the time there.
    async fn load(
        &self,
        shard: ShardId,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(Timestamp, Arc<Snapshot>)> {
        let (now, state, mode, records) = self.read_records(shard, snapshot.state).await?;
        if state == snapshot.state {
            return Ok((now, Arc::clone(snapshot)));
        }
        Ok((now, Arc::new(snapshot.with(state, mode, records)?)))
    }

    /// Reads the records of a shard that have changed since a state, or all of them.
    async fn read_records(
        &self,
        shard: ShardId,
        since: AccessState,
    ) -> Result<(Timestamp, AccessState, WriteMode, Vec<Entry>)> {
        let arguments = vec![since.to_text().into_bytes()];
        let mut reply = self.call_script(shard, Script::Access, arguments).await?;
        let (now, state) = (reply.time()?, AccessState::from_reply(&mut reply)?);
        let mode = match reply.text()?.as_str() {
            "all" => WriteMode::All,
            _ => WriteMode::Changes,
        };
        let entries = reply.rest(|reply| {
            Ok(Entry { made: reply.text()?, id: reply.text()?, record: reply.bytes()? })
        })?;
        Ok((now, state, mode, entries))
    }

    /// Writes records in a shard whose state is the first of `states`; the second one is its state then.
    /// Returns its state instead if it is another one.
    async fn write_access(
        &self,
        shard: ShardId,
        mode: WriteMode,
        [before, next]: [AccessState; 2],
        records: &[Entry],
    ) -> Result<Option<AccessState>> {
        let mode = match mode {
            WriteMode::Changes => "changes",
            WriteMode::All => "all",
        };
        let mut arguments = vec![mode.into(), before.to_text().into(), next.to_text().into()];
        arguments.push(KEYS.into());
        arguments.extend(records.iter().flat_map(|Entry { made, id, record }| {
            [made.clone().into(), id.clone().into(), record.clone()]
        }));
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
