//! Faults of one server: kills with -9 at random moments, also during a start or a stop, each
//! followed by a restart; and stops (SIGSTOP) that are longer than a lease.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use super::pause;
use super::world::World;
use crate::clock::now_us;
use crate::history::{Crash, Stop, StoppedProcess};
use crate::process::{Options, Server};

/// Time between two checks whether the server ended unexpectedly.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Share of the stops that end with a kill.
const KILLED_STOP_SHARE: f64 = 0.15;

/// Kills and stops the server until the load is over; returns the running server.
pub(super) async fn run(
    world: &World,
    options: &super::Options,
    start: &Options,
    mut server: Server,
) -> Result<Server> {
    let mut rng = world.rng(999);
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let per_minute = options.kills_per_minute + options.stops_per_minute;
    let stops_of_all = (options.stops_per_minute / per_minute.max(1e-6)).clamp(0.0, 1.0);
    loop {
        let next = Instant::now() + pause::time_until_next(&mut rng, per_minute);
        watch_until(world, &mut server, next.min(end)).await?;
        if next >= end || world.must_end() {
            return Ok(server);
        }
        if !rng.random_bool(stops_of_all) || stop_for_a_while(world, &server, &mut rng).await? {
            server = kill(world, start, server, &mut rng).await?;
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
    rng: &mut SmallRng,
) -> Result<Server> {
    world.up.send_replace(false);
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
    let server = Server::start(options, super::START_TIMEOUT).await?;
    crash.ready_us = now_us();
    world.recorder.crash(crash);
    world.up.send_replace(true);
    Ok(server)
}

/// Waits until `until` or until the load must end; fails if the server ended by itself.
async fn watch_until(world: &World, server: &mut Server, until: Instant) -> Result<()> {
    loop {
        ensure!(!server.has_ended()?, "the server ended unexpectedly");
        let now = Instant::now();
        if now >= until || world.must_end() {
            return Ok(());
        }
        tokio::time::sleep_until(until.min(now + CHECK_INTERVAL)).await;
    }
}
