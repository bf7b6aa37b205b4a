//! The one function that turns a record into state, live and at replay alike.
//!
//! Invariants that hold after every record:
//! * a key is in at most one of the live index and the stubs, and leased only while live;
//! * counts of a namespace equal a full scan of the index, the leases and the letters;
//! * every location that the state holds is counted in its segment.

use duly_core::{Timer, timer::DeathReason};

use crate::{
    format::record::{self, Cause, Record},
    index::{Claimable, Entry, Key, Kind, Location},
};

use super::{Engine, Publish, leases::Lease, letters::Letter};

impl Engine {
    /// When, and as what, a timer can be claimed: a first attempt by the wall clock, a retry by
    /// the steady one. A retry whose due time the wall clock has stepped back behind is held back
    /// besides (`time.rs`).
    const fn claimable_of(timer: &Timer) -> Claimable {
        match timer.next_attempt_at {
            None => Claimable { at_ms: timer.due_at.unix_ms(), kind: Kind::First },
            Some(at) => Claimable { at_ms: at.unix_ms(), kind: Kind::Retry },
        }
    }

    pub(super) fn absorb(&mut self, location: Location, number: u32, record: &Record) {
        if let Record::Namespace(namespace) = record {
            let bytes = record::bytes_on_disk(number, record);
            self.namespaces.put(number, (**namespace).clone(), bytes);
            return;
        }
        if self.namespaces.get(number).is_none() {
            return;
        }
        match record {
            Record::Pending(cause, timer) => self.absorb_pending(location, number, *cause, timer),
            Record::Dead(cause, timer) => self.absorb_dead(location, number, *cause, timer),
            Record::Ended { stub, expires_at } => {
                let key = self.key(number, stub.id.as_str());
                self.detach(key);
                let totals = &mut self.namespace(number).totals;
                match stub.ended {
                    duly_core::stub::Ended::Finished => totals.delivered += 1,
                    duly_core::stub::Ended::Cancelled => totals.cancelled += 1,
                }
                if let Some(expires_at) = expires_at {
                    self.keep_stub(key, expires_at.unix_ms(), location);
                }
            }
            Record::Lease(lease) => self.absorb_lease(location, number, lease),
            Record::Purged(delivery) => self.drop_letter(number, *delivery),
            Record::NamespaceGone => self.forget_namespace(number),
            Record::Namespace(_) => {}
        }
    }

    fn absorb_pending(&mut self, location: Location, number: u32, cause: Cause, timer: &Timer) {
        let key = self.key(number, timer.id.as_str());
        self.detach(key);
        let totals = &mut self.namespace(number).totals;
        match cause {
            Cause::Created | Cause::Replaced => totals.scheduled += 1,
            Cause::Rescheduled => totals.rescheduled += 1,
            Cause::AttemptFailed => totals.failed += 1,
            Cause::Redriven | Cause::Expired | Cause::Released => {}
        }
        if matches!(cause, Cause::Created | Cause::Redriven) {
            self.drop_stub(key);
        }
        if cause == Cause::Redriven {
            let name = self.namespace(number).name.clone();
            self.drop_letter(number, timer.delivery_id(name.as_str()));
        }
        let claimable = Self::claimable_of(timer);
        if claimable.kind == Kind::Retry {
            self.retry_due_max_ms = self.retry_due_max_ms.max(timer.due_at.unix_ms());
        }
        let namespace = self.namespace(number);
        let lane = namespace.lanes.join(timer.destination.as_ref());
        *namespace.waiting_mut(claimable.kind) += 1;
        namespace.pending_bytes += location.bytes_estimate();
        self.live.put(Entry::new(key, lane, claimable, location));
        self.journal.retain(location);
        let publish = Publish { key, claimable, expires_at: timer.expires_at() };
        // A retry's timer was durable long ago: losing the record of a failed attempt to a power
        // cut is losing a claim, which is allowed. Everything else waits until it is durable.
        let ends_attempt = matches!(cause, Cause::AttemptFailed | Cause::Released);
        if claimable.kind == Kind::Retry && ends_attempt && !self.replaying {
            self.publish(publish);
        } else {
            self.publish_when_durable(publish);
        }
    }

