//! Reports of the shards about a limit.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::Result;
use futures::{StreamExt, stream};

use crate::{
    deployment::Deployment,
    error::{damaged, unavailable},
    script::Script,
};

use super::{Quota, SHARDS_AT_ONCE};

/// Longest wait for the report of a shard; the rebalance goes on without it.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Report of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) ver: String,
    pub(super) deal: String,
    pub(super) is_dealt: bool,
    /// The whole limit; `None`: there is no limit.
    pub(super) max: Option<u64>,
    pub(super) allowance: u64,
    pub(super) used: u64,
    /// `true`: something has ended by the clock and still counts as used.
    pub(super) owes: bool,
    /// Totals that were sent to other shards in this allocation, and received from them.
    pub(super) given: HashMap<u16, u64>,
    pub(super) taken: HashMap<u16, u64>,
    /// The amounts that the coordinator shard has settled for all shards in this allocation.
    pub(super) settled: Option<String>,
}

impl Deployment {
    /// Asks all shards. Shards that do not reply are left out; a shard without the namespace has `None`.
    pub(super) async fn reports(&self, quota: &Quota) -> Result<BTreeMap<u16, Option<Report>>> {
        let asked = stream::iter((0..self.shards).map(ShardId));
        let asked = asked.map(|shard| async move {
            let report = tokio::time::timeout(ANSWER_WITHIN, self.report(shard, quota)).await;
            (shard.0, report.unwrap_or_else(|_| Err(unavailable("no answer yet"))))
        });
        let answers: Vec<_> = asked.buffer_unordered(SHARDS_AT_ONCE).collect().await;
        let answered = answers.into_iter().filter_map(|(shard, report)| match report {
            Ok(report) => Some((shard, report)),
            Err(error) => {
                tracing::debug!(%error, shard, "a shard does not say what it has of a limit");
                None
            }
        });
        Ok(answered.collect())
    }

    pub(super) async fn report(&self, shard: ShardId, quota: &Quota) -> Result<Option<Report>> {
        let mut reply = self.ask(shard, Script::Shares, quota.arguments()).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        if word == "NONE" {
            return Ok(None);
        }
        let mut report = Report {
            ver: reply.text()?,
            deal: reply.text()?,
            is_dealt: reply.flag()?,
            max: reply.maybe_number()?,
            allowance: reply.number()?,
            used: reply.number()?,
            owes: reply.flag()?,
            given: HashMap::new(),
            taken: HashMap::new(),
            settled: None,
        };
        while !reply.is_done() {
            let (field, value) = (reply.text()?, reply.text()?);
            if field == "=" {
                report.settled = Some(value);
                continue;
            }
            let strange = || damaged(format!("a move {field} = {value}"));
            let totals = match field.get(..1) {
                Some(">") => &mut report.given,
                Some("<") => &mut report.taken,
                _ => return Err(strange()),
            };
            let other = field[1..].parse().map_err(|_| strange())?;
            totals.insert(other, value.parse().map_err(|_| strange())?);
        }
        Ok(Some(report))
    }
}
