//! Mix of operations with a full history: mostly new timers, and changes and cancels of timers of
//! the last two seconds, which may fire at the same time.
//!
//! An operation has a number in the run. Everything about the operation follows from this number,
//! except its due time. The number is also the number of a new timer, and the mark of its payload.

use std::{collections::HashSet, sync::Arc};

use anyhow::Result;
use duly_checker::history::{Action, Due};
use futures::future::{BoxFuture, FutureExt as _};

use super::scattered;
use crate::{
    clock::now_ms,
    offer::{Sent, Work},
    recording_client::RecordingClient,
    transport::Ask,
};

/// Shortest delay of a new timer.
const SOONEST_MS: u64 = 100;
/// Range of the delays.
const SPREAD_MS: u64 = 2_900;
/// Longest time from an operation to the due time that it sets.
pub(super) const HORIZON_MS: u64 = SOONEST_MS + SPREAD_MS;
/// Seconds during which a timer may be changed.
const RECENT_SECONDS: u64 = 2;
/// Neighbours that are tried to find a timer to change.
const LOOKS: u64 = 16;

/// The mix.
pub(super) struct Mix {
    pub(super) recording: Arc<RecordingClient>,
    /// Number of operations.
    pub(super) operations: u64,
    /// Operations per send.
    pub(super) batch: u64,
    /// Operations per second.
    pub(super) rate: u64,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    New,
    Reschedule,
    RescheduleAndChange,
    Cancel,
    Replace,
}

const fn kind(number: u64) -> Kind {
    match scattered_of(number, 1) % 100 {
        0..60 => Kind::New,
        60..75 => Kind::Reschedule,
        75..80 => Kind::RescheduleAndChange,
        80..95 => Kind::Cancel,
        _ => Kind::Replace,
    }
}

const fn scattered_of(number: u64, salt: u64) -> u64 {
    scattered(number.wrapping_mul(8).wrapping_add(salt))
}

impl Mix {
    /// Returns the operations of a send. No timer occurs twice.
    fn asks(&self, send: u64, now_ms: u64) -> Vec<Ask> {
        let first = send.saturating_mul(self.batch).min(self.operations);
        let numbers = first..self.operations.min(first + self.batch);
        let mut named: HashSet<u64> = numbers.clone().collect();
        numbers.map(|number| self.ask(number, first, now_ms, &mut named)).collect()
    }

    fn ask(&self, number: u64, first: u64, now_ms: u64, named: &mut HashSet<u64>) -> Ask {
        let due = Due::At(now_ms + SOONEST_MS + scattered_of(number, 2) % SPREAD_MS);
        let mark = number;
        let new = Ask { number, action: Action::Schedule { mark, due }, replaces: false };
        let kind = kind(number);
        let Some(recent) = self.recent(number, first).filter(|_| kind != Kind::New) else {
            return new;
        };
        if !named.insert(recent) {
            return new;
        }
        let action = match kind {
            Kind::New | Kind::Replace => new.action,
            Kind::Reschedule => Action::Reschedule { mark: None, due: Some(due) },
            Kind::RescheduleAndChange => Action::Reschedule { mark: Some(mark), due: Some(due) },
            Kind::Cancel => Action::Cancel,
        };
        Ask { number: recent, action, replaces: kind == Kind::Replace }
    }

    /// Returns a timer of an earlier send of the last seconds.
    fn recent(&self, number: u64, first: u64) -> Option<u64> {
        let window = (RECENT_SECONDS * self.rate).max(1);
        let from = first.checked_sub(1 + scattered_of(number, 3) % window)?;
        (0..LOOKS).map_while(|back| from.checked_sub(back)).find(|at| kind(*at) == Kind::New)
    }
}

impl Work for Mix {
    fn count(&self, send: u64) -> u64 {
        let first = send.saturating_mul(self.batch);
        self.operations.saturating_sub(first).min(self.batch)
    }

    fn send(&self, line: usize, send: u64) -> BoxFuture<'_, Result<Option<Sent>>> {
        async move {
            let asks = self.asks(send, now_ms());
            if asks.is_empty() {
                return Ok(None);
            }
            Ok(Some(self.recording.ask(line, &asks).await))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
