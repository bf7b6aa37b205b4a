//! The only function that turns a record into state, both live and in replay.
//!
//! What must stay true after every record:
//!
//! 1. A key is in at most one of the live index and the tombstones, and it is leased only while live.
//! 2. The counts of a namespace equal a full scan of the index, the leases and the dead letters.
//! 3. Every location that the state holds is counted in its segment.

use duly_core::totals::Total;

use crate::{
    effect::{self, DeadLetterOrigin, Effect, Firing},
    format::record::{self, Cause},
    index::{AttemptKind, Entry, Flags, Key, Location},
};

use super::{
    Engine, PendingClaimable,
    dead_letters::{self, NewDeadLetter},
    leases::Lease,
    tombstones::NewTombstone,
};

impl Engine {
    /// Applies the record at `location` to the state.
    pub(super) fn absorb(&mut self, location: Location, number: u32, effect: Effect) {
        if let Effect::Namespace(namespace) = effect {
            if self.namespaces.put(number, *namespace) {
                self.note_retention(number);
            }
            return;
        }
        if self.namespaces.get(number).is_none() {
            return;
        }
        match effect {
            Effect::Pending(pending) => self.absorb_pending(location, number, &pending),
            Effect::Redriven(redriven) => {
                let letter = self.dead_letter_key(number, &redriven.firing);
                self.drop_dead_letter(redriven.pending.key, letter);
                self.absorb_pending(location, number, &redriven.pending);
            }
            Effect::Dead { key, cause, dead_letter_origin, due_ms, dead_lettered_ms, firing } => {
                if dead_letter_origin == DeadLetterOrigin::Firing && cause != Cause::Imported {
                    self.detach(key);
                }
                self.count(number, cause.totals_of_dead_letter());
                let letter = self.dead_letter_key(number, &firing);
                let letter =
                    NewDeadLetter { letter, timer: key, due_ms, dead_lettered_ms, location };
                self.absorb_dead_letter(number, letter);
            }
            Effect::Ended { key, ended, ended_ms, ends_ms, number: order } => {
                self.detach(key);
                self.count(number, ended.totals());
                if self.replaying {
                    self.drop_tombstone(key);
                }
                if let Some(ends_ms) = ends_ms {
                    if self.replaying {
                        self.restore_retention(number, ends_ms.saturating_sub(ended_ms));
                    }
                    self.keep_tombstone(key, NewTombstone { ended_ms, number: order, location });
                }
            }
            Effect::Lease { key, lease } => {
                if !lease.extends {
                    self.count(number, &[Total::Fired]);
                }
                self.restore_lease(key, &lease);
            }
            Effect::Purged { letter, timer } => self.drop_dead_letter(timer, letter),
            Effect::Lost { key } => {
                self.detach(key);
                self.drop_tombstone(key);
            }
            Effect::Evicted { below } => self.absorb_evicted(number, below),
            Effect::NamespaceGone => self.remove_namespace(number),
            Effect::Namespace(_) => {}
        }
    }

