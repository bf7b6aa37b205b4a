//! Unreadable due timers: reads that failed, tried again in rounds.
//!
//! ```text
//!   resident window of a lane ── claim, expiry: EIO ──► unreadable: index flag, still counted as due
//!            ▲                                               │ a few at a time, drawn at random
//!            └──────────────── the read succeeds ────────────┤
//!                                                            └─ it fails: again after a wait
//! ```
//!
//! Claims and expiries mark timers as unreadable; the tick retries them. How it works:
//!
//! 1. The flag `Flags::UNREADABLE` in the index entry keeps each such timer from being claimed. So any number
//!    of timers may be unreadable, and none of them delays another.
//! 2. At most `KEYS_MAX` of their keys are known here. A walk over the indexes finds the others later.
//! 3. One round tries a bounded number. While most reads succeed, the next round follows at once, so all
//!    timers are back soon after the disk recovers. If fewer succeed, the next round waits; if all reads
//!    fail, the wait doubles.
//!
//! What must stay true:
//!
//! 1. An entry with `Flags::UNREADABLE` also has `Flags::COUNTED_DUE`. It is not leased and in no resident
//!    window. A checkpoint keeps neither flag.
//! 2. While any timer is unreadable, a round or a walk is scheduled.

use duly_core::{NamespaceName, Timer};

use crate::{
    disk,
    files::ReadError,
    index::{AttemptKind, Cursor, Entry, Flags, Key, PackedKey, Scan},
};

use super::{Engine, step_budget::StepBudget};

/// Failed reads in one round; each may keep the disk busy for long.
const FAILURES_MAX: usize = 16;
/// Wait after a round in which few or no reads succeeded: the first and the longest.
const WAIT_MS: (u64, u64) = (1_000, 30_000);
/// Wait before another try to end a lease or firing whose record cannot be read, and which is not marked
/// as unreadable.
pub(super) const RETRY_UNREADABLE_MS: u64 = 10_000;
/// Most keys that are known.
const KEYS_MAX: usize = if cfg!(test) { 8 } else { 65_536 };
/// Known keys that one round checks.
const KEYS_PER_ROUND: usize = 4_096;
/// Tables that one step of a walk visits.
const TABLES_PER_STEP: usize = 16;
/// Wait that is announced while a walk is under way, so that waiting claimers are woken in time.
const WALK_MS: u64 = 100;
/// Namespaces that one step of a walk visits.
const NAMESPACES_PER_STEP: usize = 256;
/// Time between two log lines.
const LOG_EVERY_MS: u64 = 10_000;

/// State of the retries of unreadable timers.
#[derive(Debug, Default)]
pub(super) struct UnreadableTimers {
    /// Known keys, the latest last. A key whose timer is no longer unreadable is skipped.
    keys: Vec<PackedKey>,
    /// `true`: there may be unreadable timers whose keys are not known.
    has_unknown: bool,
    walk: UnreadableWalk,
    wait_ms: u64,
    /// Time of the next round, by the boot-time clock.
    next_round_ms: u64,
    /// Time of the last log line, by the boot-time clock.
    logged_ms: Option<u64>,
}

/// A walk over all indexes for unreadable timers. The next walk resumes where this one ended.
#[derive(Debug, Default)]
struct UnreadableWalk {
    is_under_way: bool,
    /// Namespace under way, or the one after which to resume.
    name: Option<NamespaceName>,
    at: Option<(u32, Cursor)>,
    /// `true`: the walk skipped some timers, or stopped early because `keys` was full.
    is_cut: bool,
}

