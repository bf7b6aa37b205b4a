//! Claim: leases due firings.
//!
//! A claim is written to the journal before its firings are returned, but not synced. So kill -9 does not
//! lose it; a power loss may.

use std::sync::Arc;

use duly_core::{
    State, Timer, TimerSpec, Timestamp,
    lifecycle::{Event, Transition, transition},
};
use duly_store::{ClaimRequest, Claimed, Error, Firing, Lane, LaneClaim, Owner};

use crate::{
    files::ReadError,
    format::record::{self, Decoded, Record},
    index::{AttemptKind, Entry, Key, Location},
};

use super::{Engine, NotWritten, lane_due::DuePlace, lanes, leases, refill::VISITS_AT_ONCE};

/// Records that are read at once.
const READ_AT_ONCE: usize = 1_024;
/// Failed reads after which a claim stops: for one kind of a lane, and in total. Each failed read costs
/// the disk time. The timers that failed do not delay the next claim.
const FAILURES_MAX: (usize, usize) = (32, 128);

/// Result of the claim of one timer.
enum ClaimOneResult {
    Granted(Box<Firing>),
    /// The timer is no longer claimable.
    Skipped,
    /// The timer is larger than the rest of the claim's bytes.
    OverBudget,
}

/// Limits of a claim, less what is used.
struct ClaimBudget {
    total: usize,
    bytes: u64,
    granted: bool,
    /// Timers that may be visited to fill empty windows.
    visits: usize,
    /// Reads that may still fail.
    failures: usize,
}

impl Engine {
    /// Grants leases. The caller commits before it replies.
    pub(crate) fn claim(&mut self, request: &ClaimRequest) -> Result<Claimed, Error> {
        duly_store::claim::check(request)?;
        let mut claimed = Claimed::default();
        let mut budget = ClaimBudget {
            total: request.total_max,
            bytes: request.bytes_max,
            granted: false,
            visits: VISITS_AT_ONCE,
            failures: FAILURES_MAX.1,
        };
        for lane in &request.lanes {
            let Some(number) = self.namespaces.number_of(&lane.lane.namespace) else {
                continue;
            };
            for kind in AttemptKind::ALL {
                let taken = self.claim_kind(number, lane, kind, request, &mut budget, &mut claimed);
                // Firings that were granted before the disk was full are returned. A store that has ended
                // returns none.
                if taken.is_err() && (self.terminal_error.is_some() || claimed.firings.is_empty()) {
                    return taken.map(|()| claimed);
                }
            }
            if self.has_claimable(number, &lane.lane) {
                claimed.more.push(lane.lane.clone());
            }
        }
        claimed.next_due_in = self.next_due_in();
        Ok(claimed)
    }

    fn claim_kind(
        &mut self,
        number: u32,
        lane: &LaneClaim,
        kind: AttemptKind,
        request: &ClaimRequest,
        budget: &mut ClaimBudget,
        claimed: &mut Claimed,
    ) -> Result<(), Error> {
        let most = match kind {
            AttemptKind::First => lane.first_max,
            AttemptKind::Retry => lane.retry_max,
        };
        let mut taken = 0;
        let mut failures = budget.failures.min(FAILURES_MAX.0);
        budget.failures -= failures;
        while taken < most && budget.total > 0 && failures > 0 {
            let wanted = (most - taken).min(budget.total).min(READ_AT_ONCE);
            let mut entries = self.earliest(number, &lane.lane, kind, wanted, &mut budget.visits);
            truncate_to(&mut entries, budget.bytes);
            if entries.is_empty() {
                break;
            }
            let locations: Vec<Location> = entries.iter().map(Entry::location).collect();
            let reads = self.read_many(&locations, failures).into_vec();
            for (entry, read) in entries.iter().zip(reads) {
                let read = match read {
                    Some(Err(ReadError::Disk(error))) => {
                        failures -= 1;
                        self.mark_unreadable(entry.key(number), entry, &error);
                        continue;
                    }
                    Some(read) => read,
                    None => continue,
                };
                let timer = read.and_then(timer_of);
                match self.claim_one(number, lane, entry, timer, request, budget)? {
                    ClaimOneResult::Granted(firing) => {
                        taken += 1;
                        claimed.firings.push(*firing);
                    }
                    ClaimOneResult::Skipped => {}
                    ClaimOneResult::OverBudget => {
                        budget.total = 0;
                        break;
                    }
                }
            }
        }
        // Claimers that wait for the timers after the failed ones should claim again.
        self.wake |= failures == 0;
        budget.failures += failures;
        Ok(())
    }

