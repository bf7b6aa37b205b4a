//! Claims leases on due firings.
//!
//! 1. A claim is several scripts of at most [`SLICE`] firings each, so that none blocks the server for
//!    long.
//! 2. Its nonce is drawn before it is sent. If the reply is lost, or the caller stops waiting, the
//!    firings granted under the nonce are handed back without counting an attempt.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    change::{SWEEPS, digits, flag},
    deployment::Deployment,
    error::{damaged, unavailable},
    record::{Record, member_id_text, unreadable},
    reply::Reply,
    script::Script,
    settings::{LUA_MAX, lane_name},
    token::Ticket,
};
use duly_core::{Settings, TimerId, Timestamp, shard::ShardId};
use duly_store::{ClaimRequest, Claimed, Error, Firing, Owner, Result};

/// Most firings that one script grants.
const SLICE: usize = 128;
/// Most bytes of records that one script returns.
const SLICE_BYTES: usize = 1 << 20;
/// Most lanes that one script visits.
const LANES: usize = 64;
/// Attempts to hand a claim back. With the pause they last as long as the server remembers the grants.
const HAND_BACK_TRIES: u32 = 240;
const HAND_BACK_PAUSE: Duration = Duration::from_millis(250);

/// State of a claim under way.
struct Claiming<'a> {
    request: &'a ClaimRequest,
    nonce: [u8; 6],
    /// Number that may still be granted of each lane: first attempts, retries.
    left: Vec<(usize, usize)>,
    bytes_left: u64,
    claimed: Claimed,
    /// `true`: nothing more is to be granted.
    full: bool,
    /// Number, version and settings of the lanes' namespaces, as scripts of this claim returned them.
    spaces: HashMap<usize, (String, String, Arc<Settings>)>,
    larger: Vec<(usize, String, Record)>,
}

