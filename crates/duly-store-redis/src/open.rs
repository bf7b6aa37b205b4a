//! Opens a store: connects, checks the servers' settings, and joins the deployment of the database. Creates
//! one in an empty database, or adopts one of an older build without markers.
//!
//! Creation takes four steps. A node may stop after each of them, and any number of nodes may take them
//! at once: another node finishes what one has begun.
//!
//! 1. No record is found. The node asks every shard that any deployment could have whether it holds a
//!    key. A shard that does not reply may hold something, so the node waits for it.
//! 2. One script in shard 0 writes the record of the deployment, unless there is one. Every node then
//!    uses the record that is there.
//! 3. Each shard gets its marker. If a shard has a marker of another deployment, the node does not
//!    start.
//! 4. The record becomes complete. From then on a missing marker means lost data, and no node writes one
//!    again by itself.
//!
//! Adoption takes steps 2 to 4 in a database whose record has no deployment id yet.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use duly_core::{error_code::Retry, shard::ShardId};
use duly_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    OpenError, Opened, Options,
    address::Address,
    change::{AT_ONCE, at_once},
    checks,
    connection::{Call, ConnectOptions, RequiredCopies},
    coordinators,
    deployment::Deployment,
    error::damaged,
    features::{self, FORMAT},
    keys::{SHARDS_MAX, place},
    marker::{self, CoordinatorList, Identity, MarkerNote, fault_of, list_of, write_marker},
    options::Create,
    reply::Reply,
    router::Router,
    script::Script,
};

