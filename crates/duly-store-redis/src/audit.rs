//! The audit log: every coordinator shard of the members has all entries that it could take.
//!
//! An entry is added to each of these shards, and once one has it, it is there. A page is merged from those
//! that reply. A shard with [`SLACK`] entries too many is read, and loses them as [`AuditEntries::surplus`] says.

use std::collections::BTreeSet;

use duly_core::shard::ShardId;
use duly_store::{
    AuditEntries, AuditEntry, AuditId, Error, Result,
    audit::{AUDIT_AGE_MAX, AUDIT_ENTRIES_MAX},
};

use crate::{
    change::{at_once, digits},
    deployment::Deployment,
    error::{damaged, unavailable},
    script::Script,
};

/// Most entries of one call of a script.
const BATCH: usize = 1_000;
/// Entries beyond those that are kept, until a shard is read and loses them.
const SLACK: usize = 1_000;

impl Deployment {
    /// Adds entries. Returns the highest number of entries that were too many in a shard.
    pub(crate) async fn append_audit(&self, entries: &[AuditEntry]) -> Result<usize> {
        let Some(newest) = entries.iter().map(|entry| entry.id).max() else { return Ok(0) };
        let oldest = &newest.earlier(AUDIT_AGE_MAX);
        let shards = self.list.lock().own.shards.clone();
        let appends = shards.into_iter().map(|shard| async move {
            let mut displaced = 0;
            for batch in entries.chunks(BATCH) {
                if self.change_audit(shard, *oldest, batch, &[]).await? > AUDIT_ENTRIES_MAX + SLACK
                {
                    displaced += self.trim_audit(shard, *oldest).await?;
                }
            }
            Ok(displaced)
        });
        Ok(any(at_once(appends).await)?.into_iter().max().unwrap_or_default())
    }

    /// Removes the entries that a shard has too many. Returns their number.
    async fn trim_audit(&self, shard: ShardId, oldest: AuditId) -> Result<usize> {
        let mut entries = AuditEntries::default();
        // Other nodes add entries too.
        entries.merge(self.read_shard(shard, None, 2 * (AUDIT_ENTRIES_MAX + SLACK)).await?);
        let surplus: BTreeSet<_> = entries.surplus().into_iter().collect();
        let surplus: Vec<_> = entries.iter().filter(|it| surplus.contains(&it.id)).collect();
        for batch in surplus.chunks(BATCH) {
            self.change_audit(shard, oldest, &[], batch).await?;
        }
        Ok(surplus.len())
    }

    /// Adds and removes entries in a shard. Returns the number of entries there, or a few more.
    async fn change_audit(
        &self,
        shard: ShardId,
        oldest: AuditId,
        added: &[AuditEntry],
        removed: &[AuditEntry],
    ) -> Result<usize> {
        let lines = added.iter().chain(removed);
        let lines = lines.map(|it| format!("{}\0{}", it.id, it.line).into_bytes());
        let arguments = [oldest.to_string().into_bytes(), digits(added.len())];
        let arguments = arguments.into_iter().chain(lines).collect();
        let mut reply = self.call_script(shard, Script::AppendAudit, arguments).await?;
        Ok(usize::try_from(reply.number()?).unwrap_or(usize::MAX))
    }

    pub(crate) async fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let shards = self.list.lock().own.shards.clone();
        let reads = shards.into_iter().map(|shard| self.read_shard(shard, before, limit));
        let mut entries = AuditEntries::default();
        entries.merge(any(at_once(reads).await)?.into_iter().flatten());
        Ok(entries.page(before, limit))
    }

    /// Returns at most `limit` entries of a shard before an id, the newest first.
    async fn read_shard(
        &self,
        shard: ShardId,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let before = before.map(|id| id.to_string()).unwrap_or_default().into_bytes();
        let arguments = vec![before, digits(limit)];
        let mut reply = self.call_script(shard, Script::Audit, arguments).await?;
        reply.rest(|reply| {
            let text = reply.text()?;
            let entry = text.split_once('\0').and_then(|(id, line)| {
                Some(AuditEntry { id: id.parse().ok()?, line: line.to_owned() })
            });
            entry.ok_or_else(|| damaged("an entry of the audit log"))
        })
    }
}

/// Returns the successes; an error if there is none.
fn any<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    let (mut successes, mut failed) = (Vec::new(), None);
    for result in results {
        match result {
            Ok(success) => successes.push(success),
            Err(error) => failed = Some(error),
        }
    }
    if successes.is_empty() {
        return Err::<_, Error>(
            failed.unwrap_or_else(|| unavailable("there is no coordinator shard")),
        );
    }
    Ok(successes)
}
