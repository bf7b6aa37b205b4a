//! Work beside the measured commits: cancels of pending timers in random order, and firings of new
//! timers that are due after a second. Each has a tenth of the rate.

use std::{
    thread::{Scope, ScopedJoinHandle},
    time::Duration,
};

use duly_core::{Millis, NamespaceName};
use duly_store::Command;

use super::{
    NAMESPACE,
    open_loop::{self, Pace, Ran},
};
use crate::{
    engine::{
        Options,
        consumer::{Consumer, Then},
        scene::Scene,
        writer::Expected,
    },
    error::{Error, Result},
    latency::Latencies,
    progress::Progress,
    workload::{self, Workload},
};

/// One of `SHARE` timers is cancelled, and one fires.
const SHARE: u32 = 10;
/// Delay of a timer that fires.
const SOON: Millis = Millis::from_secs(1);
/// Wait of the consumer when nothing is claimable.
const PAUSE: Duration = Duration::from_millis(1);

/// Cancels and firings to run beside the commits.
#[derive(Debug)]
pub(super) struct Beside {
    cancels: Pace,
    /// Numbers of the timers to cancel, in order.
    order: Vec<u32>,
    firings: u64,
    batch: u32,
    in_flight: u32,
}

/// The threads of the cancels and of the firings.
pub(super) struct Others<'scope> {
    cancels: Option<ScopedJoinHandle<'scope, Result<Ran>>>,
    firings: ScopedJoinHandle<'scope, Result<(u64, Latencies)>>,
}

/// Result of both threads.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) cancelled: u64,
    pub(super) cancel_latencies: Latencies,
    pub(super) fired: u64,
    pub(super) ack_latencies: Latencies,
}

/// Returns the schedule commands of one call.
pub(super) fn batch(
    scene: &Scene,
    timers: &Workload,
    pace: &Pace,
    call: u64,
    some_fire: bool,
) -> Vec<Command> {
    let first = u32::try_from(call * u64::from(pace.batch)).expect("a pace has no more items");
    let soon = scene.now().saturating_add(SOON);
    (first..first + pace.batch)
        .map(|n| match some_fire && n % SHARE == 0 {
            true => timers.schedule_at(n, soon),
            false => timers.schedule(n),
        })
        .collect()
}

impl Beside {
    pub(super) fn new(scene: &Scene, pace: &Pace, options: &Options) -> Self {
        let mut cancels = pace.share(SHARE);
        // There are no more timers to cancel.
        cancels.calls = cancels.calls.min(u64::from(options.timers / pace.batch));
        debug_assert_eq!(scene.namespaces.len(), 1, "cancels are of its only namespace");
        let firings = (pace.calls * u64::from(pace.batch)).div_ceil(u64::from(SHARE));
        Self {
            cancels,
            order: workload::shuffled(options.timers),
            firings,
            batch: options.batch,
            in_flight: options.in_flight,
        }
    }

    /// Starts both threads.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        scene: &'scope Scene,
    ) -> Others<'scope> {
        let cancels = (self.cancels.calls > 0).then(|| {
            scope.spawn(|| {
                let batch = |call| self.cancels_of(scene, call);
                let progress = Progress::silent();
                open_loop::run(scene.store(), &self.cancels, batch, Expected::Cancelled, progress)
            })
        });
        let firings = scope.spawn(|| self.take_firings(scene));
        Others { cancels, firings }
    }

    fn cancels_of(&self, scene: &Scene, call: u64) -> Vec<Command> {
        let batch = self.cancels.batch as usize;
        let first = usize::try_from(call).expect("no more calls than timers") * batch;
        self.order[first..first + batch].iter().map(|n| scene.workload.cancel(*n)).collect()
    }

    fn take_firings(&self, scene: &Scene) -> Result<(u64, Latencies)> {
        let namespace = NamespaceName::new(NAMESPACE).expect("letters");
        let mut consumer =
            Consumer::new(scene.store(), &namespace, self.batch, self.in_flight, Then::Ack);
        consumer.pause = PAUSE;
        consumer.take(|| self.firings, Progress::silent())?;
        Error::unless_equal("acks", self.firings, consumer.settled)?;
        Ok((consumer.claimed, consumer.settle_latencies))
    }
}

impl Others<'_> {
    /// Waits for both threads.
    pub(super) fn join(self) -> Result<Done> {
        let cancels = self.cancels.map(|thread| thread.join().expect("cancelling does not panic"));
        let (fired, ack_latencies) = self.firings.join().expect("taking firings does not panic")?;
        let (cancelled, cancel_latencies) = match cancels.transpose()? {
            Some(ran) => (ran.items, ran.latencies),
            None => (0, Latencies::new()),
        };
        Ok(Done { cancelled, cancel_latencies, fired, ack_latencies })
    }
}
