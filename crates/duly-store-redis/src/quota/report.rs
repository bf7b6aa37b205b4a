//! Reports of the shards about a limit.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::Result;

use crate::{
    change::at_once,
    deployment::Deployment,
    error::{damaged, unavailable},
    script::Script,
};

use super::NamespaceLimit;

/// Longest wait for the report of a shard; the rebalance goes on without it.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

/// Report of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotaReport {
    pub(super) ver: String,
    pub(super) allocation: String,
    pub(super) is_allocated: bool,
    /// The whole limit; `None`: there is no limit.
    pub(super) max: Option<u64>,
    pub(super) quota: u64,
    pub(super) used: u64,
    /// `true`: something has ended by the clock and still counts as used.
    pub(super) has_unswept: bool,
    /// Totals that were sent to other shards in this allocation, and received from them.
    pub(super) sent: HashMap<u16, u64>,
    pub(super) received: HashMap<u16, u64>,
    /// The amounts that the coordinator shard has settled for all shards in this allocation.
    pub(super) settled: Option<String>,
}

impl Deployment {
    /// Asks all shards. Shards that do not reply are left out; a shard without the namespace has `None`.
    pub(super) async fn reports(
        &self,
        limit: &NamespaceLimit,
    ) -> BTreeMap<u16, Option<QuotaReport>> {
        let asked = (0..self.shards).map(ShardId).map(|shard| async move {
            let report = tokio::time::timeout(REPORT_WITHIN, self.report(shard, limit)).await;
            (shard.0, report.unwrap_or_else(|_| Err(unavailable("no reply yet"))))
        });
        let reports = at_once(asked).await.into_iter().filter_map(|(shard, report)| match report {
            Ok(report) => Some((shard, report)),
            Err(error) => {
                tracing::debug!(
                    %error,
                    shard,
                    "shard does not report its quota; rebalancing without it"
                );
                None
            }
        });
        reports.collect()
    }

    pub(super) async fn report(
        &self,
        shard: ShardId,
        limit: &NamespaceLimit,
    ) -> Result<Option<QuotaReport>> {
        let mut reply = self.call_script(shard, Script::QuotaReport, limit.arguments()).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        if word == "NONE" {
            return Ok(None);
        }
        let mut report = QuotaReport {
            ver: reply.text()?,
            allocation: reply.text()?,
            is_allocated: reply.flag()?,
            max: reply.maybe_number()?,
            quota: reply.number()?,
            used: reply.number()?,
            has_unswept: reply.flag()?,
            sent: HashMap::new(),
            received: HashMap::new(),
            settled: None,
        };
        while !reply.is_done() {
            let (field, value) = (reply.text()?, reply.text()?);
            if field == "=" {
                report.settled = Some(value);
                continue;
            }
            let strange = || damaged(format!("unknown transfer total {field} = {value}"));
            let totals = match field.get(..1) {
                Some(">") => &mut report.sent,
                Some("<") => &mut report.received,
                _ => return Err(strange()),
            };
            let other = field[1..].parse().map_err(|_| strange())?;
            totals.insert(other, value.parse().map_err(|_| strange())?);
        }
        Ok(Some(report))
    }
}
