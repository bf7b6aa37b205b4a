//! The lanes that have something claimable, page by page.

use std::{sync::Arc, time::Duration};

use duly_core::{Settings, shard::ShardId};
use duly_store::{Error, Lane, Ready, ReadyCursor, ReadyLane, Result};

use crate::{
    change::{digits, flag},
    deployment::{Deployment, NamespaceRef, ReadRequest},
    record::unreadable,
    script::Script,
    settings::lane_key,
};

/// Most entries of the index of lanes that one script reads.
const ROWS: usize = 256;

impl Deployment {
    pub(crate) async fn ready(
        self: &Arc<Self>,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> Result<Ready> {
        let (score, member) = match &after {
            Some(cursor) => read_cursor(cursor)?,
            None => (Vec::new(), Vec::new()),
        };
        let rows = limit.clamp(1, ROWS);
        let arguments = |strict| vec![flag(strict), score.clone(), member.clone(), digits(rows)];
        let (_, now, mut reply) = self.call_swept(shard, Script::Ready, arguments).await?;
        let next_at = reply.maybe_time()?;
        let (score, member) = (reply.bytes()?, reply.bytes()?);
        let mut found = reply.items()?;
        let mut full = reply.items()?;
        while !full.is_done() {
            let mut row = full.items()?;
            self.rebalance_dead_letters(shard, &row.text()?, row.text()?);
        }
        let mut lanes: Vec<ReadyLane> = Vec::new();
        while !found.is_done() {
            let mut row = found.items()?;
            let namespace = row.name()?;
            let (num, ver) = (row.text()?, row.text()?);
            let key = lane_key(&row.text()?).map_err(unreadable)?;
            let (class, count) = (row.text()?, row.number()?);
            let lane = Lane { namespace, key };
            let place = lanes.iter().position(|known| known.lane == lane);
            let place = match place {
                Some(place) => place,
                None => {
                    let settings = match self.remembered(&num, &ver) {
                        None => self.settings_now(shard, &num).await?,
                        known => known,
                    };
                    let Some(settings) = settings else { continue };
                    lanes.push(ReadyLane { lane, first: 0, retry: 0, settings });
                    lanes.len() - 1
                }
            };
            if class == "f" {
                lanes[place].first += count;
            } else {
                lanes[place].retry += count;
            }
        }
        lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
        Ok(Ready {
            lanes,
            cursor: (!score.is_empty())
                .then(|| ReadyCursor::new(&[&score[..], b"\0", &member].concat())),
            next_due_in: next_at.map(|at| Duration::from_millis(at.saturating_since(now).ms())),
        })
    }

    async fn settings_now(&self, shard: ShardId, num: &str) -> Result<Option<Arc<Settings>>> {
        let row = self.row(shard, ReadRequest::bare(NamespaceRef::Numbered(num), None)).await?;
        Ok(row.map(|row| row.control.settings))
    }
}

fn read_cursor(cursor: &ReadyCursor) -> Result<(Vec<u8>, Vec<u8>)> {
    let own = cursor.own();
    let cut = own.iter().position(|byte| *byte == 0);
    let cut = cut.ok_or_else(|| {
        Error::Invalid(duly_core::Invalid::unseen("after", "a cursor that this store made"))
    })?;
    Ok((own[..cut].to_vec(), own[cut + 1..].to_vec()))
}
