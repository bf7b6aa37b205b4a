//! Wake-ups: notifications that something became claimable earlier than expected.
//!
//! 1. Scripts publish on `wake`, a channel of their shard. An empty message wakes the shard's loops. The
//!    name of a namespace says that it has something for pulling consumers there. A NUL byte says that
//!    the marker has changed.
//! 2. One connection to each server listens. A lost message delays the waiting tasks by at most the
//!    second for which they sleep.
//! 3. Whenever a connection is made, all its shards are woken once, as messages may have been lost.

use std::{collections::HashMap, sync::Arc, time::Duration};

use duly_core::{NamespaceName, shard::ShardId};
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, Value, cmd};
use tokio::sync::mpsc;

use crate::{deployment::Deployment, keys};

/// Wait before a connection is made again, and interval of the checks whether shards have moved.
const PAUSE: Duration = Duration::from_secs(1);

/// Message that a marker has changed; it is not a name of a namespace.
const MARKER_CHANGED: &[u8] = &[0];

/// Listens to all servers until it is aborted. Sends to `ready` once every usable server is listened to.
pub(crate) async fn listen(deployment: Arc<Deployment>, ready: tokio::sync::oneshot::Sender<()>) {
    let mut ready = Some(ready);
    loop {
        let owners = deployment.router.owners();
        let mut listening = tokio::task::JoinSet::new();
        let (subscribed, mut subscriptions) = mpsc::unbounded_channel();
        for (server, shards) in owners.clone() {
            let (deployment, subscribed) = (Arc::clone(&deployment), subscribed.clone());
            listening.spawn(async move {
                let ended = listen_to(&deployment, &server, &shards, &subscribed).await;
                if let Err(error) = ended {
                    tracing::debug!(%server, %error, "wake-up listener failed, will reconnect");
                    // A start does not wait for a server that cannot be used.
                    let _unheard = subscribed.send(());
                    // The end of this task makes all connections again.
                    tokio::time::sleep(PAUSE * 5).await;
                }
            });
        }
        drop(subscribed);
        if let Some(ready) = ready.take() {
            for _ in 0..owners.len() {
                subscriptions.recv().await;
            }
            // The task that opened the store may have stopped waiting.
            let _gone = ready.send(());
        }
        loop {
            let over = tokio::time::timeout(PAUSE, listening.join_next()).await;
            if over.is_ok() || deployment.router.owners() != owners {
                break;
            }
        }
        listening.abort_all();
        tokio::time::sleep(PAUSE / 4).await;
        for shard in owners.into_values().flatten() {
            deployment.wake(shard);
        }
    }
}

/// Listens to the channels of some shards on one server until the connection breaks or a shard moves
/// away.
async fn listen_to(
    deployment: &Arc<Deployment>,
    server: &str,
    shards: &[ShardId],
    subscribed: &mpsc::UnboundedSender<()>,
) -> redis::RedisResult<()> {
    let (sender, mut pushed) = mpsc::unbounded_channel::<PushInfo>();
    let config =
        AsyncConnectionConfig::new().set_response_timeout(Some(PAUSE * 5)).set_push_sender(sender);
    let address = &deployment.router.address;
    let channels: HashMap<Vec<u8>, ShardId> = shards
        .iter()
        .map(|shard| (keys::key(deployment.router.seq(*shard), "wake").into_bytes(), *shard))
        .collect();
    let subscribe = async {
        // Pushed messages need RESP3.
        let connection = address.connect(server, ProtocolVersion::RESP3, config, PAUSE * 5).await?;
        for channel in channels.keys() {
            let mut requests = connection.requests.clone();
            let value = requests.send_packed_command(cmd("SSUBSCRIBE").arg(channel)).await?;
            if let Value::ServerError(error) = value {
                return Err(error.into());
            }
        }
        redis::RedisResult::Ok(connection)
    };
    // The connection is kept until the end.
    let _connection = deployment.router.unless_silent(server, subscribe).await??;
    for shard in shards {
        deployment.wake(*shard);
    }
    // There is no receiver except at the first time.
    let _unheard = subscribed.send(());
    while let Some(PushInfo { kind, data }) = pushed.recv().await {
        match kind {
            PushKind::SMessage => {
                if let Some(Value::BulkString(channel)) = data.first()
                    && let Some(shard) = channels.get(channel)
                {
                    match data.get(1) {
                        Some(Value::BulkString(message)) if *message == MARKER_CHANGED => {
                            let (deployment, shard) = (Arc::clone(deployment), *shard);
                            tokio::spawn(async move { deployment.refresh_fault(shard).await });
                        }
                        Some(Value::BulkString(message)) if !message.is_empty() => {
                            let name = str::from_utf8(message).ok().map(NamespaceName::new);
                            if let Some(Ok(name)) = name {
                                // There may be no listener.
                                let _unheard = deployment.announced.send((*shard, name));
                            }
                        }
                        _ => deployment.wake(*shard),
                    }
                }
            }
            PushKind::Disconnection | PushKind::SUnsubscribe => break,
            _ => {}
        }
    }
    Ok(())
}
