//! The waker on Linux: one thread in `read(2)` on a `timerfd`.
//!
//! A caller that sets an earlier time arms the descriptor itself, so the thread need not wake for that.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use duly_core::shard::ShardId;
use parking_lot::Mutex;
use rustix::{
    fd::OwnedFd,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
        clock_gettime, timerfd_create, timerfd_settime,
    },
};

use super::{Targets, Waker};
use crate::state::Notifier;

/// The thread's handle; dropping it ends the thread.
pub(super) struct TimerFd(Arc<Inner>);

struct Inner {
    timer: OwnedFd,
    state: Mutex<TimerState>,
    notifiers: Arc<[Notifier]>,
    stopped: AtomicBool,
    iterations: AtomicU64,
    /// Number of threads started: only the last one continues, an earlier one ends at its next
    /// iteration.
    threads: AtomicU64,
    /// `true`: the thread ends silently at its next iteration, so that a test can check the watchdog.
    #[cfg(test)]
    dies: AtomicBool,
}

struct TimerState {
    targets: Targets,
    armed: Option<Duration>,
}

impl TimerFd {
    pub(super) fn start(notifiers: Arc<[Notifier]>) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            timer: timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?,
            state: Mutex::new(TimerState { targets: Targets::new(notifiers.len()), armed: None }),
            notifiers,
            stopped: AtomicBool::new(false),
            iterations: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            #[cfg(test)]
            dies: AtomicBool::new(false),
        });
        let waker = Self(inner);
        waker.restart()?;
        Ok(waker)
    }

    /// Ends the thread as a fault would.
    #[cfg(test)]
    pub(super) fn break_down(&self) {
        self.0.dies.store(true, Ordering::Release);
        self.0.set_timer(Duration::from_nanos(1));
        while self.0.dies.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Waker for TimerFd {
    fn wake_by(&self, shard: ShardId, wall: Duration) {
        self.0.rearm(|state| state.targets.lower(shard, wall));
    }

    fn iterations(&self) -> Option<u64> {
        Some(self.0.iterations.load(Ordering::Relaxed))
    }

    fn restart(&self) -> io::Result<()> {
        let inner = Arc::clone(&self.0);
        let number = inner.threads.fetch_add(1, Ordering::AcqRel) + 1;
        thread::Builder::new().name("duly-waker".to_owned()).spawn(move || inner.run(number))?;
        // The timer may have expired without a thread that reads it.
        self.0.rearm(|state| state.armed = None);
        Ok(())
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.set_timer(Duration::from_nanos(1));
    }
}

impl Inner {
    fn run(&self, number: u64) {
        let mut expirations = [0_u8; 8];
        loop {
            let read = rustix::io::read(&self.timer, &mut expirations);
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            #[cfg(test)]
            if self.dies.swap(false, Ordering::AcqRel) {
                return;
            }
            self.iterations.fetch_add(1, Ordering::Relaxed);
            let mut state = self.state.lock();
            state.armed = None;
            let due = match read {
                Ok(_) => state.targets.take_due(real_time()),
                Err(rustix::io::Errno::INTR) => Vec::new(),
                // ECANCELED: the clock was set, so all loops must compute their times again. Any other
                // error cannot happen on this descriptor; a notification is harmless.
                Err(_) => state.targets.take_all(),
            };
            let more = self.arm(&mut state);
            drop(state);
            self.notify(due);
            self.notify(more);
            if self.threads.load(Ordering::Acquire) != number {
                return;
            }
        }
    }

    fn notify(&self, shards: Vec<usize>) {
        for shard in shards {
            self.notifiers[shard].notify_timed();
        }
    }

    /// Changes the state and arms the descriptor for it.
    fn rearm(&self, change: impl FnOnce(&mut TimerState)) {
        let mut state = self.state.lock();
        change(&mut state);
        let due = self.arm(&mut state);
        drop(state);
        self.notify(due);
    }

    /// Arms the descriptor for the earliest target, if it is not armed for it yet. Returns the shards to
    /// notify: all that have a time, if the clock was set.
    fn arm(&self, state: &mut TimerState) -> Vec<usize> {
        let earliest = state.targets.earliest();
        let Some(wall) = earliest.filter(|_| state.armed != earliest) else {
            return Vec::new();
        };
        state.armed = earliest;
        if self.set_timer(wall) { state.targets.take_all() } else { Vec::new() }
    }

    /// Sets the timer; returns `true` if the wall clock stepped since it was last set.
    fn set_timer(&self, wall: Duration) -> bool {
        // All zeros would disarm it.
        let wall = wall.max(Duration::from_nanos(1));
        let value = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(wall.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wall.subsec_nanos().into(),
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&self.timer, flags, &value) {
            Ok(_) => false,
            // Setting the timer reports a step of the clock too, and then the read does not.
            Err(rustix::io::Errno::CANCELED) => true,
            Err(error) => {
                tracing::error!(%error, "wake-up timer cannot be set; timers may be a few seconds late");
                false
            }
        }
    }
}

fn real_time() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
