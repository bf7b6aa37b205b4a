//! `POST /v1/store/backup`: a copy of the running store in another directory.
//! `POST /v1/store/repair`: lets shards of a store on Redis take calls again, and decides which of its keys
//! count after a rollback.
//!
//! Every caller may start a backup, and so have files written. Three rules bound this:
//!
//! 1. A backup goes only below the one directory that the operator names (`store.backup_dir`).
//! 2. Its directory is empty or new.
//! 3. The operator limits the number of backups and the time between them: a backup keeps the disk space of
//!    files that the store has released, and a copy takes disk bandwidth from commits.

use std::path::PathBuf;

use duly_api::cluster::{Backup, BackupMade, Repair, Repaired as RepairedShards};

use super::{
    body::JsonBody,
    response::{self, HandlerResult},
};
use crate::{messages, service::Admitted};

/// Copy the running store into an empty or new directory.
///
/// Calls continue meanwhile. The response comes when the copy is durable; a copy that fails leaves
/// nothing. A store that is restored from it has every namespace paused.
#[utoipa::path(
    post,
    path = "/v1/store/backup",
    tag = "service",
    request_body(content = Backup, content_type = "application/json"),
    responses((status = 200, description = "The copy is there.", body = BackupMade))
)]
pub(crate) async fn backup(admitted: Admitted, body: JsonBody) -> HandlerResult {
    let path = PathBuf::from(body.parse::<Backup>().await?.path);
    response::ok(&messages::backup(admitted.make_backup(path).await?))
}

/// Accept that shards have lost data, or decide which keys and tenants count after a rollback.
///
/// An emptied shard gets its marker and the settings of namespaces from the other shards; its timers are
/// lost. A shard that came back with older data is confirmed. Shards that take calls stay as they are.
/// After all masters came back with older data, nodes that ran on know newer keys and tenants; `keys`
/// decides which ones count.
#[utoipa::path(
    post,
    path = "/v1/store/repair",
    tag = "service",
    request_body(content = Repair, content_type = "application/json"),
    responses((status = 200, description = "The shards take calls, and keys can be changed.", body = RepairedShards))
)]
pub(crate) async fn repair(admitted: Admitted, body: JsonBody) -> HandlerResult {
    response::ok(&admitted.repair_store(body.parse().await?).await?)
}
