//! Reads keys of a shard without a script.

use duly_core::shard::ShardId;
use duly_store::Result;
use redis::{Value, cmd};

use super::{CallKind, Router};
use crate::{
    connection::ConnectionLost,
    error::{damaged, unavailable},
    keys,
    marker::{self, Marker},
};

impl Router {
    /// Reads the marker of a shard.
    pub(crate) async fn marker(&self, shard: ShardId) -> Result<Option<Marker>> {
        let key = keys::key(self.seq(shard), "marker");
        let read = cmd("HMGET").arg(key).arg(&marker::FIELDS).clone();
        // Not behind calls that wait for replicas.
        let value = self.commands(shard, CallKind::Read, &[read]).await?.pop();
        let values = value.map(redis::from_redis_value::<Vec<Option<Vec<u8>>>>).transpose();
        Marker::read(values.map_err(|error| damaged(error.to_string()))?.unwrap_or_default())
    }

    /// Returns `true` if a shard holds any key of a deployment.
    pub(crate) async fn holds_anything(&self, shard: ShardId) -> Result<bool> {
        let keys =
            ["seq", "marker", "deployment", "nn"].map(|name| keys::key(self.seq(shard), name));
        let found =
            self.commands(shard, CallKind::Question, &[cmd("EXISTS").arg(&keys).clone()]).await?;
        Ok(found != [Value::Int(0)])
    }

    /// Returns `true` if the slot of a shard is being moved away from its server.
    pub(crate) async fn has_open_slot(&self, shard: ShardId) -> Result<bool> {
        if !self.address.cluster {
            return Ok(false);
        }
        let owner = self.owners.lock()[usize::from(shard.0)].clone();
        let asked = async {
            let pooled = self.check_out(&owner, CallKind::Question).await?;
            pooled.command(cmd("CLUSTER").arg("NODES")).await
        };
        let nodes = asked.await.and_then(|value| Ok(redis::from_redis_value::<String>(value)?));
        let nodes = nodes.map_err(|error| unavailable(format!("{owner}: {error}")))?;
        let open = format!("[{}->-", keys::slot_of(self.seq(shard)));
        let own = nodes.lines().find(|line| line.contains("myself"));
        Ok(own.is_some_and(|line| line.contains(&open)))
    }

    /// Reads fields of hashes of a shard, each with a command of its own.
    pub(crate) async fn fields(
        &self,
        shard: ShardId,
        wanted: &[(String, Vec<u8>)],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let commands: Vec<_> = wanted
            .iter()
            .map(|(name, field)| {
                let key = keys::key(self.seq(shard), name);
                cmd("HGET").arg(key).arg(field.as_slice()).clone()
            })
            .collect();
        let values = self.commands(shard, CallKind::Question, &commands).await?.into_iter();
        Ok(values
            .map(|value| match value {
                Value::BulkString(bytes) => Some(bytes),
                _ => None,
            })
            .collect())
    }

    /// Sends commands that read keys of a shard, and returns their replies.
    async fn commands(
        &self,
        shard: ShardId,
        kind: CallKind,
        commands: &[redis::Cmd],
    ) -> Result<Vec<Value>> {
        let owner = self.owners.lock()[usize::from(shard.0)].clone();
        let mut is_repeated = false;
        let values = loop {
            let pooled = self.check_out(&owner, kind).await;
            let pooled = pooled.map_err(|error| unavailable(error.to_string()))?;
            match pooled.commands(commands).await {
                Ok(values) => break values,
                // The connection may be older than a restart of the server.
                Err(ConnectionLost { is_late: false, .. }) if !is_repeated => is_repeated = true,
                Err(ConnectionLost { reason, is_late }) => {
                    if is_late {
                        self.suspect(&pooled);
                    }
                    pooled.drop_connection().await;
                    return Err(unavailable(format!("{owner}: {reason}")));
                }
            }
            pooled.drop_connection().await;
        };
        // The slot is moving, or has moved: a missing key proves nothing here.
        if let Some(error) = values.iter().find(|value| matches!(value, Value::ServerError(_))) {
            if self.address.cluster {
                let _unknown = self.refresh_owners().await;
            }
            return Err(unavailable(format!("{owner}: {error:?}")));
        }
        Ok(values)
    }
}
