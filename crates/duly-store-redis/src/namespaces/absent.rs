//! The only place that decides that there is no namespace of a name.
//!
//! A shard without a namespace may never have had it, or may have lost it with all its data. So the
//! reply "there is none" of a script is only the beginning:
//!
//! 1. If the coordinator shard has the namespace, the shard takes it (again).
//! 2. If not, all other shards are asked. If one holds the name under a number whose end is not
//!    recorded, the coordinator shard has lost its record. The call is refused (`unavailable`) until
//!    `duly namespace repair`, and nothing is created or removed.
//! 3. If a shard does not reply, the answer stays open, and the call is refused too.
//!
//! Schedule operations, claims and acks in a shard that has the namespace ask none of this. Within
//! [`REST`] the other shards are not asked again, unless something is to be created.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use duly_core::{Millis, NamespaceName, Timestamp, shard::ShardId};
use duly_store::{Error, Result};
use tokio::time::Instant;

use crate::{change::at_once, deployment::Deployment, error::before_change, script::Script};

/// Time during which other shards are not asked again for a name that its coordinator shard does not
/// have.
const REST: Duration = Duration::from_secs(1);
/// Wait before a call for a namespace that needs repair may be tried again.
const REPAIR_WAIT: Millis = Millis::from_secs(5);

/// Reason why a shard does not have a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// There is no such namespace.
    NoNamespace,
    /// There is one, and the shard has taken it now.
    Taken,
}

/// Time and result of the last check of the other shards.
pub(crate) type LastCheck = tokio::sync::Mutex<Option<(Instant, Result<()>)>>;

/// State of a namespace in one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldNamespace {
    pub(crate) num: String,
    pub(crate) ver: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) pending: u64,
    pub(crate) dead: u64,
}

/// Records of a name in its coordinator shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamespaceRecords {
    /// The number that has the name now.
    pub(crate) current: Option<String>,
    /// Number and version of an end that not every shard has confirmed.
    pub(crate) unfinished_end: Option<(String, String)>,
    /// Version of the end record of each number that was asked for.
    pub(crate) ended: Vec<Option<String>>,
}

impl Deployment {
    /// Determines why a shard does not have a namespace. Every reply "there is no such namespace" to a
    /// caller comes from here.
    pub(crate) async fn absent(&self, shard: ShardId, name: &NamespaceName) -> Result<Absence> {
        let coordinator = self.coordinator_of(name);
        if let Some(control) = self.control_of(coordinator, name).await?.1 {
            self.to_repair.lock().remove(name);
            if shard == coordinator {
                return Ok(Absence::Taken);
            }
            let allocations = self.allocations_of(&control).await?;
            if self.take(shard, &control, &allocations).await?.is_some() {
                self.spread_again(name).await?;
            }
            return Ok(Absence::Taken);
        }
        let check = self.absences.of(name);
        let mut last = check.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(at, _)| at.elapsed() < REST) {
            return found.clone().map(|()| Absence::NoNamespace);
        }
        let found = self.expect_no_lost_record(name).await;
        *last = Some((Instant::now(), found.clone()));
        found.map(|()| Absence::NoNamespace)
    }

    /// Returns the error of a call for a namespace that its coordinator shard does not have.
    pub(crate) async fn no_namespace(&self, name: &NamespaceName) -> Error {
        match self.absent(self.coordinator_of(name), name).await {
            Ok(_) => Error::UnknownNamespace(name.to_string()),
            Err(error) => error,
        }
    }

    /// Returns the errors of those of these namespaces that are known to need repair and still do.
    /// Nothing is created in them, not even in shards that have them.
    pub(crate) async fn unrepaired(
        &self,
        names: impl Iterator<Item = &NamespaceName>,
    ) -> HashMap<NamespaceName, Error> {
        let names: BTreeSet<&NamespaceName> = {
            let known = self.to_repair.lock();
            if known.is_empty() {
                return HashMap::new();
            }
            names.filter(|name| known.contains(*name)).collect()
        };
        let mut errors = HashMap::new();
        for name in names {
            if let Err(error) = before_change(self.absent(self.coordinator_of(name), name).await) {
                errors.insert(name.clone(), error);
            }
        }
        errors
    }

    /// Refuses a name that its coordinator shard does not have, if another shard holds it under a number
    /// without an end record.
    pub(crate) async fn expect_no_lost_record(&self, name: &NamespaceName) -> Result<()> {
        let coordinator = self.coordinator_of(name);
        let answers = self.held_by(name, self.others(coordinator)).await;
        let mut nums: Vec<&str> = Vec::new();
        let mut unreachable = None;
        for (_, answer) in &answers {
            match answer {
                Ok(held) => nums.extend(held.as_ref().map(|held| held.num.as_str())),
                Err(error) => unreachable = Some(error),
            }
        }
        nums.sort_unstable();
        nums.dedup();
        if !nums.is_empty() {
            let records = self.records(name, &nums).await?;
            if records.is_any_unrecorded(&nums) {
                self.to_repair.lock().insert(name.clone());
                return Err(unrecorded(name));
            }
        }
        unreachable.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Asks shards for their state of a namespace. Each has a result of its own.
    pub(crate) async fn held_by(
        &self,
        name: &NamespaceName,
        shards: impl Iterator<Item = ShardId>,
    ) -> Vec<(ShardId, Result<Option<HeldNamespace>>)> {
        at_once(shards.map(async |shard| (shard, self.held(shard, name).await))).await
    }

    async fn held(&self, shard: ShardId, name: &NamespaceName) -> Result<Option<HeldNamespace>> {
        let mut reply =
            self.call_script(shard, Script::NamespaceInShard, vec![name.as_str().into()]).await?;
        let _now = reply.time()?;
        if reply.is_done() {
            return Ok(None);
        }
        Ok(Some(HeldNamespace {
            num: reply.text()?,
            ver: reply.number()?,
            created_at: reply.time()?,
            pending: reply.number()?,
            dead: reply.number()?,
        }))
    }

    /// Asks the coordinator shard of a name for its records of the name and these numbers.
    pub(crate) async fn records(
        &self,
        name: &NamespaceName,
        nums: &[&str],
    ) -> Result<NamespaceRecords> {
        let mut arguments: Vec<Vec<u8>> = vec![name.as_str().into()];
        arguments.extend(nums.iter().map(|num| num.as_bytes().to_vec()));
        let mut reply =
            self.call_script(self.coordinator_of(name), Script::EndRecords, arguments).await?;
        let _now = reply.time()?;
        let mut text = || reply.text().map(|text| Some(text).filter(|text| !text.is_empty()));
        let current = text()?;
        let unfinished_end = text()?.zip(text()?);
        let ended = nums.iter().map(|_| text()).collect::<Result<_>>()?;
        Ok(NamespaceRecords { current, unfinished_end, ended })
    }
}

impl NamespaceRecords {
    /// Returns `true` if one of the numbers neither has the name now nor an end record.
    pub(crate) fn is_any_unrecorded(&self, nums: &[&str]) -> bool {
        let mut pairs = nums.iter().zip(&self.ended);
        pairs.any(|(num, ended)| ended.is_none() && self.current.as_deref() != Some(*num))
    }
}

/// Returns the refusal of a call for a namespace that shards hold under a number without any record in
/// the coordinator shard.
pub(crate) fn unrecorded(name: &NamespaceName) -> Error {
    Error::Unavailable {
        reason: format!(
            "the coordinator shard of namespace {name} has lost its record, and other shards hold it; \
             nothing was removed. Restore the record with `duly namespace repair {name}`"
        ),
        retry_after: REPAIR_WAIT,
    }
}