impl Engine {
    /// Marks a due timer as unreadable, because the disk does not read its record now.
    pub(super) fn mark_unreadable(&mut self, key: Key, entry: &Entry, error: &disk::Error) {
        let number = key.namespace();
        if !self.namespaces.mark_unreadable(number, entry) {
            return;
        }
        self.check_window((number, entry.lane(), entry.claimable().kind));
        let unreadable = &mut self.unreadable;
        if unreadable.keys.len() < KEYS_MAX {
            unreadable.keys.push(key.pack());
        } else {
            unreadable.has_unknown = true;
            // A walk under way may have passed the timer already.
            unreadable.walk.is_cut |= unreadable.walk.is_under_way;
        }
        // The next round comes soon, because the new timer may be readable in a moment. `wait_ms`, the
        // wait after further failures, stays.
        let (first_ms, _) = WAIT_MS;
        let soon_ms = self.now.boot_ms + first_ms;
        unreadable.next_round_ms =
            if unreadable.wait_ms == 0 { soon_ms } else { unreadable.next_round_ms.min(soon_ms) };
        unreadable.wait_ms = unreadable.wait_ms.max(first_ms);
        self.log_unreadable(error);
    }

    /// Returns the milliseconds until the next round, or `None` if no timer is unreadable.
    pub(super) fn next_unreadable_round_in_ms(&self) -> Option<u64> {
        let waits = self.namespaces.dues.unreadable > 0;
        let least_ms = if self.unreadable.walk.is_under_way { WALK_MS } else { 0 };
        waits.then(|| self.unreadable.next_round_ms.saturating_sub(self.now.boot_ms).max(least_ms))
    }

    /// Tries some unreadable timers again, if it is time.
    pub(super) fn retry_unreadable(&mut self) {
        if self.namespaces.dues.unreadable == 0 {
            if self.unreadable.logged_ms.is_some() {
                tracing::info!("no due timer is unreadable any more");
                self.unreadable = UnreadableTimers::default();
            }
            return;
        }
        if self.now.boot_ms < self.unreadable.next_round_ms {
            return;
        }
        if self.unreadable.walk.is_under_way || self.unreadable.keys.is_empty() {
            self.walk_for_unreadable();
        } else {
            self.run_round();
        }
    }

    /// Runs one round.
    fn run_round(&mut self) {
        let (mut back, mut visits, mut failed) = (0, 0, Vec::new());
        let mut budget = StepBudget::for_pass();
        while failed.len() < FAILURES_MAX
            && visits < KEYS_PER_ROUND
            && !budget.is_spent()
            && let Some(key) = self.draw(visits)
        {
            visits += 1;
            let Some(entry) = self.namespaces.live(key).filter(is_unreadable) else {
                continue;
            };
            budget.spend(entry.location().bytes_estimate());
            match self.load_timer(entry.location()) {
                Err(ReadError::Disk(error)) => {
                    failed.push(key.pack());
                    self.log_unreadable(&error);
                }
                read => {
                    back += 1;
                    self.mark_readable(key, &entry, read.ok().as_deref());
                }
            }
        }
        let has_failed = failed.len();
        // If some keys are unknown, those are tried before these.
        if !self.unreadable.has_unknown {
            self.unreadable.keys.extend(failed);
        }
        let (first_ms, most_ms) = WAIT_MS;
        let wait_ms = match has_failed {
            _ if back > has_failed || (back == 0 && has_failed == 0) => 0,
            _ if back > 0 => first_ms,
            _ => (2 * self.unreadable.wait_ms).clamp(first_ms, most_ms),
        };
        self.unreadable.wait_ms = wait_ms.max(first_ms);
        self.unreadable.next_round_ms = self.now.boot_ms + wait_ms;
        self.busy |= wait_ms == 0;
    }

    /// Takes out one key: alternately the latest and a random one. So neither new failures wait for old
    /// ones, nor old ones for new ones.
    fn draw(&mut self, nth: usize) -> Option<Key> {
        let count = self.unreadable.keys.len();
        if count == 0 {
            return None;
        }
        let place = match nth % 2 {
            0 => count - 1,
            _ => usize::try_from(self.random_u64() % count as u64).unwrap_or(0),
        };
        Some(Key::unpack(self.unreadable.keys.swap_remove(place)))
    }