    fn claim_one(
        &mut self,
        number: u32,
        lane: &LaneClaim,
        entry: &Entry,
        timer: Result<Box<Timer>, ReadError>,
        request: &ClaimRequest,
        budget: &mut ClaimBudget,
    ) -> Result<ClaimOneResult, Error> {
        let key = entry.key(number);
        let timer = match timer {
            Ok(timer) => timer,
            Err(error) => {
                self.settled(|engine| engine.quarantine(key, entry, &error))?;
                return Ok(ClaimOneResult::Skipped);
            }
        };
        let Some(timer) = self.settled(|engine| engine.expire_timer(key, timer))? else {
            return Ok(ClaimOneResult::Skipped);
        };
        if timer.due_at > self.now.wall() {
            // The wall clock has stepped back behind the retry's due time.
            self.defer_retry(key, entry);
            return Ok(ClaimOneResult::Skipped);
        }
        let bytes = timer.spec.content_bytes();
        if budget.granted && bytes > budget.bytes {
            return Ok(ClaimOneResult::OverBudget);
        }
        let firing = self.grant(number, &lane.lane, entry, timer, request)?;
        budget.bytes = budget.bytes.saturating_sub(bytes);
        budget.total -= 1;
        budget.granted = true;
        Ok(ClaimOneResult::Granted(Box::new(firing)))
    }

    /// Returns `true` if the earliest timers of a lane of the port are in the resident windows. In a
    /// small namespace, fills an empty window first.
    fn is_filled(
        &mut self,
        number: u32,
        lane: &Lane,
        kind: AttemptKind,
        visits: &mut usize,
    ) -> bool {
        let Some(namespace) = self.namespaces.get(number) else {
            return false;
        };
        let numbers = namespace.lanes.numbers_of(&lane.key, &namespace.record.settings.destination);
        let mut slots = numbers.into_iter().flatten();
        slots.all(|slot| self.fill_at_once((number, slot, kind), visits))
    }

    /// Returns `true` if a lane of the port has more claimable timers, resident or spilled.
    fn has_claimable(&self, number: u32, lane: &Lane) -> bool {
        let Some(namespace) = self.namespaces.get(number).filter(|ns| ns.is_claimable()) else {
            return false;
        };
        let own = &namespace.record.settings.destination;
        let numbers = namespace.lanes.numbers_of(&lane.key, own).into_iter().flatten();
        numbers.filter_map(|slot| namespace.lanes.get(slot)).any(lanes::Lane::is_claimable)
    }

    /// Returns the earliest claimable entries of a lane of the port in due order, at most `wanted`.
    /// Returns none while the earliest is spilled.
    fn earliest(
        &mut self,
        number: u32,
        lane: &Lane,
        kind: AttemptKind,
        wanted: usize,
        visits: &mut usize,
    ) -> Vec<Entry> {
        if !self.is_filled(number, lane, kind, visits) {
            return Vec::new();
        }
        let Some(namespace) = self.namespaces.get(number).filter(|ns| ns.is_claimable()) else {
            return Vec::new();
        };
        let now_ms = self.clock_of(kind);
        let numbers = namespace.lanes.numbers_of(&lane.key, &namespace.record.settings.destination);
        let lanes = numbers.map(|slot| Some(namespace.lanes.get(slot?)?.due(kind)));
        let lanes = lanes.into_iter().flatten();
        // Past the end of a window with spilled timers, a timer of the other lane may not come first.
        let spilled = lanes.clone().filter(|due| due.has_spilled());
        let hidden_from = spilled.filter_map(|due| due.window().last()).min();
        let mut places: Vec<&DuePlace> = lanes
            .flat_map(|due| due.window().iter().take(wanted))
            .filter(|place| place.at_ms <= now_ms && hidden_from.is_none_or(|last| *place <= last))
            .collect();
        places.sort_unstable();
        places.truncate(wanted);
        let keys = places.iter().map(|place| Key::unpack(place.key));
        namespace.live.warm(keys.clone());
        keys.filter_map(|key| namespace.live.get(key)).collect()
    }

