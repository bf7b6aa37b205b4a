//! The waker on Linux: one thread in `read(2)` on a `timerfd`.
//!
//! Whoever sets an earlier time arms the descriptor itself, so the thread is not woken for that.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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

use super::{Waker, targets::Targets};
use crate::state::Bell;

/// The thread's handle; dropping it ends the thread.
pub(super) struct TimerFd(Arc<Inner>);

struct Inner {
    timer: OwnedFd,
    state: Mutex<State>,
    bells: Arc<[Bell]>,
    stopped: AtomicBool,
}

struct State {
    targets: Targets,
    armed: Option<Duration>,
}

impl TimerFd {
    pub(super) fn start(bells: Arc<[Bell]>) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            timer: timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?,
            state: Mutex::new(State { targets: Targets::new(bells.len()), armed: None }),
            bells,
            stopped: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&inner);
        thread::Builder::new().name("duly-waker".to_owned()).spawn(move || for_thread.run())?;
        Ok(Self(inner))
    }
}

impl Waker for TimerFd {
    fn wake_by(&self, shard: ShardId, wall: Duration) {
        let mut state = self.0.state.lock();
        state.targets.lower(shard, wall);
        self.0.arm(&mut state);
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.set_timer(Duration::from_nanos(1));
    }
}

impl Inner {
    fn run(&self) {
        let mut expirations = [0_u8; 8];
        loop {
            let read = rustix::io::read(&self.timer, &mut expirations);
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            let mut state = self.state.lock();
            state.armed = None;
            let due = match read {
                Ok(_) => state.targets.take_due(real_time()),
                Err(rustix::io::Errno::INTR) => Vec::new(),
                // ECANCELED: the clock was set, so everybody computes their times anew. Any other
                // error cannot happen on this descriptor; ringing is harmless.
                Err(_) => state.targets.take_all(),
            };
            self.arm(&mut state);
            drop(state);
            for shard in due {
                self.bells[shard].ring_due();
            }
        }
    }

    /// Arms the descriptor for the earliest target, if it is not yet.
    fn arm(&self, state: &mut State) {
        let Some(earliest) = state.targets.earliest() else {
            return;
        };
        if state.armed != Some(earliest) {
            state.armed = Some(earliest);
            self.set_timer(earliest);
        }
    }

    fn set_timer(&self, wall: Duration) {
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
        if let Err(error) = timerfd_settime(&self.timer, flags, &value) {
            tracing::error!(%error, "the wake-up timer cannot be set");
        }
    }
}

fn real_time() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
