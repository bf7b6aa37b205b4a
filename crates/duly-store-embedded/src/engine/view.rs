//! Looking at one timer: live, ended, or dead.

use duly_core::{NamespaceName, State, Timer, TimerId};
use duly_store::{Error, Refusal, TimerView, query::Body};

use crate::{
    index::{Entry, Key, Kind},
    journal::ReadError,
};

use super::{Engine, leases::Lease, letters::Letter};

/// What there is under a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// A pending timer.
    Live(Entry, Option<Lease>),
    /// A stub.
    Ended(Entry),
    /// The latest dead letter.
    Dead(Letter),
    /// Nothing.
    Nothing,
}

impl Engine {
    pub(super) fn look_up(&self, key: Key) -> Known {
        if let Some(entry) = self.entry(key) {
            Known::Live(entry, self.leases.get(&key).copied())
        } else if let Some(entry) = self.stubs.get(key) {
            // A stub over a dead letter is the later of the two: a letter that comes to life
            // again, or a timer made in its place, takes the stub away.
            Known::Ended(entry)
        } else if let Some((_, letter)) = self.letters.latest(key) {
            Known::Dead(letter)
        } else {
            Known::Nothing
        }
    }

    /// State of a live entry.
    pub(super) fn state_of(&self, entry: &Entry, lease: Option<&Lease>) -> State {
        let claimable = entry.claimable();
        match (lease, claimable.kind) {
            (Some(_), _) => State::InFlight,
            (None, Kind::Retry) => State::Retrying,
            (None, Kind::First) if claimable.at_ms <= self.now.wall_ms => State::Due,
            (None, Kind::First) => State::Scheduled,
        }
    }

    /// View of a live timer whose record is at hand.
    pub(super) fn live_view(
        &self,
        name: &NamespaceName,
        timer: Timer,
        lease: Option<&Lease>,
    ) -> TimerView {
        let state = match lease {
            Some(_) => State::InFlight,
            None if timer.next_attempt_at.is_some() => State::Retrying,
            None if timer.due_at.unix_ms() <= self.now.wall_ms => State::Due,
            None => State::Scheduled,
        };
        TimerView {
            namespace: name.clone(),
            state,
            body: Body::Whole(Box::new(timer)),
            leased_until: lease.and_then(Lease::leased_until),
            attempt_under_way: lease.map(|lease| lease.attempt),
            claimed_at: lease.map(|lease| lease.claimed_at),
        }
    }

    /// View of whatever there is under an id.
    pub(crate) fn get(
        &self,
        name: &NamespaceName,
        id: &TimerId,
    ) -> Result<Option<TimerView>, Error> {
        let Some(number) = self.namespaces.number_of(name) else {
            return Ok(None);
        };
        let known = self.look_up(self.key(number, id.as_str()));
        self.view(name, known).map_err(|error| Error::Damaged(error.to_string()))
    }

    pub(super) fn view(
        &self,
        name: &NamespaceName,
        known: Known,
    ) -> Result<Option<TimerView>, ReadError> {
        Ok(match known {
            Known::Nothing => None,
            Known::Live(entry, lease) => {
                let timer = self.load(entry.location())?;
                Some(self.live_view(name, timer, lease.as_ref()))
            }
            Known::Ended(entry) => {
                Some(TimerView::stub(name.clone(), self.load_stub(entry.location())?))
            }
            Known::Dead(letter) => {
                let timer = self.load(letter.location)?;
                Some(TimerView::whole(name.clone(), State::Dead, timer))
            }
        })
    }

    /// The refusal that a state asks for, with what the caller should know of the timer.
    pub(super) fn refuse_state(
        &self,
        id: &TimerId,
        view: &TimerView,
        code: duly_core::Code,
    ) -> Refusal {
        Refusal::State {
            id: id.clone(),
            state: view.state,
            code,
            leased_until: view.leased_until,
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered(),
        }
    }
}
