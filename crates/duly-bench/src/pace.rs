//! Intended times of the sends: the open loop.
//!
//! 1. The times of all sends are known before the first send.
//! 2. Send `n` belongs to connection `n % lines`. A connection makes its sends one after another.
//! 3. If an earlier call takes long, the next send of its connection is late. Its latency still
//!    counts from the intended time.
//! 4. A connection that is behind makes its next send at once.
//! 5. A send that has not begun at the end of the run is *unsent*. Its wait so far counts as
//!    latency.
//!
//! Without a rate, a connection sends as soon as it can, and the intended time is the time of the
//! send.

mod pacer;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

pub(crate) use pacer::Pacer;

use crate::stop::Stop;

/// Intended times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Intended time of send 0.
    pub(crate) began: Instant,
    /// Time from one send to the next; sends go as soon as possible if absent.
    pub(crate) interval: Option<Duration>,
    /// Number of sends.
    pub(crate) sends: u64,
    /// Time after which no send begins.
    pub(crate) until: Instant,
}

/// One send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Number of the send.
    pub(crate) number: u64,
    /// Intended time.
    pub(crate) intended: Instant,
}

impl Pace {
    /// Waits for the time of this send, by the pacer or, without one, by the runtime's timer.
    /// Returns `None` if it is too late for the send, or the run is to stop.
    pub(crate) async fn turn(
        &self,
        number: u64,
        pacer: Option<&Pacer>,
        stop: &Stop,
    ) -> Option<Turn> {
        if number >= self.sends || stop.is_wanted() {
            return None;
        }
        let intended = match self.interval {
            None => Instant::now(),
            Some(_) => self.intended(number),
        };
        while Instant::now() < intended {
            let due = async {
                match pacer {
                    Some(pacer) => pacer.beat(number).await,
                    None => sleep_until(intended).await,
                }
            };
            tokio::select! {
                () = due => {}
                () = stop.wanted() => return None,
            }
        }
        (Instant::now() <= self.until).then_some(Turn { number, intended })
    }

    /// Returns the sends of a connection, from this one on, whose intended time has passed and
    /// which have not begun.
    pub(crate) fn unsent(&self, from: u64, lines: u64, now: Instant) -> impl Iterator<Item = Turn> {
        let paced = self.interval.is_some();
        let pace = *self;
        (from..self.sends)
            .step_by(usize::try_from(lines.max(1)).unwrap_or(usize::MAX))
            .map(move |number| Turn { number, intended: pace.intended(number) })
            .take_while(move |turn| paced && turn.intended <= now)
    }

    fn intended(&self, number: u64) -> Instant {
        let interval = self.interval.unwrap_or_default().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "exact for longer than anybody waits")]
        let after = Duration::from_secs_f64(interval * number as f64);
        self.began + after
    }
}
