//! Finds the deployment in a database, creates one in an empty database, or adopts one of an older build
//! without markers.
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

use std::collections::HashMap;

use duly_core::shard::ShardId;
use duly_store::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    OpenError, Opened, Options,
    change::{AT_ONCE, at_once, flag},
    connection::Call,
    coordinators,
    error::damaged,
    keys::{SHARDS_MAX, place},
    marker::{CoordinatorList, FORMAT, Identity, Marker, UNMARKED_FORMAT},
    options::Create,
    reply::Reply,
    router::Router,
    script::Script,
};

/// Shard that holds the record of the deployment; it has the same slot for every number of shards.
const FIRST: ShardId = ShardId(0);

/// The record of a deployment.
struct DeploymentRecord {
    format: String,
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
pub(crate) async fn identify(router: &Router, options: &Options) -> Opened<Identity> {
    let address = router.address().servers[0].clone();
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
    let DeploymentRecord { format, identity, list, is_complete } =
        check_record(record, options, &address)?;
    if !is_complete {
        let list = CoordinatorList::read(&list, "").map_err(failed)?;
        mark_all(router, &identity, &list, format == FORMAT.to_string()).await.map_err(failed)?;
        read(router, &["complete", &identity.id]).await.map_err(failed)?;
    }
    Ok(identity)
}

/// Refuses a deployment of another format or name.
fn check_record(
    record: DeploymentRecord,
    options: &Options,
    address: &str,
) -> Opened<DeploymentRecord> {
    if ![FORMAT, UNMARKED_FORMAT].iter().any(|known| known.to_string() == record.format) {
        return Err(OpenError::Format { found: record.format, known: FORMAT });
    }
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
    if let Some(marker) = markers().find(|marker| marker.format != FORMAT) {
        return Err(OpenError::Format { found: marker.format.to_string(), known: FORMAT });
    }
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
    let marks = shards.map(|shard| write_marker(router, shard, identity, list, note));
    stream::iter(marks).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// Writes a marker.
///
/// # Errors
/// When the shard belongs to another deployment, or does not reply.
pub(crate) async fn write_marker(
    router: &Router,
    shard: ShardId,
    identity: &Identity,
    list: &CoordinatorList,
    note: MarkerNote,
) -> Result<()> {
    let [own, before] = list.texts();
    let texts = [identity.id.clone(), identity.shards.to_string(), FORMAT.to_string()];
    let texts = texts.into_iter().chain([identity.name.clone(), own, before]);
    let flags = [note.confirms, note.restores, note.is_sealed].map(flag);
    let arguments = texts.map(String::into_bytes).chain(flags).collect();
    let call = Call::new(Script::WriteMarker, arguments);
    let mut reply = Reply::list(router.call(shard, call).await?)?;
    if reply.text()? == "OK" {
        return Ok(());
    }
    let other = reply.text()?;
    Err(damaged(format!("a shard belongs to another deployment, of id {other}")))
}

/// Optional changes that a call of `write_marker.lua` makes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MarkerNote {
    /// `true`: an operator confirms that the shard was rolled back.
    pub(crate) confirms: bool,
    /// `true`: the record of the deployment is restored, in shard 0.
    pub(crate) restores: bool,
    /// `true`: no node of an older build can act any more.
    pub(crate) is_sealed: bool,
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

/// Reads the markers of all shards.
pub(crate) async fn markers(
    router: &Router,
    shards: u16,
) -> Vec<(ShardId, Result<Option<Marker>>)> {
    let shards = (0..shards).map(ShardId);
    at_once(shards.map(async |shard| (shard, router.marker(shard).await))).await
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
    Ok(Some(DeploymentRecord { format, identity, list, is_complete: reply.flag()? }))
}

fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
