//! Reads: one timer, lists, counts, forecasts.

use duly_core::{NamespaceName, State, TimerId, Timestamp, shard::ShardId, totals::Totals};
use duly_decide::{LiveTimer, context_of};
use duly_store::{
    Error, Forecast, ForecastRequest, ListRequest, Page, Result, Stats, TimerView,
    query::{Body, LaneStats, ListState, Position},
};

use crate::{
    change::{SWEEPS, digits, flag},
    deployment::{Deployment, NamespaceRef, ReadRequest},
    error::damaged,
    keys,
    namespaces::Absence,
    record::{self, Record, read_lease, unreadable},
    reply::Reply,
    row::{Control, Row},
    script::Script,
    settings::lane_key,
};

/// Most rows of a list that one script reads.
const WINDOW: usize = 256;
/// Bytes of records after which a script reads no more rows.
const WINDOW_BYTES: u64 = 1 << 20;
/// Most windows that one page reads.
const WINDOWS: usize = 8;
/// Timers that one script puts into a set for lists.
const INDEXED: usize = 256;
/// Lanes of a forecast that one script counts.
const FORECAST_LANES: usize = 8;

/// A row of a list: its position, and the timer unless it has ended or gone in between.
struct ListRow {
    position: Position,
    num: String,
    view: Option<TimerView>,
    record: Option<Record>,
}

impl Deployment {
    pub(crate) async fn get(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        id: &TimerId,
        bytes_max: u64,
    ) -> Result<Option<TimerView>> {
        let wanted = ReadRequest { payload_bytes_max: bytes_max, ..ReadRequest::new(name, id) };
        match self.row(shard, wanted).await? {
            Some(Row { case, .. }) => {
                let view = case.view_by_clock();
                view.map(|view| case.check_memory(&view, bytes_max).map(|()| view)).transpose()
            }
            None => self.absent(shard, name).await.map(|_| None),
        }
    }

    pub(crate) async fn list(&self, shard: ShardId, request: &ListRequest) -> Result<Page> {
        request.check()?;
        let mut page = Page::default();
        let mut after = request.after.clone();
        let mut left = request.bytes_max;
        for _ in 0..WINDOWS {
            let (rows, done) = self.window(shard, request, after.as_ref()).await?;
            let last = rows.len();
            for (i, row) in rows.into_iter().enumerate() {
                page.examined += 1;
                let ListRow { position, num, view, record } = row;
                let before = after.replace(position);
                let Some(mut view) = view.filter(|view| request.admits(view)) else {
                    continue;
                };
                let missing = record.as_ref().map_or(0, Record::missing_bytes);
                let bytes = view.memory_bytes() + missing;
                if bytes > left {
                    return page_before(page, before, bytes);
                }
                if let Some(mut record) = record.filter(Record::lacks_payload) {
                    let key = match view.state {
                        State::Dead => record::firing_key_of(&record),
                        _ => view.id().as_str().into(),
                    };
                    let wanted = [(format!("p:{num}"), key)];
                    let found = self.router.fields(shard, &wanted).await?.pop().flatten();
                    let own = found.map(|payload| record.attach(&payload.into())).transpose();
                    let own = own.map_err(unreadable)?;
                    if own != Some(true) {
                        // The timer has changed in between: use its present state, if it still matches.
                        let (name, id) = (&request.namespace, view.id());
                        let now = match self.get(shard, name, id, left).await {
                            Err(Error::TooLarge { bytes }) => {
                                return page_before(page, before, bytes);
                            }
                            now => now?,
                        };
                        let Some(now) = now.filter(|now| request.admits(now)) else { continue };
                        view = now;
                    } else if let Body::Whole(timer) = &mut view.body {
                        timer.spec.payload = record.timer.spec.payload;
                    }
                }
                left = left.saturating_sub(view.memory_bytes());
                page.timers.push(view);
                if page.timers.len() >= request.limit {
                    page.next = after.filter(|_| !done || i + 1 < last);
                    return Ok(page);
                }
            }
            if done {
                return Ok(page);
            }
        }
        page.next = after;
        Ok(page)
    }

