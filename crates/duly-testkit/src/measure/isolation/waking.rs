//! Baseline of the lateness: the wake-up lateness of a thread that only sleeps, during the whole
//! run.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::clock::now_us;

/// Length of one sleep.
const NAP: Duration = Duration::from_millis(5);

/// A thread that sleeps again and again until it is stopped.
pub(super) struct Waking {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<Vec<(u64, u64)>>,
}

impl Waking {
    /// Starts the thread.
    pub(super) fn start() -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("waking".to_owned()).spawn(move || {
            let nap_us = u64::try_from(NAP.as_micros()).expect("it is short");
            let mut woken = Vec::new();
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let due_us = now_us() + nap_us;
                thread::sleep(NAP);
                woken.push((due_us, now_us().saturating_sub(due_us)));
            }
            woken
        });
        Ok(Self { stop, thread: thread.context("no thread for naps")? })
    }

    /// Stops the thread. Returns the intended end (Unix µs) and the lateness (µs) of each sleep.
    pub(super) fn stop(self) -> Result<Vec<(u64, u64)>> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the napping thread panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_recorded_until_stopped() {
        let waking = Waking::start().unwrap();
        let until = now_us() + 20_000;
        while now_us() < until {
            thread::yield_now();
        }
        assert!(!waking.stop().unwrap().is_empty());
    }
}
