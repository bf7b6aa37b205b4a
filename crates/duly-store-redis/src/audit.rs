//! The audit log: every coordinator shard of the members has all entries that it could take.
//!
//! An entry is added to each of these shards, and once one has it, it is there. A page is merged from those
//! that reply.

use duly_core::Timestamp;
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

impl Deployment {
    pub(crate) async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        let Some(newest) = entries.iter().map(|entry| entry.id).max() else { return Ok(()) };
        let oldest = newest.earlier(AUDIT_AGE_MAX).to_string();
        let limits = [digits(AUDIT_ENTRIES_MAX), oldest.into_bytes()];
        let shards = self.list.lock().own.shards.clone();
        let appends = shards.into_iter().map(|shard| {
            let limits = &limits;
            async move {
                for batch in entries.chunks(BATCH) {
                    let lines =
                        batch.iter().map(|it| format!("{}\0{}", it.id, it.line).into_bytes());
                    let arguments = limits.iter().cloned().chain(lines).collect();
                    self.call_script(shard, Script::AppendAudit, arguments).await?;
                }
                Ok(())
            }
        });
        any(at_once(appends).await).map(drop)
    }

    pub(crate) async fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let shards = self.list.lock().own.shards.clone();
        let before_text = before.map(|id| id.to_string()).unwrap_or_default().into_bytes();
        let arguments = vec![before_text, digits(limit)];
        let reads = shards.into_iter().map(|shard| {
            let arguments = arguments.clone();
            async move {
                let mut reply = self.call_script(shard, Script::Audit, arguments).await?;
                reply.rest(|reply| {
                    let text = reply.text()?;
                    let entry = text.split_once('\0').and_then(|(id, line)| {
                        Some(AuditEntry { id: id.parse().ok()?, line: line.to_owned() })
                    });
                    entry.ok_or_else(|| damaged("an entry of the audit log"))
                })
            }
        });
        let mut entries = AuditEntries::default();
        for page in any(at_once(reads).await)? {
            entries.append(page, Timestamp::MIN);
        }
        Ok(entries.page(before, limit))
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
