//! Faults of one server: kills with -9 at random moments, also during a start or a stop, each
//! followed by a restart; and stops (SIGSTOP) that are longer than a lease.

use std::time::Duration;

use anyhow::{Result, bail};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gate;
use super::world::{Up, World};
use crate::clock::now_us;
use crate::history::{Crash, Stop, Who};
use crate::process::{Options, Server};

/// Time between two checks whether the server ended by itself.
const WATCH: Duration = Duration::from_millis(100);

/// Share of the stops that end with a kill.
const KILLED_STILL: f64 = 0.15;

/// Kinds of faults and their frequency.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) kills_per_minute: f64,
    pub(super) stops_per_minute: f64,
    pub(super) lasting: Duration,
    pub(super) patience: Duration,
}

/// Reason for the end of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
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
    plan: &Plan,
) -> Result<(Server, Ended)> {
    let interrupted = interrupted();
    let mut rng = world.rng(999);
    let end = Instant::now() + plan.lasting;
    let per_minute = plan.kills_per_minute + plan.stops_per_minute;
    let stops_of_all = (plan.stops_per_minute / per_minute.max(1e-6)).clamp(0.0, 1.0);
    loop {
        let next = Instant::now() + gate::until_next(&mut rng, per_minute);
        match watch(world, &mut server, &interrupted, next.min(end)).await? {
            Some(ended) => return Ok((server, ended)),
            None if next >= end => return Ok((server, Ended::InTime)),
            None => {}
        }
        if !rng.random_bool(stops_of_all) || stand_still(world, &server, &mut rng).await? {
            server = kill(world, options, server, plan, &mut rng).await?;
        }
    }
}

/// Stops the server for a while; returns `true` if it is to be killed while it is stopped. Callers
/// get no notice: they wait for responses, or time out.
async fn stand_still(world: &World, server: &Server, rng: &mut SmallRng) -> Result<bool> {
    let from_us = now_us();
    server.freeze()?;
    tokio::time::sleep(gate::still(rng)).await;
    let kill = rng.random_bool(KILLED_STILL);
    if !kill {
        server.thaw()?;
    }
    world.recorder.stop(Stop { who: Who::Server, from_us, to_us: now_us() });
    Ok(kill)
}

/// Kills the server, perhaps also the next processes while they start, and returns one that is
/// ready.
async fn kill(
    world: &World,
    options: &Options,
    mut server: Server,
    plan: &Plan,
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
    let server = Server::start(options, plan.patience).await?;
    crash.ready_us = now_us();
    world.recorder.crash(crash);
    world.set_up(Up::Yes);
    Ok(server)
}

/// Waits until `until`. It returns earlier with a reason for the end of the load, or with an error
/// if the server ended by itself.
async fn watch(
    world: &World,
    server: &mut Server,
    interrupted: &watch::Receiver<bool>,
    until: Instant,
) -> Result<Option<Ended>> {
    loop {
        if server.has_ended()? {
            bail!("the server ended by itself");
        }
        if *interrupted.borrow() {
            return Ok(Some(Ended::Interrupted));
        }
        if world.recorder.is_full() {
            return Ok(Some(Ended::InTime));
        }
        let now = Instant::now();
        if now >= until {
            return Ok(None);
        }
        tokio::time::sleep_until(until.min(now + WATCH)).await;
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
