//! Due timers whose records the disk does not read now: set aside, and tried again in turns.
//!
//! ```text
//!   window of a lane ── claim, expiry: EIO ──► aside: a flag in the index, still counted as due
//!            ▲                                      │ a few at a time, by lot
//!            └────────────── it can be read ────────┤
//!                                                   └─ it cannot: again after a wait
//! ```
//!
//! Any number of timers may be aside and none of them holds up another: a flag in its index entry keeps
//! each from being claimed, and of their keys so many are known here as may be; a walk over the indexes
//! finds the others in their turn. One round tries a bounded number. As long as most of them can be
//! read the next round follows at once, so all are back soon after the disk is well; when none can, the
//! wait doubles.
//!
//! Invariants: what carries the flag *aside* carries *surfaced* too, is not leased and in no window; a
//! checkpoint has neither. While anything is aside, a round or a walk is to come.
//!
//! Called by the tick; claims and expiries set aside.

use duly_core::{NamespaceName, Timer};

use crate::{
    disk,
    files::ReadError,
    index::{Cursor, Entry, Flags, Key, Kind, PackedKey, Scan},
};

use super::{Engine, allowance::Allowance};

/// Reads that may fail in one round; each may take a disk long.
const FAILURES_MAX: usize = 16;
/// Wait after a round that had no luck, at first and at most.
const WAIT_MS: (u64, u64) = (1_000, 30_000);
/// When the end of something that cannot be read now and is not aside is tried again.
pub(super) const LATER_MS: u64 = 10_000;
/// Keys that are known.
const KEYS_MAX: usize = if cfg!(test) { 8 } else { 65_536 };
/// Known keys that one round looks at.
const LOOKS_PER_ROUND: usize = 4_096;
/// Tables that one step of a walk looks at.
const TABLES_PER_STEP: usize = 16;
/// When to ask again while a walk is under way: who waits is woken in time.
const WALK_MS: u64 = 100;
/// Namespaces that one step of a walk looks at.
const NAMESPACES_PER_STEP: usize = 256;
/// Time between two lines of the log.
const SAID_EVERY_MS: u64 = 10_000;

/// What is known of the timers that are aside.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Some of them, the latest last; what is no longer aside is passed over.
    keys: Vec<PackedKey>,
    /// Whether there may be others.
    has_unknown: bool,
    walk: Walk,
    wait_ms: u64,
    /// When the next round comes, by the boot-time clock.
    again_ms: u64,
    /// When the log said so last, by the boot-time clock.
    said_ms: Option<u64>,
}

/// A walk over all indexes for what is aside; where it leaves off, the next one goes on.
#[derive(Debug, Default)]
struct Walk {
    is_under_way: bool,
    /// The namespace under way, or the one behind which to go on.
    name: Option<NamespaceName>,
    at: Option<(u32, Cursor)>,
    /// Whether it left something out, or left off once for want of room.
    is_cut: bool,
}

impl Engine {
    /// Sets a due timer aside whose record the disk does not read now.
    pub(super) fn set_aside(&mut self, key: Key, entry: &Entry, error: &disk::Error) {
        let number = key.namespace();
        if !self.namespaces.set_aside(number, entry) {
            return;
        }
        self.check_window((number, entry.lane(), entry.claimable().kind));
        let aside = &mut self.aside;
        if aside.keys.len() < KEYS_MAX {
            aside.keys.push(key.pack());
        } else {
            aside.has_unknown = true;
            // A walk under way may be past it.
            aside.walk.is_cut |= aside.walk.is_under_way;
        }
        // What was there before waits longer; a new one may be well in a moment.
        let (first_ms, _) = WAIT_MS;
        let soon_ms = self.now.boot_ms + first_ms;
        aside.again_ms = if aside.wait_ms == 0 { soon_ms } else { aside.again_ms.min(soon_ms) };
        aside.wait_ms = aside.wait_ms.max(first_ms);
        self.say_aside(error);
    }

    /// In how long the next round comes, if one does.
    pub(super) fn aside_again_in_ms(&self) -> Option<u64> {
        let waits = self.namespaces.aside() > 0;
        let least_ms = if self.aside.walk.is_under_way { WALK_MS } else { 0 };
        waits.then(|| self.aside.again_ms.saturating_sub(self.now.boot_ms).max(least_ms))
    }

    /// Tries some of what is aside again, if it is time.
    pub(super) fn try_aside(&mut self) {
        if self.namespaces.aside() == 0 {
            if self.aside.said_ms.is_some() {
                tracing::info!("no timer waits any more for its record to be read");
                self.aside = Aside::default();
            }
            return;
        }
        if self.now.boot_ms < self.aside.again_ms {
            return;
        }
        if self.aside.walk.is_under_way || self.aside.keys.is_empty() {
            self.look_for_aside();
        } else {
            self.try_some();
        }
    }

