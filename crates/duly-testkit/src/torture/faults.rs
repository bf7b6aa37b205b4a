//! Faults of one server: kills with -9 at random moments, also during a start or a stop, each
//! followed by a restart; and stops (SIGSTOP) that are longer than a lease.

use std::time::Duration;

use anyhow::{Result, bail};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::pause;
use super::world::{Up, World};
use crate::clock::now_us;
use crate::history::{Crash, Stop, StoppedProcess};
use crate::process::{Options, Server};

/// Time between two checks whether the server ended unexpectedly.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Share of the stops that end with a kill.
const KILLED_STOP_SHARE: f64 = 0.15;

/// Kinds of faults and their frequency.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultPlan {
    pub(super) kills_per_minute: f64,
    pub(super) stops_per_minute: f64,
    pub(super) duration: Duration,
    pub(super) start_timeout: Duration,
}

/// Reason for the end of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadEnd {
    /// Its time is over, or the history is full.
    InTime,
    /// Ctrl-C.
    Interrupted,
}

/// Kills and stops the server until the load is over; returns the running server.
pub(super) async fn run(
    world: &World,
    options: &Options,
    mut server: Server,
    plan: &FaultPlan,
) -> Result<(Server, LoadEnd)> {
    let interrupted = interrupted();
    let mut rng = world.rng(999);
    let end = Instant::now() + plan.duration;
    let per_minute = plan.kills_per_minute + plan.stops_per_minute;
    let stops_of_all = (plan.stops_per_minute / per_minute.max(1e-6)).clamp(0.0, 1.0);
    loop {
        let next = Instant::now() + pause::time_until_next(&mut rng, per_minute);
        match watch_until(world, &mut server, &interrupted, next.min(end)).await? {
            Some(ended) => return Ok((server, ended)),
            None if next >= end => return Ok((server, LoadEnd::InTime)),
            None => {}
        }
        if !rng.random_bool(stops_of_all) || stop_for_a_while(world, &server, &mut rng).await? {
            server = kill(world, options, server, plan, &mut rng).await?;
        }
    }
}

/// Stops the server for a while; returns `true` if it is to be killed while it is stopped. Callers
/// get no notice: they wait for responses, or time out.
async fn stop_for_a_while(world: &World, server: &Server, rng: &mut SmallRng) -> Result<bool> {
    let from_us = now_us();
    server.freeze()?;
    tokio::time::sleep(pause::random_stop(rng)).await;
    let kill = rng.random_bool(KILLED_STOP_SHARE);
    if !kill {
        server.thaw()?;
    }
    world.recorder.stop(Stop { who: StoppedProcess::Server, from_us, to_us: now_us() });
    Ok(kill)
}

/// Kills the server, perhaps also the next processes while they start, and returns one that is
/// ready.
async fn kill(
    world: &World,
    options: &Options,
    mut server: Server,
    plan: &FaultPlan,
    rng: &mut SmallRng,
) -> Result<Server> {
    world.set_up(Up::No);
    let killed_us = now_us();
    server.kill()?;
    let mut crash = Crash { killed_us, reaped_us: now_us(), spawned_us: 0, ready_us: 0 };
    while rng.random_bool(0.2) {
        crash.spawned_us = now_us();
        let starting = Server::spawn(options)?;
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..250))).await;
        crash.ready_us = now_us();
        starting.kill()?;
        world.recorder.crash(crash);
        crash.killed_us = crash.ready_us;
        crash.reaped_us = now_us();
    }
    crash.spawned_us = now_us();
    let server = Server::start(options, plan.start_timeout).await?;
    crash.ready_us = now_us();
    world.recorder.crash(crash);
    world.set_up(Up::Yes);
    Ok(server)
}

/// Waits until `until`. It returns earlier with a reason for the end of the load, or with an error
/// if the server ended unexpectedly.
async fn watch_until(
    world: &World,
    server: &mut Server,
    interrupted: &watch::Receiver<bool>,
    until: Instant,
) -> Result<Option<LoadEnd>> {
    loop {
        if server.has_ended()? {
            bail!("the server ended unexpectedly");
        }
        if *interrupted.borrow() {
            return Ok(Some(LoadEnd::Interrupted));
        }
        if world.recorder.is_full() {
            return Ok(Some(LoadEnd::InTime));
        }
        let now = Instant::now();
        if now >= until {
            return Ok(None);
        }
        tokio::time::sleep_until(until.min(now + CHECK_INTERVAL)).await;
    }
}

/// Returns a receiver that becomes `true` at the first Ctrl-C, also during a restart of the server.
pub(super) fn interrupted() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let pressed = tokio::signal::ctrl_c().await.is_ok();
        sender.send_replace(pressed);
    });
    receiver
}