    /// Makes a timer claimable again. `timer` is its record as read, or `None` if the record is damaged;
    /// the claim finds that.
    fn mark_readable(&mut self, key: Key, entry: &Entry, timer: Option<&Timer>) {
        let number = key.namespace();
        self.namespaces.mark_readable(number, entry, self.options.overdue_max);
        self.check_window((number, entry.lane(), entry.claimable().kind));
        self.wake = true;
        if let Some(expires_at) = timer.and_then(Timer::expires_at) {
            self.expiries.insert(expires_at.unix_ms() + 1, key.pack());
        }
        if entry.claimable().kind == AttemptKind::Retry
            && self.may_be_ahead()
            && let Some(entry) = self.namespaces.live(key)
        {
            self.defer_retry(key, &entry);
        }
    }

    /// Runs one step of a walk that finds keys.
    fn walk_for_unreadable(&mut self) {
        let (mut tables, mut namespaces) = (0, 0);
        self.busy = true;
        self.unreadable.walk.is_under_way = true;
        while tables < TABLES_PER_STEP && namespaces < NAMESPACES_PER_STEP {
            let walk = &mut self.unreadable.walk;
            let Some((number, cursor)) = walk.at else {
                namespaces += 1;
                if self.next_unreadable_namespace() {
                    continue;
                }
                return;
            };
            tables += 1;
            let scan = self.namespaces.get(number).and_then(|found| found.live.scan(cursor));
            walk.at = scan.as_ref().and_then(|scan| scan.next).map(|next| (number, next));
            let entries = scan.iter().flat_map(Scan::entries);
            let found = entries.filter(is_unreadable).map(|entry| entry.key(number).pack());
            self.unreadable.keys.extend(found);
            if self.unreadable.keys.len() >= KEYS_MAX {
                let walk = &mut self.unreadable.walk;
                (walk.is_under_way, walk.is_cut) = (false, true);
                return;
            }
        }
    }

    /// Moves to the next namespace. Returns `false` if the walk is complete.
    fn next_unreadable_namespace(&mut self) -> bool {
        let unreadable = &mut self.unreadable;
        let next = self.namespaces.names_after(unreadable.walk.name.as_ref()).next();
        let Some((name, number)) = next.map(|(name, number)| (name.clone(), number)) else {
            let was_cut = std::mem::take(&mut unreadable.walk).is_cut;
            if was_cut && unreadable.keys.is_empty() {
                // The namespaces before the place at which the walk resumed are still to be visited.
                return true;
            }
            unreadable.has_unknown = was_cut;
            if unreadable.keys.is_empty() {
                // The count is wrong: the auditor corrects it.
                unreadable.next_round_ms = self.now.boot_ms + WAIT_MS.1;
            }
            return false;
        };
        let namespace = self.namespaces.get(number);
        let mut lanes = namespace.iter().flat_map(|namespace| namespace.lanes.iter());
        unreadable.walk.at =
            lanes.any(|(_, lane)| lane.has_unreadable()).then_some((number, Cursor::START));
        unreadable.walk.name = Some(name);
        true
    }

    /// Logs the failures, at most once in `LOG_EVERY_MS`.
    fn log_unreadable(&mut self, error: &disk::Error) {
        let now_ms = self.now.boot_ms;
        if self.unreadable.logged_ms.is_none_or(|logged_ms| now_ms >= logged_ms + LOG_EVERY_MS) {
            self.unreadable.logged_ms = Some(now_ms);
            let count = self.namespaces.dues.unreadable;
            tracing::warn!(
                %error, count,
                "due timers are unreadable, will retry; other timers are not affected"
            );
        }
    }
}

fn is_unreadable(entry: &Entry) -> bool {
    entry.flags().has(Flags::UNREADABLE)
}

#[cfg(test)]
mod tests;