    /// Returns some rows after a position, and `true` if there are no more.
    async fn window(
        &self,
        shard: ShardId,
        request: &ListRequest,
        after: Option<&Position>,
    ) -> Result<(Vec<ListRow>, bool)> {
        let kind = match request.state {
            ListState::Pending => "pending",
            ListState::Only(State::Scheduled) => "scheduled",
            ListState::Only(State::Due) => "due",
            ListState::Only(State::InFlight | State::Retrying) => "busy",
            ListState::Only(State::Dead) => "dead",
            ListState::Only(State::Finished) => "F",
            ListState::Only(State::Cancelled) => "C",
        };
        let time = |at: Option<Timestamp>| at.map_or_else(Vec::new, |at| digits(at.unix_ms()));
        let key = after.map_or_else(Vec::new, |after| match kind {
            "dead" => keys::firing_key(&after.id, after.incarnation, after.occurrence),
            _ => after.id.as_str().as_bytes().to_vec(),
        });
        let arguments = |strict| {
            vec![
                flag(strict),
                request.namespace.as_str().as_bytes().to_vec(),
                kind.as_bytes().to_vec(),
                time(request.due_from),
                time(request.due_to),
                time(after.map(|after| after.due_at)),
                key.clone(),
                digits(WINDOW.min(request.limit.max(16) + 1)),
                Vec::new(),
                digits(request.bytes_max.clamp(1, WINDOW_BYTES)),
            ]
        };
        let (now, mut reply) = loop {
            let (word, now, mut reply) = self.call_swept(shard, Script::List, arguments).await?;
            match word.as_str() {
                "OK" => break (now, reply),
                "INDEX" => self.make_index(shard, &request.namespace, reply.text()?).await?,
                _ => {
                    let name = &request.namespace;
                    if self.absent(shard, name).await? == Absence::NoNamespace {
                        return Err(Error::UnknownNamespace(name.to_string()));
                    }
                }
            }
        };
        let (num, ver, blob) = (reply.text()?, reply.text()?, reply.bytes()?);
        let settings = self.settings_of(&num, &ver, &blob)?;
        let context = context_of(&request.namespace, &settings, now);
        let done = reply.flag()?;
        let mut found = reply.items()?;
        let mut rows = Vec::new();
        while !found.is_done() {
            let mut row = found.items()?;
            let (due_at, key) = (row.time()?, row.bytes()?);
            let (packed, lease) = (row.bytes()?, row.bytes()?);
            let (id, incarnation, occurrence) =
                keys::parse_firing_key(&key).ok_or_else(|| damaged("a key of a firing"))?;
            let position = Position { due_at, id: id.clone(), incarnation, occurrence };
            let (view, record) = match kind {
                _ if packed.is_empty() => (None, None),
                "F" | "C" => {
                    let tombstone = record::decode_tombstone(id, &packed).map_err(unreadable)?;
                    let ends = tombstone.ended_at.saturating_add(settings.retention);
                    let view = TimerView::tombstone(request.namespace.clone(), tombstone);
                    ((ends > now).then_some(view), None)
                }
                "dead" => {
                    let record = Record::unpack(id, &packed).map_err(unreadable)?;
                    let timer = record.timer.clone();
                    let view = TimerView::whole(request.namespace.clone(), State::Dead, timer);
                    (Some(view), Some(record))
                }
                _ => {
                    let record = Record::unpack(id, &packed).map_err(unreadable)?;
                    let live = LiveTimer { record, lease: read_lease(&lease).map_err(unreadable)? };
                    (live.view_by_clock(&context), Some(live.record))
                }
            };
            rows.push(ListRow { position, num: num.clone(), view, record });
        }
        Ok((rows, done))
    }

    /// Makes a set for lists of leased or ended timers, or keeps it for longer.
    async fn make_index(&self, shard: ShardId, name: &NamespaceName, what: String) -> Result<()> {
        loop {
            let name = name.as_str().as_bytes().to_vec();
            let arguments = vec![name, what.clone().into_bytes(), digits(INDEXED)];
            let mut reply = self.call_script(shard, Script::Index, arguments).await?;
            let _now = reply.time()?;
            if reply.text()? != "MORE" {
                return Ok(());
            }
        }
    }

    pub(crate) async fn stats(
        &self,
        shard: ShardId,
        name: &NamespaceName,
    ) -> Result<Option<Stats>> {
        for round in 0.. {
            let strict = round < SWEEPS;
            let own = name.as_str().as_bytes().to_vec();
            let arguments = |swept: bool| vec![flag(swept && strict), own.clone()];
            let (word, _, mut reply) = self.call_swept(shard, Script::Stats, arguments).await?;
            match word.as_str() {
                "NONE" => {
                    if self.absent(shard, name).await? == Absence::NoNamespace {
                        return Ok(None);
                    }
                }
                "TRIM" => {
                    self.trim(shard, name).await?;
                }
                _ => return read_stats(&mut reply).map(Some),
            }
        }
        Ok(None)
    }