    fn grant(
        &mut self,
        number: u32,
        lane: &Lane,
        entry: &Entry,
        timer: Box<Timer>,
        request: &ClaimRequest,
    ) -> Result<Firing, Error> {
        let key = entry.key(number);
        let state = self.state_of(entry);
        let allowed = transition(Some(state), Event::Claim);
        assert_eq!(allowed, Transition::Move(State::InFlight), "only a due firing is claimed");
        assert!(timer.due_at <= self.now.wall(), "P2: a claim before the due time");
        let settings = Arc::clone(&self.namespace(number).record.settings);
        let nonce = self.random_u64();
        let attempt = timer.attempts.saturating_add(1);
        let claimed_at = self.now.wall();
        let (node, lease) = match request.owner {
            Owner::Node(member) => (Some(member.0), None),
            Owner::Consumer { lease } => (None, Some(lease.unwrap_or(settings.lease))),
        };
        let until = claimed_at.saturating_add(lease.unwrap_or_default());
        let lease_ms = lease.unwrap_or_default().ms();
        let granted = record::Lease {
            nonce,
            attempt,
            node,
            claimed_at,
            lease_ms,
            until,
            extends: false,
            stopped: false,
        };
        let record = Record::Lease { id: timer.id.clone(), lease: granted };
        let claimable_at = self.wall_of(entry);
        self.settled(|engine| engine.write_keyed(key, &record))?;
        self.leases.keep_head(key, || head_of(&timer));
        let leased_until = lease.map(|_| until);
        Ok(Firing::new(
            *timer,
            leases::token(key, nonce),
            lane,
            claimable_at,
            leased_until,
            settings,
        ))
    }

    /// Returns the time at which an entry became claimable, by the wall clock.
    fn wall_of(&self, entry: &Entry) -> Timestamp {
        let claimable = entry.claimable();
        let ago_ms = self.clock_of(claimable.kind).saturating_sub(claimable.at_ms);
        Timestamp::saturating_from_unix_ms(self.now.wall_ms.saturating_sub(ago_ms))
    }

    /// Turns a refused write into an error of the whole call.
    pub(super) fn settled<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, NotWritten>,
    ) -> Result<T, Error> {
        write(self).map_err(|stop| match stop {
            NotWritten::Refused(refusal) => Error::Unavailable {
                reason: refusal.to_string(),
                retry_after: duly_core::Millis::from_secs(1),
            },
            NotWritten::Unread(error) | NotWritten::NotNow(error) => error,
            NotWritten::Terminal => self
                .check_usable()
                .err()
                .unwrap_or_else(|| Error::InDoubt { reason: "a write failed".into() }),
        })
    }
}

/// Keeps the first entries, up to the first that exceeds `bytes_max` bytes of records in total, included.
/// The rest would be read in vain, and all are in memory at once.
fn truncate_to(entries: &mut Vec<Entry>, bytes_max: u64) {
    let mut bytes: u64 = 0;
    let fitting = entries.iter().take_while(|entry| {
        let begins_within = bytes <= bytes_max;
        bytes = bytes.saturating_add(entry.location().bytes_at_most());
        begins_within
    });
    let fitting = fitting.count().max(1);
    entries.truncate(fitting);
}

fn timer_of(decoded: Decoded) -> Result<Box<Timer>, ReadError> {
    match decoded.record {
        Record::Pending(_, timer) => Ok(timer),
        other => Err(super::wrong_kind(&other)),
    }
}

/// Returns the timer without the fields that an ack or an extension does not need.
fn head_of(timer: &Timer) -> Timer {
    let spec = TimerSpec { expire_after: timer.spec.expire_after, ..TimerSpec::default() };
    Timer { id: timer.id.clone(), history: timer.history.clone(), spec, ..*timer }
}
