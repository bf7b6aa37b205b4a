//! When each send is meant to go: the open loop.
//!
//! The times of all sends are known before the first. Send `n` belongs to line `n % lines`, and a line
//! makes its sends one after another: what it cannot send in time because an earlier call takes long
//! is sent late, and its latency counts from the time that was meant. A line that is behind goes on at
//! once. What was not begun when the run is over is *unsent*: it is charged with the time it has
//! waited so far.
//!
//! Without a rate a line sends as soon as it can, and the intended time is that of the send.

mod metronome;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

pub(crate) use metronome::Metronome;

use crate::stop::Stop;

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// When send 0 is meant to go.
    pub began: Instant,
    /// From one send to the next; as soon as possible when absent.
    pub interval: Option<Duration>,
    /// Sends in all.
    pub sends: u64,
    /// Nothing is begun later.
    pub until: Instant,
}

/// One send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its number.
    pub number: u64,
    /// When it was meant to go.
    pub intended: Instant,
}

impl Pace {
    /// Waits for the time of this send, by the metronome or, without one, by the runtime's timer.
    /// `None`: it is too late for it, or the run is to stop.
    pub(crate) async fn turn(
        &self,
        number: u64,
        metronome: Option<&Metronome>,
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
                match metronome {
                    Some(metronome) => metronome.beat(number).await,
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

    /// The sends of a line from this one on that were meant to go by now and were not begun.
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
