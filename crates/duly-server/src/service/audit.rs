//! The audit log of the store.

use duly_api::access::{AuditRecord, ListAuditResponse};
use duly_core::{Code, access::NamespacePattern};
use duly_store::AuditId;

use super::{Admitted, lists::page_limit};
use crate::{auth::Caller, problem::Problem};

/// Pages of the store that one call reads, at most, while the caller may see few of the records.
const PAGES_MAX: usize = 10;

impl Admitted {
    /// Returns a page of the records that the caller may see, the newest first.
    pub(crate) async fn list_audit(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<ListAuditResponse, Problem> {
        let limit = page_limit(limit)?;
        let Some(log) = self.store.audit() else {
            let detail = "this server's store keeps no audit log; audit.file names a file for one";
            return Err(Problem::new(Code::PermissionDenied, detail));
        };
        let mut before = cursor.map(str::parse::<AuditId>).transpose()?;
        let mut records = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = log.read_audit(before, limit).await?;
            let is_last = page.len() < limit;
            for entry in page {
                before = Some(entry.id);
                let record = serde_json::from_str::<AuditRecord>(&entry.line).ok();
                records.extend(record.filter(|it| is_visible(self, it)));
                if records.len() == limit {
                    break;
                }
            }
            if is_last && records.len() < limit {
                before = None;
            }
            if before.is_none() || records.len() == limit {
                break;
            }
        }
        Ok(ListAuditResponse { records, cursor: before.map(|id| id.to_string()) })
    }
}

/// Returns `true` if the caller may see a record.
fn is_visible(admitted: &Admitted, record: &AuditRecord) -> bool {
    let caller = admitted.caller();
    match (caller, &record.namespace) {
        (Caller::Anyone, _) => true,
        (_, Some(namespace)) => caller.covers(namespace),
        (_, None) => {
            caller.key().is_some_and(|key| key.namespaces.contains(&NamespacePattern::all()))
        }
    }
}