    fn absorb_pending(&mut self, location: Location, number: u32, pending: &effect::Pending) {
        let effect::Pending { key, cause, claimable, due_ms, ref lane, expires_ms } = *pending;
        // A new timer replaces no other one.
        if self.replaying || cause != Cause::Created {
            self.detach(key);
        }
        self.count(number, cause.totals_of_put());
        // In replay there may be a tombstone that the checkpoint copied after this record was written.
        if self.replaying || matches!(cause, Cause::Created | Cause::Redriven) {
            self.drop_tombstone(key);
        }
        if claimable.kind == AttemptKind::Retry {
            self.retry_due_max_ms = self.retry_due_max_ms.max(due_ms);
        }
        let flags = if expires_ms.is_some() { Flags::EXPIRES } else { Flags::NONE };
        self.namespaces.with(number, |namespace| {
            namespace.idle_since_ms = None;
            let lane = namespace.lanes.join(lane);
            *namespace.waiting_mut(claimable.kind) += 1;
            namespace.pending_bytes += location.bytes_estimate();
            let entry = Entry::new(key, lane, claimable, location).with_flags(flags);
            let old = namespace.live.put(entry);
            assert!(old.is_none(), "two timers under one key");
        });
        self.files.retain(location);
        if claimable.kind == AttemptKind::Retry
            && let Some(expires_ms) = expires_ms
        {
            // The expiry of a first attempt is looked up when the timer becomes due: it cannot expire
            // before.
            self.expiries.insert(expires_ms, key.pack());
        }
        let pending_claimable = PendingClaimable { key, claimable };
        // The timer of a retry has been durable for long. To lose the record of a failed attempt in a
        // power cut is to lose a claim, which is allowed. Every other change waits until it is durable.
        let ends_attempt = matches!(cause, Cause::AttemptFailed | Cause::Released);
        if self.replaying {
            return;
        }
        if claimable.kind == AttemptKind::Retry && ends_attempt {
            self.make_claimable(pending_claimable);
        } else {
            self.make_claimable_when_durable(pending_claimable);
        }
    }

    /// Returns the key of the dead letter that a firing becomes.
    fn dead_letter_key(&self, number: u32, firing: &Firing) -> Key {
        let namespace = self.namespaces.get(number).expect("absorb checked that it is there");
        let delivery = firing.delivery_id(namespace.record.name.as_str());
        dead_letters::key_of(self.hash_key, number, delivery)
    }

    fn absorb_dead_letter(&mut self, number: u32, letter: NewDeadLetter) {
        let old =
            self.namespaces.with(number, |namespace| namespace.dead_letters.put(letter)).flatten();
        let namespace = self.namespace(number);
        let (dead, max_dead) = (namespace.dead(), namespace.record.settings.limits.max_dead);
        self.files.retain(letter.location);
        if let Some(old) = old {
            self.files.release(old);
        }
        if dead == max_dead && !self.replaying {
            let name = &self.namespace(number).record.name;
            tracing::warn!(
                namespace = %name, max_dead,
                "namespace has reached its limit of dead letters; nothing of it is delivered until \
                 some are redriven or purged, or limits.namespace.max_dead is raised"
            );
        }
    }

    /// Restores the retention that a namespace had at the record of an end. A checkpoint that copied the
    /// namespace later has a later retention. The record that changed it is still to come, and decides
    /// which tombstones were over by then.
    fn restore_retention(&mut self, number: u32, retention_ms: u64) {
        let lsn = self.replay_lsn;
        let namespace = self.namespace(number);
        if lsn <= namespace.captured_lsn {
            namespace.tombstones.restore_retention(retention_ms);
        }
    }

    /// Changes the totals of a namespace, unless a checkpoint already includes that change.
    fn count(&mut self, number: u32, totals: &[Total]) {
        let (replaying, lsn) = (self.replaying, self.replay_lsn);
        let namespace = self.namespace(number);
        if !replaying || lsn > namespace.captured_lsn {
            namespace.record.totals.count(totals);
        }
    }