    /// One round.
    fn try_some(&mut self) {
        let (mut back, mut looks, mut failed) = (0, 0, Vec::new());
        let mut allowance = Allowance::of_a_pass();
        while failed.len() < FAILURES_MAX
            && looks < LOOKS_PER_ROUND
            && !allowance.is_spent()
            && let Some(key) = self.draw(looks)
        {
            looks += 1;
            let Some(entry) = self.namespaces.live(key).filter(is_aside) else {
                continue;
            };
            allowance.spend(entry.location().bytes_estimate());
            match self.load_timer(entry.location()) {
                Err(ReadError::Disk(error)) => {
                    failed.push(key.pack());
                    self.say_aside(&error);
                }
                read => {
                    back += 1;
                    self.bring_back(key, &entry, read.ok().as_deref());
                }
            }
        }
        let has_failed = failed.len();
        // Where others are not known they have their turn first.
        if !self.aside.has_unknown {
            self.aside.keys.extend(failed);
        }
        let (first_ms, most_ms) = WAIT_MS;
        let wait_ms = match has_failed {
            _ if back > has_failed || (back == 0 && has_failed == 0) => 0,
            _ if back > 0 => first_ms,
            _ => (2 * self.aside.wait_ms).clamp(first_ms, most_ms),
        };
        self.aside.wait_ms = wait_ms.max(first_ms);
        self.aside.again_ms = self.now.boot_ms + wait_ms;
        self.busy |= wait_ms == 0;
    }

    /// Takes a key out: now one of the latest, now any, so that neither what failed once waits for what
    /// fails for long nor the other way round.
    fn draw(&mut self, nth: usize) -> Option<Key> {
        let count = self.aside.keys.len();
        if count == 0 {
            return None;
        }
        let place = match nth % 2 {
            0 => count - 1,
            _ => usize::try_from(self.random_u64() % count as u64).unwrap_or(0),
        };
        Some(Key::unpack(self.aside.keys.swap_remove(place)))
    }

    /// Lets a timer be claimed again; its record as it was read, unless it is damaged, which the claim
    /// finds.
    fn bring_back(&mut self, key: Key, entry: &Entry, timer: Option<&Timer>) {
        let number = key.namespace();
        self.namespaces.bring_back(number, entry, self.options.overdue_max);
        self.check_window((number, entry.lane(), entry.claimable().kind));
        self.wake = true;
        if let Some(expires_at) = timer.and_then(Timer::expires_at) {
            self.expiries.insert(expires_at.unix_ms() + 1, key.pack());
        }
        if entry.claimable().kind == Kind::Retry
            && self.may_be_ahead()
            && let Some(entry) = self.namespaces.live(key)
        {
            self.hold_back_retry(key, &entry);
        }
    }

    /// One step of a walk that finds keys.
    fn look_for_aside(&mut self) {
        let (mut tables, mut namespaces) = (0, 0);
        self.busy = true;
        self.aside.walk.is_under_way = true;
        while tables < TABLES_PER_STEP && namespaces < NAMESPACES_PER_STEP {
            let walk = &mut self.aside.walk;
            let Some((number, cursor)) = walk.at else {
                namespaces += 1;
                if self.next_namespace_aside() {
                    continue;
                }
                return;
            };
            tables += 1;
            let scan = self.namespaces.get(number).and_then(|found| found.live.scan(cursor));
            walk.at = scan.as_ref().and_then(|scan| scan.next).map(|next| (number, next));
            let entries = scan.iter().flat_map(Scan::entries);
            let found = entries.filter(is_aside).map(|entry| entry.key(number).pack());
            self.aside.keys.extend(found);
            if self.aside.keys.len() >= KEYS_MAX {
                let walk = &mut self.aside.walk;
                (walk.is_under_way, walk.is_cut) = (false, true);
                return;
            }
        }
    }

    /// Goes to the next namespace; answers whether the walk goes on.
    fn next_namespace_aside(&mut self) -> bool {
        let aside = &mut self.aside;
        let next = self.namespaces.names_after(aside.walk.name.as_ref()).next();
        let Some((name, number)) = next.map(|(name, number)| (name.clone(), number)) else {
            let was_cut = std::mem::take(&mut aside.walk).is_cut;
            if was_cut && aside.keys.is_empty() {
                // What comes before the place at which it went on is still to be seen.
                return true;
            }
            aside.has_unknown = was_cut;
            if aside.keys.is_empty() {
                // The auditor puts the count right.
                aside.again_ms = self.now.boot_ms + WAIT_MS.1;
            }
            return false;
        };
        let namespace = self.namespaces.get(number);
        let mut lanes = namespace.iter().flat_map(|namespace| namespace.lanes.iter());
        aside.walk.at = lanes.any(|(_, lane)| lane.has_aside()).then_some((number, Cursor::START));
        aside.walk.name = Some(name);
        true
    }

    /// Tells the log, now and then.
    fn say_aside(&mut self, error: &disk::Error) {
        let now_ms = self.now.boot_ms;
        if self.aside.said_ms.is_none_or(|said_ms| now_ms >= said_ms + SAID_EVERY_MS) {
            self.aside.said_ms = Some(now_ms);
            let count = self.namespaces.aside();
            tracing::warn!(
                %error, count,
                "timers that are due cannot be read now; they are tried again, and the others go on"
            );
        }
    }
}

fn is_aside(entry: &Entry) -> bool {
    entry.flags().has(Flags::ASIDE)
}

#[cfg(test)]
mod tests;