    /// Drops tombstones whose retention is over. Returns their number.
    pub(crate) async fn trim(&self, shard: ShardId, name: &NamespaceName) -> Result<u64> {
        let arguments = vec![name.as_str().as_bytes().to_vec(), digits(64)];
        let call = crate::connection::Call::new(Script::Trim, arguments);
        match self.router.call(shard, call).await? {
            redis::Value::Int(dropped) => Ok(u64::try_from(dropped).unwrap_or(0)),
            other => Err(damaged(format!("unknown reply of a script: {other:?}"))),
        }
    }

    pub(crate) async fn forecast(
        &self,
        shard: ShardId,
        request: &ForecastRequest,
    ) -> Result<Option<Forecast>> {
        request.check()?;
        let mut forecast: Option<Forecast> = None;
        let mut first = 0;
        loop {
            let seen = forecast.as_ref().map(|forecast| forecast.now);
            let arguments = |strict| {
                vec![
                    flag(strict && seen.is_none()),
                    request.namespace.as_str().as_bytes().to_vec(),
                    seen.map_or_else(Vec::new, |seen| digits(seen.unix_ms())),
                    digits(request.bucket.ms()),
                    digits(request.count),
                    digits(first),
                    digits(FORECAST_LANES),
                ]
            };
            let (word, now, mut reply) =
                self.call_swept(shard, Script::Forecast, arguments).await?;
            if word == "NONE" {
                if self.absent(shard, &request.namespace).await? == Absence::NoNamespace {
                    return Ok(None);
                }
                continue;
            }
            let next = reply.maybe_number()?;
            let in_flight = reply.number()?;
            let counted = forecast.get_or_insert_with(|| Forecast::new(request, now));
            counted.in_flight = in_flight;
            counted.overdue += reply.number()?;
            counted.later += reply.number()?;
            while !reply.is_done() {
                let (bucket, count) = (reply.number()?, reply.number()?);
                let bucket = usize::try_from(bucket).ok();
                if let Some(own) = bucket.and_then(|bucket| counted.buckets.get_mut(bucket)) {
                    *own += count;
                }
            }
            match next {
                Some(next) => first = next,
                None => return Ok(forecast),
            }
        }
    }

    /// Reads a namespace in a shard.
    pub(crate) async fn control_of(
        &self,
        shard: ShardId,
        name: &NamespaceName,
    ) -> Result<(Timestamp, Option<Control>)> {
        let row = self.row(shard, ReadRequest::bare(NamespaceRef::Named(name), None)).await?;
        let now = row.as_ref().map_or(Timestamp::MIN, |row| row.case.now);
        Ok((now, row.map(|row| row.control)))
    }
}

/// Ends a page before a timer that does not fit: it takes `bytes` bytes of memory.
fn page_before(mut page: Page, before: Option<Position>, bytes: u64) -> Result<Page> {
    if page.timers.is_empty() {
        return Err(Error::TooLarge { bytes });
    }
    page.next = before;
    Ok(page)
}

/// Parses the reply of `stats.lua`.
fn read_stats(reply: &mut Reply) -> Result<Stats> {
    let paused = reply.flag()?;
    let (next_due_at, oldest_due_at) = (reply.maybe_time()?, reply.maybe_time()?);
    let (dead, retained) = (reply.number()?, reply.number()?);
    let mut counts = reply.items()?;
    let _pending = counts.number()?;
    let in_flight = counts.number()?;
    let pending_bytes = counts.number()?;
    let totals = Totals {
        scheduled: counts.number()?,
        fired: counts.number()?,
        delivered: counts.number()?,
        failed: counts.number()?,
        cancelled: counts.number()?,
        rescheduled: counts.number()?,
        dead: counts.number()?,
    };
    let mut stats = Stats {
        in_flight,
        dead,
        retained,
        pending_bytes,
        next_due_at,
        oldest_due_at,
        paused,
        totals,
        ..Stats::default()
    };
    let mut lanes = reply.items()?;
    while !lanes.is_done() {
        let mut row = lanes.items()?;
        let key = lane_key(&row.text()?).map_err(unreadable)?;
        let (due, later) = (row.number()?, row.number()?);
        let (retry_due, retries, in_flight) = (row.number()?, row.number()?, row.number()?);
        stats.due += due;
        stats.scheduled += later;
        stats.retrying += retries;
        stats.add_lane(LaneStats { key, due, retry_due, in_flight });
    }
    Ok(stats)
}