    /// Puts a lease on a live entry.
    pub(super) fn restore_lease(&mut self, key: Key, lease: &record::Lease) {
        let number = key.namespace();
        // In replay the timer's record may be gone with its segment. Then a later record, still to come,
        // has replaced it.
        let Some(entry) = self.namespaces.live(key) else {
            return;
        };
        let is_leased = entry.flags().has(Flags::LEASED);
        let old = if is_leased { self.leases.remove(key) } else { None };
        let known = old.filter(|old| old.granted.nonce == lease.nonce && !self.replaying);
        if old.is_none() {
            self.namespaces.uncount_due(number, &entry);
            let namespace = self.namespace(number);
            *namespace.waiting_mut(entry.claimable().kind) -= 1;
            namespace.in_flight += 1;
            let flags = entry.flags().without(Flags::DUE).with(Flags::LEASED);
            namespace.live.set_flags(key, flags);
            if let Some(lane) = namespace.lanes.get_mut(entry.lane()) {
                lane.in_flight += 1;
            }
            self.namespaces.refresh_active(number, entry.lane());
            self.check_window((number, entry.lane(), entry.claimable().kind));
        }
        // After a restart the wall clock says how much of the lease is left. It is never trusted for more
        // than the lease itself.
        let left_ms = lease.until.unix_ms().saturating_sub(self.now.wall_ms).min(lease.lease_ms);
        // The boot-time clock at the claim is trusted as long as this process knows it.
        let claimed_boot_ms = known.map_or_else(
            || {
                let ago_ms = self.now.wall_ms.saturating_sub(lease.claimed_at.unix_ms());
                self.now.boot_ms.saturating_sub(ago_ms)
            },
            |known| known.claimed_boot_ms,
        );
        let ends_boot_ms = match known {
            // The lease of a node lasts as long as the node.
            _ if lease.node.is_some() => u64::MAX,
            // A stop leaves the end as it is.
            Some(known) if known.granted.stopped != lease.stopped => known.ends_boot_ms,
            _ => self.now.boot_ms + left_ms,
        };
        let granted = record::Lease { extends: false, ..*lease };
        self.leases.put(key, Lease { granted, ends_boot_ms, claimed_boot_ms });
        if lease.node.is_none() {
            self.lease_ends.insert(ends_boot_ms, key.pack());
        }
    }

    /// Removes the lease of an entry that is about to leave the index, and corrects the counts.
    fn end_lease_state(&mut self, key: Key, entry: &Entry) {
        if self.leases.remove(key).is_none() {
            return;
        }
        let Some(namespace) = self.namespaces.get_mut(key.namespace()) else {
            return;
        };
        namespace.in_flight -= 1;
        *namespace.waiting_mut(entry.claimable().kind) += 1;
        if let Some(lane) = namespace.lanes.get_mut(entry.lane()) {
            lane.in_flight -= 1;
        }
    }

    /// Removes a timer from the live index, with its lease, its counts and its place in the lane.
    pub(super) fn detach(&mut self, key: Key) {
        let number = key.namespace();
        let Some(entry) = self.namespaces.live(key) else {
            return;
        };
        if entry.flags().has(Flags::LEASED) {
            self.end_lease_state(key, &entry);
        }
        self.namespaces.uncount_due(number, &entry);
        self.files.release(entry.location());
        self.namespaces.with(number, |namespace| {
            namespace.live.remove(key);
            *namespace.waiting_mut(entry.claimable().kind) -= 1;
            namespace.pending_bytes -= entry.location().bytes_estimate();
            namespace.lanes.leave(entry.lane());
        });
        if entry.flags().has(Flags::COUNTED_DUE) {
            self.namespaces.refresh_active(number, entry.lane());
            self.check_window((number, entry.lane(), entry.claimable().kind));
        }
    }

    fn drop_dead_letter(&mut self, timer: Key, letter: Key) {
        let number = timer.namespace();
        let gone = self.namespaces.with(number, |ns| ns.dead_letters.remove(timer, letter));
        if let Some(location) = gone.flatten() {
            self.files.release(location);
        }
    }

    /// Removes a namespace. Namespace reclamation releases its entries later. Its number is reused when
    /// no record on disk refers to it any more (`namespace_numbers.rs`).
    fn remove_namespace(&mut self, number: u32) {
        self.namespace_numbers.note_end(number);
        let Some(gone) = self.namespaces.remove(number) else {
            return;
        };
        self.begin_reclamation(number, gone);
    }

    /// Returns the namespace of the record that is being absorbed.
    pub(super) fn namespace(&mut self, number: u32) -> &mut super::namespaces::Namespace {
        self.namespaces.get_mut(number).expect("absorb checked that the namespace is there")
    }
}
