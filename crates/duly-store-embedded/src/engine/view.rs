//! Views of one timer: live, ended or dead.

use duly_core::{Millis, NamespaceName, State, Timer, TimerId};
use duly_store::{Error, TimerView, query::Body};

use crate::{
    disk,
    files::ReadError,
    index::{AttemptKind, Entry, Flags, Key, Location},
};

use super::{Engine, leases::Lease};

/// State of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// A pending timer.
    Live(Key, Entry),
    /// A tombstone.
    Ended(Key, Location),
    /// The latest dead letter.
    Dead(Location),
    /// Nothing.
    Nothing,
}

/// Returns the error for a record that may be valid, so that a later try can succeed.
pub(super) fn not_now(error: &disk::Error) -> Error {
    Error::Unavailable {
        reason: format!("a record cannot be read now: {error}"),
        retry_after: Millis::from_secs(1),
    }
}

/// Refuses a record that certainly exceeds `bytes_max`, before it is read: a large record that is refused
/// anyway must not delay others.
fn check_estimate(location: Location, bytes_max: u64) -> Result<(), Error> {
    let bytes = location.bytes_estimate();
    // A size class ends at twice its beginning, and the estimate is its middle.
    if bytes / 3 * 2 > bytes_max { Err(Error::TooLarge { bytes }) } else { Ok(()) }
}

impl Engine {
    pub(super) fn look_up(&self, key: Key) -> Known {
        let Some(namespace) = self.namespaces.get(key.namespace()) else {
            return Known::Nothing;
        };
        if let Some(entry) = namespace.live.get(key) {
            Known::Live(key, entry)
        } else if let Some(entry) = namespace.tombstones.get(key, self.now.wall_ms) {
            // A tombstone over a dead letter is the later of the two. A redriven letter, or a new timer
            // with the same id, removes the tombstone.
            Known::Ended(key, entry.location())
        } else if let Some((_, location)) = namespace.dead_letters.latest(key) {
            Known::Dead(location)
        } else {
            Known::Nothing
        }
    }

    /// Returns the state of a live entry.
    pub(super) const fn state_of(&self, entry: &Entry) -> State {
        let claimable = entry.claimable();
        match claimable.kind {
            _ if entry.flags().has(Flags::LEASED) => State::InFlight,
            AttemptKind::Retry => State::Retrying,
            AttemptKind::First if claimable.at_ms <= self.now.wall_ms => State::Due,
            AttemptKind::First => State::Scheduled,
        }
    }

    /// Returns the view of a live timer whose record was read.
    pub(super) fn live_view(
        &self,
        name: &NamespaceName,
        timer: Box<Timer>,
        lease: Option<&Lease>,
    ) -> TimerView {
        let state = match lease {
            Some(_) => State::InFlight,
            None => timer.unleased_state(self.now.wall()),
        };
        TimerView {
            namespace: name.clone(),
            state,
            body: Body::Whole(timer),
            leased_until: lease.and_then(Lease::leased_until),
            attempt_under_way: lease.map(|lease| lease.granted.attempt),
            claimed_at: lease.map(|lease| lease.granted.claimed_at),
            stopped: lease.is_some_and(|lease| lease.granted.stopped),
        }
    }

    /// Returns the view of the timer with an id. A damaged tombstone is reported once and then dropped. A
    /// timer of another id with the same key is not returned.
    pub(crate) fn get(
        &mut self,
        name: &NamespaceName,
        id: &TimerId,
        bytes_max: u64,
    ) -> Result<Option<TimerView>, Error> {
        let Some(number) = self.namespaces.number_of(name) else {
            return Ok(None);
        };
        let known = self.look_up(self.key(number, id.as_str()));
        if let Known::Live(_, entry) = known {
            check_estimate(entry.location(), bytes_max)?;
        }
        let viewed = self.view(name, known).map_err(|error| {
            if let ReadError::Disk(error) = &error {
                return not_now(error);
            }
            if let Known::Ended(key, _) = known {
                // If there is no space to write that, the next call finds it again.
                drop(self.quarantine_tombstone(key, &error));
            }
            Error::Damaged(error.to_string())
        });
        let view = viewed?.filter(|view| view.id() == id);
        view.map(|view| Ok(view.check_memory(bytes_max).map(|()| view)?)).transpose()
    }

    pub(super) fn view(
        &self,
        name: &NamespaceName,
        known: Known,
    ) -> Result<Option<TimerView>, ReadError> {
        Ok(match known {
            Known::Nothing => None,
            Known::Live(key, entry) => {
                let timer = self.load_timer(entry.location())?;
                Some(self.live_view(name, timer, self.leases.get(key)))
            }
            Known::Ended(_, location) => {
                Some(TimerView::tombstone(name.clone(), self.load_tombstone(location)?))
            }
            Known::Dead(location) => {
                let timer = self.load_timer(location)?;
                Some(TimerView::whole(name.clone(), State::Dead, timer))
            }
        })
    }
}