/// Connects to the servers and joins the deployment.
pub(crate) async fn open(options: &Options) -> Opened<Arc<Deployment>> {
    let address = Address::new(options)?;
    let mut warnings = BTreeSet::new();
    warnings.extend(checks::check_failover(&address, options)?);
    let copies = (options.min_replicas > 0 || options.on_disk).then_some(RequiredCopies {
        replicas: options.min_replicas,
        on_disk: options.on_disk,
        within: options.replication_timeout,
    });
    let router = |shards, deployment: &str| {
        let (address, connect_options) =
            (address.clone(), ConnectOptions::new(options, deployment));
        Router::new(address, connect_options, options.connections, shards, copies)
    };
    let first = router(SHARDS_MAX, "");
    let (weak, unusable) = check_servers(&first, options).await?;
    warnings.extend(weak);
    let identity = identify(&first, options).await?;
    let router = router(identity.shards, &identity.id);
    router.take_probes(&first);
    router.refresh_owners().await?;
    let owners = router.owners();
    warnings.extend(unusable.into_iter().map(|(server, error)| match owners.get(&server) {
        Some(shards) => {
            format!("shard {}: its master cannot be used yet: {error}", list_of(shards))
        }
        None => format!("a server without shards cannot be used yet: {error}"),
    }));
    let (mut lists, mut progress, mut access) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_sealed = false;
    for (shard, marker) in marker::read_all(&router, identity.shards).await {
        // A shard that does not reply is polled again while the node runs.
        if let Ok(marker) = marker {
            router.set_fault(shard, fault_of(marker.as_ref(), &identity.id));
            if let Some(marker) = marker.filter(|marker| marker.identity == identity) {
                features::check(&marker.format, &marker.features)?;
                lists.push(marker.list);
                progress.push((shard, marker.progress));
                access.push(marker.access);
                is_sealed |= marker.is_sealed;
            }
        }
    }
    let newest = lists.into_iter().max_by_key(|list| list.own.version);
    let list = newest.ok_or_else(|| OpenError::Unreachable {
        address: address.servers[0].clone(),
        reason: "no shard replied with the list of coordinator shards".to_owned(),
    })?;
    let deployment = Deployment::new(router, identity, list, is_sealed, options);
    for (shard, progress) in progress {
        deployment.rollbacks.note_seen(shard, progress);
    }
    for state in access {
        deployment.access.note(state);
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(Arc::new(deployment))
}

/// Servers that cannot be used yet, each with the reason.
type Unusable = Vec<(String, OpenError)>;

/// Finds the servers and checks the settings of those that can be used. Returns warnings about weak
/// settings, and the servers that cannot be used yet.
///
/// # Errors
/// When a server has settings that are refused, or when no server can be used.
async fn check_servers(router: &Router, options: &Options) -> Opened<(Vec<String>, Unusable)> {
    router.refresh_owners().await?;
    let (mut warnings, mut unusable) = (Vec::new(), Unusable::new());
    let mut is_usable = false;
    for server in router.owners().into_keys() {
        let checked = router.unless_silent(&server, check_server(router, options, &server)).await;
        match checked.unwrap_or_else(|silence| Err(OpenError::of(&server, &silence))) {
            Ok(weak) => {
                warnings.extend(weak);
                is_usable = true;
            }
            // The other masters may serve, as beside one that is down.
            Err(error @ OpenError::Denied { .. }) => unusable.push((server, error)),
            Err(error) if error.retry() == Retry::Never => return Err(error),
            Err(error) => unusable.push((server, error)),
        }
    }
    // The last is one that may pass by itself, if there is one.
    unusable.sort_by_key(|(_, error)| error.retry() != Retry::Never);
    match unusable.pop_if(|_| !is_usable) {
        Some((_, error)) => Err(error),
        None => Ok((warnings, unusable)),
    }
}

/// Connects to a server and checks its settings. Returns warnings about weak ones.
async fn check_server(router: &Router, options: &Options, server: &str) -> Opened<Vec<String>> {
    let connection =
        router.connection(server).await.map_err(|error| OpenError::of(server, &error))?;
    let warnings = checks::check(&connection, server, options).await?;
    let cluster = checks::info(&connection, server, "cluster").await.unwrap_or_default();
    let is_cluster = cluster.lines().any(|line| line.trim() == "cluster_enabled:1");
    if !router.address.cluster && is_cluster {
        let text = format!("{server} is part of a Cluster: use redis-cluster://");
        return Err(OpenError::Url(text));
    }
    Ok(warnings)
}

/// Shard that holds the record of the deployment; it has the same slot for every number of shards.
const FIRST: ShardId = ShardId(0);

/// The record of a deployment.
struct DeploymentRecord {
    format: String,
    features: String,
    identity: Identity,
    /// Text of the first list of coordinator shards of the members.
    list: String,
    is_complete: bool,
}

/// Determines which deployment a database holds, and creates one if the options allow it. `router` has
/// [`SHARDS_MAX`] shards: the shards of any deployment are among them ([`place`]).
///
/// # Errors
/// When the database belongs to another deployment or format, is empty and may not be, has lost its
/// record, or does not reply.
async fn identify(router: &Router, options: &Options) -> Opened<Identity> {
    let address = router.address.servers[0].clone();
    let failed = |error: Error| OpenError::of_script(&address, &error);
    let mut record = match read(router, &["read"]).await {
        Ok(Some(record)) => Some(check_record(record, options, &address)?),
        found => {
            let survives = find_surviving(router, &address).await;
            // Another node may have created it meanwhile.
            match read(router, &["read"]).await {
                Ok(Some(record)) => Some(check_record(record, options, &address)?),
                _ => {
                    if let Some(identity) = survives? {
                        expect_name(&identity, options, &address)?;
                        return Ok(identity);
                    }
                    found.map_err(failed)?
                }
            }
        }
    };
    if record.is_none() && options.create == Create::Never {
        return Err(OpenError::Empty { address });
    }
    if record.as_ref().is_none_or(|record| record.identity.id.is_empty()) {
        let shards = record.map_or(options.shards, |record| record.identity.shards);
        let shards = shards.clamp(1, SHARDS_MAX);
        let [list, _] = coordinators::first(&owners(router, shards)).texts();
        let name = options.deployment.clone().unwrap_or_else(random_id);
        let texts = [random_id(), FORMAT.to_string(), shards.to_string(), name, list];
        let [id, format, shards, name, list] = texts.each_ref().map(String::as_str);
        let claim = ["claim", id, format, shards, name, list];
        record = read(router, &claim).await.map_err(failed)?;
    }
    let record = record.ok_or_else(|| failed(damaged("a deployment without a record")))?;
    let DeploymentRecord { format, identity, list, is_complete, .. } =
        check_record(record, options, &address)?;
    if !is_complete {
        let list = CoordinatorList::read(&list, "").map_err(failed)?;
        mark_all(router, &identity, &list, format == FORMAT.to_string()).await.map_err(failed)?;
        read(router, &["complete", &identity.id]).await.map_err(failed)?;
    }
    Ok(identity)
}

/// Refuses a deployment of another name, and one that this build cannot read.
fn check_record(
    record: DeploymentRecord,
    options: &Options,
    address: &str,
) -> Opened<DeploymentRecord> {
    features::check(&record.format, &record.features)?;
    expect_name(&record.identity, options, address)?;
    Ok(record)
}

/// Refuses a deployment with another name than the operator set.
fn expect_name(identity: &Identity, options: &Options, address: &str) -> Opened<()> {
    match &options.deployment {
        Some(wanted) if *wanted != identity.name => Err(OpenError::Deployment {
            address: address.to_owned(),
            found: identity.name.clone(),
            wanted: wanted.clone(),
        }),
        _ => Ok(()),
    }
}

/// Looks for a deployment by the markers of the shards that reply, when its record cannot be read.
/// Returns `None` only if every shard replies and is empty.
async fn find_surviving(router: &Router, address: &str) -> Opened<Option<Identity>> {
    let polls = (0..SHARDS_MAX).map(ShardId).map(async |shard| {
        let marker = router.marker(shard).await?;
        Ok::<_, Error>((router.holds_anything(shard).await?, marker))
    });
    let polls = at_once(polls).await;
    let found = || polls.iter().filter_map(|poll| poll.as_ref().ok());
    let markers = || found().filter_map(|(_, marker)| marker.clone());
    markers().try_for_each(|marker| features::check(&marker.format, &marker.features))?;
    let mut identities: Vec<Identity> = markers().map(|marker| marker.identity).collect();
    identities.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    identities.dedup();
    if identities.len() > 1 {
        let names: Vec<_> = identities.into_iter().map(|identity| identity.name).collect();
        return Err(OpenError::Several { address: address.to_owned(), names: names.join(", ") });
    }
    if let Some(identity) = identities.pop() {
        return Ok(Some(identity));
    }
    if let Some(error) = polls.iter().find_map(|poll| poll.as_ref().err()) {
        return Err(OpenError::of_script(address, error));
    }
    if found().any(|(holds, _)| *holds) {
        return Err(OpenError::NoRecord { address: address.to_owned() });
    }
    Ok(None)
}

/// Writes a marker into every shard without one.
async fn mark_all(
    router: &Router,
    identity: &Identity,
    list: &CoordinatorList,
    is_sealed: bool,
) -> Result<()> {
    let note = MarkerNote { is_sealed, ..MarkerNote::default() };
    let shards = (0..identity.shards).map(|shard| place(ShardId(shard), identity.shards));
    let marks = shards.map(|shard| write_marker(router, shard, identity, list, "", note));
    stream::iter(marks).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// Returns the servers and which of `shards` shards each has.
fn owners(router: &Router, shards: u16) -> HashMap<String, Vec<ShardId>> {
    let owners = router.owners();
    let has = |owned: &[ShardId]| -> Vec<ShardId> {
        let all = (0..shards).map(ShardId);
        all.filter(|shard| owned.contains(&place(*shard, shards))).collect()
    };
    let owners = owners.into_iter().map(|(server, owned)| (server, has(&owned)));
    owners.filter(|(_, shards)| !shards.is_empty()).collect()
}

async fn read(router: &Router, arguments: &[&str]) -> Result<Option<DeploymentRecord>> {
    let mut padded: Vec<_> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
    padded.resize(6, Vec::new());
    let mut reply =
        Reply::list(router.call(FIRST, Call::new(Script::DeploymentRecord, padded)).await?)?;
    if reply.is_done() {
        return Ok(None);
    }
    let (format, shards, name) = (reply.text()?, reply.number()?, reply.text()?);
    let shards = u16::try_from(shards).ok().filter(|shards| (1..=SHARDS_MAX).contains(shards));
    let shards = shards
        .ok_or_else(|| damaged("the record of the deployment has an invalid number of shards"))?;
    let identity = Identity { id: reply.text()?, shards, name };
    let list = reply.text()?;
    let (is_complete, features) = (reply.flag()?, reply.text()?);
    Ok(Some(DeploymentRecord { format, features, identity, list, is_complete }))
}

fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
