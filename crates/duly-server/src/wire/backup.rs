//! Backups on the wire.

use duly_store_embedded::backup::BackupReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a backup goes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Backup)]
pub struct BackupIn {
    /// A directory that is empty or new, by its absolute path on the server's machine, below
    /// `store.backup_dir`.
    pub path: String,
}

/// A backup that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupMade)]
pub struct BackupOut {
    /// Its directory.
    pub path: String,
    /// Bytes of its files, those included that it shares with the store.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
    /// Number of the newest commit that is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsn: Option<u64>,
}

impl From<BackupReport> for BackupOut {
    fn from(report: BackupReport) -> Self {
        let BackupReport { path, files, bytes, lsn, .. } = report;
        Self { path: path.display().to_string(), bytes, files, lsn }
    }
}