    fn absorb_dead(&mut self, location: Location, number: u32, cause: Cause, timer: &Timer) {
        let key = self.key(number, timer.id.as_str());
        let corrupt = timer.death.is_some_and(|death| death.reason == DeathReason::Corrupt);
        if !corrupt {
            self.detach(key);
        }
        let namespace = self.namespace(number);
        namespace.totals.dead += 1;
        namespace.totals.failed += u64::from(cause == Cause::AttemptFailed);
        let delivery = timer.delivery_id(namespace.name.as_str());
        let due_ms = timer.due_at.unix_ms();
        namespace.letters.insert((due_ms, delivery.to_u128()));
        let (dead, max_dead) = (namespace.dead(), namespace.settings.limits.max_dead);
        if dead == max_dead && !self.replaying {
            let name = &self.namespace(number).name;
            tracing::warn!(
                namespace = %name, max_dead,
                "dead letters are at their limit: nothing of this namespace is delivered until some \
                 are redriven or purged, or limits.max_dead is raised"
            );
        }
        self.journal.retain(location);
        if let Some(old) = self.letters.put(delivery, Letter { key, due_ms, location }) {
            self.journal.release(old.location);
        }
    }

    fn absorb_lease(&mut self, location: Location, number: u32, lease: &record::Lease) {
        let key = self.key(number, lease.id.as_str());
        if !lease.extends {
            self.namespace(number).totals.fired += 1;
        }
        // At replay the timer's record may have gone with its segment: a later one, still to come,
        // has taken its place.
        let Some(entry) = self.live.get(key) else {
            return;
        };
        let claimable = entry.claimable();
        let old = self.leases.remove(&key);
        let known_claim = old
            .filter(|old| old.nonce == lease.nonce && !self.replaying)
            .map(|old| old.claimed_boot_ms);
        match old {
            Some(old) => self.journal.release(old.location),
            None => {
                let namespace = self.namespace(number);
                *namespace.waiting_mut(claimable.kind) -= 1;
                namespace.in_flight += 1;
                namespace.lanes.not_due(entry.lane(), claimable, key.pack());
                if let Some(lane) = namespace.lanes.get_mut(entry.lane()) {
                    lane.in_flight += 1;
                }
                self.namespaces.refresh_active(number, entry.lane());
            }
        }
        self.journal.retain(location);
        // The wall clock is only asked how much of the lease is left after a restart, and never
        // believed beyond the lease itself.
        let left_ms = lease.until.unix_ms().saturating_sub(self.now.wall_ms).min(lease.lease_ms);
        // What the boot-time clock said at the claim is believed as long as this process knows it.
        let claimed_boot_ms = known_claim.unwrap_or_else(|| {
            let ago_ms = self.now.wall_ms.saturating_sub(lease.claimed_at.unix_ms());
            self.now.boot_ms.saturating_sub(ago_ms)
        });
        // A node's lease lives as long as the node.
        let ends_boot_ms = if lease.node.is_some() { u64::MAX } else { self.now.boot_ms + left_ms };
        self.leases.insert(
            key,
            Lease {
                nonce: lease.nonce,
                attempt: lease.attempt,
                node: lease.node,
                claimed_at: lease.claimed_at,
                ends_boot_ms,
                claimed_boot_ms,
                until: lease.until,
                location,
            },
        );
        if lease.node.is_none() {
            self.lease_ends.insert(ends_boot_ms, key.pack());
        }
    }

    /// Takes the lease off a live entry, which then waits again.
    fn end_lease_state(&mut self, key: Key) {
        let Some(lease) = self.leases.remove(&key) else {
            return;
        };
        self.journal.release(lease.location);
        let Some(entry) = self.live.get(key) else {
            return;
        };
        let Some(namespace) = self.namespaces.get_mut(key.namespace()) else {
            return;
        };
        namespace.in_flight -= 1;
        *namespace.waiting_mut(entry.claimable().kind) += 1;
        if let Some(lane) = namespace.lanes.get_mut(entry.lane()) {
            lane.in_flight -= 1;
        }
    }