impl Deployment {
    pub(crate) async fn claim(
        self: &Arc<Self>,
        shard: ShardId,
        request: &ClaimRequest,
    ) -> Result<Claimed> {
        let [_, _, nonce @ ..] = rand::random::<u64>().to_be_bytes();
        let mut guard = HandBack {
            deployment: Arc::clone(self),
            shard,
            nonce,
            seen: false,
            kept: HashSet::new(),
        };
        let left = request.lanes.iter().map(|lane| (lane.first_max, lane.retry_max)).collect();
        let mut claiming = Claiming {
            request,
            nonce,
            left,
            bytes_left: request.bytes_max.min(LUA_MAX),
            claimed: Claimed::default(),
            full: false,
            spaces: HashMap::new(),
            larger: Vec::new(),
        };
        let mut from = 0;
        let mut sweeps = 0;
        let mut whole = true;
        while from < request.lanes.len() || (from == 0 && request.lanes.is_empty()) {
            let stepped = self.claim_step(shard, &mut claiming, from, sweeps < SWEEPS).await;
            match stepped {
                Ok(Some(next)) => from = next,
                Ok(None) => {
                    sweeps += 1;
                    self.sweep(shard).await?;
                }
                // What was granted before a failure is returned as granted.
                Err(error) if claiming.claimed.firings.is_empty() => {
                    // A shard that is unavailable has not executed the step: nothing is to be handed back.
                    guard.seen = matches!(error, Error::Unavailable { .. });
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "claim ended early; returning the firings granted so far, the rest is \
                         handed back"
                    );
                    whole = false;
                    break;
                }
            }
            if request.lanes.is_empty() {
                break;
            }
        }
        self.fetch_larger(shard, &mut claiming).await?;
        let claimed = claiming.claimed;
        guard.seen = whole;
        if !whole {
            // The step that failed may have granted firings whose reply was lost.
            guard.kept = claimed.firings.iter().map(|firing| firing.id.clone()).collect();
        }
        Ok(claimed)
    }

    /// Runs one script: the lanes from `from` on. Returns the lane to continue at; `None` if something has
    /// ended that must be swept first.
    async fn claim_step(
        &self,
        shard: ShardId,
        claiming: &mut Claiming<'_>,
        from: usize,
        strict: bool,
    ) -> Result<Option<usize>> {
        let request = claiming.request;
        let lanes = &request.lanes[from..request.lanes.len().min(from + LANES)];
        let granted = claiming.claimed.firings.len();
        let total = request.total_max.saturating_sub(granted);
        let (member_id, lease) = match request.owner {
            Owner::Node(member_id) => (member_id_text(member_id), Vec::new()),
            Owner::Consumer { lease } => {
                ("C".to_owned(), lease.map_or_else(Vec::new, |lease| digits(lease.ms())))
            }
        };
        let mut arguments = vec![
            claiming.nonce.to_vec(),
            digits(granted),
            member_id.into_bytes(),
            lease,
            flag(strict),
            digits(total),
            digits(claiming.bytes_left),
            flag(granted > 0),
            flag(claiming.full),
            digits(SLICE),
            digits(SLICE_BYTES),
        ];
        for (i, wanted) in (from..).zip(lanes) {
            let (first, retry) = claiming.left[i];
            let known = claiming.spaces.get(&i);
            let known =
                known.map_or_else(Vec::new, |(num, ver, _)| format!("{num}:{ver}").into_bytes());
            arguments.push(wanted.lane.namespace.as_str().as_bytes().to_vec());
            arguments.push(lane_name(&wanted.lane.key).into_bytes());
            arguments.push(digits(first));
            arguments.push(digits(retry));
            arguments.push(known);
        }
        let mut reply = self.call_script(shard, Script::Claim, arguments).await?;
        let (word, now) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "OK" => {}
            "OWED" => return Ok(None),
            "GONE" => return Err(Error::Evicted),
            "VOID" => return Err(unavailable("the claim was taken back")),
            other => return Err(damaged(format!("unknown reply to a claim: {other}"))),
        }
        let time_to = |at: Timestamp| Duration::from_millis(at.saturating_since(now).ms());
        let stopped = reply.text()?;
        let go_on_at = usize::try_from(reply.number()?).unwrap_or(0);
        let (mut groups, mut grants) = (reply.items()?, reply.items()?);
        let (mut more, mut settings) = (reply.items()?, reply.items()?);
        claiming.claimed.next_due_in = reply.maybe_time()?.map(time_to);
        if let Some(next_here) = reply.maybe_time()?.map(time_to) {
            let known = claiming.claimed.next_here.get_or_insert(next_here);
            *known = next_here.min(*known);
        }
        claiming.claimed.nothing_else = reply.flag()? && request.lanes.len() <= LANES;
        while !settings.is_done() {
            let mut row = settings.items()?;
            let i = lane_index(from, row.number()?);
            let version = row.text()?;
            let (num, ver) = version.split_once(':').unwrap_or((&version, ""));
            let settings = self.settings_of(num, ver, &row.bytes()?)?;
            claiming.spaces.insert(i, (num.to_owned(), ver.to_owned(), settings));
        }
        while !groups.is_done() {
            let i = lane_index(from, groups.number()?);
            let is_first = groups.text()? == "f";
            let count = groups.number()?;
            let until = groups.number()?;
            for _ in 0..count {
                claiming.grant(shard, self.seed, i, until, &mut grants)?;
            }
            let (first, retry) = &mut claiming.left[i];
            let left = if is_first { first } else { retry };
            *left = left.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        }
        while !more.is_done() {
            let lane = &request.lanes[lane_index(from, more.number()?)].lane;
            if !claiming.claimed.more.contains(lane) {
                claiming.claimed.more.push(lane.clone());
            }
        }
        claiming.full |= stopped == "full";
        Ok(Some(if stopped == "slice" {
            lane_index(from, go_on_at as u64)
        } else {
            from + lanes.len()
        }))
    }

    /// Reads payloads that are stored apart. A payload of another version means that the lease was lost
    /// in between; the firing is left out.
    async fn fetch_larger(&self, shard: ShardId, claiming: &mut Claiming<'_>) -> Result<()> {
        if claiming.larger.is_empty() {
            return Ok(());
        }
        let larger = std::mem::take(&mut claiming.larger);
        let wanted: Vec<(String, Vec<u8>)> = larger
            .iter()
            .map(|(_, num, record)| {
                (format!("p:{num}"), record.timer.id.as_str().as_bytes().to_vec())
            })
            .collect();
        let payloads = self.router.fields(shard, &wanted).await?;
        let mut lost = Vec::new();
        for ((i, _, mut record), payload) in larger.into_iter().zip(payloads) {
            let own = payload.map(|payload| record.attach(&payload.into())).transpose();
            let own = own.map_err(unreadable)?;
            if own == Some(true) {
                claiming.claimed.firings[i].spec = Arc::new(record.timer.spec);
            } else {
                lost.push(i);
            }
        }
        for i in lost.into_iter().rev() {
            claiming.claimed.firings.remove(i);
        }
        Ok(())
    }

    /// Hands back what a claim granted whose reply was lost, except for the timers in `kept`.
    async fn unclaim(&self, shard: ShardId, nonce: [u8; 6], kept: &HashSet<TimerId>) -> Result<()> {
        let mut reply = self.call_script(shard, Script::VoidClaim, vec![nonce.to_vec()]).await?;
        let _now = reply.time()?;
        while !reply.is_done() {
            let (num, id) = (reply.text()?, reply.timer_id()?);
            if !kept.contains(&id) {
                self.hand_back(shard, &num, &id, nonce).await?;
            }
        }
        Ok(())
    }
}

