//! Cancel: one definite answer.
//!
//! A timer that was never attempted is cancelled from its index entry alone: nothing is read. So there,
//! and nowhere else, an id whose hash of 72 bits is that of another one stands for it.

use duly_core::{
    NamespaceName, TimerId, Timestamp, Tombstone,
    lifecycle::{self, Decision, Event},
    tombstone::Ended,
};
use duly_store::{Outcome, TimerView, command::Seen, query::Body};

use crate::{
    format::record::Record,
    index::{Flags, Key, Kind},
};

use super::{
    Engine, Stop,
    change::{check_revision, not_found},
    view::Known,
};

impl Engine {
    pub(super) fn cancel(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: TimerId,
        if_revision: Option<u32>,
    ) -> Result<Outcome, Stop> {
        let known = self.look_up(key);
        let now = self.now.wall();
        if let (Known::Live(_, entry), None) = (known, if_revision)
            && entry.claimable().kind == Kind::First
            && !entry.flags().has(Flags::LEASED)
        {
            let due_at = Timestamp::saturating_from_unix_ms(entry.claimable().at_ms);
            let tombstone = Tombstone::cancelled_unread(id, due_at, now);
            return self.write_cancel(key, tombstone);
        }
        let own = self.readable(name, known)?.filter(|view| *view.id() == id);
        let Some(view) = own else {
            return Err(Stop::Refused(not_found(name, &id)));
        };
        check_revision(&id, &view, if_revision)?;
        self.cancel_view(key, &id, &view)
    }

    /// Cancels it if it is still what was seen.
    pub(super) fn cancel_seen(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: &TimerId,
        seen: Seen,
    ) -> Result<Outcome, Stop> {
        let known = self.look_up(key);
        match self.readable(name, known)? {
            Some(view) if seen.is(&view) && view.id() == id => self.cancel_view(key, id, &view),
            _ => Err(Stop::Refused(not_found(name, id))),
        }
    }

    fn cancel_view(&mut self, key: Key, id: &TimerId, view: &TimerView) -> Result<Outcome, Stop> {
        let now = self.now.wall();
        match (lifecycle::decide(Some(view.state), Event::Cancel), &view.body) {
            (Decision::Move(_), Body::Whole(timer)) => {
                self.write_cancel(key, Tombstone::of(timer, Ended::Cancelled, now))
            }
            (Decision::Already, _) => Ok(Outcome::Cancelled {
                attempts: view.attempts(),
                maybe_delivered: view.maybe_delivered(),
                already: true,
            }),
            (Decision::Refuse(code), _) => Err(Stop::Refused(self.refuse_state(id, view, code))),
            (decision, _) => unreachable!("a cancel is never answered by {decision:?}"),
        }
    }

    fn write_cancel(&mut self, key: Key, tombstone: Tombstone) -> Result<Outcome, Stop> {
        let (attempts, maybe_delivered) = (tombstone.attempts, tombstone.maybe_delivered);
        self.write_ended(key, tombstone)?;
        Ok(Outcome::Cancelled { attempts, maybe_delivered, already: false })
    }

    /// Writes that a timer has ended, with when its tombstone goes, and which others go for it.
    pub(super) fn write_ended(&mut self, key: Key, tombstone: Tombstone) -> Result<(), Stop> {
        let number = key.namespace();
        let namespace = self.namespace(number);
        let retention = namespace.settings.retention;
        #[expect(clippy::cast_possible_truncation, reason = "it counts modulo 2^32")]
        let order = namespace.ended() as u32;
        let keeps = retention.ms() > 0;
        let expires_at = keeps.then(|| tombstone.ended_at.saturating_add(retention));
        self.write_keyed(
            key,
            &Record::Ended { tombstone: Box::new(tombstone), expires_at, number: order },
        )?;
        self.evict_tombstones(number);
        Ok(())
    }
}