    /// Takes a timer out of the live index with all that hangs on it.
    pub(super) fn detach(&mut self, key: Key) {
        self.end_lease_state(key);
        let Some(entry) = self.live.remove(key) else {
            return;
        };
        self.journal.release(entry.location());
        let number = key.namespace();
        let Some(namespace) = self.namespaces.get_mut(number) else {
            return;
        };
        *namespace.waiting_mut(entry.claimable().kind) -= 1;
        namespace.pending_bytes -= entry.location().bytes_estimate();
        namespace.lanes.not_due(entry.lane(), entry.claimable(), key.pack());
        namespace.lanes.leave(entry.lane());
        self.namespaces.refresh_active(number, entry.lane());
    }

    fn keep_stub(&mut self, key: Key, expires_ms: u64, location: Location) {
        if expires_ms <= self.now.wall_ms {
            self.drop_stub(key);
            return;
        }
        let claimable = Claimable { at_ms: expires_ms, kind: Kind::First };
        self.journal.retain(location);
        if let Some(old) = self.stubs.put(Entry::new(key, 0, claimable, location)) {
            self.journal.release(old.location());
            self.namespace(key.namespace()).retained -= 1;
        }
        self.stub_ends.insert(expires_ms, key.pack());
        let namespace = self.namespace(key.namespace());
        namespace.retained += 1;
        namespace.stubs.push_back((expires_ms, key.pack()));
        self.evict_stubs(key.namespace());
    }

    /// Drops the oldest stubs of a namespace past `max_retained`.
    pub(super) fn evict_stubs(&mut self, number: u32) {
        loop {
            let Some(namespace) = self.namespaces.get_mut(number) else {
                return;
            };
            let over = namespace.retained > namespace.settings.limits.max_retained;
            // Entries of stubs that have gone otherwise are dropped as they come to the front.
            let crowded = namespace.stubs.len() as u64 > 2 * namespace.retained + 64;
            if !over && !crowded {
                return;
            }
            let Some((expires_ms, packed)) = namespace.stubs.pop_front() else {
                return;
            };
            let key = Key::unpack(packed);
            let known = self.stubs.get(key).filter(|e| e.claimable().at_ms == expires_ms);
            if known.is_some() {
                if over {
                    self.drop_stub(key);
                } else {
                    self.namespace(number).stubs.push_back((expires_ms, packed));
                }
            }
        }
    }

    pub(super) fn drop_stub(&mut self, key: Key) {
        if let Some(old) = self.stubs.remove(key) {
            self.journal.release(old.location());
            if let Some(namespace) = self.namespaces.get_mut(key.namespace()) {
                namespace.retained -= 1;
            }
        }
    }

    fn drop_letter(&mut self, number: u32, delivery: duly_core::DeliveryId) {
        if let Some(letter) = self.letters.remove(delivery) {
            self.journal.release(letter.location);
            self.namespace(number).letters.remove(&(letter.due_ms, delivery.to_u128()));
        }
    }

    /// Ends a namespace: its number is never used again, its entries are swept out later.
    fn forget_namespace(&mut self, number: u32) {
        let Some(gone) = self.namespaces.remove(number) else {
            return;
        };
        for (_, delivery) in gone.letters {
            if let Some(letter) = self.letters.remove(duly_core::DeliveryId::from_u128(delivery)) {
                self.journal.release(letter.location);
            }
        }
        let keys: Vec<Key> =
            self.leases.keys().filter(|key| key.namespace() == number).copied().collect();
        for key in keys {
            if let Some(lease) = self.leases.remove(&key) {
                self.journal.release(lease.location);
            }
        }
        self.sweep_soon();
    }

    /// The namespace of a record that is being absorbed.
    pub(super) fn namespace(&mut self, number: u32) -> &mut super::namespaces::Namespace {
        self.namespaces.get_mut(number).expect("absorb checked that the namespace is there")
    }
}