impl Claiming<'_> {
    /// Takes a grant of lane `i`, leased until `until`.
    fn grant(
        &mut self,
        shard: ShardId,
        seed: u64,
        i: usize,
        until: u64,
        row: &mut Reply,
    ) -> Result<()> {
        let at = row.time()?;
        let id = row.timer_id()?;
        let record = Record::unpack(id.clone(), &row.bytes()?).map_err(unreadable)?;
        let lane = &self.request.lanes[i].lane;
        let space = self.spaces.get(&i).ok_or_else(|| damaged("settings are missing"))?;
        let (num, _, settings) = space;
        let granted = self.claimed.firings.len();
        let number = u16::try_from(granted).unwrap_or(u16::MAX).to_be_bytes();
        let mut nonce = [0; 8];
        nonce[..6].copy_from_slice(&self.nonce);
        nonce[6..].copy_from_slice(&number);
        let timer = &record.timer;
        let ticket = Ticket {
            num: num.clone(),
            nonce: u64::from_be_bytes(nonce),
            incarnation: timer.incarnation,
            occurrence: timer.occurrence,
            id: id.clone(),
        };
        let bytes = timer.spec.content_bytes() + record.missing_bytes();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let leased_until = match self.request.owner {
            Owner::Node(_) => None,
            Owner::Consumer { .. } => Some(Timestamp::saturating_from_unix_ms(until)),
        };
        let token = ticket.token(shard, seed);
        if record.lacks_payload() {
            self.larger.push((granted, num.clone(), record.clone()));
        }
        let settings = Arc::clone(settings);
        let firing = Firing::new(record.timer, token, lane, at, leased_until, settings);
        self.claimed.firings.push(firing);
        Ok(())
    }
}

/// Returns the place of a lane in the request, from its number in a script, which counts from 1.
fn lane_index(from: usize, number: u64) -> usize {
    from + usize::try_from(number).unwrap_or(1).saturating_sub(1)
}

/// Guard that hands a claim back unless its reply was seen, also if the call was dropped.
struct HandBack {
    deployment: Arc<Deployment>,
    shard: ShardId,
    nonce: [u8; 6],
    seen: bool,
    /// Timers whose grants were seen all the same.
    kept: HashSet<TimerId>,
}

impl Drop for HandBack {
    fn drop(&mut self) {
        if self.seen {
            return;
        }
        let (deployment, shard, nonce) = (Arc::clone(&self.deployment), self.shard, self.nonce);
        let kept = std::mem::take(&mut self.kept);
        self.deployment.router.spawn(async move {
            let mut tries = 0;
            while tries < HAND_BACK_TRIES {
                match deployment.unclaim(shard, nonce, &kept).await {
                    Ok(()) => return,
                    Err(error) => {
                        // A server that takes no calls may execute the claim when it goes on.
                        tries += u32::from(!matches!(error, Error::Unavailable { .. }));
                        tracing::debug!(%error, "claim not taken back yet, will retry");
                    }
                }
                tokio::time::sleep(HAND_BACK_PAUSE).await;
            }
            tracing::warn!(
                shard = shard.0,
                "lost claim not taken back; its firings stay leased until the lease or the member \
                 id ends"
            );
        });
    }
}
